"""Adapters of particular robots, and the parts that such adapters are made of. The trunk imports none of it."""
