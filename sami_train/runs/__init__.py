"""A training run: its folder, its metrics, its progress, and the training itself."""
