"""The runtime's adapter to an environment, by the names of its signals."""

from __future__ import annotations

from typing import Any

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import Clock
from sami_train.envs.spec import EnvironmentSpec


def make_adapter(spec: EnvironmentSpec, env: Any, clock: Clock | None = None) -> GymnasiumAdapter:
    """Return an adapter around an environment that `make` created; `clock` stamps its observations."""
    return GymnasiumAdapter(env, spec.layout.sources, spec.action, clock)
