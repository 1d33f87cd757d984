"""Lookahead (state prediction): a forward model's data, its fit, and its addition to a model file."""
