"""Comparison of runs: groups, statistics, tables and plots. This package imports no torch."""
