"""A three-joint arm whose shoulder and elbow servos sag under a load, with an adapter that can be wired wrongly.

It represents a user's own arm: yaw, shoulder and elbow [rad], with sensor noise, observed 20 times per second.
"""

from functools import cache

import gymnasium as gym
import numpy as np

from sami_runtime import Limits, ManualClock, check_adapter
from sami_runtime.adapters import Executed, Observation
from sami_runtime.model.contract import Contract
from sami_runtime.model.training_ranges import Responses, Spread, TrainingRanges
from sami_train.envs import EnvironmentSpec, signal
from sami_train.export.training_ranges import measure_responses

JOINTS = ["yaw", "shoulder", "elbow"]
HOME = np.array([0.2, 0.5, -0.7])
PERIOD_S, STEPS = 0.05, 10
STIFF, DAMP, INERTIA = 60.0, 12.0, 0.6
"""Stiffness [N m/rad] and damping [N m s/rad] of a servo, and the inertia that it moves [kg m^2]."""
GEAR = 8.0
"""Torque for an action of 1 [N m], if actions are torques."""
REACH = 0.3
"""Displacement for an action of 1 [rad], if actions are displacements from the measured angle."""


class Arm:
    """The simulated arm.

    Args:
        kind: Meaning of an action from -1 to 1 for each joint: `"position"`, an angle in units of 2 rad;
            `"displacement"` from the measured angle, so that the arm creeps under its load; `"torque"`: it falls.
        load: Mass at the tip [kg].
    """

    def __init__(self, kind, load=1.0):
        self.kind, self.load = kind, load
        self.place(HOME)

    def place(self, angles):
        """Put the arm at rest at angles (3,) [rad]."""
        self.angles, self.speeds = np.array(angles, float), np.zeros(3)

    def gravity(self):
        """Return torques (3,) [N m]: 3 to 10 for shoulder and elbow, which make them sag by 0.05 to 0.15 rad."""
        _, shoulder, elbow = self.angles
        fore = 9.81 * (0.3 * self.load + 0.1) * np.cos(shoulder + elbow)
        return np.array([0.0, fore + 9.81 * (0.3 * self.load + 0.2) * np.cos(shoulder), fore])

    def step(self, action):
        """Simulate one period under an action (3,)."""
        target = {"position": 2.0 * action, "displacement": self.angles + REACH * action}.get(self.kind)
        for _ in range(STEPS):
            push = GEAR * action if target is None else STIFF * (target - self.angles)
            # Most damping comes from the servo's control: a torque-driven joint has a fifth of it.
            damping = DAMP * self.speeds * (0.2 if target is None else 1.0)
            self.speeds = self.speeds + PERIOD_S / STEPS * (push - damping - self.gravity()) / INERTIA
            self.angles = self.angles + PERIOD_S / STEPS * self.speeds


class LoadedEnv(gym.Env):
    """The simulation of the arm in which a policy would be trained."""

    metadata = {"render_modes": [], "render_fps": 20}  # noqa: RUF012 - as Gymnasium has it
    observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, kind="position"):
        self.arm = Arm(kind)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.arm.load = self.np_random.uniform(0.7, 1.3)
        self.arm.place(HOME + self.np_random.uniform(-0.1, 0.1, 3))
        return self._observed(), {}

    def step(self, action):
        self.arm.step(np.asarray(action, float))
        return self._observed(), 0.0, False, False, {}

    def _observed(self):
        return np.concatenate([self.arm.angles, self.arm.speeds])


def spec_of(kind):
    """Return the specification of `LoadedEnv`."""
    return EnvironmentSpec.from_gymnasium(
        lambda: LoadedEnv(kind),
        signals=[signal("angles", "rad", elements=JOINTS), signal("speeds", "rad/s", elements=JOINTS)],
        action=signal("drive", elements=JOINTS),
        episode_steps=200,
    )


def responses_of(kind) -> Responses | None:
    """Return the responses to each joint's action in simulation, measured as `sami describe` does."""
    spec = spec_of(kind)
    return measure_responses(spec, spec.tasks.resolve("training"), starts=12)


class LoadedArm:
    """The adapter of the arm, which `do` and `see` can wire wrongly.

    Args:
        clock: Stamps observations.
        signals: (observation, action) of the model.
        kind: See `Arm`.
        seed: Of the noise and of the home pose.
        do: Maps an action (3,) to the drives' command (3,).
        see: Maps (angles, speeds), each (3,), to the sensors' values.
        noise: Standard deviation of the sensors' noise [rad], [rad/s].
        load: Mass at the tip [kg], different from the simulation's.
    """

    def __init__(self, clock, signals, kind, seed=0, do=np.array, see=lambda *parts: parts, noise=0.002, load=1.2):
        self.observation, self.action = signals
        self._clock, self._do, self._see, self._noise = clock, do, see, noise
        self.arm, self._seed = Arm(kind, load), seed
        self._rng = np.random.default_rng(seed)
        self._home = HOME + self._rng.uniform(-0.05, 0.05, 3)
        self.written = []
        self.stops = 0
        self.resets = 0

    def reset(self, seed=None):
        """Go to within 0.005 rad of this arm's home, which is within 0.05 rad of `HOME`."""
        self.resets += 1
        self.arm.place(self._home + self._rng.uniform(-0.005, 0.005, 3))

    def read(self):
        """Return the angles and speeds, with noise."""
        readings = self._see(self.arm.angles, self.arm.speeds)
        angles, speeds = (part + self._noise * self._rng.standard_normal(3) for part in readings)
        values = {"angles": angles.astype(np.float32), "speeds": speeds.astype(np.float32)}
        return Observation(values, self._clock.now())

    def write(self, action):
        """Apply an action (3,) for one period."""
        self.written.append(np.array(action))
        self.arm.step(np.asarray(self._do(np.asarray(action, float)), float))
        return Executed(np.array(action, np.float32))

    def stop(self):
        """Count a stop."""
        self.stops += 1

    def close(self):
        """Do nothing: the arm has nothing to close."""


KINDS = ("position", "displacement", "torque")


def _times(joint, factor):
    factors = np.ones(3)
    factors[joint] = factor
    return lambda action: action * factors


def _swapped(first, second):
    order = [0, 1, 2]
    order[first], order[second] = second, first
    return lambda action: action[order]


FAULTS = {
    **{f"{name} flipped": ({"do": _times(at, -1)}, [name], "flipped") for at, name in enumerate(JOINTS)},
    **{f"{name} dead": ({"do": _times(at, 0)}, [name], "dead") for at, name in enumerate(JOINTS)},
    **{f"{name} 57.3 times": ({"do": _times(at, 57.3)}, [name], "scale") for at, name in enumerate(JOINTS)},
    **{f"{name} 1/57.3 times": ({"do": _times(at, 1 / 57.3)}, [name], "scale") for at, name in enumerate(JOINTS)},
    **{f"{name} 5 times": ({"do": _times(at, 5)}, [name], "scale") for at, name in enumerate(JOINTS)},
    **{
        f"{JOINTS[a]} and {JOINTS[b]} swapped": ({"do": _swapped(a, b)}, [JOINTS[a], JOINTS[b]], "swapped")
        for a, b in ((0, 1), (0, 2), (1, 2))
    },
}
"""Faults by name: arguments of `LoadedArm`, elements that respond wrongly, and the word that the check must use."""


@cache
def contract_of(kind):
    """Return a contract with the responses in simulation, without a policy."""
    spec = spec_of(kind)
    spread = {"angles": Spread.of(HOME + np.eye(3)), "speeds": Spread.of(2.0 * np.eye(3))}
    report = TrainingRanges(
        measured="by the tests",
        steps=3,
        episodes=1,
        signals={**spread, "drive": Spread.of(np.eye(3))},
        begin=spread,
        responses=responses_of(kind),
    )
    return Contract(
        name=f"loaded-{kind}",
        rate_hz=1 / PERIOD_S,
        observation=spec.signals,
        action=spec.action,
        episode_steps=200,
        training={},
        training_ranges=report,
        weights_sha256="0" * 64,
    )


def holding(kind):
    """Return the action that holds the arm near its home, by joint, in the form of `Limits.rest`."""
    arm = Arm(kind)
    rest = {
        "position": (HOME + arm.gravity() / STIFF) / 2.0,
        "displacement": np.zeros(3),
        "torque": arm.gravity() / GEAR,
    }[kind]
    return dict(zip(JOINTS, np.clip(rest, -0.9, 0.9).round(3).tolist(), strict=True))


def verdict_of(kind, seed=0, limits=None, **wrong):
    """Return the fault and the unproven part that the check of responses reports for an arm, and the arm."""
    contract, clock = contract_of(kind), ManualClock()
    arm = LoadedArm(clock, (contract.observation, contract.action), kind, seed, **wrong)
    limits = limits or Limits(rest=holding(kind))
    verdicts = check_adapter(arm, contract, clock, limits, ticks=3, excite=True)
    [verdict] = [verdict for verdict in verdicts if verdict.law.startswith("responds to each element")]
    return verdict.fault, verdict.unproven, arm


def outcome(kind, fault, seed):
    """Return the check's outcome: `"passed"`, `"not proven"`, or a fault for the `"right"` or an `"other"` reason."""
    wrong, names, word = FAULTS.get(fault, ({}, [], ""))
    message, unproven, _ = verdict_of(kind, seed, **wrong)
    if message:
        parts = message.split("; ")
        right = sorted(part.split(" moved ")[0] for part in parts) == sorted(names)
        return "right" if right and all(word in part for part in parts) else "other"
    return "not proven" if unproven else "passed"
