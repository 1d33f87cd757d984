"""Lookahead (state prediction): a forward model's data, its fit, and how a model file takes it in."""
