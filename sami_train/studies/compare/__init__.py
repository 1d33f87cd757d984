"""Comparison of runs: groups, statistics, tables and plots. It imports no torch."""
