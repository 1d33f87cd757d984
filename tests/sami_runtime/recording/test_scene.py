"""The robot's shape in a recording: read back from the file, it is the simulator's."""

import json

import numpy as np
import pytest

pytest.importorskip("mcap")
pytest.importorskip("mujoco")

from mcap.reader import make_reader

from sami_runtime import FakeAdapter, Run, Session, read_recording, shipped_models
from sami_runtime.adapters.around import DryRun
from sami_runtime.adapters.mujoco_scene import MujocoScene
from sami_runtime.adapters.scene import scene_of
from sami_runtime.recording.scene_topics import scene_schemas
from sami_runtime.recording.view import read_poses, require_scene, run_of
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import environment
from sami_train.envs.make import make

STEPS = 5
XML = """<mujoco><worldbody><geom name="floor" type="plane" size="0 0 1"/>
<body name="arm" pos="1 2 3" quat="0 1 0 0"><geom type="capsule" size=".1 .3" pos="0 0 .2" rgba="1 0 0 1"/>
<geom type="box" size=".1 .2 .3" group="3"/><geom type="sphere" size=".1" rgba="1 1 1 0"/></body>
</worldbody></mujoco>"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording of half-cheetah, and where its bodies really were after each step."""
    path = tmp_path_factory.mktemp("scene") / "run.mcap"
    spec = environment("half-cheetah")
    adapter = make_adapter(spec, make(spec))
    places = []
    with Run(Session.load(shipped_models()["half-cheetah-satesac"]), adapter, simulator=True, record=path) as run:
        run.episode(seed=0, max_steps=STEPS, on_step=lambda _: places.append(adapter.scene.poses().copy()))
    adapter.close()
    return path, np.array(places)


def test_the_poses_of_every_tick_are_those_of_the_simulator(recorded):
    path, places = recorded
    recording = read_recording(path)
    np.testing.assert_allclose(read_poses(recording.transforms), places, atol=1e-6)
    assert len(recording.steps) == len(places) == STEPS
    assert np.ptp(places[:, 1, 0]) > 0, "the robot moves"


def test_tools_read_the_scene_once_an_episode_in_the_frames_of_the_links(recorded):
    path, _ = recorded
    schemas = scene_schemas()
    with path.open("rb") as file:
        results = [
            (schema.name, channel.topic, message.data) for schema, channel, message in make_reader(file).iter_messages()
        ]
    (update,) = [data for name, topic, data in results if topic == "/scene"]
    scene = schemas.message("foxglove.SceneUpdate").FromString(update)
    transforms = [schemas.message(name).FromString(data) for name, topic, data in results if topic == "/tf"]
    frames = {transform.child_frame_id for transform in transforms[0].transforms}
    assert len(transforms) == STEPS
    assert {entity.frame_id for entity in scene.entities} <= frames
    capsules = sum(len(entity.cylinders) for entity in scene.entities)
    assert capsules == 8, "torso, head, and six links"
    assert sum(len(entity.spheres) for entity in scene.entities) == 2 * capsules


def test_the_page_holds_the_scene_and_the_poses(recorded):
    path, places = recorded
    run = run_of(read_recording(path))
    assert len(run["scene"]["links"]) == places.shape[1]
    assert json.loads(json.dumps(run["scene"])) == run["scene"]


def test_a_scene_shows_what_mujocos_viewers_show():
    import mujoco

    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    scene = MujocoScene(model, data)
    assert scene.links == ("world", "arm")
    assert [(shape.link, shape.kind) for shape in scene.shapes] == [(0, "plane"), (1, "capsule")]
    assert scene.shapes[1].size == (0.1, 0.1, 0.3)
    assert scene.poses()[1].tolist() == [1, 2, 3, 1, 0, 0, 0], "x, y, z, w"


def test_the_box_of_a_mesh_lies_around_its_vertices():
    import mujoco

    corners = "0 0 0  .2 0 0  0 .4 0  0 0 .6  .2 .4 0  .2 0 .6  0 .4 .6  .2 .4 .6"
    xml = f"""<mujoco><asset><mesh name="m" vertex="{corners}"/></asset><worldbody>
    <body pos="1 0 0"><geom type="mesh" mesh="m" euler="0 0 90"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    (shape,) = MujocoScene(model, data).shapes
    assert sorted(shape.size) == pytest.approx([0.1, 0.2, 0.3], abs=1e-4)
    assert shape.pose[:3] == pytest.approx((-0.2, 0.1, 0.3), abs=1e-4), "turned by 90 degrees about z"


def test_a_robot_without_a_model_has_no_scene():
    assert scene_of(FakeAdapter()) is None
    assert scene_of(DryRun(FakeAdapter())) is None


def test_an_adapter_around_another_one_shows_the_same_scene():
    spec = environment("half-cheetah")
    adapter = make_adapter(spec, make(spec))
    assert scene_of(DryRun(adapter)) is adapter.scene
    adapter.close()


@pytest.mark.parametrize(
    "value",
    [
        {"links": ["a"], "shapes": [[1, "box", [1, 1, 1], [0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1]]]},
        {"links": ["a"], "shapes": [[0, "box", [1, 1], [0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1]]]},
        {"links": ["a"], "shapes": [[0, "box", [1, 1, float("nan")], [0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1]]]},
    ],
)
def test_a_scene_that_somebody_changed_is_refused(value):
    with pytest.raises(ValueError, match="scene"):
        require_scene(value)
