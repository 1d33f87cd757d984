"""Compares other libraries' learners with this project's on published tasks, at equal minutes of one core."""
