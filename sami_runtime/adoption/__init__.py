"""Adopts policies of other frameworks: writes a self-describing file with the recipe of their inputs and outputs."""
