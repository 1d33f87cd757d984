"""A scoreboard on published tasks: other libraries' learners and this project's, at equal minutes of one core."""
