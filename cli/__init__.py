"""The `sami` command."""
