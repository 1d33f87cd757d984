"""How well `sami fit-robot` finds the motors of simulated robots that differ from their models.

    python -m benchmarks.fit_robot measure arm-position --out results/fit-robot/arm-position.json
    python -m benchmarks.fit_robot table results/fit-robot/*.json

A robot is drawn (armature, damping, dry friction and strength of each motor, biases, a delay), excited, recorded with
noise by the project's own loop, fitted, and compared with what was drawn. `go2` hangs in a stand: 12 motors.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sami_train.envs.go2.entry import MOTORS
from sami_train.studies.fit_gap.trace import read_log
from sami_train.studies.fit_robot.body import RobotBody
from sami_train.studies.fit_robot.fit import fit_robot
from tests.making.hidden_robot import JOINTS, ROBOT, draw_hidden, hide, nominal_arm, recorded

GO2 = Path(__file__).parents[1] / "sami_train/envs/go2/go2.xml"
ROBOTS = ("arm-position", "arm-motor", "go2")


def nominal_robot(name: str, folder: Path) -> Path:
    """Write a robot as its maker describes it; return its TOML file."""
    if name != "go2":
        return nominal_arm(folder, name.removeprefix("arm-"))
    text = GO2.read_text().replace('<freejoint name="base"/>', "").replace('pos="0 0 0.31"', 'pos="0 0 1.5"')
    (folder / "robot.xml").write_text(text.partition("<keyframe>")[0].rstrip() + text.rpartition("</keyframe>")[2])
    (folder / "robot.toml").write_text(
        ROBOT.replace("NAME", "robot").replace("[features", "[observation]\nsensors = []\n[features", 1)
    )
    return folder / "robot.toml"


def measure(name: str, seed: int, noise: float, episodes: int) -> dict[str, Any]:
    """Return what was hidden and what was found, for one draw."""
    joints = MOTORS if name == "go2" else JOINTS
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        nominal = nominal_robot(name, folder)
        hidden = draw_hidden(joints, seed, times=0.5 if name == "go2" else 1.0)
        recording = recorded(hide(nominal, hidden), folder / "run.mcap", episodes, noise=noise, seed=seed)
        log, begun = read_log([recording]), time.process_time()
        fitted = fit_robot(RobotBody(nominal, log.contract), log)
    true = hidden.numbers()
    rows = []
    for one in fitted.parameters:
        numbers = (true[one.parameter.field, one.parameter.of], one.value, one.low, one.high)
        rows.append([one.parameter.field, one.parameter.of, *(float(f"{n:.5g}") for n in numbers), one.verdict])
    [(nominal_error, ours)] = fitted.replay.values()
    return {
        "seed": seed,
        "cpu_s": round(time.process_time() - begun, 1),
        "windows": fitted.windows,
        "replay_rad": {"nominal": nominal_error.value, "fitted": ours.value},
        "parameters": rows,
    }


def table(paths: list[Path]) -> None:
    """Print how many parameters were identified, how far off they are, and how many intervals contain the truth."""
    print("| robot | noise [rad] | parameter | identified | of them within 10 % | rough | not identifiable | covered |")
    print("|---|---|---|---|---|---|---|---|")
    for path in paths:
        document = json.loads(path.read_text())
        rows = [row for draw in document["draws"] for row in draw["parameters"]]
        for field in (*dict.fromkeys(row[0] for row in rows), "all"):
            of_field = [row for row in rows if field in (row[0], "all")]
            verdicts = [row[6] for row in of_field]
            identified = [row for row in of_field if row[6] == "identified"]
            near = sum(abs(r[3] - r[2]) <= max(0.1 * abs(r[2]), CLOSE.get(r[0], 0.0)) for r in identified)
            covered = [row[4] <= row[2] <= row[5] for row in of_field if row[6] != "not identifiable"]
            counts = f"{len(identified)} of {len(of_field)} | {near} | {verdicts.count('rough')}"
            print(
                f"| {document['robot']} | {document['noise']} | {field} | {counts} | "
                f"{verdicts.count('not identifiable')} | {sum(covered)} of {len(covered)} |"
            )
        errors = {kind: [draw["replay_rad"][kind] for draw in document["draws"]] for kind in ("nominal", "fitted")}
        seconds = np.median([draw["cpu_s"] for draw in document["draws"]])
        print(
            f"\n{document['robot']}: replay error, median of {len(document['draws'])} draws: nominal "
            f"{np.median(errors['nominal']):.4f} rad, fitted {np.median(errors['fitted']):.4f} rad; {seconds:.0f} s\n"
        )


CLOSE = {"bias": 0.005, "delay": 0.001}
"""How far an identified bias [rad] and delay [s] may be off, however small they are."""


def main() -> None:
    """Measure one robot, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("robot", choices=ROBOTS)
    one.add_argument("--draws", type=int, default=10)
    one.add_argument("--noise", type=float, default=0.0005, help="of positions [rad]; velocities have 20 times that")
    one.add_argument("--episodes", type=int, default=9)
    one.add_argument("--out", type=Path, required=True)
    commands.add_parser("table").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "table":
        table(options.files)
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    head = {"robot": options.robot, "noise": options.noise, "episodes": options.episodes}
    draws = []
    for seed in range(options.draws):
        draws.append(measure(options.robot, seed, options.noise, options.episodes))
        print(json.dumps({key: value for key, value in draws[-1].items() if key != "parameters"}), flush=True)
        lines = ",\n".join(json.dumps(draw) for draw in draws)
        options.out.write_text(json.dumps(head)[:-1] + ', "draws": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
