"""What a policy of the runtime drives: an environment, by the names of its signals."""

from __future__ import annotations

from typing import Any

from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.clock import Clock
from sami_train.envs.spec import EnvironmentSpec


def make_adapter(spec: EnvironmentSpec, env: Any, clock: Clock | None = None) -> GymnasiumAdapter:
    """Make what a policy drives, around an environment that `make` made; `clock` stamps its observations."""
    return GymnasiumAdapter(env, spec.layout.sources, spec.action, clock)
