"""A change of the dynamics in the middle of an episode, as a user writes it: `mass=1:10,friction=0.1@5`.

What is late or lost may change as well, by the keys of a gap: `mass=1,friction=0.5,latency_s=0:0.08@20`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.tasks import Crippled, Task, TaskSpace, shown

CHANGEABLE = ("latency_s", "jitter_s", "dropout", "action_latency_s", "actuator_lag_s")
"""Keys of a gap that may change within an episode, see `Gap.change`."""
EXAMPLE = "mass=1:10,friction=0.1@5"
GRAMMAR = (
    f"write FEATURE=FROM:TO and FEATURE=VALUE, separated by commas, then @STEP, e.g. {EXAMPLE} or crippled=none:3@50"
)


class ChangeError(SamiError):
    """A change that cannot be made."""


@dataclass(frozen=True)
class DynamicsChange:
    """The dynamics of an episode before and after a step."""

    before: Task
    after: Task
    step: int
    """How many steps are done under the old dynamics; the next one is the first under the new ones."""
    gaps: tuple[GapProfile, GapProfile] | None = field(default=None, repr=False)
    """What lies between world and policy before and after; None where nothing does."""

    @property
    def along(self) -> DynamicsChange:
        """The new dynamics all along."""
        return DynamicsChange(self.after, self.after, self.step, self.gaps and (self.gaps[1], self.gaps[1]))

    @classmethod
    def parse(cls, text: str, space: TaskSpace, episode_steps: int) -> DynamicsChange:
        """Read a change.

        >>> from sami_train.tasks import PANDA_TASKS
        >>> DynamicsChange.parse("mass=1:10,friction=0.1@5", PANDA_TASKS, 50)
        DynamicsChange(before={'mass': 1.0, 'friction': 0.1}, after={'mass': 10.0, 'friction': 0.1}, step=5)

        Args:
            text: features with their value, or from one to another, and the step. Crippled parts are joined by a plus,
                `crippled=none:0+3@100`. A change to the same value is none: a control.
            space: the environment's features.
            episode_steps: length of an episode.

        Raises:
            ChangeError: the text is no change, or the step not within an episode.
            TaskError, UnknownName: a feature is unknown, missing or out of range.
            SamiError: so is the number of a gap.
        """
        features, at, step = text.rpartition("@")
        parts = [part.partition("=") for part in features.split(",")]
        if not at or not step.strip().isdecimal() or not all(equals for _, equals, _ in parts):
            raise ChangeError(f"{text!r} is no change of dynamics; {GRAMMAR}.")
        if len({name.strip() for name, _, _ in parts}) < len(parts):
            raise ChangeError(f"{text!r} names a feature twice; {GRAMMAR}.")
        if not any(":" in values for _, _, values in parts):
            raise ChangeError(f"{text!r} changes nothing; {GRAMMAR}.")
        sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        gaps: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name, _, values in parts:
            old, changes, new = values.partition(":")
            to = gaps if name.strip() in CHANGEABLE else sides
            to[0][name.strip()] = _value(name.strip(), old)
            to[1][name.strip()] = _value(name.strip(), new if changes else old)
        before, after = (space.check(side) for side in sides)
        profiles = (GapProfile.of(gaps[0], repr(text)), GapProfile.of(gaps[1], repr(text))) if gaps[0] else None
        if not 1 <= int(step) < episode_steps:
            raise ChangeError(
                f"{text!r} changes at step {int(step)}; an episode has {episode_steps} steps, so give one from 1 to "
                f"{episode_steps - 1}."
            )
        return cls(before, after, int(step), profiles)

    def __str__(self) -> str:
        """Return the change as `parse` reads it; a control names the same value twice."""
        before, after = dict(self.before), dict(self.after)
        if self.gaps is not None:
            for key in CHANGEABLE:
                values = [getattr(gap, key) for gap in self.gaps]
                if any(values):
                    before[key], after[key] = values
        changed = [name for name in before if after[name] != before[name]] or list(before)[:1]
        parts = [
            f"{name}={shown(old)}" + (f":{shown(after[name])}" if name in changed else "")
            for name, old in before.items()
        ]
        return ",".join(parts) + f"@{self.step}"


def _value(name: str, text: str) -> Any:
    """Return a feature's value; text that is none is left for the feature's own check to refuse."""
    text = text.strip()
    try:
        if name == Crippled.name:
            return [] if text == "none" else [int(part) for part in text.split("+")]
        return float(text)
    except ValueError:
        return text
