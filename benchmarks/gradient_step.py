"""Measures the time of a gradient step on long episodes, by its parts.

    python benchmarks/gradient_step.py [--env half-cheetah] [--preset fast-cpu] [--updates N] [--json]

One process, one buffer of episodes collected by real rollouts. An update draws windows, runs the encoder over them, and
takes `learning.steps_per_draw` gradient steps of actor and critics. Updates with different numbers of steps take turns,
so that other load on the machine affects all alike. A line fitted to their medians gives the cost of a draw and a step.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

STEPS = (1, 2, 4, 8)
WARM_UP = 3
PARTS = {
    "matrix products": ("addmm", "aten::mm", "bmm", "linear", "matmul"),
    "encoder's LSTM": ("rnn", "lstm"),
    "layer norm": ("layer_norm",),
    "optimiser and targets": ("Adam", "adam", "lerp", "clip_grad", "foreach"),
    "copies and casts": ("copy", "aten::to", "_to_copy", "aten::cat", "index"),
}
"""Kinds of operations, by parts of the operations' names; the first match counts."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--env", default="half-cheetah", help="environment (half-cheetah)")
    parser.add_argument("--preset", default="fast-cpu", help="preset (fast-cpu)")
    parser.add_argument("--updates", type=int, default=30, help="updates of each kind (30)")
    parser.add_argument("--episodes", type=int, default=24, help="episodes in the buffer (24)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    measured = measure(arguments.env, arguments.preset, arguments.updates, arguments.episodes)
    print(json.dumps(measured, indent=2) if arguments.json else report(measured))


def prepared(env: str, preset: str, episodes: int, changes: Mapping[str, Any] | None = None) -> tuple[Any, Any, Any]:
    """Return an untrained agent, a buffer of episodes that its policy collected, and the configuration."""
    from sami_train.agent.context_sac import ContextSAC
    from sami_train.config.resolve import resolve
    from sami_train.runs.train import make_env, prepare_torch

    # Use two tasks only, so that a few episodes suffice for losses that compare episodes of one task.
    small = {"collection.workers": 0, "collection.tasks": [0, 1], "learning.buffer_episodes": episodes}
    config = resolve(preset, {"env": env, **small, **(changes or {})})
    prepare_torch(config)
    agent = ContextSAC("ContextPolicy", make_env(config), config, device="cpu")
    buffer, source = agent.make_buffer(), agent._source()
    while len(buffer) < episodes:
        for episode in source.collect(True, config.exploration.warmup_steps):
            buffer.add(episode)
            agent.policy.features.update(episode.observations)
    # Replace the returns: an untrained policy has equal returns, and the loss ignores episodes with equal returns.
    buffer.returns[: len(buffer)] = np.random.default_rng(1).permutation(len(buffer))
    return agent, buffer, config


def measure(env: str, preset: str, updates: int, episodes: int) -> dict[str, Any]:
    """Return median times [s] by steps per draw, with and without the contrastive loss, and shares of operations."""
    agent, buffer, config = prepared(env, preset, episodes)
    learner, rng = agent.learner, np.random.default_rng(0)
    cases = [(steps, False) for steps in STEPS] + [(config.learning.steps_per_draw, True)]
    times: dict[tuple[int, bool], list[float]] = {case: [] for case in cases}

    def update(steps: int, contrast: bool) -> float:
        learner.learning = config.learning.model_copy(update={"steps_per_draw": steps})
        start = time.perf_counter()
        learner.update(buffer, rng, contrast)
        return time.perf_counter() - start

    for _ in range(WARM_UP + updates):
        for case, measured in times.items():
            measured.append(update(*case))
    medians = {case: float(np.median(measured[WARM_UP:])) for case, measured in times.items()}
    step, draw = np.polyfit(STEPS, [medians[steps, False] for steps in STEPS], 1)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(updates // 3 + 1):
            update(config.learning.steps_per_draw, False)
    median = medians[config.learning.steps_per_draw, False]
    return {
        "env": env,
        "preset": preset,
        "updates_s": {steps: medians[steps, False] for steps in STEPS},
        "draw_s": float(draw),
        "step_s": float(step),
        "steps_per_draw": config.learning.steps_per_draw,
        "gradient_steps_per_s": config.learning.steps_per_draw / median,
        "contrast_added": medians[cases[-1]] / median - 1.0,
        "contrast_every": config.contrast.every,
        "shares": shares(profiled),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def shares(profiled: profile) -> dict[str, float]:
    """Return the fraction of the operations' time by kind of operation."""
    result = dict.fromkeys([*PARTS, "everything else"], 0.0)
    for event in profiled.key_averages():
        kind = next((part for part, names in PARTS.items() if any(name in event.key for name in names)), None)
        result[kind or "everything else"] += event.self_cpu_time_total
    total = sum(result.values())
    return {part: duration / total for part, duration in result.items()}


def report(result: dict[str, Any]) -> str:
    """Return the result as text."""
    lines = [f"{result['env']}, preset {result['preset']}, {result['threads']} threads, torch {result['torch']}"]
    lines += [
        f"{steps} steps a draw: {1e3 * seconds:6.1f} ms an update, {1e3 * seconds / steps:5.1f} ms a gradient step"
        for steps, seconds in result["updates_s"].items()
    ]
    average = result["contrast_added"] / result["contrast_every"]
    lines += [
        f"a draw of windows and their encoding, with its gradient: {1e3 * result['draw_s']:.1f} ms; "
        f"a step of actor and critics: {1e3 * result['step_s']:.1f} ms",
        f"the preset takes {result['steps_per_draw']} a draw: {result['gradient_steps_per_s']:.0f} gradient steps/s",
        f"the contrastive loss adds {result['contrast_added']:.0%} to every {result['contrast_every']}. update: "
        f"{average:.1%} on average",
        "share of the time: " + ", ".join(f"{part} {share:.0%}" for part, share in result["shares"].items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
