"""What a recording publishes as joints and as places: by what a signal is, whatever its elements are called."""

import pytest

pytest.importorskip("mcap")
pytest.importorskip("google.protobuf")

from sami_runtime.recording.mcap_file import ChunkedFile
from sami_runtime.recording.topics import Topics
from sami_runtime.signals import Signal


def signal(name, unit, elements, meaning=""):
    free = (None,) * len(elements)
    return Signal(name=name, size=len(elements), unit=unit, elements=elements, low=free, high=free, meaning=meaning)


@pytest.fixture
def topics(make, tmp_path):
    """Makes the topics of a contract that observes these signals."""
    plain = make.contract_of(make.recurrent())

    def topics_of(*signals, moves=None):
        update = {"observation": signals}
        if moves:
            update["action"] = signal("speeds", "rad/s", moves)
        return Topics(Silent(), plain.model_copy(update=update))

    return topics_of


class Silent(ChunkedFile):
    """Takes topics, and writes nothing."""

    def __init__(self):
        self.count = 0

    def channel(self, *_):
        self.count += 1
        return self.count


ARM = ("shoulder", "elbow")


@pytest.mark.parametrize("name", ["x", "y", "z", "roll", "pitch", "yaw", "w"])
def test_a_joint_may_be_called_as_an_axis_is(topics, name):
    result = topics(signal("angles", "rad", (*ARM, name)), signal("speeds", "rad/s", (*ARM, name)))
    assert [joint.name for joint in result._joints] == ["angles", "speeds"]


def test_joints_that_are_all_called_as_axes_are_known_by_their_name_or_by_the_action(topics):
    pan_tilt = ("yaw", "pitch")
    assert topics(signal("angles", "rad", pan_tilt), moves=pan_tilt)._joints[0].name == "angles"
    assert topics(signal("joint_angles", "rad", pan_tilt))._joints[0].name == "joint_angles"


@pytest.mark.parametrize("elements", [("roll", "pitch", "yaw"), ("pitch",), ("x", "y", "z")])
def test_an_orientation_is_no_joint(topics, elements):
    assert topics(signal("cube_rotation", "rad", elements))._joints is None


def test_the_joints_that_are_measured_come_before_those_that_are_wanted(topics):
    result = topics(signal("wanted", "rad", ("a", "b")), signal("angles", "rad", ARM), signal("speeds", "rad/s", ARM))
    assert result._joints[0].name == "angles"


@pytest.mark.parametrize("name", ["cube_position", "position", "desired_goal", "target", "hand_pose"])
def test_positions_are_places_in_the_world(topics, name):
    assert name.removesuffix("_position") in topics(signal(name, "m", ("x", "y", "z")))._poses


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("to_cube", ""),
        ("cube_displacement", ""),
        ("displacement", "from the tip to the cube"),
        ("relative_position", ""),
        ("cube_position", "in the tip's frame"),
        ("cube_position", "seen in the camera frame"),
        ("cube_position", "in the frame of the hand"),
        ("cube_position", "displacement of the cube from the tip"),
        ("position_error", ""),
        ("goal_offset", ""),
    ],
)
def test_what_is_relative_to_something_that_moves_is_no_place_in_the_world(topics, name, meaning):
    assert topics(signal(name, "m", ("x", "y", "z"), meaning))._poses == {}


def test_the_panda_has_the_places_that_it_had(topics):
    from sami_runtime.adapters.panda import PANDA_OBSERVATION

    assert {*topics(*PANDA_OBSERVATION)._poses} == {"cube", "ee", "desired_goal", "achieved_goal"}
