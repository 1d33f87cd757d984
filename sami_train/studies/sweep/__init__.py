"""Grids of runs, on this machine or by Slurm."""
