"""What a preset asks of an environment before it says how to train there: conditions on fields of its spec.

No condition asks for a name, so that presets suit an environment of a user's as they suit ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sami_train.envs.spec import EnvironmentSpec

SHORT = 200
"""Steps of the longest episode that counts as short. A gradient step on whole episodes of 200 steps costs what one on
windows does, and needs no stored state; on those of 400 steps it takes 1.6 times as long: docs/reference/presets.md."""


class Condition(NamedTuple):
    """Something that is so in an environment, or not."""

    holds: Callable[[EnvironmentSpec], bool]
    wording: str
    """How it is said of an environment; may name fields of the spec in braces."""


CONDITIONS = {
    "goal": Condition(lambda spec: spec.goal is not None, "a goal"),
    "no goal": Condition(lambda spec: spec.goal is None, "no goal"),
    "short episodes": Condition(lambda spec: spec.episode_steps <= SHORT, "{episode_steps} steps an episode"),
    "long episodes": Condition(lambda spec: spec.episode_steps > SHORT, "{episode_steps} steps an episode"),
    "ends early": Condition(lambda spec: spec.ends_early, "episodes that may end early"),
    "scripted reach": Condition(lambda spec: spec.reach is not None, "a scripted reach"),
    "ends on a fall": Condition(lambda spec: "end_on_fall" in spec.training_options, "episodes that a fall may end"),
    "native batch": Condition(lambda spec: spec.batch_entry_point is not None, "a native batch"),
    "no native batch": Condition(lambda spec: spec.batch_entry_point is None, "no native batch"),
}
"""By the name that presets use."""


def tell(spec: EnvironmentSpec, *names: str) -> str:
    """Say some conditions of an environment, e.g. `a goal, 50 steps an episode`; without names, all that hold."""
    chosen = names or [name for name, condition in CONDITIONS.items() if condition.holds(spec)]
    return ", ".join(CONDITIONS[name].wording.format(episode_steps=f"{spec.episode_steps:,}") for name in chosen)
