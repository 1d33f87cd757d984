"""Measures how often the SO-101's policy reaches its goal through LeRobot's interface, on a simulated arm.

    PYTHONPATH=$PWD/tests/making/lerobot_double python benchmarks/lerobot_so101.py --out results/so101/drive.json

Each episode is a `sami drive` of examples/lerobot/so101.toml with a task of its own: another cube, goal, mass, friction
and play. The robot is examples/lerobot/so101_sim.py. Without LeRobot installed, the double of its interface that the
tests have is enough, as above. A goal is reached when a recorded tick has the cube within 2.5 cm of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime import read_recording
from sami_runtime.files import read_document

ROOT = Path(__file__).resolve().parents[1]
STOPPED = 3
"""Exit code of a run that a guard stopped, for example because the cube slid away."""
EXAMPLE = ROOT / "examples" / "lerobot"
PAN_X, NEAR, LEAST = 0.0388353, 0.025, 0.06
"""Position of the pan axis, goal tolerance, and smallest initial distance of cube and goal [m]."""
TASKS = {
    "training": ((0.05, 0.3), (0.3, 0.8), (0.005, 0.03)),
    "moderate": ((0.15, 0.5), (0.2, 1.0), (0.015, 0.045)),
    "extreme": ((0.02, 0.8), (0.1, 1.3), (0.0, 0.07)),
}
"""Masses, frictions and plays of `--env so101`."""


def settings_of(task_set: str, number: int, model: str | None = None) -> dict[str, Any]:
    """Return an episode's settings: places of cube and goal, and the task, which cycles through the set's grid."""
    rng = np.random.default_rng((101, number))
    cube = goal = _place(rng)
    while np.linalg.norm(cube - goal) < LEAST:
        goal = _place(rng)
    values = TASKS[task_set]
    mass, friction, play = (pair[number >> bit & 1] for bit, pair in enumerate(values))
    simulated = {"mass": mass, "friction": friction, "play": play, "seed": number}
    simulated |= {"cube_x": float(cube[0]), "cube_y": float(cube[1]), "cube_yaw": float(rng.uniform(-np.pi, np.pi))}
    if model is not None:
        simulated["model"] = model
    return {"config": simulated, "goal": goal.tolist()}


def _place(rng: np.random.Generator) -> np.ndarray:
    radius, angle = rng.uniform(0.15, 0.23), rng.uniform(-0.5, 0.5)
    return np.array([PAN_X + radius * np.cos(angle), radius * np.sin(angle)])


def drive(folder: Path, policy: str, episode: dict[str, Any]) -> dict[str, Any]:
    """Run an episode by `sami drive`; return whether it reached the goal, after how many ticks, and the held ticks.

    Raises:
        RuntimeError: the command failed.
    """
    document = read_document(EXAMPLE / "so101.toml", "robots") | {"model": policy, "record": "run.mcap"}
    document["settings"] |= {"config": episode["config"]}
    document["settings"]["observation"]["goal"] = {"constant": episode["goal"]}
    (folder / "episode.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "run.mcap").unlink(missing_ok=True)
    command = [Path(sys.executable).with_name("sami"), "drive", folder / "episode.json"]
    process = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=120, check=False)
    if process.returncode not in (0, STOPPED):
        raise RuntimeError(f"sami drive ended with {process.returncode}: {process.stdout}{process.stderr}")
    places, holds = [], 0
    for _, record in read_recording(folder / "run.mcap").steps:
        places.append(record.observation.values["cube_position"] if record.observation is not None else [np.nan] * 2)
        holds += record.action is None
    near = np.linalg.norm(np.array(places) - episode["goal"], axis=1) < NEAR
    first = int(np.argmax(near)) if near.any() else None
    return {
        "reached": first is not None,
        "ticks": first,
        "held": holds,
        "of": len(near),
        "stopped": process.returncode == STOPPED,
    }


def main() -> None:
    """Drive, and print the share of goals that were reached in each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="so101-satesac", help="model file, or the name of a shipped one")
    parser.add_argument("--model", help="MJCF of another simulated arm, see SO101SimConfig")
    parser.add_argument("--episodes", type=int, default=24, help="in each set")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {"policy": options.policy, "arm": "so101.xml" if options.model is None else options.model}
    with tempfile.TemporaryDirectory() as name:
        for task_set in TASKS:
            episodes = []
            for number in range(options.episodes):
                episode = settings_of(task_set, number, options.model)
                episodes.append(episode | drive(Path(name), options.policy, episode))
            reached = sum(episode["reached"] for episode in episodes)
            result[task_set] = {"reached": reached, "episodes": episodes}
            print(f"{task_set}: {reached} of {len(episodes)}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
