"""From messages to signals: by names, frames, units and clocks; what cannot be used is refused, and told."""

import time

import numpy as np
import pytest

from sami_runtime import AdapterError, MonotonicClock, shipped_models
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.kit import Frame
from sami_runtime.robots.ros2.messages import JointMessage, PoseMessage
from sami_runtime.robots.ros2.sources import Sources
from sami_runtime.signals import Signal
from tests.making.ros2 import settings

UPRIGHT = np.array([0.0, 0.0, 0.0, 1.0])
ARM = ("a", "b", "c")


def signal(name, unit, *elements):
    free = (None,) * len(elements)
    return Signal(name=name, size=len(elements), unit=unit, elements=elements, low=free, high=free)


SIGNALS = (
    signal("angles", "rad", *ARM),
    signal("cube", "m", "x", "y", "z"),
    signal("cube_speed", "m/s", "x", "y", "z"),
    signal("goal", "m", "x", "y", "z"),
)


@pytest.fixture
def clock():
    return MonotonicClock()


def make_sources(clock, **changes):
    """Sources of three joints, a camera that is turned and a goal; the machines keep one time."""
    topics = {
        "joints": {"topic": "/joint_states", "type": "sensor_msgs/msg/JointState"},
        "camera": {
            "topic": "/cube",
            "type": "geometry_msgs/msg/PoseStamped",
            "frame_id": "camera",
            "translation": [1.0, 0.0, 0.0],
            "rpy": [0.0, 0.0, np.pi / 2],
        },
        "goal": {"topic": "/goal", "type": "geometry_msgs/msg/PoseStamped", "frame_id": "table", "standing": True},
    }
    for path, value in changes.items():
        topic, _, key = path.partition("__")
        topics[topic][key] = value
    signals = {
        "angles": {"of": "joints", "joints": ["c", "a", "b"], "factor": [1.0, -1.0, 0.001]},
        "cube": {"of": "camera"},
        "cube_speed": {"of": "camera", "field": "velocity"},
        "goal": {"of": "goal"},
    }
    return Sources(settings(topics=topics, signals=signals, kinematics=None), SIGNALS, clock, None, Frame.of())


def joints(names=ARM, position=(1.0, 2.0, 3.0), stamp=None):
    return JointMessage(time.time() if stamp is None else stamp, tuple(names), np.array(position, float))


def pose(position, stamp=None, frame="camera"):
    return PoseMessage(time.time() if stamp is None else stamp, frame, np.array(position, float), UPRIGHT)


def full(sources, clock):
    """All that the policy reads."""
    sources.hear("joints", joints(), clock.now())
    sources.hear("camera", pose([0.1, 0.2, 0.3]), clock.now())
    sources.hear("goal", pose([0.0, 0.5, 0.0], frame="table"), clock.now())
    return sources.latest.observation()


def test_joints_are_found_by_their_names_whatever_their_order(clock):
    sources = make_sources(clock)
    expected = full(sources, clock).values["angles"]
    assert expected == pytest.approx([3.0, -1.0, 0.002]), "in the signal's order and units"
    sources.hear("joints", joints("xcba", [9.0, 3.0, 2.0, 1.0]), clock.now())
    assert sources.latest.observation().values["angles"] == pytest.approx(expected)


def test_a_pose_is_told_in_the_policys_frame(clock):
    assert full(make_sources(clock), clock).values["cube"] == pytest.approx([1.0 - 0.2, 0.1, 0.3])


def test_a_velocity_is_the_slope_over_stamps_and_not_over_arrivals(clock):
    sources, now = make_sources(clock), time.time()
    for step in range(3):
        sources.hear("camera", pose([0.1 * step, 0.0, 0.0], now - 0.3 + 0.1 * step), clock.now())
    sources.hear("joints", joints(), clock.now())
    sources.hear("goal", pose([0.0, 0.5, 0.0], frame="table"), clock.now())
    assert sources.latest.observation().values["cube_speed"] == pytest.approx([0.0, 1.0, 0.0], abs=1e-3)


def test_the_gate_sees_how_old_a_measurement_is_and_not_when_its_message_came(clock):
    sources = make_sources(clock, camera__delay_s=0.1)
    sources.hear("joints", joints(stamp=time.time() - 0.5), clock.now())
    sources.hear("camera", pose([0.0, 0.0, 0.0], time.time() - 0.2), clock.now())
    sources.hear("goal", pose([0.0, 0.5, 0.0], time.time() - 100.0, "table"), clock.now())
    observation = sources.latest.observation()
    assert clock.now() - observation.measured("angles") == pytest.approx(0.5, abs=0.05)
    assert clock.now() - observation.measured("cube") == pytest.approx(0.3, abs=0.05)
    assert observation.time == observation.measured("angles"), "the oldest one's"


def test_another_clocks_stamps_become_ours(clock):
    sources = make_sources(clock, joints__clock="theirs")
    for step in range(20):
        sources.hear("joints", joints(stamp=5000.0 + 0.01 * step), 100.0 + 0.01 * step)
    sources.hear("joints", joints(stamp=5000.2), 100.7)
    sources.hear("camera", pose([0.1, 0.2, 0.3]), clock.now())
    sources.hear("goal", pose([0.0, 0.5, 0.0], frame="table"), clock.now())
    assert sources.latest.observation().measured("angles") == pytest.approx(100.2, abs=1e-6)


def test_a_goal_stands_until_another_one_is_said_or_the_world_is_told_to_begin_anew(clock):
    sources = make_sources(clock)
    full(sources, clock)
    sources.reset(False)
    assert set(sources.latest.missing) == {"angles", "cube", "cube_speed"}
    sources.reset(True)
    assert "goal" in sources.latest.missing


@pytest.mark.parametrize(
    ("topic", "message", "reason"),
    [
        ("joints", lambda: joints(("a", "b"), [1.0, 2.0]), "it lacks c; it has a, b"),
        ("joints", lambda: joints((), []), "it lacks c, a, b; it has no joints"),
        ("joints", lambda: joints(position=[1.0, np.nan, 3.0]), r"position of c, a, b is \[3.0, 1.0, nan\]"),
        ("joints", lambda: joints(position=[1.0, 2.0]), "it has 3 names and 2 numbers of position"),
        ("joints", lambda: joints(stamp=0.0), "its stamp is 0 s: whoever sends it does not stamp it"),
        ("joints", lambda: joints(stamp=time.time() + 1.0), "its stamp lies 1 s in the future"),
        ("joints", lambda: joints(stamp=np.nan), "its stamp is nan"),
        ("camera", lambda: pose([0.0, 0.0, 0.0], frame="world"), "its frame is 'world', and 'camera' was expected"),
        ("camera", lambda: pose([0.0, np.inf, 0.0]), "must be finite"),
        ("camera", lambda: PoseMessage(time.time(), "camera", np.zeros(3), np.zeros(4)), "has length 0, not 1"),
    ],
)
def test_a_message_that_cannot_be_used_is_refused_and_told(clock, topic, message, reason):
    sources = make_sources(clock)
    before = full(sources, clock)
    sources.hear(topic, message(), clock.now())
    after = sources.latest.observation()
    assert all((before.values[name] == after.values[name]).all() for name in before.values), "nothing of it is used"
    assert after.times == before.times
    (fault,) = sources.faults
    assert fault.startswith(f"{sources.topics[topic].settings.topic}: 1 messages refused, the last one because")
    with pytest.raises(AdapterError, match=reason):
        raise AdapterError(fault)
    full(sources, clock)
    assert sources.faults == [], "the next good one ends it"
    assert sources.topics[topic].refused == 1


def test_a_clock_that_is_told_to_be_another_one_may_be_ahead(clock):
    sources = make_sources(clock, joints__clock="theirs")
    sources.hear("joints", joints(stamp=time.time() + 1000.0), clock.now())
    assert sources.faults == []


def test_the_examples_gripper_opens_twice_as_wide_as_a_finger_goes(clock):
    pytest.importorskip("mink")
    pytest.importorskip("pybullet_data")
    from sami_runtime.robots.kit import DifferentialIK

    contract = read_artifact(shipped_models()["panda-satesac"]).contract
    example, sheet = settings(), contract.sheet.numbers
    arm = example.kinematics
    ik = DifferentialIK(arm.file, arm.hand, arm.joints, sheet["home_joints"].values)
    base = Frame.of(sheet["arm_base"].values)
    sources = Sources(example, contract.observation, clock, ik, base)
    names = ("panda_finger_joint1", *arm.joints[::-1])
    home = np.array(sheet["home_joints"].values)
    for step in range(2):
        report = JointMessage(5.0 + step, names, np.array([0.03, *home[::-1]]), np.zeros(8))
        sources.hear("joints", report, 10.0 + step)
    assert sources.faults == []
    assert sources.latest._values["gripper_width"] == pytest.approx([0.06])
    assert sources.latest._values["ee_position"] == pytest.approx(sheet["home_ee_position"].values, abs=2e-3)
    assert sources.joints.positions == pytest.approx(home)
