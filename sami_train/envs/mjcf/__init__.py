"""A user's own robot: an MJCF model, and a TOML file with hidden features, observation, reward and tasks."""
