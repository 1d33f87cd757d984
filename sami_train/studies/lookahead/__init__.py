"""A forward model in front of a policy: what it learns from, how it is fitted, how a model file takes it in."""
