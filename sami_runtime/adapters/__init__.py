"""Adapters: the interface of simulators and robots that a policy drives, and adapters of simulators."""

from sami_runtime.adapters.around import DryRun, Gapped
from sami_runtime.adapters.base import Adapter, Executed, Observation, require_compatible
from sami_runtime.adapters.fake import FakeAdapter
from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.adapters.panda import PandaAdapter

__all__ = [
    "Adapter",
    "DryRun",
    "Executed",
    "FakeAdapter",
    "Gapped",
    "GymnasiumAdapter",
    "Observation",
    "PandaAdapter",
    "require_compatible",
]
