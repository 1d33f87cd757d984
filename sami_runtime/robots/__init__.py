"""Adapters of particular robots, and the parts of such adapters. The core of `sami_runtime` imports none of them."""
