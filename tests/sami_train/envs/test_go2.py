"""The Go2: what each hidden feature changes in the physics, how motors act, and that a batch is many single ones."""

import doctest

import numpy as np
import pytest

pytest.importorskip("mujoco")

import mujoco

from sami_runtime.errors import SamiError, UnknownName
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.go2 import batch as batch_module
from sami_train.envs.go2.batch import Go2Batch
from sami_train.envs.go2.entry import GO2, MOTORS, REACH, STANCE, TASK_SAMPLERS
from sami_train.envs.go2.robot import HOLD, SETTLING
from sami_train.envs.make import make
from sami_train.envs.tasks import TaskError

STILL = np.zeros(12, np.float32)


@pytest.fixture(scope="module")
def env():
    with make(GO2, tasks={}) as instance:
        yield instance


def begin(env, seed=0, **task):
    """Start an episode in a task, and return the bare environment."""
    env.reset(seed=seed, options={"task": task})
    return env.unwrapped


def motions(rows, steps, scale=0.4):
    return np.random.default_rng(1).uniform(-scale, scale, (steps, rows, 12)).astype(np.float32)


def test_the_robot_weighs_and_reaches_what_its_maker_publishes(env):
    model = begin(env).model
    assert model.body_mass.sum() == pytest.approx(15.2, abs=0.05)
    assert [model.actuator(motor).name for motor in range(12)] == list(MOTORS)
    torque = {name: model.actuator(f"FR_{name}").forcerange[1] for name in ("hip", "thigh", "calf")}
    assert torque == {"hip": 23.7, "thigh": 23.7, "calf": 45.43}
    assert model.opt.timestep * 4 == pytest.approx(1 / GO2.rate_hz)
    calf = model.jnt_range[model.joint("RL_calf").id]
    assert calf == pytest.approx([-2.7227, -0.83776])


def test_a_payload_weighs_and_sits_where_the_task_says(env):
    model = begin(env).model
    weight, place = model.body_mass.sum(), model.body("payload").pos.copy()
    begin(env, payload=8.0, payload_x=0.1, payload_y=-0.05)
    assert model.body_mass.sum() - weight == pytest.approx(8.0)
    assert model.body("payload").pos - place == pytest.approx([0.1, -0.05, 0.0])
    assert model.body("payload").inertia == pytest.approx([0.012, 0.0192, 0.0264]), "as that of the same box, heavier"


def test_an_offset_load_moves_the_centre_of_mass(env):
    def centre(**task):
        robot = begin(env, **task)
        data = mujoco.MjData(robot.model)
        mujoco.mj_forward(robot.model, data)
        return data.subtree_com[1].copy()

    change = centre(payload=5.0, payload_x=0.12, payload_y=0.05) - centre(payload=5.0)
    share = 5.0 / (15.2066 + 5.0)
    assert change == pytest.approx([0.12 * share, 0.05 * share, 0.0], abs=1e-4)


@pytest.mark.parametrize("friction", [0.3, 1.5])
def test_the_feet_have_the_friction_of_the_task_whatever_the_floor_has(env, friction):
    robot = begin(env, friction=friction)
    for _ in range(30):
        env.step(STILL)
    feet = [robot.model.geom(leg).id for leg in ("FR", "FL", "RR", "RL")]
    touching = [contact.friction[0] for contact in robot.data.contact if {contact.geom1, contact.geom2} & set(feet)]
    assert len(touching) == 4
    assert touching == pytest.approx([friction] * 4)


def law(robot, motor, target, strength=1.0):
    """Torque of the deployed law at the present state."""
    angle, velocity = robot.data.qpos[7 + motor], robot.data.qvel[6 + motor]
    most = 45.43 if motor % 3 == 2 else 23.7
    return strength * np.clip(20.0 * (target - angle) - 0.5 * velocity, -most, most)


@pytest.mark.parametrize(
    ("task", "strengths"),
    [
        ({}, [1.0] * 12),
        ({"strength": 0.7}, [0.7] * 12),
        ({"strength": 0.8, "crippled": [5], "crippled_strength": 0.25}, [0.8] * 5 + [0.2] + [0.8] * 6),
        ({"crippled": [2]}, [1.0, 1.0, 0.0] + [1.0] * 9),
    ],
)
def test_motors_follow_the_deployed_pd_law_times_their_strength(env, task, strengths):
    robot = begin(env, **task)
    for action in motions(1, 20)[:, 0]:
        env.step(action)
    targets = np.array(STANCE) + np.array(REACH) * 0.8
    robot.data.ctrl[:] = targets
    low, high = robot.model.actuator_ctrlrange.T
    expected = [law(robot, m, np.clip(targets, low, high)[m], strengths[m]) for m in range(12)]
    mujoco.mj_step(robot.model, robot.data)
    assert robot.data.actuator_force == pytest.approx(expected, abs=1e-6)


def test_a_motor_saturates_at_its_torque_and_a_weak_one_at_its_share(env):
    robot = begin(env, strength=0.7)
    robot.data.qpos[7] = 3.0  # far beyond what 20 N m/rad can ask for within the range
    robot.data.ctrl[:] = STANCE
    mujoco.mj_step(robot.model, robot.data)
    assert robot.data.actuator_force[0] == pytest.approx(-0.7 * 23.7)


@pytest.mark.parametrize(("delay", "late"), [(0.0, 0), (0.01, 2), (0.02, 4), (0.04, 8)])
def test_a_target_takes_the_delay_of_the_task_to_reach_the_motor(env, delay, late):
    """Simulation steps of 5 ms until the torque answers a target that jumps."""
    jumped = begin(env, delay=delay)
    twin = mujoco.MjData(jumped.model)
    mujoco.mj_copyData(twin, jumped.model, jumped.data)
    jumped.data.ctrl[:] = np.array(STANCE) + 0.1
    twin.ctrl[:] = STANCE
    for step in range(10):
        mujoco.mj_step(jumped.model, jumped.data)
        mujoco.mj_step(jumped.model, twin)
        difference = np.abs(jumped.data.actuator_force - twin.actuator_force).max()
        assert (difference > 1.0) == (step >= late), step


def test_damping_slows_every_joint_and_nothing_else(env):
    model = begin(env, damping=0.5).model
    assert model.dof_damping.tolist() == [0.0] * 6 + [0.5] * 12


def test_what_is_read_is_what_the_robot_has(env):
    robot = begin(env, seed=3)
    for action in motions(1, 10)[:, 0]:
        observation, *_ = env.step(action)
    signals = GO2.layout.by_name(observation)
    mujoco.mj_kinematics(robot.model, robot.data)
    turn = robot.data.body("base").xmat.reshape(3, 3)
    assert signals["gravity"] == pytest.approx(turn.T @ [0.0, 0.0, -1.0], abs=1e-6)
    assert signals["angular_velocity"] == pytest.approx(robot.data.qvel[3:6], abs=1e-5)
    assert signals["joint_angles"] == pytest.approx(robot.data.qpos[7:], abs=1e-6)
    assert signals["last_action"] == pytest.approx(action)
    assert {signal.name for signal in GO2.estimated} == {
        *("angular_velocity", "gravity", "joint_angles", "joint_velocities")
    }


def test_each_row_of_a_batch_is_the_single_environment_to_the_bit():
    batch, env = Go2Batch(3, "extreme", threads=2), make(GO2, tasks="extreme")
    start, actions = batch.reset(seeds=[5, 6, 7]), motions(3, 60, 0.7)
    tasks = list(batch.current_tasks)
    steps = []
    for action in actions:
        observation, reward = batch.step(action)
        metrics = {name: values.copy() for name, values in batch.metrics.items()}
        steps.append((observation, reward, batch.terminated.copy(), metrics))
    for row in range(3):
        observation, info = env.reset(seed=5 + row)
        assert info["task"] == tasks[row]
        np.testing.assert_array_equal(observation, start[row])
        for (observations, rewards, fallen, metrics), action in zip(steps, actions[:, row], strict=True):
            observation, reward, terminated, _, info = env.step(action)
            np.testing.assert_array_equal(observation, observations[row])
            assert (reward, terminated) == (rewards[row], fallen[row])
            assert info["metrics"] == {name: values[row] for name, values in metrics.items()}
    assert len({str(task) for task in tasks}) == 3


def test_a_row_that_begins_anew_disturbs_no_other_and_forgets_its_past():
    batch, undisturbed = Go2Batch(2), Go2Batch(2)
    for item in (batch, undisturbed):
        item.reset(seeds=[0, 1], tasks=[{"delay": 0.04}] * 2)
    actions = motions(2, 40)
    for action in actions[:10]:
        batch.step(action)
        undisturbed.step(action)
    fresh = batch.reset(seeds=[8], tasks=[{"delay": 0.04}], rows=[0])
    one_row = Go2Batch(1)
    np.testing.assert_array_equal(fresh, one_row.reset(seeds=[8], tasks=[{"delay": 0.04}]))
    for action in actions[10:]:
        rows, _ = batch.step(action)
        np.testing.assert_array_equal(rows[:1], one_row.step(action[:1])[0])
        np.testing.assert_array_equal(rows[1:], undisturbed.step(action)[0][1:])


def test_a_fall_ends_the_episode_and_costs(env):
    robot = begin(env)
    robot.data.qpos[3:7] = [np.cos(0.6), np.sin(0.6), 0.0, 0.0]  # tilted by 69 degrees
    _, reward, terminated, truncated, info = env.step(STILL)
    assert (terminated, truncated) == (True, False)
    assert reward < -5.0
    assert info["metrics"]["falls"] == 1.0


def test_a_simulation_that_blows_up_within_a_step_is_a_fall(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo keeps a log of its warnings
    batch = Go2Batch(2)
    batch.reset(seeds=[0, 0], tasks=[{}, {}])
    batch._qvel[1] = begin(env).data.qvel[:] = 1e5
    assert env.step(STILL)[1:3] == (-10.0, True)
    assert batch.step(np.stack([STILL, STILL]))[1][1] == -10.0
    assert batch.terminated.tolist() == [False, True]


def test_tracking_error_is_that_of_the_mean_velocity_after_the_first_second(env):
    robot = begin(env, seed=2)
    command, velocities = robot.walks.command[0].copy(), []
    for step in range(HOLD - 1):
        *_, info = env.step(STILL)
        if step >= SETTLING:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, robot.data.qpos[3:7])
            velocities.append(turn.reshape(3, 3).T @ robot.data.qvel[:3])
    np.testing.assert_array_equal(robot.walks.command[0], command)
    expected = np.hypot(*(np.mean(velocities, axis=0)[:2] - command[:2]))
    assert info["metrics"]["tracking_error"] == pytest.approx(expected, abs=1e-6)
    env.step(STILL)
    assert (robot.walks.command[0] != command).any(), "a new command comes with time"


def test_sets_grow_harder_and_hold_combinations():
    sets = GO2.tasks.sets
    assert (
        max(task["payload"] for task in sets["training"])
        <= 5.0
        < min(task["payload"] for task in sets["extreme"] if task["payload"])
    )
    for name in TASK_SAMPLERS:
        counts = [len(GO2.tasks.changes(task)) for task in sets[name]]
        assert max(counts) > 5
        assert len(sets[name]) == 100
    assert [GO2.tasks.changes(task) for task in sets["dead"]] == [{"crippled": [motor]} for motor in range(12)]


def test_a_set_is_drawn_from_anew_by_the_seed(env):
    with make(GO2, tasks="training") as drawing:
        tasks = [drawing.reset(seed=seed)[1]["task"] for seed in (0, 1, 0)]
    assert tasks[0] == tasks[2] != tasks[1]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"delay": 0.1}, "delay is 0.1; it must be a number at least 0 and at most 0.04 s."),
        ({"crippled": [12]}, "crippled is [12]"),
        ({"friction": 0.0}, "friction is 0.0; it must be a number greater than 0."),
    ],
)
def test_a_task_that_cannot_be_is_refused(env, task, message):
    with pytest.raises(TaskError, match=message.replace("[", r"\[").replace(".", r"\.")):
        env.reset(options={"task": task})


def test_an_action_that_is_not_finite_is_refused(env):
    begin(env)
    with pytest.raises(SamiError, match="not 12 finite numbers"):
        env.step(np.full(12, np.nan, np.float32))
    with pytest.raises(UnknownName):
        make(GO2, tasks="easy")


def test_targets_end_where_the_data_sheet_says(env):
    numbers = {name: quantity.values for name, quantity in GO2.sheet.numbers.items()}
    ranges = np.column_stack([numbers["lowest"], numbers["highest"]])
    np.testing.assert_allclose(env.unwrapped.model.actuator_ctrlrange, ranges, atol=1e-9)
    assert env.unwrapped.model.actuator_ctrllimited.all()


def test_the_catalogue_has_it():
    assert ENVIRONMENTS["go2"] is GO2


def test_examples():
    assert doctest.testmod(batch_module).failed == 0
