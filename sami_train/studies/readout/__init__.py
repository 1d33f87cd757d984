"""A small readout of the physics from the context: its training tasks, its fit, and how a model file takes it in."""
