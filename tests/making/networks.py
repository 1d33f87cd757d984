"""Shapes of small networks."""

from sami_train.config.schema import NetworkConfig


def small_network(**changes):
    """Return a configuration whose encoder reads all of a normalised observation."""
    plain = {"layer_norm": True, "normalize": True, "encoder_reads_goal": True, "relative_goal": False}
    return NetworkConfig(**{"net_arch": (32, 32), **plain, **changes})
