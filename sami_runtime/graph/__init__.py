"""The graph in a model file, read without running it: what may be in there, and what may not."""
