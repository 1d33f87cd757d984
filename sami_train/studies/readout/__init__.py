"""A probe, which estimates physical features from the context: its training tasks, its fit, and its export."""
