"""Checks before anything moves: of a model file, an adapter, the machine, and the time that a step takes."""
