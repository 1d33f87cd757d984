"""Checks before a policy drives a robot: of the model file, the adapter, the machine, and the time of a step."""
