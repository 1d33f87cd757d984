"""Compares the K-sample bound with known mutual information, by K: the log-K curse.

    python benchmarks/log_k.py [--queries N] [--plot PICTURE.png] [--json]

Pairs of correlated standard normals in four dimensions have I(x; y) = -2 log(1 - rho^2) nats. The bound uses the best
critic there is, p(y|x) / p(y), so that what is missing is missing for want of samples alone (paper, Lemma 1): it stays
below both log K and the information. A smaller information is bound tightly by far fewer samples, which is what
SaNCE is made for (Lemma 2); where log K is past the information, more samples bring nothing.
"""

from __future__ import annotations

import argparse
import json
import math

import torch

from sami_train.agent.losses import k_sample_bound

INFORMATION = (1.0, 2.0, 4.0, 8.0)
SAMPLES = tuple(2**power for power in range(1, 13))
DIMENSIONS = 4


def bound(information: float, k: int, queries: int) -> float:
    """Return the K-sample bound on pairs with a given mutual information [nats]."""
    rho2 = 1.0 - math.exp(-2.0 * information / DIMENSIONS)
    rho, variance = math.sqrt(rho2), 1.0 - rho2

    def log_ratio(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (0.5 * (y**2 - (y - rho * x) ** 2 / variance) - 0.5 * math.log(variance)).sum(-1)

    total, batch = 0.0, max(1, min(queries, 2**20 // k))
    for first in range(0, queries, batch):
        count = min(batch, queries - first)
        x = torch.randn(count, DIMENSIONS)
        y = rho * x + math.sqrt(variance) * torch.randn(count, DIMENSIONS)
        negatives = torch.randn(count, k - 1, DIMENSIONS)
        total += k_sample_bound(log_ratio(x, y), log_ratio(x.unsqueeze(1), negatives)).sum().item()
    return total / queries


def plot(result: dict[float, dict[int, float]], path: str) -> None:
    """Draw the bounds against K."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), constrained_layout=True)
    for color, (information, bounds) in zip(("#0072B2", "#009E73", "#E69F00", "#D55E00"), result.items(), strict=True):
        axes.plot(list(bounds), list(bounds.values()), "o-", color=color, markersize=4)
        axes.axhline(information, color=color, linestyle=":", linewidth=1)
        axes.text(SAMPLES[0], information + 0.1, f"I = {information:g}", color=color, va="bottom")
    axes.plot(SAMPLES, [math.log(k) for k in SAMPLES], "k--", linewidth=1)
    axes.text(SAMPLES[-1] * 1.1, math.log(SAMPLES[-1]), "log K", va="bottom")
    axes.set_ylim(0, 9)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("samples K (one positive, K - 1 negatives)")
    axes.set_ylabel("K-sample bound [nats]")
    axes.set_title("Bound with the best critic, and the true information (dotted)", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=4000, help="queries for each figure (4000)")
    parser.add_argument("--plot", metavar="PNG", help="also draw")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    table = {i: {k: bound(i, k, arguments.queries) for k in SAMPLES} for i in INFORMATION}
    if arguments.plot:
        plot(table, arguments.plot)
    if arguments.json:
        print(json.dumps(table, indent=2))
        return
    print(f"{'K':>6}{'log K':>8}" + "".join(f"{f'I = {i:g}':>9}" for i in INFORMATION))
    for k in SAMPLES:
        print(f"{k:>6}{math.log(k):>8.2f}" + "".join(f"{table[i][k]:>9.2f}" for i in INFORMATION))


if __name__ == "__main__":
    main()
