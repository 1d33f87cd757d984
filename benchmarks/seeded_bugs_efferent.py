"""Runs efferent 0.5 on the logs that `seeded_bugs.py --logs LOGS` saved.

    python -m venv v && v/bin/pip install efferent==0.5.0
    v/bin/python benchmarks/seeded_bugs_efferent.py LOGS [--tolerance 0.001]

A bug counts as named if `efferent.audit` fails exactly its terms and its hint has the words of its kind. Signals that
efferent has no term for (gait phase, reference motion, halves of a command) come by its hook for custom terms, from the
log. It has no clip of the observation, no histories with the oldest value first, and no hypotheses on default pose,
offset, quaternion order, ignored signals and differences: `blamed` counts the right terms alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import efferent
import numpy as np
import yaml

TERMS = {
    "angular_velocity": "base_ang_vel",
    "gravity": "projected_gravity",
    "command": "command",
    "joint_positions": "joint_pos_rel",
    "joint_velocities": "joint_vel",
    "last_action": "last_action",
}
ARRAYS = {
    "obs": "obs",
    "q": "joint_positions",
    "dq": "joint_velocities",
    "quat": "quaternion",
    "gyro": "angular_velocity",
    "command": "command",
    "action": "actions",
}
WORDS = {
    "frame": "frame",
    "sign": "sign",
    "permutation": "permutation",
    "swapped sides": "permutation",
    "degrees": "degrees",
    "scale": "scale",
    "lag": "delay",
    "ignored": "factor of 0",
}
"""A word of efferent's hint for each kind of bug."""


def _manifest(recipe: dict[str, Any], log: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return efferent's description of a policy; terms unknown to efferent are read from the log."""
    action = recipe["action"]
    parts = [*recipe["signals"], {"name": "last_action", "scale": 1.0, **recipe["last_action"]}]
    observation = []
    for part in sorted(parts, key=lambda part: part["slice"]):
        size = part["slice"][1] - part["slice"][0]
        name = part["name"]
        term = {"term": TERMS.get(name, f"custom.{name}"), "scale": part["scale"], "dim": size}
        if name not in TERMS:
            efferent.register_custom_term(term["term"], _from_log(log[name], recipe["rate_hz"]))
        observation.append(term)
    joints = [{"name": n, "default": d} for n, d in zip(action["elements"], action["default"], strict=True)]
    control = {"rate_hz": recipe["rate_hz"], "action_scale": action["scale"]}
    return {"efferent": 1, "joints": joints, "control": control, "observation": observation}


def _from_log(values: np.ndarray, rate_hz: float) -> Any:
    return lambda binding, state, context: values[round(context["t"] * rate_hz)].astype(np.float32)


def judge(recipe: dict[str, Any], path: Path, tolerance: float) -> dict[str, str]:
    """Return efferent's hints on failed terms, by this project's names of the terms."""
    with np.load(path) as file:
        log = {name: file[name] for name in file.files}
    names = {**{term: name for name, term in TERMS.items()}}
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "manifest.yaml"
        manifest.write_text(yaml.safe_dump(_manifest(recipe, log)))
        np.savez(Path(folder) / "log.npz", **{key: log[name] for key, name in ARRAYS.items()})
        report = efferent.audit(manifest, log=Path(folder) / "log.npz", tol=tolerance)
    return {
        names.get(term.term, term.term.removeprefix("custom.")): term.hint
        for term in report.terms
        if term.status == "FAIL"
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args()
    index = json.loads((options.logs / "index.json").read_text())
    right: Counter[str] = Counter()
    blamed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    alarms = clean = skipped = 0
    for case in index["cases"]:
        recipe = index["recipes"][case["policy"]]
        if any("history" in signal for signal in recipe["signals"]):
            skipped += 1
            continue
        hints = judge(recipe, options.logs / case["log"], options.tolerance)
        if case["kind"] is None:
            clean += 1
            alarms += bool(hints)
            continue
        answers = case["answers"]
        exact = hints.keys() == answers.keys()
        total[case["kind"]] += 1
        blamed[case["kind"]] += exact
        right[case["kind"]] += exact and all(
            WORDS.get(kind, "\0") in hints[name].lower() for name, kind in answers.items()
        )
    print(f"{'':34}named  blamed  of")
    for kind in total:
        print(f"{kind:34}{right[kind]:>5}{blamed[kind]:>8}{total[kind]:>4}")
    print(f"named {right.total()}, exactly the right terms blamed {blamed.total()} of {total.total()}")
    print(f"false alarms {alarms} of {clean}")
    print(f"not taken: {skipped} logs, of a policy whose history has the oldest value first")


if __name__ == "__main__":
    main()
