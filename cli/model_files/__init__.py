"""Commands that write, show and check model files."""
