"""A run to look at in a browser: of a recording, or while it runs."""
