"""Compares and plots the Panda in PyBullet and in MuJoCo under the same scripted commands.

    python benchmarks/panda_engines.py --out results/panda-mujoco/responses.json --figure docs/second-simulator.png

Prints, for each command and number, how far the engines are apart on average and at most, and how much the number moves
in PyBullet. Nothing here knows a policy. The traces go into the JSON file, which the tests compare MuJoCo's with.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from panda_responses import RESPONSES, SEED

from sami_train.envs import environment
from sami_train.envs.make import make

ENGINES = {"pybullet": "panda", "mujoco": "panda-mujoco"}
TRACES = (
    ("free +y", "hand y [m]"),
    ("free -z", "hand z [m]"),
    ("fingers", "fingers [m]"),
    ("push y, 10 kg, friction 1", "cube y [m]"),
    ("push x, 5 kg, friction 0.1", "cube vx [m/s]"),
    ("push y, 1 kg, friction 10", "cube y [m]"),
    ("lift, 1 kg, friction 1", "fingers [m]"),
    ("lift, 10 kg, friction 1", "cube z [m]"),
    ("lift, 10 kg, friction 1", "cube pitch [rad]"),
    ("lift, 30 kg, friction 1", "hand z [m]"),
    ("drag, 10 kg, friction 0.1", "cube y [m]"),
    ("drop, 1 kg, friction 1", "cube z [m]"),
)
"""Responses in the picture: the best and the worst match."""
Traces = dict[str, dict[str, list[float]]]


def measure(name: str) -> Traces:
    """Return every response's traces in one environment."""
    env = make(environment(name))
    table = {response.name: response.measure(env) for response in RESPONSES}
    env.close()
    return {
        name: {number: [round(value, 6) for value in trace] for number, trace in traces.items()}
        for name, traces in table.items()
    }


def show(measured: dict[str, Traces]) -> None:
    """Print the differences between the engines."""
    print("| command | number | mean difference | largest | moves by |\n|---|---|---|---|---|")
    for response in RESPONSES:
        for number in response.measures:
            first, second = (np.array(measured[engine][response.name][number]) for engine in ENGINES)
            errors = np.abs(first - second)
            print(f"| {response.name} | {number} | {errors.mean():.4f} | {errors.max():.4f} | {np.ptp(first):.4f} |")


def draw(measured: dict[str, Traces], path: Path) -> None:
    """Draw some of them into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from sami_train.studies.charts.chart import SETTINGS

    with matplotlib.rc_context(SETTINGS):
        figure, axes = pyplot.subplots(3, 4, figsize=(13, 7.5), layout="constrained")
        for axis, (name, number) in zip(axes.flat, TRACES, strict=True):
            for engine, style in (("pybullet", "o-"), ("mujoco", "s--")):
                trace: Any = measured[engine][name][number]
                axis.plot(np.arange(1, len(trace) + 1) * 0.04, trace, style, markersize=3, label=engine)
            axis.set_title(name, fontsize=9)
            axis.set_ylabel(number)
        for axis in axes[-1]:
            axis.set_xlabel("time [s]")
        axes[0, 0].legend()
        figure.savefig(path)


def main() -> None:
    """Measure, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file for the traces")
    parser.add_argument("--figure", type=Path, help="PNG file")
    options = parser.parse_args()
    measured = {engine: measure(name) for engine, name in ENGINES.items()}
    show(measured)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        packages = {name: version(name) for name in ("pybullet", "panda-gym", "mujoco")}
        options.out.write_text(json.dumps({"seed": SEED, "packages": packages, **measured}, indent=1) + "\n")
    if options.figure is not None:
        draw(measured, options.figure)


if __name__ == "__main__":
    main()
