"""Studies of trained policies: comparisons, reports, sweeps, and fits from data. The trunk imports none of it."""
