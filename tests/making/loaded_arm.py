"""A three-joint arm whose shoulder and elbow carry a load: their servos sag, and `Wrong` wires it wrongly.

It stands for an arm of somebody's own: yaw, shoulder and elbow [rad], with sensor noise, seen 20 times a second.
"""

from functools import cache

import gymnasium as gym
import numpy as np

from sami_runtime import Limits, ManualClock, check_adapter
from sami_runtime.adapters import Executed, Observation
from sami_runtime.model.contract import Contract
from sami_runtime.model.seen import Responses, Seen, Spread
from sami_train.envs import EnvironmentSpec, signal
from sami_train.export.seen import measure_responses

JOINTS = ["yaw", "shoulder", "elbow"]
HOME = np.array([0.2, 0.5, -0.7])
PERIOD_S, STEPS = 0.05, 10
STIFF, DAMP, INERTIA = 60.0, 12.0, 0.6
"""Of a servo [N m/rad, N m s/rad], and of what it moves [kg m^2]."""
GEAR = 8.0
"""Torque for an action of 1 [N m], where the action is a torque."""
REACH = 0.3
"""Displacement for an action of 1 [rad], where the action is a displacement from the measured angle."""


class Arm:
    """The arm itself.

    Args:
        kind: What an action of -1 to 1 is for each joint: `"position"`, an angle in units of 2 rad; `"displacement"`,
            from the measured angle, so that the arm creeps under its load; or `"torque"`, so that it falls.
        load: Mass at the tip [kg].
    """

    def __init__(self, kind, load=1.0):
        self.kind, self.load = kind, load
        self.place(HOME)

    def place(self, angles):
        """Rest at angles [rad]."""
        self.angles, self.speeds = np.array(angles, float), np.zeros(3)

    def gravity(self):
        """(3,) torques [N m]: 3 to 10 for shoulder and elbow, which sag by 0.05 to 0.15 rad under them."""
        _, shoulder, elbow = self.angles
        fore = 9.81 * (0.3 * self.load + 0.1) * np.cos(shoulder + elbow)
        return np.array([0.0, fore + 9.81 * (0.3 * self.load + 0.2) * np.cos(shoulder), fore])

    def step(self, action):
        """Let a period pass under an action (3,)."""
        target = {"position": 2.0 * action, "displacement": self.angles + REACH * action}.get(self.kind)
        for _ in range(STEPS):
            push = GEAR * action if target is None else STIFF * (target - self.angles)
            # The servo's damping is the motor's: a torque-driven joint has a fifth of it.
            damping = DAMP * self.speeds * (0.2 if target is None else 1.0)
            self.speeds = self.speeds + PERIOD_S / STEPS * (push - damping - self.gravity()) / INERTIA
            self.angles = self.angles + PERIOD_S / STEPS * self.speeds


class LoadedEnv(gym.Env):
    """The arm in the simulation that a policy would learn in."""

    metadata = {"render_modes": [], "render_fps": 20}  # noqa: RUF012 - as Gymnasium has it
    observation_space = gym.spaces.Box(-np.inf, np.inf, (6,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def __init__(self, kind="position"):
        self.arm = Arm(kind)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.arm.load = self.np_random.uniform(0.7, 1.3)
        self.arm.place(HOME + self.np_random.uniform(-0.1, 0.1, 3))
        return self._seen(), {}

    def step(self, action):
        self.arm.step(np.asarray(action, float))
        return self._seen(), 0.0, False, False, {}

    def _seen(self):
        return np.concatenate([self.arm.angles, self.arm.speeds])


def spec_of(kind):
    """The specification of that simulation."""
    return EnvironmentSpec.from_gymnasium(
        lambda: LoadedEnv(kind),
        signals=[signal("angles", "rad", elements=JOINTS), signal("speeds", "rad/s", elements=JOINTS)],
        action=signal("drive", elements=JOINTS),
        episode_steps=200,
    )


def responses_of(kind) -> Responses | None:
    """What answered to each joint in simulation, measured as `sami describe` does."""
    spec = spec_of(kind)
    return measure_responses(spec, spec.tasks.resolve("training"), starts=12)


class LoadedArm:
    """The adapter of the arm, wired wrongly on demand.

    Args:
        clock: Stamps observations; it advances by a period at each write, where `advance` is there.
        signals: (observation, action) of the model.
        kind: As of `Arm`.
        seed: Of noise and of where an episode begins.
        do: Makes what the drives get of an action (3,).
        see: Makes what is read of (angles, speeds), each (3,).
        noise: Deviation of the sensors [rad], [rad/s].
        load: Mass at the tip [kg], another one than in simulation.
    """

    def __init__(self, clock, signals, kind, seed=0, do=np.array, see=lambda *seen: seen, noise=0.002, load=1.2):
        self.observation, self.action = signals
        self._clock, self._do, self._see, self._noise = clock, do, see, noise
        self.arm, self._seed = Arm(kind, load), seed
        self._rng = np.random.default_rng(seed)
        self._home = HOME + self._rng.uniform(-0.05, 0.05, 3)
        self.written = []
        self.stops = 0
        self.resets = 0

    def reset(self, seed=None):
        """Go home, which is 0.05 rad off at most, to within 0.005 rad."""
        self.resets += 1
        self.arm.place(self._home + self._rng.uniform(-0.005, 0.005, 3))

    def read(self):
        """Angles and speeds, with noise."""
        seen = self._see(self.arm.angles, self.arm.speeds)
        angles, speeds = (part + self._noise * self._rng.standard_normal(3) for part in seen)
        values = {"angles": angles.astype(np.float32), "speeds": speeds.astype(np.float32)}
        return Observation(values, self._clock.now())

    def write(self, action):
        """Let a period pass."""
        self.written.append(np.array(action))
        self.arm.step(np.asarray(self._do(np.asarray(action, float)), float))
        return Executed(np.array(action, np.float32))

    def stop(self):
        """Stop."""
        self.stops += 1

    def close(self):
        """Nothing is open."""


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
"""By name: what is wired wrongly, which elements answer wrongly, and what the check must call it."""


@cache
def contract_of(kind):
    """A contract that states what answered in simulation; without a policy."""
    spec = spec_of(kind)
    spread = {"angles": Spread.of(HOME + np.eye(3)), "speeds": Spread.of(2.0 * np.eye(3))}
    report = Seen(
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
        seen=report,
        weights_sha256="0" * 64,
    )


def holding(kind):
    """The action at which the arm stays about where it begins, as limits give it."""
    arm = Arm(kind)
    rest = {
        "position": (HOME + arm.gravity() / STIFF) / 2.0,
        "displacement": np.zeros(3),
        "torque": arm.gravity() / GEAR,
    }[kind]
    return dict(zip(JOINTS, np.clip(rest, -0.9, 0.9).round(3).tolist(), strict=True))


def judged(kind, seed=0, limits=None, **wrong):
    """(fault, unproven) of the law of responses for an arm wired wrongly, and the arm."""
    contract, clock = contract_of(kind), ManualClock()
    arm = LoadedArm(clock, (contract.observation, contract.action), kind, seed, **wrong)
    limits = limits or Limits(rest=holding(kind))
    verdicts = check_adapter(arm, contract, clock, limits, ticks=3, excite=True)
    [verdict] = [verdict for verdict in verdicts if verdict.law.startswith("responds to each element")]
    return verdict.fault, verdict.unproven, arm


def outcome(kind, fault, seed):
    """What comes of a run: `"passed"`, `"not proven"`, refused for the `"right"` reason, or for an `"other"` one."""
    wrong, names, word = FAULTS.get(fault, ({}, [], ""))
    message, unproven, _ = judged(kind, seed, **wrong)
    if message:
        parts = message.split("; ")
        right = sorted(part.split(" moved ")[0] for part in parts) == sorted(names)
        return "right" if right and all(word in part for part in parts) else "other"
    return "not proven" if unproven else "passed"
