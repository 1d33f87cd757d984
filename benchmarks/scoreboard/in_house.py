"""Trains this project's methods on the tasks, with the preset for such environments; nothing is tuned on the tasks.

Each task is declared as a user declares an environment (docs/reference/environments.md), so `sami train --env
benchmarks.scoreboard.in_house:HALF_CHEETAH` trains on it too. Here `ContextSAC` trains in one process until the
scoreboard's clock ends the run.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.scoreboard.budget import UNBOUNDED, Clock, Metered, train
from benchmarks.scoreboard.peers import StableBaselines
from benchmarks.scoreboard.tasks import EPISODE_STEPS, TASKS, Physics, Task
from sami_train.envs import EnvironmentSpec, Range

OVERRIDES = {
    "collection.workers": 0,  # one process, as for every peer
    "collection.draws": 0,  # new physics in each episode, as for every peer
    "device": "cpu",
}
"""Changes of the preset `fast-cpu`."""


class Declared(Metered):
    """A task whose physics this project draws; `train_in_house` sets its clock later."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, None)
        self.next_physics: dict[str, float] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Begin an episode in the physics of the last `give_physics`."""
        return super().reset(seed=seed, options={"physics": self.next_physics})


def give_physics(env: Any, physics: Physics) -> None:
    """Set the physics of the next episode."""
    env.next_physics = dict(physics)


def declared(task: Task) -> EnvironmentSpec:
    """Return the specification of a task, declared as a user's own environment."""
    training = {name: Range(hidden.low, hidden.high, log=hidden.log) for name, hidden in task.hidden.items()}
    return EnvironmentSpec.from_gymnasium(
        partial(Declared, task),
        name=task.name,
        tasks={"training": training},
        set_task=give_physics,
        rate_hz=task.rate_hz,
        episode_steps=EPISODE_STEPS,
        ends_early=task.ends_early,
    )


HALF_CHEETAH = declared(TASKS["gravity-half-cheetah"])
HOPPER = declared(TASKS["gravity-hopper"])
NAMES = {"gravity-half-cheetah": "HALF_CHEETAH", "gravity-hopper": "HOPPER", "carl-walker": "WALKER"}
"""Attributes of this module by task; WALKER, which needs dm_control, is created on access."""


def __getattr__(name: str) -> EnvironmentSpec:
    if name == "WALKER":
        return declared(TASKS["carl-walker"])
    raise AttributeError(name)


def train_in_house(clock: Clock, seed: int, method: str) -> dict[str, Any]:
    """Train a method of this project; return its hyperparameters.

    Learning rates decay with the used time instead of the steps, since the budget is a time.
    """
    import torch

    from sami_train.agent.context_sac import ContextSAC
    from sami_train.config.resolve import resolve
    from sami_train.runs.train import make_env, prepare_torch

    class TimedSAC(ContextSAC):
        def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
            self._current_progress_remaining = 1.0 - clock.share

    name = f"benchmarks.scoreboard.in_house:{NAMES[clock.task.name]}"
    config = resolve("fast-cpu", {"env": name, "method": method, "seed": seed, **OVERRIDES})
    prepare_torch(config)
    torch.set_num_threads(1)
    env = make_env(config)
    env.unwrapped.env.clock = clock
    agent = TimedSAC("ContextPolicy", env, config, device="cpu")
    clock.start(StableBaselines(agent))
    train(lambda: agent.learn(UNBOUNDED, log_interval=UNBOUNDED))
    return {"preset": "fast-cpu", "method": method, **OVERRIDES, "updates": agent._n_updates}
