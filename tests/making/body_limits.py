"""Sends random commands through `BodyLimits` to three simulated robots, and measures by how much they exceed limits.

    python -m tests.making.body_limits COMMANDS SEED [ROBOT ...]     # prints one JSON object a robot

The simulated joints and motors have no limits themselves (except those of the own arm), so that only `BodyLimits`
restricts them. Every step of the simulation is judged, also the steps within a period.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.body_cost import GO2, PANDA, SHAPES
from sami_runtime.robots.body import BodyLimits, BodySettings
from sami_runtime.robots.body.geometry import by_hand

ROOT = Path(__file__).parents[2]
ACCELERATION = 10.0
"""Largest acceleration of the own arm's drives [rad/s^2]."""
HOLDS = (1, 1, 1, 2, 5, 20)
"""Numbers of periods for which a random command is repeated."""
ARM = PANDA | SHAPES | {"points": {"panda_hand": {"most": 1.7}}}
BODIES = {
    "panda": ARM | {"command": "joint_positions"},
    "go2": GO2
    | {"collision": {"margin": 0.06}, "points": {f"{leg}_calf": {"most": 5.0} for leg in ("FR", "FL", "RR", "RL")}},
}


class Servo:
    """A gravity-compensated Panda whose joints follow targets, which move linearly within a period."""

    period = 0.02

    def __init__(self) -> None:
        import mujoco

        self._mujoco = mujoco
        spec = mujoco.MjSpec.from_file(PANDA["model"])
        for body in spec.bodies:
            body.gravcomp = 1.0
        for name in PANDA["joints"]:
            joint = spec.joint(name)
            joint.limited, joint.armature = 0, 1.0
            motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            motor.set_to_position(kp=40000.0, kv=800.0)
        for geom in spec.geoms:
            geom.contype = geom.conaffinity = 0
        spec.option.timestep, spec.option.integrator = 0.002, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self._at = [self.model.joint(name).qposadr[0] for name in PANDA["joints"]]
        self._dof = [self.model.joint(name).dofadr[0] for name in PANDA["joints"]]
        self.data.qpos[self._at] = self.data.ctrl[:] = PANDA["home"]
        self.torques = None

    @property
    def positions(self):
        return self.data.qpos[self._at]

    @property
    def velocities(self):
        return self.data.qvel[self._dof]

    def steps(self, command):
        start = self.data.ctrl.copy()
        for share in np.linspace(0.1, 1.0, 10):
            self.data.ctrl[:] = start + share * (command - start)
            self._mujoco.mj_step(self.model, self.data)
            yield


class Hanging:
    """A Go2 whose trunk hangs on a stand, with its own motors but without their torque limits."""

    period = 0.02

    def __init__(self) -> None:
        import mujoco

        self._mujoco = mujoco
        spec = mujoco.MjSpec.from_file(GO2["model"])
        spec.delete(spec.joint("base"))
        for key in list(spec.keys):
            spec.delete(key)
        for motor in spec.actuators:
            motor.forcerange = (-1000.0, 1000.0)
        for joint in spec.joints:
            joint.limited = 0
        for geom in spec.geoms:
            geom.contype = geom.conaffinity = 0
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = self.data.ctrl[:] = [0.0, 0.8, -1.5] * 4

    @property
    def positions(self):
        return self.data.qpos

    @property
    def velocities(self):
        return self.data.qvel

    @property
    def torques(self):
        return self.data.actuator_force

    def steps(self, command):
        self.data.ctrl[:] = command
        for _ in range(4):
            self._mujoco.mj_step(self.model, self.data)
            yield


class IdealArm:
    """A Panda without dynamics: it steps to targets within a period, or changes its speeds by the acceleration."""

    period, torques = 0.02, None

    def __init__(self, body, acceleration):
        self.kind, self.geometry, self.change = body.settings.command, body.geometry, acceleration * self.period / 4
        self.positions, self.velocities = np.array(body.geometry.home), np.zeros(7)

    def steps(self, command):
        start, step = self.positions, self.period / 4
        for share in (0.25, 0.5, 0.75, 1.0):
            before, speeds = self.positions, command
            if self.kind == "joint_positions":
                self.positions = start + share * (command - start)
                self.velocities = (self.positions - before) / step
            else:
                if self.kind == "hand":
                    jacobian = self.geometry.jacobian(before, self.geometry.require_place("panda_hand"))
                    speeds = by_hand(jacobian) @ command
                change = (speeds - self.velocities).clip(-self.change, self.change)
                self.positions = before + step * (self.velocities + change / 2)
                self.velocities = self.velocities + change
            yield


class OwnArm:
    """The arm of examples/own_arm in PyBullet, with joint velocities at 100 Hz; its joints do have limits."""

    period, torques = 0.01, None

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "examples" / "own_arm"))
        import robot

        self._tick = robot.TICK_S / robot.STEP_S
        self._target = np.zeros(7)
        self.arm = robot.Arm({"mass": 1.0, "friction": 1.0})
        self.arm.engine.resetBasePositionAndOrientation(
            self.arm.bodies["object"], [9.0, 9.0, 9.0], [0.0, 0.0, 0.0, 1.0]
        )
        self._read()

    def _read(self):
        states = self.arm.engine.getJointStates(self.arm.bodies["panda"], range(7))
        self.positions, self.velocities = (np.array([state[at] for state in states]) for at in (0, 1))

    def steps(self, command):
        change = ACCELERATION * self.period  # the drives of an arm ramp the velocity
        self._target += (command - self._target).clip(-change, change)
        self.arm.go(self._target.tolist(), 255.0)
        for _ in range(round(self._tick)):
            self.arm.engine.stepSimulation()
            self._read()
            yield


def own_arm_body():
    import pybullet_data

    urdf = f"{pybullet_data.getDataPath()}/franka_panda/panda.urdf"
    return ARM | {
        "command": "joint_velocities",
        "model": urdf,
        "acceleration": ACCELERATION,
        "boxes": {
            "table": {"low": [-0.3, -0.4, -0.4], "high": [0.9, 0.4, 0.0]},
            "floor": {"low": [-2.0, -2.0, -0.9], "high": [2.0, 2.0, -0.4]},
        },
        "collision": {"margin": 0.02, "ignore": [["panda_link0", "table"]]},
    }


ROBOTS = {"panda": Servo, "go2": Hanging, "own arm": OwnArm}


def drive(name, commands, seed):
    """Return the largest excess of each limit under random commands, relative except for positions and overlap."""
    body = BodyLimits(BodySettings.of(own_arm_body() if name == "own arm" else BODIES[name]))
    robot, rng = ROBOTS[name](), np.random.default_rng(seed)
    places = [body.geometry.require_place(point) for point in body.settings.points]
    worst = {"position": 0.0, "velocity": 0.0, "torque": 0.0, "point": 0.0, "overlap": 0.0}
    limited, remaining = 0, 0
    spread = np.minimum(body.high, 4.0) - np.maximum(body.low, -4.0)
    middle = (np.minimum(body.high, 4.0) + np.maximum(body.low, -4.0)) / 2
    for _ in range(commands):
        if not remaining:
            remaining = int(rng.choice(HOLDS))
            wild = rng.uniform(-1.0, 1.0, len(spread))
            command = 2.0 * body.velocity * wild if name == "own arm" else middle + spread * wild
        remaining -= 1
        ruling = body.limit(command, robot.positions, robot.velocities, robot.period)
        limited += bool(ruling.limited_by)
        for _ in robot.steps(ruling.command):
            positions, velocities = robot.positions, robot.velocities
            off = np.maximum(body.low - positions, positions - body.high)
            worst["position"] = max(worst["position"], float(off.max()))
            worst["velocity"] = max(worst["velocity"], float((abs(velocities) / body.velocity).max()) - 1)
            if robot.torques is not None:
                worst["torque"] = max(worst["torque"], float((abs(robot.torques) / body.torque).max()) - 1)
        speeds = body.geometry.speeds(robot.positions, robot.velocities, robot.velocities, places)
        most = [point.most for point in body.settings.points.values()]
        worst["point"] = max(worst["point"], *(speed / limit - 1 for speed, limit in zip(speeds, most, strict=True)))
        worst["overlap"] = max(worst["overlap"], -body.geometry.clearance(robot.positions).distance)
    return {"commands": commands, "limited": limited, **{key: round(float(value), 4) for key, value in worst.items()}}


if __name__ == "__main__":
    count, seed, *names = sys.argv[1:]
    for name in names or ROBOTS:
        print(json.dumps({"robot": name, **drive(name, int(count), int(seed))}), flush=True)
