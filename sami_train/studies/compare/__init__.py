"""Comparison of runs: groups, statistics, tables and plots. No torch here."""
