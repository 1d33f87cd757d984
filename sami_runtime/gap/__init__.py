"""Sim-to-real profiles: their description, and the disturbance of observations and actions by them."""
