"""Teacher-student training: a teacher with privileged information, trained by PPO, and a student without it."""
