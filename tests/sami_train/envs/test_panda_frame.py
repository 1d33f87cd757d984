"""What Panda's data sheet says of frame and home pose is what the simulator has."""

import numpy as np
import pytest

from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION, PANDA_SHEET
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import environment
from sami_train.envs.make import make

pytest.importorskip("panda_gym")

FINE_PHYSICS = True


@pytest.fixture(scope="module")
def robot():
    spec = environment("panda")
    adapter = make_adapter(spec, make(spec, max_episode_steps=10_000))
    yield adapter
    adapter.close()


@pytest.fixture
def bullet(robot):
    """The physics client and its bodies, at the beginning of an episode."""
    robot.reset(seed=1)
    sim = robot.env.unwrapped.sim
    return sim.physics_client, sim._bodies_idx


def number(name):
    return PANDA_SHEET.numbers[name].values


def link(physics, arm, name):
    """Index of a link, and the position and rotation (3, 3) of its frame."""
    table = {physics.getJointInfo(arm, at)[12].decode(): at for at in range(physics.getNumJoints(arm))}
    state = physics.getLinkState(arm, table[name], computeForwardKinematics=True)
    return table[name], np.array(state[4]), np.reshape(physics.getMatrixFromQuaternion(state[5]), (3, 3))


def displacement(robot, action, ticks=1):
    robot.reset(seed=1)
    before = robot.read().values
    for _ in range(ticks):
        robot.write(np.float32(action))
    return before, robot.read().values


def test_the_arm_stands_on_the_table_and_the_tables_surface_is_at_zero(bullet):
    physics, bodies = bullet
    centre, rotation = physics.getBasePositionAndOrientation(bodies["panda"])
    # Bullet tells the base's centre of mass, which lies 5 cm up in it.
    inertial = physics.getDynamicsInfo(bodies["panda"], -1)[3]
    np.testing.assert_allclose(np.subtract(centre, inertial), number("arm_base"), atol=1e-9)
    assert rotation == (0.0, 0.0, 0.0, 1.0)
    assert physics.getAABB(bodies["table"])[1][2] == pytest.approx(number("table_surface")[0], abs=1e-9)


def test_the_hands_point_is_between_the_fingertips_and_the_hand_points_down(robot, bullet):
    physics, bodies = bullet
    at, point, rotation = link(physics, bodies["panda"], "panda_grasptarget")
    assert at == robot.env.unwrapped.robot.ee_link
    np.testing.assert_allclose(robot.read().values["ee_position"], point, atol=1e-6)
    _, flange, _ = link(physics, bodies["panda"], "panda_link8")
    np.testing.assert_allclose(flange - point, [0.0, 0.0, number("flange_to_ee")[0]], atol=1e-6)
    np.testing.assert_allclose(rotation[:, 2], [0, 0, -1], atol=1e-3)  # z down
    np.testing.assert_allclose(rotation[:, 0], [1, 0, 0], atol=0.01)  # x along x
    lowest = min(physics.getAABB(bodies["panda"], finger)[0][2] for finger in (9, 10))
    assert 0.0 < point[2] - lowest < 0.02


def test_home_is_where_episodes_begin(robot, bullet):
    physics, bodies = bullet
    joints = [physics.getJointState(bodies["panda"], joint)[0] for joint in range(7)]
    np.testing.assert_allclose(joints, number("home_joints"), atol=1e-9)
    values = robot.read().values
    np.testing.assert_allclose(values["ee_position"], number("home_ee_position"), atol=1e-4)
    np.testing.assert_allclose(values["gripper_width"], number("home_gripper_width"), atol=1e-9)
    np.testing.assert_allclose(values["ee_velocity"], 0.0, atol=1e-9)
    for seed in range(20):
        robot.reset(seed=seed)
        values = robot.read().values
        for name in ("cube_position", "desired_goal"):
            assert np.abs(values[name][:2]).max() <= 0.15
            assert values[name][2] == pytest.approx(number("cube_edge")[0] / 2, abs=1e-6)
        np.testing.assert_allclose(values["cube_rotation"], 0.0, atol=1e-9)


def test_euler_angles_turn_about_the_fixed_x_then_y_then_z(robot, bullet):
    physics, bodies = bullet
    roll, pitch, yaw = angles = (0.3, 0.4, 0.5)
    position = physics.getBasePositionAndOrientation(bodies["object"])[0]

    def about(axis, angle):
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        turned = np.eye(3)
        turned[[i, j], [i, j]] = np.cos(angle)
        turned[i, j], turned[j, i] = -np.sin(angle), np.sin(angle)
        return turned

    physics.resetBasePositionAndOrientation(bodies["object"], position, physics.getQuaternionFromEuler(angles))
    rotation = physics.getMatrixFromQuaternion(physics.getBasePositionAndOrientation(bodies["object"])[1])
    expected = about(2, yaw) @ about(1, pitch) @ about(0, roll)
    np.testing.assert_allclose(np.reshape(rotation, (3, 3)), expected, atol=1e-6)
    np.testing.assert_allclose(robot.env.unwrapped.task.get_obs()[3:6], angles, atol=1e-6)


def test_displacements_count_from_the_measured_pose_and_not_from_the_last_target(robot):
    """The drives lag: a target 5 cm from the last one would run ahead of the hand."""
    before, after = displacement(robot, [1, 0, 0, 0])
    first = after["ee_position"][0] - before["ee_position"][0]
    assert 0.02 < first < 0.05
    targets = []
    arm = type(robot.env.unwrapped.robot)  # each reset makes a new one
    solve = arm.inverse_kinematics
    arm.inverse_kinematics = lambda body, link, position, orientation: (
        targets.append(position) or solve(body, link=link, position=position, orientation=orientation)
    )
    try:
        robot.reset(seed=1)
        for _ in range(3):
            measured = robot.read().values["ee_position"]
            robot.write(np.float32([0.5, -1.0, 0.2, 0.0]))
            np.testing.assert_allclose(targets[-1], measured + [0.025, -0.05, 0.01], atol=1e-6)
        for _ in range(12):
            robot.write(np.float32([0.0, 0.0, -1.0, 0.0]))
        assert min(target[2] for target in targets) == 0.0
    finally:
        arm.inverse_kinematics = solve


def test_the_gripper_is_told_by_its_opening_and_moves_by_a_fifth_of_a_metre_for_each_1(robot):
    before, after = displacement(robot, [0, 0, 0, 0.1], ticks=1)
    assert before["gripper_width"] == pytest.approx(0.0, abs=1e-9)
    assert after["gripper_width"] == pytest.approx(0.02, abs=0.008)
    _, after = displacement(robot, [0, 0, 0, 1.0], ticks=10)
    assert after["gripper_width"] == pytest.approx(0.08, abs=1e-3)


def test_every_signal_has_a_meaning():
    assert all(signal.meaning for signal in (*PANDA_OBSERVATION, PANDA_ACTION))


def test_an_action_is_followed_as_far_as_the_sheet_says(robot):
    for axis, reached in enumerate(number("reached_displacement")):
        results = []
        for side in (0.1, -0.1):
            action = np.zeros(4)
            action[axis] = side
            before, after = displacement(robot, action, ticks=5)
            results.append((after["ee_position"] - before["ee_position"])[axis] / (5 * side))
        assert np.mean(results) == pytest.approx(reached, abs=0.001)
