"""Studies of the context: skills, adaptation after a change, and the largest bound that a contrast reaches alone."""
