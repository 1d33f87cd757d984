"""A training run: its folder, its metrics, its progress display, and the training loop around the agent."""
