"""How policies use their context: skills, adaptation after a change, and the largest bound of a contrast."""
