"""The configuration of a training run: its keys, their valid ranges, and the presets."""

from sami_train.config.resolve import resolve
from sami_train.config.schema import TrainConfig

__all__ = ["TrainConfig", "resolve"]
