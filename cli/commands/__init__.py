"""The commands of `sami`: one module per command, or per few related commands."""
