"""`sami audit` on a log that the test writes itself: a body that tumbles, four joints that swing."""

from pathlib import Path

import numpy as np
import pytest

from sami_runtime import Run, Session
from sami_runtime.adoption.audit import audit
from sami_runtime.adoption.log import PolicyLog, read_arrays, read_log
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import SamiError, SignalError

JOINTS = ("left_hip", "left_knee", "right_hip", "right_knee")
POSE = np.array([0.1, -1.2, 0.2, -1.3])
STEPS, RATE = 400, 50.0
BODY = [("gyro", 3, 0.25), ("gravity", 3, 1.0), ("command", 2, 2.0)]


def recipe(**changes):
    signals, at = [], 0
    for name, size, scale in [*BODY, ("joint_positions", 4, 1.0), ("joint_velocities", 4, 0.05)]:
        elements = list(JOINTS) if size == 4 else list("xyz"[:size])
        signals.append({"name": name, "unit": "1", "elements": elements, "slice": [at, at + size], "scale": scale})
        at += size
    signals[3]["offset"] = POSE.tolist()
    action = {"name": "targets", "unit": "rad", "elements": list(JOINTS), "meaning": "targets", "scale": 0.25}
    fields = {
        "name": "walker",
        "rate_hz": RATE,
        "input": "obs",
        "output": "actions",
        "signals": signals,
        "last_action": {"slice": [at, at + 4], "kind": "raw"},
        "action": action | {"default": POSE.tolist()},
    }
    return Recipe.parse(fields | changes, "the test")


def turned(quaternion, vector, inverse=False):
    """Rotate by the matrix of a quaternion (w first), written out here once more."""
    rows = []
    for w, x, y, z in quaternion:
        rows.append(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
    matrices = np.array(rows)
    return np.einsum("tji,tj->ti" if inverse else "tij,tj->ti", matrices, vector)


class Robot:
    """Raw signals, and the parts of a right observation."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        time = np.arange(STEPS) / RATE

        def swing(size, slow=1.0):
            waves = [
                np.sin(2 * np.pi * rng.uniform(0.3, 1.5, size) * slow * time[:, None] + rng.uniform(0, 6, size))
                for _ in range(3)
            ]
            return sum(waves) / 2

        quaternion = swing(4, 0.5) + np.array([2.0, 0, 0, 0])
        quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
        self.actions = swing(4)
        self.targets = POSE + 0.25 * np.clip(self.actions, -0.8, 0.8)
        self.raw = {
            "quaternion": quaternion,
            "angular_velocity": swing(3),
            "command": swing(2),
            "joint_positions": POSE + swing(4) * 0.4,
            "joint_velocities": swing(4) * 5,
            "actions": self.actions,
            "targets": self.targets,
        }
        down = np.tile([0, 0, -1.0], (STEPS, 1))
        self.parts = {
            "gyro": self.raw["angular_velocity"] * 0.25,
            "gravity": turned(quaternion, down, inverse=True),
            "command": self.raw["command"] * 2,
            "joint_positions": self.raw["joint_positions"] - POSE,
            "joint_velocities": self.raw["joint_velocities"] * 0.05,
            "last_action": self.late(self.actions),
        }

    @staticmethod
    def late(value, steps=1):
        return np.concatenate([np.zeros_like(value[:steps]), value[:-steps]])

    def applied(self):
        return self.late((self.targets - POSE) / 0.25)

    def log(self, path, noise=0.0, **arrays):
        rng = np.random.default_rng(1)
        parts = {name: value + noise * value.std() * rng.normal(size=value.shape) for name, value in self.parts.items()}
        np.savez(path, obs=np.concatenate(list(parts.values()), 1).astype(np.float32), **self.raw, **arrays)
        return read_arrays(path, JOINTS)


def world(r):
    return turned(r.raw["quaternion"], r.raw["angular_velocity"]) * 0.25


def misread(r):
    down = np.tile([0, 0, -1.0], (STEPS, 1))
    return turned(r.raw["quaternion"][:, [3, 0, 1, 2]], down, inverse=True)


MIRROR = [2, 3, 0, 1]
BUGS = {
    "a gyro in the world's frame": ("gyro", world, ("frame",)),
    "a gyro in degrees": ("gyro", lambda r: r.parts["gyro"] * 180 / np.pi, ("degrees",)),
    "a gyro without its scale": ("gyro", lambda r: r.parts["gyro"] * 4, ("scale",)),
    "a gyro with a factor of its own": ("gyro", lambda r: r.parts["gyro"] * 1.7, ("scale",)),
    "gravity upside down": ("gravity", lambda r: -r.parts["gravity"], ("sign",)),
    "a quaternion in another order": ("gravity", misread, ("quaternion order",)),
    "commands in another order": ("command", lambda r: r.parts["command"][:, ::-1], ("permutation",)),
    "an ignored command": ("command", lambda r: 0 * r.parts["command"], ("ignored",)),
    "a missing default pose": ("joint_positions", lambda r: r.raw["joint_positions"], ("default pose",)),
    "swapped legs": (
        "joint_positions",
        lambda r: r.raw["joint_positions"][:, MIRROR] - POSE,
        ("swapped sides",),
    ),
    "legs swapped after the default pose": (
        "joint_positions",
        lambda r: r.parts["joint_positions"][:, MIRROR],
        ("swapped sides",),
    ),
    "another joint order": (
        "joint_velocities",
        lambda r: r.parts["joint_velocities"][:, [1, 2, 3, 0]],
        ("permutation",),
    ),
    "one joint the wrong way round": (
        "joint_velocities",
        lambda r: r.parts["joint_velocities"] * [1, -1, 1, 1],
        ("sign",),
    ),
    "a joint with an offset": ("joint_positions", lambda r: r.parts["joint_positions"] + [0, 0.2, 0, 0], ("offset",)),
    "joints one step late": ("joint_positions", lambda r: r.late(r.parts["joint_positions"]), ("lag",)),
    "velocities by difference": (
        "joint_velocities",
        lambda r: np.diff(r.raw["joint_positions"], axis=0, prepend=0) * RATE * 0.05,
        ("difference",),
    ),
    "an applied last action": ("last_action", lambda r: r.applied(), ("last action",)),
    "a last action of the step before": ("last_action", lambda r: r.late(r.actions, 2), ("lag",)),
    "a last action that nobody sets": ("last_action", lambda r: 0 * r.actions, ("ignored",)),
}


def blamed(result):
    return {verdict.term: verdict.kinds for verdict in result.verdicts if verdict.status == "fault"}


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_gets_its_name_and_no_other_term_is_blamed(tmp_path, bug, noise):
    term, change, kinds = BUGS[bug]
    robot = Robot()
    robot.parts[term] = change(robot)
    result = audit(recipe(), robot.log(tmp_path / "log.npz", noise))
    assert blamed(result) == {term: kinds}
    assert not result.passed
    verdict = next(verdict for verdict in result.verdicts if verdict.term == term)
    assert verdict.advice
    assert verdict.after < verdict.before


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_a_right_log_raises_no_alarm(tmp_path, seed, noise):
    result = audit(recipe(), Robot(seed).log(tmp_path / "log.npz", noise))
    assert blamed(result) == {}
    assert result.passed


def test_what_no_bug_explains_is_called_unknown(tmp_path):
    robot = Robot()
    robot.parts["gyro"] = np.random.default_rng(0).normal(size=(STEPS, 3))
    assert blamed(audit(recipe(), robot.log(tmp_path / "log.npz"))) == {"gyro": ("unknown",)}


def test_a_log_that_cannot_tell_two_frames_apart_says_so(tmp_path):
    robot = Robot()
    robot.raw["quaternion"] = np.tile([1.0, 0, 0, 0], (STEPS, 1))
    robot.parts["gravity"] = np.tile([0, 0, -1.0], (STEPS, 1))
    result = audit(recipe(), robot.log(tmp_path / "log.npz"))
    gyro = next(verdict for verdict in result.verdicts if verdict.term == "gyro")
    assert gyro.status == "ok"
    assert "frame" in gyro.alternatives
    assert "this log cannot exclude: frame" in str(result)


def test_a_term_without_its_raw_signal_is_skipped(tmp_path):
    robot = Robot()
    del robot.raw["quaternion"]
    result = audit(recipe(), robot.log(tmp_path / "log.npz"))
    assert {verdict.term: verdict.status for verdict in result.verdicts}["gravity"] == "skipped"


def test_targets_without_the_default_pose_are_named(tmp_path):
    robot = Robot()
    robot.raw["targets"] = 0.25 * robot.actions
    assert blamed(audit(recipe(), robot.log(tmp_path / "log.npz"))) == {"action": ("default pose",)}


def test_joints_of_the_log_are_sorted_by_their_names(tmp_path):
    robot = Robot()
    order = [3, 1, 0, 2]
    for name in ("joint_positions", "joint_velocities"):
        robot.raw[name] = robot.raw[name][:, order]
    names = np.array([f"{JOINTS[i]}_joint" for i in order])
    assert blamed(audit(recipe(), robot.log(tmp_path / "log.npz", joints=names))) == {}


def test_the_first_steps_of_an_episode_are_not_compared_with_the_one_before(tmp_path):
    robot = Robot()
    robot.parts["last_action"][200] = 0
    log = robot.log(tmp_path / "log.npz", episode=np.repeat([0, 1], 200))
    assert blamed(audit(recipe(), log)) == {}


@pytest.mark.parametrize(("first", "expected"), [("oldest", {}), ("newest", {"gyro": ("history order",)})])
def test_a_history_stacked_the_other_way_round_is_named(tmp_path, first, expected):
    robot = Robot()
    gyro = robot.parts["gyro"]
    robot.parts["gyro"] = np.concatenate([robot.late(gyro, 2), robot.late(gyro), gyro], 1)  # the oldest comes first
    document = recipe().model_dump(mode="json")
    for signal in document["signals"]:
        signal["slice"] = [at + 6 for at in signal["slice"]]
    document["signals"][0] |= {"slice": [0, 9], "history": {"steps": 3, "first": first, "start": "zero"}}
    document["last_action"]["slice"] = [at + 6 for at in document["last_action"]["slice"]]
    assert blamed(audit(Recipe.parse(document, "the test"), robot.log(tmp_path / "log.npz"))) == expected


def recorded(moves=1.0):
    """Raw signals of a recording, without what the network was fed: joints follow their targets, a step behind."""
    targets = POSE + moves * (Robot().targets - POSE)
    positions = np.concatenate([targets[:1], targets[:-1]]) + 0.003 * np.random.default_rng(2).normal(size=(STEPS, 4))
    velocities = np.gradient(positions, 1 / RATE, axis=0)
    return {"joint_positions": positions, "joint_velocities": velocities, "targets": targets}


RECORDED = {
    "right": ("joint_positions", lambda v: v, {}),
    "angles in degrees": ("joint_positions", lambda v: np.degrees(v), {"joint_positions": ("degrees",)}),
    "rates in degrees": ("joint_velocities", lambda v: np.degrees(v), {"joint_velocities": ("degrees",)}),
    "rates the wrong way round": ("joint_velocities", lambda v: -v, {"joint_velocities": ("sign",)}),
    "rates of the other leg": ("joint_velocities", lambda v: v[:, MIRROR], {"joint_velocities": ("swapped sides",)}),
}


@pytest.mark.parametrize("bug", RECORDED)
def test_the_signals_of_a_recording_are_compared_with_each_other(bug):
    name, change, kinds = RECORDED[bug]
    raw = recorded()
    raw[name] = change(raw[name])
    result = audit(recipe(), PolicyLog(Path("run.mcap"), raw, None, np.arange(STEPS)))
    verdicts = {verdict.term: verdict for verdict in result.verdicts}
    assert verdicts[name].kinds == kinds.get(name, ()), str(result)
    assert {verdicts[term].status for term in ("gyro", "gravity", "command")} == {"skipped"}


def test_a_recording_of_a_robot_that_stands_raises_no_alarm():
    raw = recorded(moves=0.0)
    raw["targets"] = raw["targets"] + 0.2 * Robot().actions  # the ground holds the feet, whatever is asked
    raw["joint_positions"] -= POSE
    raw["targets"] -= POSE
    result = audit(recipe(), PolicyLog(Path("run.mcap"), raw, None, np.arange(STEPS)))
    assert blamed(result) == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": np.zeros((STEPS, 3))}, "obs has 3 numbers a row; the recipe of walker gives 20"),
        ({"quaternion": np.zeros((STEPS, 3))}, "quaternion has 3 numbers a row; expected 4"),
        ({"command": np.zeros((3, 2))}, "command has type float64 and shape (3, 2); expected 400 rows"),
        ({"obs": np.zeros((STEPS, 2, 20))}, "obs has type float64 and shape (400, 2, 20); expected rows (T, D)"),
        ({"joints": np.array([*JOINTS, "tail"])}, "joint_positions has 4 numbers a row; expected 5"),
        ({"joints": np.array("left_hip")}, "joints lacks left_knee, right_hip, right_knee"),
        ({"command": np.full((STEPS, 2), np.nan)}, "command is not finite in row 0"),
        ({"obs": np.float32(3.0)}, "obs has type float32 and shape (); expected rows (T, D)"),
        ({"joints": np.array(["left_hip"])}, "joints lacks left_knee, right_hip, right_knee"),
    ],
)
def test_a_wrong_log_gets_one_line(tmp_path, change, message):
    robot = Robot()
    arrays = {"obs": np.concatenate(list(robot.parts.values()), 1), **robot.raw, **change}
    np.savez(tmp_path / "log.npz", **arrays)
    with pytest.raises(SignalError) as caught:
        audit(recipe(), read_arrays(tmp_path / "log.npz", JOINTS))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no archive"])
def test_a_file_that_is_no_log_gets_one_line(tmp_path, data):
    (tmp_path / "log.npz").write_bytes(data)
    with pytest.raises(SignalError, match="cannot be read"):
        read_arrays(tmp_path / "log.npz", JOINTS)


def test_a_recording_of_another_policy_is_refused(path, arm, tmp_path):
    with Run(Session.load(path), arm(), simulator=True, record=tmp_path / "run.mcap") as run:
        run.episode(seed=0)
    contract = run.session.contract
    assert len(read_log(tmp_path / "run.mcap", contract)) == contract.episode_steps
    other = contract.model_copy(update={"observation": contract.observation[:1]})
    with pytest.raises(SamiError, match="does not fit policy 'tiny': it also has goal"):
        read_log(tmp_path / "run.mcap", other)
