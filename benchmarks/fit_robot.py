"""Measures how well `sami fit-robot` identifies the motors of simulated robots that differ from their models.

    python -m benchmarks.fit_robot measure arm-position --out results/fit-robot/arm-position.json
    python -m benchmarks.fit_robot table results/fit-robot/{arm,go2}*.json
    python -m benchmarks.fit_robot reach --out results/fit-robot/reach.json
    python -m benchmarks.fit_robot reach-table results/fit-robot/reach.json

Each draw makes a robot (armature, damping, dry friction and strength of each motor, biases, a delay), excites it,
records it with noise by the project's own loop, fits it, and compares fit and draw. `go2` hangs in a stand: 12 motors.

`reach` measures the benefit for policies that reach with the tip of the arm. They are trained on the nominal model, on
the model with domain randomisation of every motor over the robots' ranges, on the model fitted to a robot, and on the
robot itself; all are evaluated on the robot.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gymnasium import spaces

from sami_train.envs.catalog import environment
from sami_train.envs.go2.entry import MOTORS
from sami_train.studies.fit_gap.trace import read_log
from sami_train.studies.fit_robot.body import RobotBody
from sami_train.studies.fit_robot.files import fitted_model, training_document
from sami_train.studies.fit_robot.fit import fit_robot
from sami_train.studies.teacher.teacher import Teacher, TeacherConfig, train_teacher
from sami_train.studies.teacher.vector import training_batch
from tests.making.hidden_robot import JOINTS, ROBOT, draw_hidden, hide, nominal_arm, recorded

GO2 = Path(__file__).parents[1] / "sami_train/envs/go2/go2.xml"
ROBOTS = ("arm-position", "arm-motor", "go2")


def nominal_robot(name: str, folder: Path) -> Path:
    """Write the nominal model of a robot; return its TOML file."""
    if name != "go2":
        return nominal_arm(folder, name.removeprefix("arm-"))
    text = GO2.read_text().replace('<freejoint name="base"/>', "").replace('pos="0 0 0.31"', 'pos="0 0 1.5"')
    (folder / "robot.xml").write_text(text.partition("<keyframe>")[0].rstrip() + text.rpartition("</keyframe>")[2])
    (folder / "robot.toml").write_text(
        ROBOT.replace("NAME", "robot").replace("[features", "[observation]\nsensors = []\n[features", 1)
    )
    return folder / "robot.toml"


def measure(name: str, seed: int, noise: float, episodes: int) -> dict[str, Any]:
    """Return the hidden and the fitted parameters, for one draw."""
    joints = MOTORS if name == "go2" else JOINTS
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        nominal = nominal_robot(name, folder)
        hidden = draw_hidden(joints, seed, times=0.5 if name == "go2" else 1.0)
        recording = recorded(hide(nominal, hidden), folder / "run.mcap", episodes, noise=noise, seed=seed)
        log, start = read_log([recording]), time.process_time()
        result = fit_robot(RobotBody(nominal, log.contract), log)
    true = hidden.numbers()
    rows = []
    for fit in result.parameters:
        numbers = (true[fit.parameter.field, fit.parameter.of], fit.value, fit.low, fit.high)
        rows.append([fit.parameter.field, fit.parameter.of, *(float(f"{n:.5g}") for n in numbers), fit.verdict])
    [(nominal_error, error)] = result.replay.values()
    return {
        "seed": seed,
        "cpu_s": round(time.process_time() - start, 1),
        "windows": result.windows,
        "replay_rad": {"nominal": nominal_error.value, "fitted": error.value},
        "parameters": rows,
    }


def table(paths: list[Path]) -> None:
    """Print how many parameters were identified, their errors, and how many intervals contain the true value."""
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
"""Tolerated absolute error of an identified bias [rad] and delay [s], however small the true values are."""


TARGET = {"x": (0.25, 0.45), "y": (-0.25, 0.25), "z": (0.95, 1.25)}
"""Ranges of a target [m]; the tip is 0.55 m from the shoulder, which is at [0, 0, 1.1]."""
RANGES = {"armature": (0.01, 0.06), "damping": (0.1, 0.6), "frictionloss": (0.05, 0.4), "strength": (0.7, 1.2)}
"""Ranges of `draw_hidden` for each joint; a bias is no feature."""
NAMES = {
    "nominal": "the model as it was",
    "ranges": "the model, motors drawn from all ranges",
    "fitted": "`fitted.toml`",
    "robot": "the robot itself",
}
"""Training environments of a policy, with their titles."""


def reaching_arm(folder: Path) -> Path:
    """Write the nominal arm with position servos and a task, to hold the tip at a target; return its TOML file."""
    path, text = nominal_arm(folder, "position"), ""
    xml, forearm = path.with_suffix(".xml").read_text(), '<geom fromto="0 0 0 0.25 0 0"/>'
    xml = xml.replace(forearm, f'{forearm}<site name="tip" pos="0.25 0 0"/>').replace('"-1 1"', '"-2 2"')
    sensor = '</actuator><sensor><framepos name="tip" objtype="site" objname="tip"/></sensor>'
    path.with_suffix(".xml").write_text(xml.replace("</actuator>", sensor))
    for axis, (low, high) in TARGET.items():
        text += f'[commands.target_{axis}]\nunit = "m"\nlow = {low}\nhigh = {high}\n'
        term = f'[[reward]]\nposition = "tip"\naxis = "{axis}"\ncommand = "target_{axis}"\n'
        text += f"{term}weight = -10.0\n{term}width = 0.03\nweight = 2.0\n"
    features = ROBOT.replace("NAME", path.stem).partition("[[reward]]")[0]
    parts = '[observation]\nsensors = []\nlast_action = true\n[privileged]\nsensors = ["tip"]\n'
    path.write_text(f"{features}{parts}[reset]\nqpos_noise = 0.3\n{text}")
    return path


def drawn_arm(nominal: Path) -> Path:
    """Write the environment of the nominal model with domain randomisation of the motors over all robots' ranges."""
    spec = mujoco.MjSpec.from_file(str(nominal.with_suffix(".xml")))
    for actuator in spec.actuators:
        actuator.nsample = 12
    spec.compile()
    path, text = nominal.with_name("ranges.toml"), nominal.read_text()
    path.with_suffix(".xml").write_text(spec.to_xml())
    feature = '[features.{0}]\n{1} = "{2}"\nof = {3}\n[tasks.training.{0}]\nlow = {4}\nhigh = {5}\n'
    fields = {name: ("sets", f"dof_{name}") for name in RANGES} | {"strength": ("scales", "actuator_strength")}
    for joint, (name, ends) in itertools.product(JOINTS, RANGES.items()):
        text += feature.format(f"{joint}_{name}", *fields[name], f'["{joint}"]', *ends)
    text += feature.format("delay", "sets", "actuator_delay", '"all"', 0.0, 0.04)
    path.write_text(text.replace(f"{nominal.stem}.xml", "ranges.xml"))
    return path


def fitted_arm(nominal: Path, hidden: Path, seed: int) -> Path:
    """Excite and record a robot, and write a fitted model as `sami fit-robot` does; return its TOML file."""
    log = read_log([recorded(hidden, hidden.with_name(f"run-{seed}.mcap"), noise=0.0005, seed=seed)])
    body, path = RobotBody(nominal, log.contract), nominal.with_name(f"fitted-{seed}.xml")
    result = fit_robot(body, log)
    path.write_text(fitted_model(body, result, path.parent))
    path.with_suffix(".toml").write_text(training_document(body, result, path))
    return path.with_suffix(".toml")


def teacher(env: Path, seed: int, steps: int, out: Path) -> Teacher:
    """Train a policy without memory by PPO, as `sami teach --blind`; only its critic reads the tip's position."""
    config = TeacherConfig(env=str(env), seed=seed, rows=64, blind=True)
    return train_teacher(out, config, steps, every=10**9, on_measured=lambda line: None)


def distances(policy: Teacher, robot: Path, episodes: int = 50) -> list[float]:
    """Return the mean distance of tip and target in the second half of each episode on a robot [m], by episode."""
    spec = environment(str(robot))
    batch = training_batch(spec, episodes)
    observations = batch.reset(seeds=range(9000, 9000 + episodes))
    signals = spec.layout.by_name(observations)
    targets, distances_m = np.concatenate([signals[f"target_{axis}"] for axis in TARGET], axis=1), []
    inputs = policy.policy.observation_space
    assert isinstance(inputs, spaces.Dict)
    # The blind actor ignores privileged inputs, whose values differ between environments.
    no_input = np.zeros((episodes, *(inputs["privileged"].shape or ())), np.float32)
    for _ in range(spec.episode_steps):
        observations, _ = batch.step(policy.act(observations, no_input))
        distances_m.append(np.linalg.norm(batch.privileged()[:, :3] - targets, axis=1))
    means: list[float] = np.mean(distances_m[len(distances_m) // 2 :], axis=0).tolist()
    return means


def reach(robots: int, seeds: int, steps: int, out: Path) -> None:
    """Train and evaluate every policy, and write each result as soon as it is available."""
    head: dict[str, Any] = {"steps": steps, "cpu_s": {}}
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        nominal = reaching_arm(Path(directory))
        ranges, hidden, models = drawn_arm(nominal), [], []
        for robot in range(robots):
            hidden.append(hide(nominal, draw_hidden(JOINTS, robot), f"hidden-{robot}"))
            models.append(fitted_arm(nominal, hidden[-1], robot))
        envs = {"nominal": [nominal], "fitted": models, "robot": hidden, "ranges": [ranges]}
        for seed, kind in itertools.product(range(seeds), envs):
            for number, env in enumerate(envs[kind]):
                start = time.process_time()
                policy = teacher(env, seed, steps, Path(directory) / f"{kind}-{number}-{seed}")
                head["cpu_s"][f"{kind} {number} {seed}"] = round(time.process_time() - start, 1)
                for on in range(robots) if len(envs[kind]) == 1 else [number]:
                    rounded = [round(metres, 5) for metres in distances(policy, hidden[on])]
                    lines.append({"trained": kind, "robot": on, "seed": seed, "distance_m": rounded})
                    print(kind, on, seed, f"{np.mean(rounded):.4f} m", flush=True)
                rows = ",\n".join(json.dumps(line) for line in lines)
                out.write_text(json.dumps(head)[:-1] + ', "policies": [\n' + rows + "\n]}\n")


def reach_table(path: Path) -> None:
    """Print the distance from the target for each kind of policy and robot, with 95 % intervals over policies."""
    policies = json.loads(path.read_text())["policies"]
    robots = sorted({policy["robot"] for policy in policies})
    print(f"| trained on | {' | '.join(f'robot {robot}' for robot in robots)} | all | 95 % interval |")
    print("|---|" + "---|" * (len(robots) + 2))
    means: dict[str, dict[tuple[int, int], float]] = {kind: {} for kind in NAMES}
    for policy in policies:
        means[policy["trained"]][policy["robot"], policy["seed"]] = float(np.mean(policy["distance_m"]))
    for kind, of_kind in means.items():
        cells = [1000 * np.mean([of_kind[key] for key in of_kind if key[0] == robot]) for robot in robots]
        low, high = 1000 * bootstrap(of_kind)
        texts = " | ".join(f"{cell:.0f}" for cell in [*cells, 1000 * np.mean(list(of_kind.values()))])
        print(f"| {NAMES[kind]} | {texts} | {low:.0f} to {high:.0f} |")
    for kind in ("nominal", "ranges", "robot"):
        less = {key: means[kind][key] - means["fitted"][key] for key in means["fitted"]}
        low, high = 1000 * bootstrap(less)
        wins = sum(value > 0 for value in less.values())
        print(
            f"\n{NAMES[kind]} less {NAMES['fitted']}: {1000 * np.mean(list(less.values())):+.0f} mm "
            f"({low:+.0f} to {high:+.0f}); {wins} of {len(less)} pairs of one robot and seed are above 0"
        )


def bootstrap(values: dict[tuple[int, int], float]) -> np.ndarray:
    """Return the 95 % interval of the mean (2,), by a bootstrap over robots and then over each robot's seeds."""
    rng, robots = np.random.default_rng(0), sorted({robot for robot, _ in values})
    by_robot = [[value for (of, _), value in values.items() if of == robot] for robot in robots]
    means = [
        np.mean([rng.choice(by_robot[i], len(by_robot[i])).mean() for i in rng.integers(0, len(robots), len(robots))])
        for _ in range(2000)
    ]
    return np.percentile(means, [2.5, 97.5])


def main() -> None:
    """Measure one robot, train policies, or print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("measure")
    command.add_argument("robot", choices=ROBOTS)
    command.add_argument("--draws", type=int, default=10)
    command.add_argument(
        "--noise", type=float, default=0.0005, help="of positions [rad]; velocities have 20 times that"
    )
    command.add_argument("--episodes", type=int, default=9)
    command.add_argument("--out", type=Path, required=True)
    commands.add_parser("table").add_argument("files", type=Path, nargs="+")
    policies = commands.add_parser("reach")
    for name, default in (("--robots", 3), ("--seeds", 2), ("--steps", 1_000_000)):
        policies.add_argument(name, type=int, default=default)
    policies.add_argument("--out", type=Path, required=True)
    commands.add_parser("reach-table").add_argument("file", type=Path)
    options = parser.parse_args()
    if options.command == "reach":
        return reach(options.robots, options.seeds, options.steps, options.out)
    if options.command == "reach-table":
        return reach_table(options.file)
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
