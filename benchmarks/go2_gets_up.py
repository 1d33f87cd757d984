"""Counts how often a simulated Go2 that was damped in motion gets up, directly and by the adapter's way.

    python benchmarks/go2_gets_up.py [--robots 200]

Each robot is dropped from a stance that is bent, turned and in motion at random, and its motors are damped until it
rests. Then the same robot rises twice: straight to the stance, and by the adapter's `way_up`. A robot that
rests on its back or side does not count. Physics as in examples/unitree/robot.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np

from sami_runtime.robots.kit.motion import eased
from sami_runtime.robots.unitree.adapter import LYING_DEG, way_up
from sami_runtime.robots.unitree.settings import UnitreeSettings
from sami_train.envs.go2 import entry

MODEL = Path(__file__).resolve().parents[1] / "sami_train" / "envs" / "go2" / "go2.xml"
HZ, SUNK_S, UPRIGHT_S = 200, 4.0, 0.5
STANCE = np.array(entry.STANCE)
BENT, TURNED = np.array([0.3, 0.6, 0.6] * 4), 0.3
"""Largest distance of a joint from the stance, and of the trunk from level about two axes [rad]."""
MOVING, SWINGING = 0.5, 3.0
"""Largest velocity of the trunk [m/s] along each axis and of a joint [rad/s]."""
STANDING_M = 0.25
SETTINGS = UnitreeSettings()


def drive(data: mujoco.MjData, angles: np.ndarray, kp: float, kd: float, seconds: float, after: float = 0.0) -> float:
    """Move the joints to a pose and hold them; return the trunk's largest tilt on the way [deg]."""
    model, start, largest = data.model, data.qpos[7:].copy(), 0.0
    model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1], model.actuator_biasprm[:, 2] = kp, -kp, -kd
    for step in range(round(HZ * (seconds + after))):
        data.ctrl[:] = start + eased(step / HZ / seconds) * (angles - start)
        mujoco.mj_step(model, data)
        largest = max(largest, tilt(data))
    return largest


def tilt(data: mujoco.MjData) -> float:
    """Return the trunk's tilt [deg]."""
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, data.qpos[3:7])
    return float(np.degrees(np.arccos(np.clip(turn[8], -1.0, 1.0))))


def collapsed(model: mujoco.MjModel, rng: np.random.Generator) -> mujoco.MjData:
    """Return a robot at rest after its motors were damped in motion."""
    data = mujoco.MjData(model)
    data.qpos[:3] = 0.0, 0.0, 0.32
    mujoco.mju_euler2Quat(data.qpos[3:7], np.array([*rng.uniform(-TURNED, TURNED, 2), 0.0]), "xyz")
    data.qpos[7:] = STANCE + rng.uniform(-1.0, 1.0, 12) * BENT
    data.qvel[:3], data.qvel[6:] = rng.uniform(-MOVING, MOVING, 3), rng.uniform(-SWINGING, SWINGING, 12)
    drive(data, STANCE, 0.0, SETTINGS.damp_kd, SUNK_S)
    return data


def gets_up(data: mujoco.MjData, way: Sequence[np.ndarray]) -> bool:
    """Return whether a robot stands after its joints went through the poses, and did not tip over on the way."""
    gains = SETTINGS.stand_kp, SETTINGS.stand_kd, SETTINGS.stand_s
    *poses, stance = way
    tilts = [*(drive(data, pose, *gains) for pose in poses), drive(data, stance, *gains, UPRIGHT_S)]
    return max(tilts) < SETTINGS.fallen_deg and data.qpos[2] > STANDING_M


def main() -> None:
    """Print how many get up, by how far they are tilted at rest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--robots", type=int, default=200, help="how many are dropped (200)")
    model = mujoco.MjModel.from_xml_path(str(MODEL))
    model.opt.timestep, model.actuator_ctrllimited[:] = 1.0 / HZ, 0
    rows = []
    for seed in range(parser.parse_args().robots):
        robot, twin = collapsed(model, np.random.default_rng(seed)), mujoco.MjData(model)
        if (degrees := tilt(robot)) < SETTINGS.fallen_deg:
            twin.qpos, twin.qvel = robot.qpos, robot.qvel
            straight, way = gets_up(twin, [STANCE]), way_up(robot.qpos[7:], STANCE)
            rows.append((degrees <= LYING_DEG, straight, gets_up(robot, way)))
    print("| tilt at rest | robots | get up straight | get up as the adapter has it |\n|---|---|---|---|")
    for title, flat in ((f"up to {LYING_DEG:g} degrees", True), ("more", False)):
        outcomes = [row[1:] for row in rows if row[0] is flat]
        print(
            f"| {title} | {len(outcomes)} | {' | '.join(str(sum(column)) for column in zip(*outcomes, strict=True))} |"
        )


if __name__ == "__main__":
    main()
