"""Fits a sim-to-real profile to recordings of a robot: observation latency, command response, and sensor errors."""
