"""Computes a lower bound of a gradient step's time on another device, from its operations, bytes and launches.

    python benchmarks/roofline.py [--env panda] [--preset fast-cpu] [--tflops 67] [--bandwidth 3.35] [--launch-us 5]

Counts for one update: floating point operations (matrix products and LSTMs), bytes that must move at least once
(weights with their gradients and Adam's two moments, and the batch), and operators, each of which needs at least one
launch on a GPU. The device's data sheet gives peak Tflop/s in float32, memory bandwidth in TB/s, and the time of a
launch. The bound is the longest of the three times. The default is an H100 SXM: 67 Tflop/s, 3.35 TB/s, 5 us.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from gradient_step import prepared
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

WARM_UP, UPDATES = 3, 10
LAUNCHED = (
    "aten::view",
    "aten::t",
    "aten::transpose",
    "aten::reshape",
    "aten::expand",
    "aten::slice",
    "aten::detach",
    "aten::unsqueeze",
    "aten::squeeze",
    "aten::select",
    "aten::as_strided",
    "aten::permute",
    "aten::split",
    "aten::narrow",
    "aten::empty",
    "aten::chunk",
    "aten::alias",
    "aten::resolve",
    "aten::result_type",
)
"""Prefixes of operators that only make a view of a tensor, and launch no kernel."""


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--env", default="panda", help="environment (panda)")
    parser.add_argument("--preset", default="fast-cpu", help="preset (fast-cpu)")
    parser.add_argument("--episodes", type=int, default=64, help="episodes in the buffer (64)")
    parser.add_argument("--tflops", type=float, default=67.0, help="peak in float32, Tflop/s (67)")
    parser.add_argument("--bandwidth", type=float, default=3.35, help="of its memory, TB/s (3.35)")
    parser.add_argument("--launch-us", type=float, default=5.0, help="of a kernel, us (5)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    result = count(arguments.env, arguments.preset, arguments.episodes)
    result |= bound(result, arguments.tflops, arguments.bandwidth, arguments.launch_us)
    print(json.dumps(result, indent=2) if arguments.json else report(result))


def count(env: str, preset: str, episodes: int) -> dict[str, Any]:
    """Return an update's operations [flop], bytes and launches, without the contrastive loss, and its time here."""
    agent, buffer, config = prepared(env, preset, episodes)
    learner, rng = agent.learner, np.random.default_rng(0)
    times = []
    for _ in range(WARM_UP + UPDATES):
        start = time.perf_counter()
        learner.update(buffer, rng, False)
        times.append(time.perf_counter() - start)
    with FlopCounterMode(display=False) as counter:
        learner.update(buffer, rng, False)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        learner.update(buffer, rng, False)
    # An operator that calls others launches nothing itself: count only the operators that it calls.
    events = [event for event in profiled.events() if event.name.startswith("aten::")]
    leaves = [event for event in events if not event.cpu_children and not event.name.startswith(LAUNCHED)]
    learned = [*agent.policy.actor.parameters(), *agent.policy.critic.parameters(), *agent.policy.encoder.parameters()]
    weights = sum(parameter.numel() for parameter in learned)
    steps = config.learning.batch_episodes * (config.learning.window or buffer.horizon)
    numbers = steps * (buffer.observations.shape[2] + buffer.actions.shape[2])
    return {
        "env": env,
        "preset": preset,
        "here_ms": 1e3 * float(np.median(times[WARM_UP:])),
        "threads": torch.get_num_threads(),
        "flop": counter.get_total_flops() + _lstm_flop(agent.policy, steps),
        # Weights, gradients and two moments, read and written; the target networks' weights; the batch once.
        "bytes": 4 * (8 * weights + 3 * weights + numbers),
        "launches": len(leaves),
        "weights": weights,
    }


def _lstm_flop(policy: Any, steps: int) -> int:
    """Return the LSTMs' operations, which the counter misses: 2 flop per weight and step, 6 with a gradient."""
    layers = [module for module in policy.encoder.modules() if isinstance(module, torch.nn.LSTM)]
    weights = sum(parameter.numel() for layer in layers for parameter in layer.parameters())
    return 2 * weights * steps * (3 + 1)  # and once without a gradient, by the momentum encoder


def bound(result: dict[str, Any], tflops: float, bandwidth: float, launch_us: float) -> dict[str, Any]:
    """Return lower bounds of an update's time on a device [ms], by computing, moving and launching."""
    parts = {
        "computing_ms": 1e3 * result["flop"] / (tflops * 1e12),
        "moving_ms": 1e3 * result["bytes"] / (bandwidth * 1e12),
        "launching_ms": 1e-3 * result["launches"] * launch_us,
    }
    return {
        **parts,
        "bound_ms": max(parts.values()),
        "device": f"{tflops:g} Tflop/s, {bandwidth:g} TB/s, {launch_us:g} us",
    }


def report(result: dict[str, Any]) -> str:
    """Return the result as text."""
    env, preset, flop, megabytes = result["env"], result["preset"], result["flop"] / 1e9, result["bytes"] / 1e6
    computing, moving, launching = (result[f"{part}_ms"] for part in ("computing", "moving", "launching"))
    return "\n".join(
        (
            f"{env}, preset {preset}: {result['here_ms']:.1f} ms an update here, {result['threads']} threads",
            f"it computes {flop:.2f} Gflop, moves {megabytes:.1f} MB, launches {result['launches']}",
            f"on a device of {result['device']}:",
            f"computing {computing:.3f} ms, moving {moving:.3f} ms, launching {launching:.2f} ms",
            f"so at least {result['bound_ms']:.2f} ms an update, {1e3 / result['bound_ms']:.0f} a second",
        )
    )


if __name__ == "__main__":
    main()
