"""What a training would be told, and why: the resolved configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from sami_train.config.resolve import Resolved


def as_json(resolved: Resolved) -> dict[str, Any]:
    """Return a configuration, what follows from what, and what the run would do, for scripts."""
    config = resolved.config
    return {
        "config": config.to_dict(),
        "follows": [follow._asdict() for follow in resolved.follows],
        "updates": config.updates_after(config.steps),
    }


def configuration_table(resolved: Resolved) -> Table:
    """Return every key with its value and, where it is not every environment's, the reason."""
    import json

    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1))
    table.add_column("key", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("because of", overflow="fold")
    reasons = {follow.key: follow.why for follow in resolved.follows}
    section = ""
    for key, value in resolved.config.by_key().items():
        if section != (section := key.rpartition(".")[0]):
            table.add_section()
        table.add_row(key, value if isinstance(value, str) else json.dumps(value), reasons.get(key, ""))
    return table


def in_words(resolved: Resolved) -> str:
    """Return what was asked of the environment, and what the run would do."""
    from sami_train.config.preset import tell
    from sami_train.envs.catalog import environment

    config = resolved.config
    updates, warmup = config.updates_after(config.steps), config.exploration.warmup_steps
    truth = config.truth_bytes
    note = f" The true state takes up to {truth / 1e6:,.0f} MB of the buffer's memory." if truth else ""
    return (
        f"{config.env} has {tell(environment(config.env))}.\n"
        f"{config.steps:,} environment steps: {warmup:,} of warm-up, then {updates:,} updates with "
        f"{updates * config.learning.steps_per_draw:,} gradient steps of actor and critics.{note} Nothing was started."
    )
