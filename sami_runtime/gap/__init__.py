"""Sim-to-real profiles: their file format, and the code that disturbs observations and actions by them."""
