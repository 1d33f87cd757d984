"""Evaluation of policies: by task, by task set, and under sim-to-real profiles of growing size."""
