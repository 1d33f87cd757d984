"""Commands that train: one policy, or a grid of them."""
