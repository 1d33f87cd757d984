"""An outside scoreboard: tasks and learners of others, and this project's, at equal minutes of one core."""
