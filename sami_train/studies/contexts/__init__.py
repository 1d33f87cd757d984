"""How policies use their context: skills, adaptation after a change, and the largest bound a contrast reaches alone."""
