"""Measures the time that a contrastive loss adds to a training step, by method and pairing.

    python benchmarks/contrast_cost.py [--updates N] [--json]

One process, the preset fast-cpu, one buffer of episodes collected by real rollouts. Updates with and without the
contrastive loss take turns, so that whatever else the machine does falls on both; medians count. A method contrasts
at every n-th update only (`contrast.every`); the last column is what that adds to the average step.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from training_speed import collect, make_agent

CASES = [("ccm", "last"), ("satesac", "last"), ("saccm", "last"), ("satesac", "prefix"), ("satesac", "one_age")]
WARM_UP = 3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--updates", type=int, default=40, help="updates of each kind and case (40)")
    parser.add_argument("--episodes", type=int, default=240, help="episodes in the buffer (240)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    episodes = None
    results = []
    for method, pairing in CASES:
        agent = make_agent(
            "panda", "fast-cpu", "cpu", arguments.episodes, **{"method": method, "contrast.pairing": pairing}
        )
        if episodes is None:
            episodes, _ = collect(agent, arguments.episodes)
        buffer = agent.make_buffer()
        for episode in episodes:
            buffer.add(episode)
            agent.policy.features.update(episode.observations)
        # Replace the returns: an untrained policy has equal returns, and the loss ignores such episodes.
        buffer.returns[: len(buffer)] = np.random.default_rng(1).permutation(len(buffer))
        rng, times = np.random.default_rng(0), {False: [], True: []}
        for _ in range(WARM_UP + arguments.updates):
            for contrast, kind in times.items():
                start = time.perf_counter()
                agent.learner.update(buffer, rng, contrast)
                kind.append(time.perf_counter() - start)
        plain, contrasted = (float(np.median(times[contrast][WARM_UP:])) for contrast in (False, True))
        share = contrasted / plain - 1.0
        results.append(
            {
                "method": method,
                "pairing": pairing,
                "plain_ms": 1e3 * plain,
                "contrasted_ms": 1e3 * contrasted,
                "added_to_one": share,
                "every": agent.config.contrast.every,
                "added_to_the_average": share / agent.config.contrast.every,
            }
        )
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{'method':<10}{'pairing':<12}{'plain':>10}{'contrasted':>12}{'added':>8}{'on average':>13}")
    for row in results:
        print(
            f"{row['method']:<10}{row['pairing']:<12}{row['plain_ms']:>7.1f} ms{row['contrasted_ms']:>9.1f} ms"
            f"{row['added_to_one']:>8.0%}{row['added_to_the_average']:>8.1%} of a step (every {row['every']})"
        )


if __name__ == "__main__":
    main()
