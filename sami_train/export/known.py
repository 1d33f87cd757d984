"""What a policy learned from, as its contract tells: what it knows, and its atlas holds for known. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Task


class Behind(NamedTuple):
    """The gap that episodes are measured behind."""

    gap: GapProfile | None = None
    """None where nothing lies between."""
    clean_share: float = 0.0
    """Share of the episodes that have none all the same."""


def known_tasks(training: Mapping[str, Any], spec: EnvironmentSpec) -> Sequence[Task]:
    """Return the tasks that a policy learned from: what its contract tells of training, else the environment's own."""
    return spec.tasks.resolve(training.get("tasks") or "training")


def known_gap(training: Mapping[str, Any]) -> Behind:
    """Return what a policy learned behind, by its contract; without a gap where that tells of none.

    Raises:
        SamiError: what it tells is no gap, or no share of the episodes.
    """
    config = training.get("config")  # a stranger's file may hold anything there
    if not isinstance(config, Mapping) or not config.get("gap"):
        return Behind()
    behind_gap = config.get("behind_gap")
    keys = behind_gap if isinstance(behind_gap, Mapping) else {}
    name = "spared" if "spared" in keys else "clean_share"  # as files of before have it, and as those of today
    share = keys.get(name, 0.0)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise SamiError(
            f"its contract's training.config.behind_gap.{name} is {share!r}; it must be the share of the episodes "
            "that had no gap, from 0 to 1. It was changed after its export: export it from its run again."
        )
    return Behind(GapProfile.loads(str(config["gap"])), float(share))
