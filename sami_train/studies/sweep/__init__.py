"""Grids of training runs, on this machine, by Slurm or by Ray."""
