"""Counts how often the active check of signs detects the fault of a loaded arm, and its false alarms.

    python -m benchmarks.excite_loaded_arm          # about a minute: 50 healthy arms and 10 of each wrong one, by kind

The arm is the simulated one of `tests/making/loaded_arm.py`, with each kind of drive, with noise, with another load
than in the model's simulation, and with another start in every run. The output is, by kind and fault, how many arms
passed, failed for the right reason, failed for another reason, and were not proven.
"""

from __future__ import annotations

import argparse
from collections import Counter

from tests.making.loaded_arm import FAULTS, KINDS, outcome


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--healthy", type=int, default=50, help="runs of the healthy arm, each kind (50)")
    parser.add_argument("--wrong", type=int, default=10, help="runs of each wrong arm, each kind (10)")
    arguments = parser.parse_args()
    print(f"{'drive':<14}{'fault':<28}{'runs':>5}{'passed':>8}{'right':>7}{'other':>7}{'not proven':>12}")
    for kind in KINDS:
        for fault in ("healthy", *FAULTS):
            runs = arguments.healthy if fault == "healthy" else arguments.wrong
            counts = Counter(outcome(kind, fault, seed) for seed in range(runs))
            row = [counts[name] for name in ("passed", "right", "other", "not proven")]
            print(f"{kind:<14}{fault:<28}{runs:>5}{row[0]:>8}{row[1]:>7}{row[2]:>7}{row[3]:>12}", flush=True)


if __name__ == "__main__":
    main()
