"""Adopts policies that other frameworks trained: one self-describing file, with the recipe of their observations."""
