"""Recordings of runs: their format, writing, reading and replaying them."""
