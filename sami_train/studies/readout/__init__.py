"""A small readout from context to the physics: which tasks it learns from, its fit, how a model file takes it in."""
