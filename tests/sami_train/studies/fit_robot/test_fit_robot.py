"""Laws of fit-robot: what the motion shows of hidden motors is found within a tenth, and the rest is not claimed."""

import re

import mujoco
import numpy as np
import pytest

pytest.importorskip("mcap")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from sami_runtime.errors import SamiError
from sami_train.envs.catalog import environment
from sami_train.envs.mjcf.description import read_description
from sami_train.studies.fit_gap.trace import read_log
from sami_train.studies.fit_robot.body import RobotBody
from sami_train.studies.fit_robot.files import fitted_model, training_document
from sami_train.studies.fit_robot.fit import fit_robot
from sami_train.studies.fit_robot.windows import RecordedWindows
from tests.making.hidden_robot import JOINTS, draw_hidden, hide, nominal_arm, recorded

EPISODES, NOISE = 6, 0.0005
"""Of a recording; of the encoders [rad]."""
HIDDEN = draw_hidden(JOINTS, seed=1)


@pytest.fixture(scope="module", params=["position", "motor"])
def arm(request, tmp_path_factory):
    """(the arm as its maker describes it, a recording of one whose motors differ)."""
    folder = tmp_path_factory.mktemp(request.param)
    nominal = nominal_arm(folder, request.param)
    return nominal, recorded(hide(nominal, HIDDEN), folder / "run.mcap", episodes=EPISODES, noise=NOISE)


@pytest.fixture(scope="module")
def robot_fit(arm):
    nominal, recording = arm
    log = read_log([recording])
    body = RobotBody(nominal, log.contract)
    return body, fit_robot(body, log)


def by_name(robot_fit):
    return {(fit.parameter.field, fit.parameter.of): fit for fit in robot_fit.parameters}


def test_what_is_identified_is_within_a_tenth_of_what_is_hidden(robot_fit):
    hidden, identified = HIDDEN.numbers(), []
    for name, fit in by_name(robot_fit[1]).items():
        if fit.verdict == "identified":
            identified.append(name)
            near = 0.005 if name[0] == "bias" else 0.0
            assert fit.value == pytest.approx(hidden[name], rel=0.1, abs=near), name
    assert len(identified) >= 14, "of 16"


def test_intervals_contain_what_is_hidden(robot_fit):
    hidden = HIDDEN.numbers()
    inside = [fit.low <= hidden[name] <= fit.high for name, fit in by_name(robot_fit[1]).items()]
    assert sum(inside) >= len(inside) - 2


def test_a_bias_that_no_torque_depends_on_is_not_identifiable_and_stays_0(robot_fit):
    base = by_name(robot_fit[1])["bias", "base"]
    assert (base.verdict, base.model_value) == ("not identifiable", 0.0)


def test_windows_that_were_held_out_are_replayed_to_the_noise(robot_fit):
    [(nominal, error)] = robot_fit[1].replay.values()
    assert nominal.low > 0.01
    assert error.low <= error.value <= error.high
    assert error.value == pytest.approx(NOISE, rel=0.1)


def test_the_model_that_is_written_is_the_hidden_one(robot_fit, arm):
    folder = arm[0].parent
    (folder / "fitted.xml").write_text(fitted_model(*robot_fit, folder))
    model, true = (mujoco.MjModel.from_xml_path(str(folder / f"{name}.xml")) for name in ("fitted", "hidden"))
    for field in ("dof_armature", "dof_frictionloss", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange"):
        assert getattr(model, field) == pytest.approx(getattr(true, field), rel=0.1), field
    assert np.ravel(model.dof_damping) == pytest.approx(np.ravel(true.dof_damping), rel=0.1)
    assert model.qpos0[1:] == pytest.approx(true.qpos0[1:], abs=0.005)
    assert model.actuator_delay == pytest.approx(true.actuator_delay, rel=0.1)
    assert (model.actuator_history[:, 0] * model.opt.timestep > model.actuator_delay).all()


def test_the_file_for_training_keeps_the_robots_own_tasks_and_draws_from_the_intervals(robot_fit, arm):
    folder, (body, result) = arm[0].parent, robot_fit
    (folder / "fitted.xml").write_text(fitted_model(body, result, folder))
    (folder / "fitted.toml").write_text(training_document(body, result, folder / "fitted.xml"))
    tasks = environment(str(folder / "fitted.toml")).tasks
    spans = read_description(folder / "fitted.toml").tasks["training"]
    task = tasks.drawn["training"](np.random.default_rng(0))
    assert task["fitted_load"] == 1.0
    hidden = HIDDEN.numbers()
    for (field, of), fit in by_name(result).items():
        if field == "bias" or fit.verdict == "not identifiable":
            assert fit.parameter.key not in task
            continue
        span = spans[fit.parameter.key]
        true = hidden[field, of] / (fit.value if field == "strength" else 1.0)
        assert span["low"] * 0.98 <= true <= span["high"] * 1.02
        assert span["low"] <= task[fit.parameter.key] <= span["high"]
        assert span["high"] - span["low"] >= 0.039 * (1.0 if field == "strength" else fit.value)


def test_a_second_fit_replaces_the_ranges_of_the_first(robot_fit, arm):
    folder, (body, result) = arm[0].parent, robot_fit
    model, path = folder / "first.xml", folder / "first.toml"
    model.write_text(fitted_model(body, result, folder))
    path.write_text(training_document(body, result, model))
    again = RobotBody(path, read_log([arm[1]]).contract)
    assert training_document(again, result, model) == path.read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[tasks.training]\nfitted_load = [1.0]", "[tasks]\ntraining = { fitted_load = [1.0] }"),
        ("[tasks.training]", "[[tasks.training]]"),
        ('model = "robot.xml"', '"mod\\u0065l" = "robot.xml"'),
    ],
    ids=["braces", "list", "model"],
)
def test_a_file_that_cannot_take_the_ranges_is_rejected(robot_fit, arm, old, new):
    text, path = arm[0].read_text(), arm[0].with_name("written.toml")
    assert old in text
    path.write_text(text.replace(old, new).replace("[1.0]", "1.0" if "[[" in new else "[1.0]"))
    with pytest.raises(SamiError, match=r"cannot take the fitted ranges\. Write `model = \.\.\.` in a line of its own"):
        training_document(RobotBody(path, read_log([arm[1]]).contract), robot_fit[1], path.with_name("more.xml"))


def test_an_xml_file_alone_needs_a_reward_and_nothing_else(robot_fit, arm):
    nominal, recording = arm
    body = RobotBody(nominal.with_suffix(".xml"), read_log([recording]).contract)
    folder = nominal.parent
    (folder / "bare.xml").write_text(fitted_model(body, robot_fit[1], folder))
    text = training_document(body, robot_fit[1], folder / "bare.xml")
    (folder / "bare.toml").write_text(text)
    with pytest.raises(SamiError, match="reward: field required"):
        environment(str(folder / "bare.toml"))
    (folder / "bare.toml").write_text(text + "\n[[reward]]\nalive = true\nweight = 1.0\n")
    assert environment(str(folder / "bare.toml")).rate_hz == pytest.approx(50.0)


def test_a_delay_that_the_model_has_is_the_nominal_one(arm):
    body = RobotBody(arm[0].with_name("hidden.xml"), read_log([arm[1]]).contract)
    [delay] = [parameter.nominal for parameter in body.parameters(np.ones(3)) if parameter.field == "delay"]
    assert delay == pytest.approx(HIDDEN.delay)
    assert not body.model.actuator_delay.any()


def test_a_joint_that_does_not_move_is_not_identifiable(tmp_path):
    nominal = nominal_arm(tmp_path)
    recording = recorded(hide(nominal, HIDDEN), tmp_path / "run.mcap", episodes=EPISODES, noise=NOISE, still=("base",))
    log = read_log([recording])
    result = by_name(fit_robot(RobotBody(nominal, log.contract), log))
    for field in ("armature", "damping", "frictionloss", "bias", "strength"):
        assert (result[field, "base"].verdict, field) == ("not identifiable", field)
        assert result[field, "base"].model_value == result[field, "base"].parameter.nominal
    assert result["armature", "elbow"].verdict == "identified"


def test_positions_alone_are_enough(tmp_path):
    nominal = nominal_arm(tmp_path)
    nominal.write_text(nominal.read_text().replace("[features", "[observation]\nqvel = []\n[features", 1))
    log = read_log([recorded(hide(nominal, HIDDEN), tmp_path / "run.mcap", episodes=EPISODES, noise=NOISE)])
    body = RobotBody(nominal, log.contract)
    assert not body.velocities
    result, hidden = by_name(fit_robot(body, log)), HIDDEN.numbers()
    identified = {name: fit for name, fit in result.items() if fit.verdict == "identified" and name[0] != "bias"}
    assert len(identified) >= 8
    for name, fit in identified.items():
        assert fit.value == pytest.approx(hidden[name], rel=0.1), name


def test_a_base_that_was_not_recorded_is_fixed_as_on_a_stand(arm):
    nominal, recording = arm
    loose = nominal.with_name("loose.xml")
    text = nominal.with_suffix(".xml").read_text()
    text = text.replace('<body pos="0 0 1">', '<body pos="0 0 1"><freejoint name="float"/><geom type="sphere"/><body>')
    loose.write_text(text.replace("</worldbody>", "</body></worldbody>"))
    body = RobotBody(loose, read_log([recording]).contract)
    assert (body.fixed, body.model.nv) == (["float"], 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            ['"base"'],
            ['"yaw"'],
            "its actuators are yaw, shoulder, elbow; the recorded action has base, shoulder, elbow",
        ),
        (
            ['joint name="base"', ' joint="base"'],
            ['joint name="yaw"', ' joint="yaw"'],
            "actuator 'base' drives 'yaw', whos",
        ),
        (
            ['joint name="', ' joint="'],
            ['joint name="my_', ' joint="my_'],
            "no joint's position was recorded. Its joints",
        ),
        (["<compiler"], ["<compilers"], "MuJoCo cannot read"),
    ],
    ids=["actuator", "joint", "joints", "xml"],
)
def test_a_model_that_does_not_fit_the_recording_is_rejected(arm, old, new, message):
    nominal, recording = arm
    text = nominal.with_suffix(".xml").read_text()
    for before, other in zip(old, new, strict=True):
        assert before in text
        text = text.replace(before, other)
    other = nominal.with_name("other.xml")
    other.write_text(text)
    with pytest.raises(SamiError, match=re.escape(message)):
        RobotBody(other, read_log([recording]).contract)


def test_an_actuator_whose_state_no_recording_has_is_rejected(arm):
    nominal, recording = arm
    other, text = nominal.with_name("other.xml"), nominal.with_suffix(".xml").read_text()
    slow = '<general name="base" joint="base" ctrlrange="-1 1" dyntype="filter" dynprm="0.1"/>'
    other.write_text(re.sub('<[a-z]+ name="base" joint="base" [^>]*>', slow, text))
    with pytest.raises(SamiError, match="1 of its actuators have a state of their own"):
        RobotBody(other, read_log([recording]).contract)


@pytest.mark.parametrize("name", ["missing.xml", "robot.urdf", "."])
def test_a_file_that_is_no_model_is_rejected(arm, name):
    with pytest.raises(SamiError, match=r"is no MJCF model\. Give NAME\.xml"):
        RobotBody(arm[0].with_name("x").parent / name, read_log([arm[1]]).contract)


def test_a_recording_that_is_too_short_is_rejected(tmp_path):
    nominal = nominal_arm(tmp_path)
    log = read_log([recorded(nominal, tmp_path / "run.mcap", episodes=3)])
    with pytest.raises(SamiError, match=r"6 windows of 0\.5 s have a reading at every tick, and 12 are the fewest"):
        fit_robot(RobotBody(nominal, log.contract), log)


def test_commands_that_hardly_change_are_rejected(tmp_path):
    nominal = nominal_arm(tmp_path)
    log = read_log([recorded(nominal, tmp_path / "run.mcap", episodes=1, share=0.01)])
    with pytest.raises(SamiError, match="excites nothing"):
        fit_robot(RobotBody(nominal, log.contract), log)


def test_meshes_are_found_from_another_folder(arm, robot_fit, tmp_path):
    nominal, recording = arm
    meshes = nominal.parent / "parts"
    meshes.mkdir(exist_ok=True)
    (meshes / "cube.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for x in (0, 0.1) for y in (0, 0.1) for z in (0, 0.1))
        + "f 1 2 3\nf 2 3 4\nf 5 6 7\n"
    )
    text = nominal.with_suffix(".xml").read_text()
    text = text.replace("<compiler ", '<compiler meshdir="parts" ')
    text = text.replace(
        "<worldbody>", '<asset><mesh file="cube.obj"/></asset><worldbody><geom type="mesh" mesh="cube"/>'
    )
    (nominal.parent / "meshed.xml").write_text(text)
    body = RobotBody(nominal.parent / "meshed.xml", read_log([recording]).contract)
    (tmp_path / "moved.xml").write_text(fitted_model(body, robot_fit[1], tmp_path))
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "moved.xml")).nmesh == 1


def test_a_delay_that_is_no_whole_step_shares_a_change_between_two():
    controls = np.zeros((1, 6, 1))
    controls[0, 3:] = 1.0  # from the beginning of the window's second tick on
    windows = RecordedWindows(np.zeros((1, 5, 1)), controls, before=2, period=0.02)
    assert windows.delayed(0.0, 2)[0, :, 0].tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert windows.delayed(0.01, 2)[0, :, 0] == pytest.approx([0, 0, 0, 1, 1, 1, 1, 1])
    assert windows.delayed(0.0125, 2)[0, :, 0] == pytest.approx([0, 0, 0, 0.75, 1, 1, 1, 1])
    assert windows.delayed(0.04, 2)[0, :, 0] == pytest.approx([0, 0, 0, 0, 0, 0, 1, 1])
