"""Inverse kinematics: velocities that take the hand where it was asked to go, and never beyond a joint's limits."""

import sys
import threading

import numpy as np
import pytest

from sami_runtime.errors import AdapterError, UnknownName
from sami_runtime.robots.kit import DifferentialIK

pytest.importorskip("mink")

PLANAR = """
<robot name="planar">
  <link name="base"/>
  <joint name="turn" type="revolute">
    <parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
    <limit lower="-2.0" upper="2.0" effort="1" velocity="{speed}"/>
  </joint>
  <link name="upper">
    <visual><geometry><mesh filename="package://nowhere/upper.dae"/></geometry></visual>
  </link>
  <joint name="bend" type="revolute">
    <parent link="upper"/><child link="lower"/><origin xyz="0.4 0 0"/><axis xyz="0 0 1"/>
    <limit lower="0.0" upper="2.5" effort="1" velocity="{speed}"/>
  </joint>
  <link name="lower"/>
  <joint name="tip" type="fixed"><parent link="lower"/><child link="hand"/><origin xyz="0.3 0 0"/></joint>
  <link name="hand"/>
  <joint name="finger" type="prismatic">
    <parent link="hand"/><child link="pad"/><axis xyz="0 1 0"/>
    <limit lower="0.0" upper="0.04" effort="1" velocity="0.1"/>
  </joint>
  <link name="pad"/>
</robot>
"""
JOINTS, HOME = ("turn", "bend"), (0.3, 1.0)


def where(turn, bend):
    """The hand of the planar arm, by trigonometry."""
    return np.array([0.4 * np.cos(turn) + 0.3 * np.cos(turn + bend), 0.4 * np.sin(turn) + 0.3 * np.sin(turn + bend), 0])


@pytest.fixture
def urdf(tmp_path):
    path = tmp_path / "planar.urdf"
    path.write_text(PLANAR.format(speed=1.5))
    return path


@pytest.fixture
def arm(urdf):
    return DifferentialIK(urdf, "hand", JOINTS, HOME)


@pytest.fixture(scope="module")
def panda():
    pybullet_data = pytest.importorskip("pybullet_data")
    path = f"{pybullet_data.getDataPath()}/franka_panda/panda.urdf"
    home = [0.0, 0.41, 0.0, -1.85, 0.0, 2.26, 0.79]
    return DifferentialIK(path, "panda_grasptarget", [f"panda_joint{number}" for number in range(1, 8)], home)


@pytest.fixture
def switching():
    """Lets threads take turns as often as they can."""
    rarely = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(rarely)


def test_the_hand_is_where_trigonometry_says_and_as_fast(arm):
    rng = np.random.default_rng(3)
    for _ in range(20):
        positions, velocities = rng.uniform([-2.0, 0.0], [2.0, 2.5]), rng.normal(size=2)
        np.testing.assert_allclose(arm.pose(positions).translation, where(*positions), atol=1e-9)
        assert arm.pose(positions).rpy[2] == pytest.approx((sum(positions) + np.pi) % (2 * np.pi) - np.pi)
        slope = (where(*positions + 1e-6 * velocities) - where(*positions - 1e-6 * velocities)) / 2e-6
        np.testing.assert_allclose(arm.velocity(positions, velocities), slope, atol=1e-6)


def test_the_urdf_tells_limits_of_positions_and_speeds(arm):
    assert (arm.low.tolist(), arm.high.tolist(), arm.speed.tolist()) == ([-2.0, 0.0], [2.0, 2.5], [1.5, 1.5])


def test_small_displacements_lead_to_a_place_within_reach(panda):
    """Closed loop: 1 cm at most in each of 50 periods, from home to 20 places around it, the hand pointing down."""
    rng, down = np.random.default_rng(5), panda.pose(panda.home).rotation
    for _ in range(20):
        positions = panda.home.copy()
        target = panda.pose(positions).translation + rng.uniform(-0.2, [0.1, 0.2, 0.2])
        for _ in range(50):
            way = target - panda.pose(positions).translation
            step = way * min(1.0, 0.01 / max(np.linalg.norm(way), 1e-9))
            motion = panda.move(positions, step, 0.04, down)
            assert (abs(motion.velocities) <= panda.speed).all()
            positions = positions + 0.04 * motion.velocities
            assert ((panda.low <= positions) & (positions <= panda.high)).all()
        np.testing.assert_allclose(panda.pose(positions).translation, target, atol=1e-3)
        np.testing.assert_allclose(panda.pose(positions).rotation, down, atol=5e-3)


def test_what_is_told_to_come_of_it_is_what_comes_of_it(panda):
    motion = panda.move(panda.home, [0.005, -0.01, 0.005], 0.04)
    np.testing.assert_allclose(motion.displacement, [0.005, -0.01, 0.005], atol=1e-4)
    change = panda.pose(panda.home + 0.04 * motion.velocities).translation - panda.pose(panda.home).translation
    np.testing.assert_allclose(change, motion.displacement, atol=2e-4)


def test_a_displacement_that_is_too_fast_is_shortened_and_not_bent(panda):
    """A hand that goes along the table must not go down because a joint is slow."""
    ways = np.concatenate([np.diag([1.0, 1.0, -1.0]), np.random.default_rng(9).normal(size=(20, 3))])
    for shift in 0.15 * ways / np.linalg.norm(ways, axis=1, keepdims=True):
        motion = panda.move(panda.home, shift, 0.04)
        assert (abs(motion.velocities) <= panda.speed * (1 + 1e-9)).all()
        assert np.isclose(abs(motion.velocities), panda.speed).any()
        share = motion.displacement @ shift / (shift @ shift)
        assert 0.1 < share < 1.0
        np.testing.assert_allclose(motion.displacement, share * shift, atol=2e-3)


def test_at_a_joints_end_the_hand_only_goes_back(arm):
    for positions in ([2.0, 1.0], [2.01, 1.0]):  # also as a sensor may read it
        motion = arm.move(positions, 0.02 * np.array([-np.sin(2.0), np.cos(2.0), 0.0]), 0.04)
        assert motion.velocities[0] <= 1e-9
    assert arm.move([0.3, 0.0], [0.02, 0.0, 0.0], 0.04).velocities[1] >= -1e-9, "stretched: no further"


def test_joints_that_are_no_part_of_the_arm_stand_still(urdf, arm):
    """The pad hangs at a finger that could do a part of the way, and is where the hand is."""
    padded = DifferentialIK(urdf, "pad", JOINTS, HOME)
    np.testing.assert_allclose(padded.pose(HOME).translation, where(*HOME), atol=1e-9)
    for shift in ([0.0, 0.01, 0.0], [-0.01, 0.003, 0.0]):
        np.testing.assert_allclose(
            padded.move(HOME, shift, 0.04).velocities, arm.move(HOME, shift, 0.04).velocities, atol=1e-6
        )


def test_an_mjcf_does_as_well_and_needs_its_speeds_said(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text("""<mujoco><worldbody><body name="upper"><joint name="turn" axis="0 0 1" range="-115 115"/>
        <geom size=".1"/><body name="lower" pos="0.4 0 0"><joint name="bend" axis="0 0 1" range="0 143"/>
        <geom size=".1"/><site name="tip" pos="0.3 0 0"/></body></body></worldbody></mujoco>""")
    arm = DifferentialIK(path, "tip", JOINTS, HOME, speed=1.0)
    np.testing.assert_allclose(arm.pose(HOME).translation, where(*HOME), atol=1e-9)
    assert (abs(arm.move(HOME, [0.0, 0.3, 0.0], 0.04).velocities) <= 1.0).all()
    with pytest.raises(AdapterError, match=r"must be above 0.*Give them as speed"):
        DifferentialIK(path, "tip", JOINTS, HOME)


def test_threads_may_ask_at_once(panda, switching):
    shifts, wrong = (0.0, 0.1, 0.2, 0.3), []
    poses = [panda.pose(panda.home + shift).translation for shift in shifts]

    def look(shift, expected):
        for _ in range(2000):
            result = panda.pose(panda.home + shift).translation
            if not np.array_equal(result, expected):
                wrong.append(result)

    threads = [threading.Thread(target=look, args=item) for item in zip(shifts, poses, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_does_not_fit_the_model_is_refused(urdf, arm, tmp_path):
    with pytest.raises(UnknownName, match=r"'turm'.*Did you mean 'turn'"):
        DifferentialIK(urdf, "hand", ("turm", "bend"), HOME)
    with pytest.raises(UnknownName, match=r"'hant'.*Did you mean 'hand'"):
        DifferentialIK(urdf, "hant", JOINTS, HOME)
    with pytest.raises(AdapterError, match="positions of turn, bend has shape"):
        DifferentialIK(urdf, "hand", JOINTS, [0.0])
    with pytest.raises(AdapterError, match="no URDF or MJCF that could be read"):
        DifferentialIK(tmp_path / "missing.urdf", "hand", JOINTS, HOME)
    (tmp_path / "broken.urdf").write_text("<robot")
    with pytest.raises(AdapterError, match="no URDF or MJCF that could be read"):
        DifferentialIK(tmp_path / "broken.urdf", "hand", JOINTS, HOME)
    for displacement, period, message in (([np.nan, 0, 0], 0.04, "finite"), ([0, 0, 0], 0.0, "period above 0")):
        with pytest.raises(AdapterError, match=message):
            arm.move(HOME, displacement, period)


def test_without_the_extra_the_error_names_it(urdf, monkeypatch):
    monkeypatch.setitem(sys.modules, "mink", None)
    with pytest.raises(AdapterError, match=r"needs the package mink.*\[ik\]"):
        DifferentialIK(urdf, "hand", JOINTS, HOME)
