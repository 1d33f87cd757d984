"""A teacher that reads privileged information, trained by PPO on batched simulation, and a student that does not."""
