"""Measures the speed of training: the environment, collection, and gradient steps by preset.

    python benchmarks/training_speed.py [--env ENV] [--device cuda] [--updates N] [--paper-updates N] [--json]
    python benchmarks/training_speed.py --run RUN [--target 0.9] [--json]

The measurements run one after the other in one process, so use an idle machine; training itself collects and learns
at the same time, on a core each.

    environment   one environment (--env) with uniformly random actions, including resets
    collection    the work of a rollout worker: rounds of six environments, the policy in numpy, and the preset's
                  exploration
    update        one gradient step, `Learner.update`: sampling from the buffer, all losses, all optimisers, and
                  targets, on a buffer with the episodes that were just collected. The result is the median after
                  three updates for warm-up. On a GPU, the time ends when the GPU has finished
                  (torch.cuda.synchronize).

The preset fast-cpu uses the contrastive loss in some of its updates only (contrast.every), so both kinds are measured,
and its speed is that of the mix. An update of the preset paper uses 256 whole episodes and takes seconds on a CPU, so
only a few are measured. On a GPU, the time of all of the paper's 1.6 million environment steps follows: updates times
the median, or environment steps over the speed of collection, whichever is longer.

`--run RUN` measures nothing. It reads from a run's metrics (of its folder, or of a line: results/models:panda-satesac)
the minutes and environment steps until the success in exploration, the mean over the training tasks of their last 50
episodes, first reached the target.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sami_train.agent.context_sac import ContextSAC
    from sami_train.episodes.episode import Episode

WARM_UP = 3
ENVS = 6


def environment_speed(name: str, steps: int) -> float:
    """Return the environment steps per second of one environment, including resets."""
    from sami_train.envs import environment
    from sami_train.envs.make import make

    env = make(environment(name), tasks="training")
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    actions = rng.uniform(-1, 1, (steps, *env.action_space.shape)).astype(np.float32)
    start = time.perf_counter()
    for action in actions:
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    speed = steps / (time.perf_counter() - start)
    env.close()
    return speed


def make_agent(name: str, preset: str, device: str, episodes: int, **changes: str) -> ContextSAC:
    """Return a new agent with a buffer for a number of episodes, and set the threads as for training."""
    from stable_baselines3.common.vec_env import DummyVecEnv

    from sami_train.agent.context_sac import ContextSAC
    from sami_train.config.resolve import resolve
    from sami_train.runs.train import make_env, prepare_torch

    config = resolve(preset, {"env": name, "learning.buffer_episodes": episodes, "device": device, **changes})
    prepare_torch(config)
    envs = DummyVecEnv([partial(make_env, config)] * ENVS)
    in_step = config.collection.model_copy(update={"workers": 0})
    return ContextSAC("ContextPolicy", envs, config.model_copy(update={"collection": in_step}), device=device)


def collect(agent: ContextSAC, count: int) -> tuple[list[Episode], float]:
    """Collect at least `count` episodes by rollouts; return them and the environment steps per second."""
    source = agent._source()
    episodes: list[Episode] = []
    start = time.perf_counter()
    while len(episodes) < count:
        # Pretend that the warm-up is over, so that the policy acts rather than uniform noise.
        episodes += source.collect(True, agent.config.exploration.warmup_steps)
    seconds = time.perf_counter() - start
    return episodes, sum(len(episode) for episode in episodes) / seconds


def update_seconds(agent: ContextSAC, episodes: list[Episode], updates: int, contrast: bool) -> float:
    """Return the median time of one gradient step [s]."""
    import torch

    buffer = agent.make_buffer()
    if not len(buffer):
        for episode in episodes:
            buffer.add(episode)
            agent.policy.features.update(episode.observations)
    rng = np.random.default_rng(0)
    on_gpu = agent.device.type == "cuda"
    times = []
    for _ in range(WARM_UP + updates):
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        agent.learner.update(buffer, rng, contrast)
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[WARM_UP:]))


def paper_estimate(agent: ContextSAC, seconds: float, collection: float, workers: int) -> dict[str, float]:
    """Return the hours for all of the preset's steps, for updates and for collection by a number of rollout workers."""
    cfg = agent.config
    updates = (cfg.steps - cfg.exploration.warmup_steps) // cfg.learning.train_every * cfg.learning.gradient_steps
    learning = updates * seconds / 3600
    collecting = cfg.steps / (collection * workers) / 3600
    return {
        "workers": workers,
        "steps": cfg.steps,
        "updates": updates,
        "learning_hours": learning,
        "collecting_hours": collecting,
        "hours": max(learning, collecting),
    }


def measure(
    name: str, device: str, updates: int, paper_updates: int, env_steps: int, episodes: int, workers: int
) -> dict[str, Any]:
    """Measure all speeds, and return them by name."""
    import torch

    result: dict[str, Any] = {"environment_steps_per_s": environment_speed(name, env_steps)}
    fast = make_agent(name, "fast-cpu", device, episodes)
    collected, collection = collect(fast, episodes)
    result["collection_steps_per_s"] = collection
    plain = update_seconds(fast, collected, updates, contrast=False)
    contrasted = update_seconds(fast, collected, updates, contrast=True)
    share = 1.0 / fast.config.contrast.every
    result["updates_per_s"] = {
        "fast-cpu without contrast": 1.0 / plain,
        "fast-cpu with contrast": 1.0 / contrasted,
        "fast-cpu mixed": 1.0 / ((1.0 - share) * plain + share * contrasted),
    }
    # The updates' speed in environment steps per second: faster collection would wait for the learner.
    learning = fast.config.learning
    steps_per_update = learning.train_every / learning.gradient_steps
    result["learner_steps_per_s"] = steps_per_update * result["updates_per_s"]["fast-cpu mixed"]
    if paper_updates > 0:
        paper = make_agent(name, "paper", device, episodes)
        seconds = update_seconds(paper, collected, paper_updates, contrast=True)
        result["updates_per_s"]["paper"] = 1.0 / seconds
        if paper.device.type == "cuda":
            result["paper_estimate"] = paper_estimate(paper, seconds, collection, workers)
            result["gpu"] = torch.cuda.get_device_name(paper.device)
    result["threads"] = torch.get_num_threads()
    result["torch"] = torch.__version__
    return result


def time_to(run: Path, target: float) -> dict[str, Any]:
    """Return when a run's success in exploration first reached a target, or its best; SystemExit without one run."""
    from sami_train.studies.sweep.study import find_runs

    records = find_runs([run])
    if len(records) != 1:
        raise SystemExit(f"{run} holds {len(records)} runs; name one of them, e.g. {records[0].address}")
    rows = [row for row in records[0].metrics if "rollout/success" in row and "time/seconds" in row]
    if not rows:
        raise SystemExit(f"the metrics of {run} hold no line with rollout/success and time/seconds.")
    best = max(rows, key=lambda row: row["rollout/success"])
    reached = next((row for row in rows if row["rollout/success"] >= target), None)
    return {
        "run": records[0].name,
        "target": target,
        "minutes": reached and reached["time/seconds"] / 60,
        "steps": reached and int(reached["step"]),
        "best": best["rollout/success"],
        "best_minutes": best["time/seconds"] / 60,
        "total_minutes": rows[-1]["time/seconds"] / 60,
        "total_steps": int(rows[-1]["step"]),
        "steps_per_s": rows[-1]["step"] / rows[-1]["time/seconds"],
        "updates_per_s": rows[-1]["time/updates"] / rows[-1]["time/seconds"],
    }


def run_as_text(result: dict[str, Any]) -> str:
    """Return the result of `time_to` as text."""
    speed = f"{result['steps_per_s']:.0f} steps/s and {result['updates_per_s']:.1f} gradient steps/s at the same time"
    total = f"of {result['total_minutes']:.1f} minutes and {result['total_steps']:,} environment steps ({speed})"
    if result["minutes"] is None:
        at = f"its best was {result['best']:.3f}, after {result['best_minutes']:.1f} minutes"
        missed = f"{result['run']} did not reach {result['target']:g} training success while exploring"
        return f"{missed}; {at}, {total}"
    at = f"after {result['minutes']:.1f} minutes and {result['steps']:,} steps"
    return f"{result['run']} reached {result['target']:g} training success while exploring {at}, {total}"


def speeds_as_text(result: dict[str, Any]) -> str:
    """Return the result of `measure` as text."""
    threads = f"torch {result['torch']} on {result['threads']} threads"
    lines = [
        f"{result['machine']}, {result.get('gpu', threads)}",
        "",
        f"{'environment, one':<28}{result['environment_steps_per_s']:>10.0f} steps/s",
        f"{'collection, six side by side':<28}{result['collection_steps_per_s']:>10.0f} steps/s",
    ]
    lines += [f"{name:<28}{speed:>10.2f} updates/s" for name, speed in result["updates_per_s"].items()]
    lines += [f"{'learner, updates as due':<28}{result['learner_steps_per_s']:>10.0f} steps/s"]
    if "paper_estimate" in result:
        e = result["paper_estimate"]
        lines += [
            "",
            f"paper, {e['steps']:,} steps with {e['updates']:,} updates: {e['hours']:.1f} hours "
            f"(learning {e['learning_hours']:.1f} beside collecting {e['collecting_hours']:.1f} "
            f"with {e['workers']} workers)",
        ]
    return "\n".join(lines)


def main() -> None:
    """Measure, or read a run, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, help="read a run's time to the target instead of measuring")
    parser.add_argument("--target", type=float, default=0.9, help="training success for --run (0.9)")
    parser.add_argument("--env", default="panda", help="environment to measure (panda)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--workers", type=int, default=14, help="rollout workers that a GPU's estimate assumes (14)")
    parser.add_argument("--updates", type=int, default=60, help="updates of fast-cpu, of each kind (60)")
    parser.add_argument("--paper-updates", type=int, help="updates of paper (3, on a GPU 60)")
    parser.add_argument("--env-steps", type=int, default=3000, help="steps of the one environment (3000)")
    parser.add_argument("--episodes", type=int, default=240, help="episodes in the buffer (240)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    if arguments.run is not None:
        measured = time_to(arguments.run, arguments.target)
        print(json.dumps(measured, indent=2) if arguments.json else run_as_text(measured))
        return
    if arguments.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            parser.error(f"--device cuda: torch {torch.__version__} finds no GPU; use --device cpu")
    paper_updates = arguments.paper_updates
    if paper_updates is None:
        paper_updates = 60 if arguments.device == "cuda" else 3
    measured = measure(
        arguments.env,
        arguments.device,
        arguments.updates,
        paper_updates,
        arguments.env_steps,
        arguments.episodes,
        arguments.workers,
    )
    processor = platform.processor() or platform.machine()
    measured["machine"] = f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(json.dumps(measured, indent=2) if arguments.json else speeds_as_text(measured))


if __name__ == "__main__":
    main()
