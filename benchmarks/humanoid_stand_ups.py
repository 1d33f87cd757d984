"""Stand-ups of the humanoid that a planner finds, and an environment in which a teacher learns from them.

From lying, SAC learns to sit: sitting pays at once, and a robot that tries to get up falls first. In the environment
below, most episodes begin upright or along a planned way up, so that the critic sees what lies above sitting, and a
fall ends them (reference state initialisation and early termination: Peng et al., DeepMimic, 2018). The teacher's
actions are targets of the joints, and walking pays, because feet that are spheres cannot stand still. Its simulation is
coarser and faster than the robot's own. A policy of `humanoid-standup` begins as the teacher's student:

    python -m benchmarks.humanoid_stand_ups results/humanoid-stand-ups/states.npz
    sami teach --env benchmarks.humanoid_stand_ups:SPEC --out runs/teacher
    sami distil --teacher runs/teacher --env benchmarks.humanoid_stand_ups:SPEC --out runs/student
    sami train --env humanoid-standup --init runs/student --method satesac ...

The planner samples controls over the next 0.72 s in the coarser simulation, keeps the best eight, and executes their
weighted mean in the robot's own; its cost asks for a high head, an upright trunk and a centre of mass over the feet. It
plans one robot, of mass and damping 1.
"""

import dataclasses
import json
import sys
from pathlib import Path

import mujoco
import numpy as np
import safetensors.torch
from gymnasium import spaces
from mujoco import rollout
from numpy.typing import NDArray

from sami_train.envs.catalog import environment
from sami_train.envs.mujoco.batch import TeacherRows
from sami_train.envs.mujoco.env import MODELS, UNSTABLE, Robot
from sami_train.envs.mujoco.table import find_row
from sami_train.studies.teacher.policy import PrivilegedPolicy
from sami_train.studies.teacher.teacher import FILE, METADATA, read_teacher, tensors_of
from sami_train.studies.teacher.vector import ACTION_SCALE

RESULTS = Path(__file__).parents[1] / "results" / "humanoid-stand-ups"
STATES, KNEELING_TEACHER = (RESULTS / "states.npz", RESULTS / "rises.npz"), RESULTS / "teacher"
"""States of the plans and of benchmarks/humanoid_rises.py, and the teacher that gets from lying to its knees."""
ROBOT = Robot(find_row("humanoid-standup"), {})
"""The robot of the plans, of mass and damping 1."""
SUBSTEPS = 2
"""Simulation steps for each action of 0.015 s, in plans and in training."""

PLANS, PLAN_STEPS = range(12), 240
"""Seeds of the plans, and their steps."""
SAMPLES, HORIZON, KNOTS, ELITES, REPLAN_STEPS = 96, 48, 8, 8, 2
"""Samples of a plan, its steps, its knots, how many samples are averaged, and steps between two plans."""
HEAD_ABOVE_FEET, HEAD_ABOVE_GROUND = 1.35, 1.3
"""Heights of the head [m] that a plan strives for."""
SIGMA, LIMIT = 0.16, ROBOT.body.limit
"""Standard deviation of the sampled controls, and their largest value."""
KNEES, FEET = 0.6, 0.9
"""Height of the torso [m] from which on a robot is on its knees, or on its feet."""
FALLEN, STEPS_BEFORE_FALL = 0.7, 30
"""Height of the torso [m] of a robot that fell from its feet, and how many steps before it a path ends."""

EPISODE_STEPS = 300
"""Length of a training episode."""
CLASS_STEPS, MOST_STEPS = 5, 60
"""States to begin in are in classes: on the feet, or so many steps more before that, but at most `MOST_STEPS`. Lying,
as in `humanoid-standup`, comes before all, and upright with bent knees after all."""
ENOUGH, NEWEST = 0.5, 0.01
"""Share of successful episodes, in each class above, from which on a class is drawn as often as they; and the weight of
the newest episode in that share."""
RISEN = 0.5
"""Height of the torso [m] from which on the balancing teacher acts in a lesson's robot that began lying."""
LESSON_CLASSES = 5
"""How many of the highest classes of states a lesson begins in."""
PUSH, TURN = 0.3, 0.6
"""Deviations [m/s], [rad/s] of the pushes, of which there is one in about 200 steps."""
LONGEST_LOW = 100
"""A training episode ends once the torso was below `KNEES` for so many steps in a row: plans rise in 72 at most."""
UPRIGHT_HEIGHT, DEEPEST_BEND = 1.2, 0.6
"""Height of the torso [m] of a robot on straight legs, and how far [rad] the hips bend at most in an upright start."""
STIFFNESS, DAMPING, TARGET = 0.8, 0.05, 1.5
"""Control [1/rad], [s/rad] of the joints for a teacher, and the target [rad] that its largest action stands for."""
WALKING, FASTEST, EFFORT = 0.7, 2.0, 0.1
"""Reward of a step for walking as fast as pays [m/s], and for the largest control of all motors (subtracted)."""
RAISED, LARGEST_DROP = 0.7, 0.35
"""A training episode ends once the torso is `LARGEST_DROP` below its highest [m], if that was above `RAISED`."""
_STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS


def main() -> None:
    """Plan all stand-ups, and write the states along them; or copy a teacher of `SPEC` as one of `LESSONS`."""
    *folder, out = map(Path, sys.argv[1:])
    out.parent.mkdir(parents=True, exist_ok=True)
    if folder:
        return for_lessons(*folder, out)
    paths = [plan(seed) for seed in PLANS]
    rises = [rise for path in paths if (rise := _rise(*path)) is not None]
    qpos, qvel = (np.concatenate(part) for part in zip(*rises, strict=True))
    qpos[:, :2] = 0.0  # where on the ground does not matter
    np.savez_compressed(out, qpos=qpos.astype(np.float32), qvel=qvel.astype(np.float32))
    print(f"{out}: {len(qpos):,} states of {len(rises)} of {len(paths)} plans, whose torso rose above {KNEES} m")


def for_lessons(folder: Path, out: Path) -> None:
    """Copy a teacher of `SPEC` into a folder, as a teacher of `LESSONS`, in which it teaches a student."""
    config, facts, tensors = read_teacher(folder)
    facts = {**facts, "config": dataclasses.asdict(dataclasses.replace(config, env=f"{__spec__.name}:LESSONS"))}
    out.mkdir(exist_ok=True)
    safetensors.torch.save_file(tensors, out / FILE, {METADATA: json.dumps(facts)})


def _rise(qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a path until shortly before the robot falls from its feet; None if its torso was never above `KNEES`."""
    heights = qpos[:, 2]
    if heights.max() <= KNEES:
        return None
    was_on_feet = np.maximum.accumulate(heights) > FEET
    falls = np.flatnonzero(was_on_feet & (heights < FALLEN))
    end = max(0, falls[0] - STEPS_BEFORE_FALL) if len(falls) else len(heights)
    return qpos[:end], qvel[:end]


def plan(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (PLAN_STEPS, nq) and velocities (PLAN_STEPS, nv) of a robot that begins lying and gets up."""
    rng, robot, path = np.random.default_rng(seed), mujoco.MjData(ROBOT.model), []
    robot.qpos, robot.qvel = ROBOT.start(rng)
    planner = Planner(rng)
    for step in range(PLAN_STEPS):
        if step % REPLAN_STEPS == 0:
            planner.search(robot, rounds=1 if step else 8)
        path.append((robot.qpos.copy(), robot.qvel.copy()))
        robot.ctrl = np.clip(planner.controls[step % REPLAN_STEPS], -LIMIT, LIMIT)
        mujoco.mj_step(ROBOT.model, robot, nstep=ROBOT.body.frame_skip)
    qpos, qvel = (np.array(part) for part in zip(*path, strict=True))
    print(f"seed {seed}: torso at most {qpos[:, 2].max():.2f} m, in the end {qpos[-1, 2]:.2f} m", flush=True)
    return qpos, qvel


class Planner:
    """A plan of the next `HORIZON` controls, which is searched again as the robot moves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.model = rng, _coarse_model()
        self.data, self.spread = mujoco.MjData(self.model), _spread()
        self.mean = np.zeros((KNOTS, self.model.nu))

    @property
    def controls(self) -> np.ndarray:
        """The planned controls, (HORIZON, nu)."""
        return self.spread @ self.mean

    def search(self, robot: mujoco.MjData, rounds: int) -> None:
        """Improve the plan from the robot's state, `REPLAN_STEPS` steps after the last search."""
        self.data.qpos, self.data.qvel = robot.qpos, robot.qvel
        state = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, state, _STATE)
        ahead = self.controls[REPLAN_STEPS:]  # the part of the last plan that is still ahead
        ahead = np.vstack([ahead, np.repeat(ahead[-1:], REPLAN_STEPS, 0)])
        self.mean = np.linalg.lstsq(self.spread, ahead, rcond=None)[0]
        for _ in range(rounds):
            self._improve(state)

    def _improve(self, state: np.ndarray) -> None:
        """Set the knots to the weighted mean of the best samples around them."""
        scale = self.rng.choice([0.3, 1.0, 2.0], size=(SAMPLES, 1, 1))
        knots = self.mean + SIGMA * scale * self.rng.standard_normal((SAMPLES, *self.mean.shape))
        knots[0] = self.mean
        knots = np.clip(knots, -LIMIT, LIMIT)
        controls = self.spread @ knots
        states, sensed = rollout.rollout(
            self.model, [self.data], np.tile(state, (SAMPLES, 1)), np.repeat(controls, SUBSTEPS, axis=1)
        )
        at_actions = slice(SUBSTEPS - 1, None, SUBSTEPS)
        joints = states[:, at_actions, -self.model.nv + 6 :]
        cost = np.nan_to_num(_cost(sensed[:, at_actions], controls, joints), nan=1e6)
        best = np.argsort(cost)[:ELITES]
        weight = np.exp((cost[best[0]] - cost[best]) / (0.05 * abs(cost[best[0]]) + 1e-3))
        self.mean = np.asarray(np.tensordot(weight / weight.sum(), knots[best], 1))


def _coarse_model() -> mujoco.MjModel:
    """Return the planner's model: fewer and cheaper steps, and sensors of what the cost reads."""
    spec, kinds, sensor = mujoco.MjSpec.from_file(str(MODELS / ROBOT.body.xml)), mujoco.mjtObj, mujoco.mjtSensor
    _coarsen(spec.option, ROBOT.step_s)
    for name, position in (("torso", (-0.15, 0, 0)), ("right_foot", (0, 0, 0.1)), ("left_foot", (0, 0, 0.1))):
        spec.body(name).add_site(name=name, pos=position)
        spec.add_sensor(type=sensor.mjSENS_FRAMEPOS, objtype=kinds.mjOBJ_SITE, objname=name)
    for kind in (sensor.mjSENS_SUBTREECOM, sensor.mjSENS_SUBTREELINVEL):
        spec.add_sensor(type=kind, objtype=kinds.mjOBJ_BODY, objname="torso")
    spec.add_sensor(type=sensor.mjSENS_FRAMEXAXIS, objtype=kinds.mjOBJ_XBODY, objname="torso")
    return spec.compile()


def _spread() -> np.ndarray:
    """Return the matrix (HORIZON, KNOTS) that interpolates between knots."""
    places, knots = np.linspace(0, KNOTS - 1, HORIZON), np.arange(KNOTS)
    return np.clip(1.0 - np.abs(places[:, None] - knots), 0.0, None)


def _cost(sensed: np.ndarray, controls: np.ndarray, joints: np.ndarray) -> np.ndarray:
    """Return the mean costs (N,) of N plans; the last steps count more."""
    head, right, left, _, velocity, down = np.split(sensed, 6, axis=-1)
    feet = (right + left) / 2
    cost = (
        20.0 * np.maximum(HEAD_ABOVE_FEET - (head - feet)[..., 2], 0.0)
        + 6.0 * np.maximum(HEAD_ABOVE_GROUND - head[..., 2], 0.0)
        + 8.0 * np.sqrt(np.square(_next_step(sensed)).sum(-1) + 0.01)
        + 1.5 * np.sqrt(np.square(velocity[..., :2]).sum(-1) + 0.01)
        + 3.0 * (1.0 + down[..., 2])
        + 0.05 * np.square(controls / LIMIT).sum(-1)
        + 0.002 * np.square(joints).sum(-1)
    )
    return (cost * np.where(np.arange(HORIZON) < HORIZON - 8, 1.0, 2.5)).mean(axis=1)


class StandUpBatch(TeacherRows):
    """n robots of `humanoid-standup`, to train a teacher in: coarse physics, starts on the way up, ends at falls.

    An episode begins in a class of states, the lower the rarer, until robots that began in the class above are on their
    feet at the end (a reverse curriculum: Florensa et al. 2017). It ends once the torso is `LARGEST_DROP` below its
    highest, if that was above `RAISED`, or low for too long, or the simulation blows up. A step pays 1 for an upright
    trunk at 1.1 m, little for a low one, more for walking, and less for effort. Arguments: see `Rows`.
    """

    def __init__(self, name: str, rows: int, episode_steps: int = EPISODE_STEPS, threads: int = 0) -> None:
        self.robot = robot = Robot(find_row(name), {})
        model = _coarse_model()
        super().__init__(model, rows, robot.row.tasks, "training", episode_steps, threads, robot.dynamics)
        self._ctrl, self._sensed = self._batch.bind("ctrl"), self._batch.bind("sensordata")
        self._working = np.ones((rows, model.nu))
        joints = model.actuator_trnid[:, 0]
        self._angles, self._speeds = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        files = [np.load(path) for path in STATES]
        qpos, qvel = (np.concatenate([file[name] for file in files]) for name in ("qpos", "qvel"))
        self._starts = qpos.astype(float) - model.qpos0, qvel.astype(float)
        self.classes = _classes(qpos[:, 2])
        """Indices of the states to begin in by class, the earliest first."""
        self._highest, self._has_fallen, self._standing = np.zeros(rows), np.zeros(rows, bool), np.zeros(rows)
        self._low, self._success = np.zeros(rows, np.int64), np.ones(len(self.classes) + 2)
        self.beginnings, self._on_feet = np.full(rows, -1), np.zeros(rows, bool)
        """Where each row began: 0 lying, then a class of states, last upright; -1 before the first reset."""

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Rows that fell in the last step, or whose simulation blew up, (n,)."""
        return self._has_fallen

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The torso's height [m], and the share of the episode's steps in which it was above `FEET`, (n,) each."""
        return {"height": self._qpos[:, 2].copy(), "standing": self._standing / np.maximum(self.steps, 1)}

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows' positions (n, nq) and velocities (n, nv)."""
        return self._qpos.copy(), self._qvel.copy()

    def observations(self) -> np.ndarray:
        """Return the rows' present observations, (n, D) float32."""
        return self.robot.body.observe(self._qpos, self._qvel, np.zeros(self.rows))

    def privileged(self) -> np.ndarray:
        """Return each row's mass and damping (1 before the first reset), and where its trunk and feet are, (n, 26).

        Horizontal vectors are in the frame of the trunk's side: a robot that turns reads the same.
        """
        down, side, front = np.moveaxis(self._axes(), -1, 0)
        across = side[:, :2] / (np.linalg.norm(side[:, :2], axis=1, keepdims=True) + 1e-3)
        ahead = np.stack([-across[:, 1], across[:, 0]], axis=1)
        head, right, left, com, velocity, _ = np.split(self._sensed, 6, axis=-1)
        level = (right - com, left - com, head - com, velocity, _next_step(self._sensed), self._qvel, down, front)
        turned = [(vector[:, :2] * axis).sum(axis=1) for vector in level for axis in (ahead, across)]
        heights = [vector[:, 2] for vector in (head, right, left, com, velocity, down, side, front)]
        return np.column_stack([self._bodies(), *turned, *heights]).astype(np.float32)

    def command(self, actions: np.ndarray) -> np.ndarray:
        """Return the environment's actions (n, A) for a teacher's, which are the joints' targets, 1 for `TARGET`."""
        error = TARGET * np.clip(actions, -1.0, 1.0) - self._qpos[:, self._angles]
        control = STIFFNESS * error - DAMPING * self._qvel[:, self._speeds]
        return np.clip(control / LIMIT, -1.0, 1.0).astype(np.float32)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step all rows by actions (n, A) in [-1, 1]; return observations (n, D) float32 and rewards (n,).

        Raises:
            SamiError: the actions have another shape, or one is not finite.
        """
        self._ctrl[:] = self.robot.control(actions, self._working)
        self._batch.step(nstep=SUBSTEPS)
        self.steps += 1
        self._recover(UNSTABLE)
        height, (down, _, front) = self._qpos[:, 2], np.moveaxis(self._axes(), -1, 0)
        self._highest = np.maximum(self._highest, height)
        self._low = np.where(height < KNEES, self._low + 1, 0)
        dropped = (self._highest > RAISED) & (height < self._highest - LARGEST_DROP)
        self._has_fallen = dropped | (self._low > LONGEST_LOW) | self.unstable
        self._on_feet = self.truncated & (height > FEET)
        self._standing += height > FEET
        upright = -down[:, 2]
        forwards = front[:, :2] / (np.linalg.norm(front[:, :2], axis=1, keepdims=True) + 0.1)
        speed = np.clip((self._qvel[:, :2] * forwards).sum(axis=1), -FASTEST / 2, FASTEST)
        risen = np.square(np.clip(height - 0.1, 0.0, 1.0)) * (0.4 + 0.6 * np.maximum(upright, 0.0))
        effort = EFFORT * np.square(self._ctrl / LIMIT).mean(axis=1)
        rewards = risen * (1.0 + WALKING * speed / FASTEST) + 0.025 * (1.0 + upright) - effort
        return self.observations(), np.where(self._has_fallen, 0.0, rewards)

    def _bodies(self) -> np.ndarray:
        """Return each row's mass and damping, (n, 2) float32."""
        bodies = [[task.get("mass", 1.0), task.get("damping", 1.0)] for task in self.current_tasks]
        return np.array(bodies, np.float32)

    def _axes(self) -> np.ndarray:
        """Return the axes of each row's trunk, (n, 3, 3): columns towards its feet, its side and its front."""
        w, x, y, z = (self._qpos[:, 3:7] / np.linalg.norm(self._qpos[:, 3:7], axis=1, keepdims=True)).T
        return np.stack(
            [
                [1 - 2 * (y**2 + z**2), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x**2 + z**2), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x**2 + y**2)],
            ]
        ).transpose(2, 0, 1)

    def _start(self, ids: np.ndarray, rngs: list[np.random.Generator]) -> None:
        for place, success in zip(self.beginnings[ids], self._on_feet[ids], strict=True):
            if place >= 0:
                self._success[place] += NEWEST * (success - self._success[place])
        weights = self._weights()
        places, upright = [], len(weights) - 1
        for i, rng in zip(ids, rngs, strict=True):
            qpos, qvel = self.robot.start(rng)
            self.beginnings[i] = place = rng.choice(len(weights), p=weights / weights.sum())
            if place == upright:
                qpos, qvel = self._upright(rng), qvel + 0.2 * rng.standard_normal(qvel.shape)
            elif place > 0:
                state = rng.choice(self.classes[place - 1])
                qpos, qvel = qpos + self._starts[0][state], qvel + self._starts[1][state]
            places.append((qpos, qvel))
        self._place(ids, *(np.stack(part) for part in zip(*places, strict=True)))
        self._batch.forward(ids)  # the sensors
        self._highest[ids], self._has_fallen[ids], self._standing[ids], self._low[ids] = 0.0, False, 0.0, 0

    def _weights(self) -> np.ndarray:
        """Return how likely each beginning is, up to a factor."""
        least = np.minimum.accumulate(self._success[::-1])[::-1]  # of all that begin at least as high
        return np.append(np.minimum(1.0, least[1:] / ENOUGH), 1.0)

    def _upright(self, rng: np.random.Generator) -> np.ndarray:
        """Return positions (nq,) of a robot on its feet, with bent knees."""
        model, bend = self.robot.model, rng.uniform(0.0, DEEPEST_BEND)
        qpos = 0.05 * rng.standard_normal(model.nq)
        tilt = np.pi / 2 + 0.1 * rng.standard_normal()
        turn = [np.cos(tilt / 2), 0.03 * rng.standard_normal(), np.sin(tilt / 2), 0.03 * rng.standard_normal()]
        qpos[:2], qpos[2], qpos[3:7] = 0.0, UPRIGHT_HEIGHT - 0.7 * (1.0 - np.cos(bend)), turn / np.linalg.norm(turn)
        for leg in ("right", "left"):
            qpos[model.joint(f"{leg}_hip_y").qposadr] -= bend
            qpos[model.joint(f"{leg}_knee").qposadr] -= 2.0 * bend
        return qpos


def _kneeling_policy() -> PrivilegedPolicy:
    """Return the network of the teacher that gets to its knees; it reads observation, mass and damping."""
    config, _, tensors = read_teacher(KNEELING_TEACHER)
    sizes = {"observation": SPEC.layout.size, "privileged": 2}
    inputs = spaces.Dict({name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in sizes.items()})
    actions = spaces.Box(-1.0, 1.0, (SPEC.action.size,), np.float32)
    policy = PrivilegedPolicy(inputs, actions, lambda _: 0.0, units=config.units)
    policy.load_state_dict(tensors_of(tensors, "policy."))
    return policy.eval()


def _classes(heights: np.ndarray) -> list[np.ndarray]:
    """Return the indices of planned states by class, the earliest first; plans that never got to their feet have none.

    Each plan begins lying, so that the torso's height falls by more than a step can where the next one begins.
    """
    classes: dict[int, list[int]] = {}
    for path in np.split(np.arange(len(heights)), np.flatnonzero(np.diff(heights) < -0.15) + 1):
        on_feet = np.flatnonzero(heights[path] > FEET)
        for at, state in enumerate(path if len(on_feet) else ()):
            steps = max(0, int(on_feet[0]) - at)
            if steps <= MOST_STEPS:
                classes.setdefault(-steps // CLASS_STEPS, []).append(int(state))
    return [np.array(classes[key]) for key in sorted(classes)]


def _next_step(sensed: np.ndarray) -> np.ndarray:
    """Return how far the centre of mass will be from the feet [m] in 0.3 s, (..., 2): where a step would have to go."""
    _, right, left, com, velocity, _ = np.split(sensed, 6, axis=-1)
    return com[..., :2] + 0.3 * velocity[..., :2] - (right + left)[..., :2] / 2


def _coarsen(option: mujoco.MjOption, step_s: float) -> None:
    """Give a model fewer and cheaper steps: `SUBSTEPS` for an action of `step_s`."""
    option.integrator, option.solver = mujoco.mjtIntegrator.mjINT_IMPLICITFAST, mujoco.mjtSolver.mjSOL_NEWTON
    option.iterations, option.ls_iterations, option.timestep = 3, 8, step_s / SUBSTEPS


class LessonBatch(StandUpBatch):
    """Robots to teach a student: half begin lying, and a fall ends no episode.

    A robot that begins lying is brought up by the kneeling teacher, which also acts in a robot that fell.
    """

    def __init__(self, name: str, rows: int, episode_steps: int = EPISODE_STEPS, threads: int = 0) -> None:
        super().__init__(name, rows, episode_steps, threads)
        self._kneeling_teacher = _kneeling_policy()
        self._kneels, self._fallen = np.zeros(rows, bool), np.zeros(rows, bool)

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Rows whose simulation blew up, (n,)."""
        return self.unstable

    def command(self, actions: np.ndarray) -> np.ndarray:
        """Return the environment's actions (n, A): the kneeling teacher's, or for the balancing one's joint targets."""
        kneeling = np.clip(ACTION_SCALE * self._kneeling_teacher.act(self.observations(), self._bodies()), -1.0, 1.0)
        return np.where(self._kneels[:, None], kneeling, super().command(actions)).astype(np.float32)

    def push(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Change the velocities of some rows' trunks by normal numbers, of deviations `PUSH` and `TURN`."""
        self._qvel[rows, :2] += PUSH * rng.standard_normal((len(rows), 2))
        self._qvel[rows, 3:6] += TURN * rng.standard_normal((len(rows), 3))

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, NDArray[np.float64]]:
        """Step as `StandUpBatch` does."""
        result = super().step(actions)
        self._fallen |= self._has_fallen
        self._kneels = self._fallen | (self._kneels & (self._qpos[:, 2] < RISEN))
        return result

    def _start(self, ids: np.ndarray, rngs: list[np.random.Generator]) -> None:
        super()._start(ids, rngs)
        self._fallen[ids], self._kneels[ids] = False, self.beginnings[ids] == 0

    def _weights(self) -> np.ndarray:
        weights = np.zeros(len(self.classes) + 2)  # they do not depend on what the student can
        weights[0], weights[-1 - LESSON_CLASSES :] = LESSON_CLASSES + 1, 1.0
        return weights


SPEC = dataclasses.replace(
    environment("humanoid-standup"),
    id="sami/humanoid-stand-ups-v0",
    batch_entry_point=f"{__name__}:StandUpBatch",
    episode_steps=EPISODE_STEPS,
)
LESSONS = dataclasses.replace(SPEC, id="sami/humanoid-lessons-v0", batch_entry_point=f"{__name__}:LessonBatch")

if __name__ == "__main__":
    main()
