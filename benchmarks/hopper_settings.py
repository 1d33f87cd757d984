"""Trains SAC on the hopper that falls with other settings, beside stable-baselines3's SAC, and prints the curves.

    python -m benchmarks.hopper_settings                          # the tables of results/hopper-180k-settings
    python -m benchmarks.hopper_settings "nothing changed" 50     # train this arm with this seed: 10 to 20 minutes

All arms make 4 updates in 32 steps, as the preset `fast-cpu` does. A point of a curve is the mean over 40 episodes:
twice 20 masses of the training range, the same starts for every arm, without noise.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.falling_hopper import set_mass
from sami_train.studies.compare.estimates import welch

FILE = Path(__file__).resolve().parents[1] / "results" / "hopper-180k-settings" / "curves.jsonl"
SCHEDULE, EVERY = 300_000, 60_000
"""Steps of the learning rates' schedule, and between two points of a curve."""
LOW, HIGH = 0.75, 1.5
"""Training range of the mass, a factor, drawn uniformly in its logarithm."""
STARTS = 33_000
PEER = "SAC of stable-baselines3"

SLOW = {"learning.actor_rate": 3e-4, "learning.critic_rate": 3e-4}
SINGLE = {"learning.window": 1, "learning.burn_in": 0, "learning.batch_episodes": 1024}
ALL_STORED = {"learning.buffer_episodes": 20_000}
WIDE = {"learning.initial_temperature": 1.0}
PLAIN = {"network.layer_norm": False, "network.normalize": False}
AS_PEER = {
    **SLOW,
    **WIDE,
    **PLAIN,
    "learning.decay_from": 0.99,
    "learning.minimum_temperature": 0.0,
    "collection.draws": 0,
}
ARMS: dict[str, dict[str, Any]] = {
    "nothing changed": {},
    "rates 3e-4": SLOW,
    "rates 3e-4, first temperature 1": {**SLOW, **WIDE},
    "rates 3e-4, no layer norm": {**SLOW, "network.layer_norm": False},
    "rates 3e-4, no normalised inputs": {**SLOW, "network.normalize": False},
    "single transitions": SINGLE,
    "as the peer": {**AS_PEER, **SINGLE, **ALL_STORED},
    "as the peer, 2,000 episodes kept": {**AS_PEER, **SINGLE},
    "as the peer, layer norm": {**AS_PEER, **SINGLE, **ALL_STORED, "network.layer_norm": True},
    "as the peer, windows": {**AS_PEER, **ALL_STORED},
}
"""Changes of the preset `fast-cpu`. `SINGLE` draws transitions one by one, each as likely, where the preset draws
windows, an episode as likely as another; `AS_PEER` has the peer's values."""


@dataclass(frozen=True)
class Study:
    """Two arms that plan.md compares, each trained with these seeds for so many steps."""

    first: str
    second: str
    seeds: range
    steps: int


STUDIES = (
    Study("as the peer", "nothing changed", range(60, 70), 180_000),
    Study(PEER, "nothing changed", range(80, 90), 300_000),
)
SEARCH_STEPS = 180_000
"""Steps of a run of the search, whose seeds belong to no study."""


def study_of(seed: int) -> Study | None:
    """Return the study that a seed belongs to."""
    return next((study for study in STUDIES if seed in study.seeds), None)


class HiddenMass(gym.Wrapper):
    """Gymnasium's hopper, whose mass each reset draws: the peer's training environment."""

    def __init__(self, seed: int) -> None:
        super().__init__(gym.make("Hopper-v5"))
        self.masses = np.random.default_rng(seed)

    def reset(self, **options: Any) -> Any:
        """Draw a mass, and begin an episode."""
        set_mass(self.env, {"mass": LOW * (HIGH / LOW) ** self.masses.uniform()})
        return self.env.reset(**options)


def point(model: Any, steps: int) -> dict[str, float]:
    """Return steps, mean return and mean length of the 40 episodes."""
    from benchmarks.scoreboard.peers import StableBaselines

    env, actor, returns, lengths = gym.make("Hopper-v5"), StableBaselines(model), [], []
    for k in range(40):
        set_mass(env, {"mass": LOW * (HIGH / LOW) ** ((k % 20 + 0.5) / 20)})
        observation, _ = env.reset(seed=STARTS + k)
        actor.reset(1)
        rewards, over = [], False
        while not over:
            action = actor.act(np.asarray(observation, np.float32)[None])[0]
            observation, reward, terminated, truncated, _ = env.step(np.clip(action, -1.0, 1.0))
            rewards.append(float(reward))
            over = terminated or truncated
        returns.append(sum(rewards))
        lengths.append(len(rewards))
    return {"steps": steps, "return": round(float(np.mean(returns)), 1), "length": round(float(np.mean(lengths)), 1)}


def draw_every_step_as_often() -> None:
    """Make the buffer draw an episode by its number of windows, as results/hopper-300k-windows/windows.patch does."""
    from sami_train.episodes.buffer import EpisodeBuffer

    def sample(buffer: EpisodeBuffer, episodes: int, rng: np.random.Generator) -> np.ndarray:
        assert buffer.plan is not None
        lengths = buffer.lengths[: len(buffer)]
        ends = np.cumsum(np.maximum(1, -(-(lengths - buffer.plan.burn_in) // buffer.plan.stride)))
        return np.searchsorted(ends, rng.integers(ends[-1], size=episodes), side="right")

    EpisodeBuffer.sample = sample  # type: ignore[method-assign]


def agent_of(arm: str, seed: int) -> Any:
    """Return the untrained agent of an arm."""
    import torch

    torch.set_flush_denormal(True)
    if arm == PEER:
        from stable_baselines3 import SAC

        from benchmarks.scoreboard.peers import RARE_UPDATES, SAC_ZOO

        torch.set_num_threads(1)
        return SAC("MlpPolicy", HiddenMass(seed), seed=seed, device="cpu", **SAC_ZOO, **RARE_UPDATES)
    from sami_train.agent.context_sac import ContextSAC
    from sami_train.config.resolve import resolve
    from sami_train.runs.train import make_env, prepare_torch

    changes = {"collection.workers": 0, "device": "cpu", "steps": SCHEDULE, **ARMS[arm]}
    if ARMS[arm].get("learning.window") == 1:
        draw_every_step_as_often()
    config = resolve("fast-cpu", {"env": "benchmarks.falling_hopper:HOPPER", "method": "sac", "seed": seed, **changes})
    prepare_torch(config)
    torch.set_num_threads(1)
    return ContextSAC("ContextPolicy", make_env(config), config, device="cpu")


def train(arm: str, seed: int) -> dict[str, Any]:
    """Train an arm with a seed, and return its curve."""
    from stable_baselines3.common.callbacks import BaseCallback

    curve: list[dict[str, float]] = []
    study = study_of(seed)
    steps = study.steps if study else SEARCH_STEPS

    class Points(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= EVERY * (len(curve) + 1):
                curve.append(point(self.model, self.num_timesteps))
                print(arm, seed, curve[-1], flush=True)
            return self.num_timesteps < steps

    agent_of(arm, seed).learn(SCHEDULE, callback=Points(), log_interval=SCHEDULE)
    return {"arm": arm, "seed": seed, "curve": curve}


def read() -> list[dict[str, Any]]:
    """Return the stored curves."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


def returns(curves: list[dict[str, Any]]) -> np.ndarray:
    """Return the mean return at each point of each curve, (curves, points)."""
    return np.array([[point["return"] for point in curve["curve"]] for curve in curves])


def row(*cells: Any) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def header(title: str, second: str, steps: int) -> list[str]:
    """Return the first two lines of a table whose columns are the points of a curve."""
    columns = [f"{EVERY * (k + 1):,}" for k in range(steps // EVERY)]
    return [row(title, second, *columns), "|---" * (2 + len(columns)) + "|"]


def compared(study: Study, curves: list[dict[str, Any]]) -> list[str]:
    """Return the table of a study; the difference only once all seeds are there, so that nobody stops at a good one."""
    arms = [
        returns([curve for curve in curves if curve["arm"] == arm and curve["seed"] in study.seeds])
        for arm in (study.first, study.second)
    ]
    if min(map(len, arms)) < 2:
        return []
    lines = ["", *header("mean ± deviation of the seeds", "seeds", study.steps)]
    for arm, means in zip((study.first, study.second), arms, strict=True):
        cells = (f"{mean:,.0f} ± {of:,.0f}" for mean, of in zip(means.mean(0), means.std(0, ddof=1), strict=True))
        lines.append(row(arm, len(means), *cells))
    if min(map(len, arms)) < len(study.seeds):
        return lines
    gains = (welch(x, y) for x, y in zip(arms[0].T, arms[1].T, strict=True))
    return [*lines, row("difference", "", *(f"{gain:+,.0f} [{low:+,.0f}, {high:+,.0f}]" for gain, low, high in gains))]


def rows(curves: list[dict[str, Any]]) -> list[str]:
    """Return the lines of all tables: each curve of the search, and the means of each study with their difference."""
    order = [PEER, *ARMS]
    lines = header("return after steps", "seed", SEARCH_STEPS)
    for curve in sorted(curves, key=lambda curve: (order.index(curve["arm"]), curve["seed"])):
        if study_of(curve["seed"]) is None:
            lines.append(row(curve["arm"], curve["seed"], *(f"{mean:,.0f}" for mean in returns([curve])[0])))
    return [*lines, *(line for study in STUDIES for line in compared(study, curves))]


def main(arguments: list[str]) -> None:
    """Print the tables; with an arm and a seed, train first."""
    if arguments:
        arm, seed = arguments[0], int(arguments[1])
        if arm not in (PEER, *ARMS):
            sys.exit(f"no arm is called {arm!r}; the arms are: {'; '.join((PEER, *ARMS))}.")
        curve = train(arm, seed)
        curves = [other for other in read() if (other["arm"], other["seed"]) != (arm, seed)] + [curve]
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text("".join(f"{json.dumps(curve)}\n" for curve in curves), encoding="utf-8")
    print("\n".join(rows(read())))


if __name__ == "__main__":
    main(sys.argv[1:])
