"""The registry of configurations, and robots made of them."""

import sys
from dataclasses import dataclass


@dataclass(kw_only=True)
class RobotConfig:
    id: str | None = None

    @staticmethod
    def register_subclass(name):
        def register(kind):
            _KINDS[name] = kind
            return kind

        return register

    @staticmethod
    def get_known_choices():
        return dict(_KINDS)


_KINDS: dict = {}


def make_robot_from_config(config):
    """Make a robot of the class that is called as its configuration, without Config, and lies beside it."""
    kind = type(config)
    return getattr(sys.modules[kind.__module__], kind.__name__.removesuffix("Config"))(config)
