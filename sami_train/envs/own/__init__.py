"""Environments of a user's own, made of any Gymnasium environment and functions that change its physics."""
