"""A user's own robot: an MJCF model and a TOML file that says what is hidden, seen and rewarded."""
