"""A user's MJCF model and TOML file: what they become, and what is said where they do not fit."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from sami_runtime.errors import SamiError, UnknownName
from sami_train.envs.mjcf.env import MjcfEnv
from sami_train.envs.mjcf.robot import load_robot
from sami_train.envs.tasks import TaskError

MODEL = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1" friction="0.8 0.01 0.001"/>
    <body name="cart" pos="0 0 1">
      <joint name="rail" type="slide" axis="1 0 0" damping="0.5"/>
      <geom name="box" type="box" size="0.1 0.1 0.05" mass="1"/>
      <body name="pole">
        <joint name="hinge" axis="0 1 0" damping="0.1"/>
        <geom name="rod" type="capsule" fromto="0 0 0 0 0 0.5" size="0.02" mass="0.2"/>
        <site name="top" pos="0 0 0.5"/>
      </body>
    </body>
    <body name="ball" pos="2 0 1">
      <freejoint name="ball"/>
      <geom name="ball" size="0.1" mass="0.5" friction="0.3 0.02 0.002"/>
    </body>
  </worldbody>
  <actuator>
    <motor name="push" joint="rail" gear="10" ctrlrange="-2 4"/>
    <motor name="turn" joint="hinge" gear="3" ctrlrange="-1 1"/>
  </actuator>
  <sensor>
    <velocimeter name="top-speed" site="top"/>
    <jointpos name="where" joint="rail"/>
  </sensor>
  <keyframe><key name="leaning" qpos="0.5 0.3 2 0 1 1 0 0 0"/></keyframe>
</mujoco>
"""
WHOLE = """
model = "robot.xml"
rate_hz = 25
episode_steps = 50
reward = [{ alive = true, weight = 1 }]
[features]
mass = { sets = "body_mass", of = ["cart"] }
[tasks]
training = { mass = [1.0, 2.0] }
"""


@pytest.fixture
def file(tmp_path):
    """Writes the model and a file about it, with lines that change, and returns the file's path."""

    def write(text=WHOLE, model=MODEL, name="robot.toml"):
        (tmp_path / "robot.xml").write_text(model)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def with_features(**features):
    """The file with other features, each one's training value 2."""
    lines = [f"{name} = {table}" for name, table in features.items()]
    values = [f"{name} = [2.0]" for name in features]
    return WHOLE[: WHOLE.index("[features]")] + "\n".join(["[features]", *lines, "[tasks.training]", *values])


def with_reward(*terms, more=""):
    return WHOLE.replace("reward = [{ alive = true, weight = 1 }]", f"reward = [{', '.join(terms)}]\n{more}")


def difference(before, after):
    return np.flatnonzero(np.any(np.atleast_2d(before.T != after.T), axis=0)).tolist()


def test_signals_are_named_after_joints_and_sensors_and_have_units(file):
    spec = load_robot(file())
    assert [(signal.name, signal.unit, signal.elements) for signal in spec.signals] == [
        ("joint_angles", "rad", ("hinge",)),
        ("slide_positions", "m", ("rail",)),
        ("ball_position", "m", ("x", "y", "z")),
        ("ball_orientation", "1", ("w", "x", "y", "z")),
        ("joint_velocities", "rad/s", ("hinge",)),
        ("slide_velocities", "m/s", ("rail",)),
        ("ball_velocity", "m/s", ("x", "y", "z")),
        ("ball_angular_velocity", "rad/s", ("x", "y", "z")),
        ("top_speed", "m/s", ("x", "y", "z")),
        ("where", "m", ("0",)),
    ]
    assert (spec.name, spec.rate_hz, spec.episode_steps) == ("robot", 25.0, 50)


def test_each_signal_reads_what_its_name_says(file):
    env = MjcfEnv(str(file(WHOLE + '[reset]\nkeyframe = "leaning"\n')))
    observation, _ = env.reset(seed=0)
    observation, *_ = env.step(np.array([0.5, -0.5]))
    signals = load_robot(env.robot.path).layout.by_name(observation)
    assert signals["joint_angles"] == pytest.approx(env.data.joint("hinge").qpos)
    assert signals["slide_positions"] == pytest.approx(env.data.joint("rail").qpos)
    assert np.concatenate([signals["ball_position"], signals["ball_orientation"]]) == pytest.approx(
        env.data.joint("ball").qpos
    )
    assert signals["ball_velocity"] == pytest.approx(env.data.joint("ball").qvel[:3])
    assert signals["where"] == pytest.approx(signals["slide_positions"]), "sensors tell of the state that was reached"
    assert observation in env.observation_space


def test_an_action_spans_the_range_of_its_actuator(file):
    env = MjcfEnv(str(file()))
    env.reset(seed=0)
    for action, control in (([1, 1], [4, 1]), ([-1, 0], [-2, 0]), ([7, -7], [4, -1])):
        env.step(np.array(action))
        assert env.data.ctrl.tolist() == control
    assert load_robot(env.robot.path).action.meaning.endswith("-2 to 4 for push; -1 to 1 for turn")


FIELDS = {
    "body_mass": (["cart"], [1], 1.0),
    "dof_damping": (["rail"], [0], 0.5),
    "geom_friction": (["floor"], [0], 0.8),
    "actuator_gear": (["push"], [0], 10.0),
}


@pytest.mark.parametrize("verb", ["sets", "scales"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_feature_changes_the_elements_that_it_names_and_no_others(file, field, verb):
    of, rows, model_value = FIELDS[field]
    env = MjcfEnv(str(file(with_features(x=f'{{ {verb} = "{field}", of = {of} }}'))))
    before = getattr(env.model, field).copy()
    for _ in range(2):  # a scale multiplies the model's own value, not the one before
        env.set_dynamics({"x": 2.0})
    after = getattr(env.model, field)
    assert difference(before, after) == rows
    assert np.atleast_2d(after.T)[0, rows[0]] == pytest.approx(2.0 if verb == "sets" else 2.0 * model_value)
    env.set_dynamics({})
    assert getattr(env.model, field).tolist() == before.tolist(), "left out, a feature is as in the model"


def test_a_mass_carries_its_inertia_and_what_mujoco_derives_of_it(file):
    env = MjcfEnv(str(file()))
    inertia, subtree = env.model.body("cart").inertia.copy(), env.model.body("cart").subtreemass[0]
    env.set_dynamics({"mass": 3.0})
    assert env.model.body("cart").inertia == pytest.approx(3.0 * inertia)
    assert env.model.body("cart").subtreemass[0] == pytest.approx(subtree + 2.0)


def test_a_change_within_an_episode_leaves_the_state_and_changes_what_follows(file):
    def pushed(task):
        env = MjcfEnv(str(file()))
        env.reset(seed=0, options={"task": {"mass": 1.0}})
        env.step(np.ones(2))
        before = env.data.qpos.copy()
        env.set_dynamics(task)
        assert env.data.qpos.tolist() == before.tolist()
        *_, info = env.step(np.ones(2))
        assert info["task"] == task
        return env.data.joint("rail").qvel[0]

    assert pushed({"mass": 8.0}) < 0.8 * pushed({"mass": 1.0})


def test_the_reward_is_the_sum_of_its_terms(file):
    terms = {
        '{ distance = "top", to = [0, 0, 1.5], weight = -2 }': lambda data: (
            -2 * np.hypot(*(data.site("top").xpos[[0, 2]] - [0, 1.5]))
        ),
        '{ distance = "top", to = "cart", weight = 1 }': lambda data: 0.5,
        '{ position = "top", axis = "z", weight = 3 }': lambda data: 3 * data.site("top").xpos[2],
        '{ velocity = "cart", axis = "x", weight = 1 }': lambda data: data.joint("rail").qvel[0],
        '{ upright = "pole", weight = 1 }': lambda data: np.cos(data.joint("hinge").qpos[0]),
        '{ sensor = "top-speed", element = 2, weight = 1 }': lambda data: data.sensor("top-speed").data[2],
        "{ effort = true, weight = -0.5 }": lambda data: -0.5 * (0.6**2 + 0.5**2),
        "{ alive = true, weight = 7 }": lambda data: 7,
    }
    total = 0.0
    for item in (*terms, ", ".join(terms)):
        env = MjcfEnv(str(file(with_reward(item))))
        env.reset(seed=0)
        env.step(np.array([0.6, -0.5]))
        _, reward, *_ = env.step(np.array([0.6, -0.5]))
        expected = terms[item](env.data) if item in terms else total
        total += expected
        assert reward == pytest.approx(expected, abs=1e-9), item


def test_the_reward_may_be_a_function_of_a_module_beside_the_file(file, tmp_path, monkeypatch):
    (tmp_path / "my_mjcf_reward.py").write_text("def height(model, data):\n    return data.site('top').xpos[2]\n")
    path = file(re.sub("reward = .*", 'reward = "my_mjcf_reward:height"', WHOLE))
    monkeypatch.chdir("/")
    env = MjcfEnv(str(path))
    env.reset(seed=0)
    _, reward, *_ = env.step(np.zeros(2))
    assert reward == pytest.approx(env.data.site("top").xpos[2])


def test_an_episode_ends_when_a_quantity_leaves_its_bounds(file):
    path = file(with_reward("{ alive = true, weight = 1 }", more='end = [{ upright = "pole", below = 0.9 }]'))
    env = MjcfEnv(str(path))
    assert load_robot(path).ends_early
    env.reset(seed=0)
    over = False
    while not over:
        upright = np.cos(env.data.joint("hinge").qpos[0])
        assert upright >= 0.9
        _, _, over, _, _ = env.step(np.array([0.0, 1.0]))
    assert np.cos(env.data.joint("hinge").qpos[0]) < 0.9


def test_an_episode_begins_within_the_noise_of_its_joints(file):
    env = MjcfEnv(
        str(file(WHOLE + '[reset]\nkeyframe = "leaning"\nqpos_noise = { rail = 0.2, ball = 0.1 }\nqvel_noise = 0.3\n'))
    )
    starts = []
    for _ in range(20):
        env.reset()
        starts.append((env.data.qpos.copy(), env.data.qvel.copy()))
    qpos, qvel = (np.array(item) for item in zip(*starts, strict=True))
    assert 0.3 < qpos[:, 0].min() < 0.4 < 0.6 < qpos[:, 0].max() < 0.7
    assert set(qpos[:, 1]) == {0.3}
    assert np.linalg.norm(qpos[:, 5:9], axis=1) == pytest.approx(np.ones(20))
    assert 0.2 < np.abs(qvel).max() < 0.3


def test_the_same_seed_repeats_an_episode_and_another_does_not(file):
    env = MjcfEnv(str(file(WHOLE + "[reset]\nqpos_noise = 0.1\n")))

    def episode(seed):
        observation, info = env.reset(seed=seed)
        return [info["task"]["mass"], *observation, *env.step(np.ones(2))[0]]

    assert episode(1) == episode(1)
    assert episode(1) != episode(2)


def test_sets_are_grids_ranges_or_lists(file):
    training = "[tasks]\ntraining = { mass = { low = 1, high = 2 } }\n"
    sets = training + "moderate = { mass = [1.0, 3.0] }\nextreme = [{ mass = 5 }]\n"
    tasks = load_robot(file(WHOLE[: WHOLE.index("[tasks]")] + sets)).tasks
    masses = {task["mass"] for task in tasks.sets["training"]}
    assert len(masses) > 10
    assert all(1.0 <= mass <= 2.0 for mass in masses)
    assert tasks.sets["moderate"] == ({"mass": 1.0}, {"mass": 3.0})
    assert tasks.sets["extreme"] == ({"mass": 5.0},)
    with pytest.raises(TaskError, match=r"mass is 0; it must be a number greater than 0 kg"):
        tasks.check({"mass": 0})


@pytest.mark.parametrize("speed", [2e6, 1e12, np.nan])
def test_a_simulation_that_blows_up_ends_the_episode_and_says_so(file, tmp_path, monkeypatch, speed):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    env = MjcfEnv(str(file()))
    env.reset(seed=0)
    env.data.qvel[0] = speed
    observation, reward, terminated, truncated, info = env.step(np.zeros(2))
    assert (terminated, truncated, info["unstable"]) == (True, False, True)
    assert np.isfinite([*observation, reward]).all()
    env.reset(seed=0)
    assert env.step(np.zeros(2))[2:4] == (False, False)


def test_where_rewards_are_negative_a_diverging_episode_pays_and_the_page_warns(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env, returns = MjcfEnv(str(file(WHOLE.replace("weight = 1", "weight = -1")))), []
    for speed in (0.0, 1e12):
        env.reset(seed=0)
        returns.append(0.0)
        for step in range(50):
            env.data.qvel[0] = speed if step == 5 else env.data.qvel[0]
            _, reward, terminated, _, _ = env.step(np.zeros(2))
            returns[-1] += reward
            if terminated:
                break
    assert returns == [-50.0, -6.0]
    page = Path(__file__).parents[3] / "docs" / "reference" / "robot-model-file.md"
    assert not page.is_file() or "Where rewards are negative, an early end pays" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"cart"',
            '"crat"',
            "unknown body 'crat'. Did you mean 'cart'? Valid: ball, cart, pole, world. features.mass names it",
        ),
        ('sets = "body_mass"', 'scales = "dof_damping"', "unknown joint 'cart'. Valid: ball, hinge, rail."),
        (
            '"body_mass"',
            '"mass"',
            "features.mass.sets: input should be 'body_mass', 'dof_damping', 'geom_friction'",
        ),
        ('sets = "body_mass", ', "", "a feature sets or scales a field of the model"),
        (
            'of = ["cart"]',
            'off = ["cart"]',
            "features.mass.off: unknown key 'off'. Did you mean 'of'? Valid: adds, axis, of, scales, sets.",
        ),
        ('of = ["cart"]', 'of = "cart"', "features.mass.of: it must be a list of names, or \"all\", and it is 'cart'"),
        ('of = ["cart"]', 'of = ["world"]', "world has no mass in the model"),
        (
            "rate_hz = 25",
            "rate_hz = 30",
            "rate_hz is 30, which is 3.33333 simulation steps of 0.01 s; they must be a whole",
        ),
        ("rate_hz = 25", "", "give either rate_hz or frame_skip"),
        ("episode_steps = 50", "", "episode_steps: field required"),
        (
            "episode_steps = 50",
            "episode_steps = 0",
            "episode_steps: input should be greater than or equal to 1",
        ),
        ("robot.xml", "robto.xml", "which is no file"),
        ("alive = true", "alive = true, upright = 'pole'", "reward.number 1: exactly one of distance, position"),
        (
            "alive = true",
            "upright = 'plow'",
            "unknown site or body 'plow'. Valid: ball, cart, pole, top, world. reward 1 names it",
        ),
        (
            "alive = true",
            "sensor = 'speed'",
            "unknown sensor 'speed'. Did you mean 'top-speed'? Valid: top-speed, where.",
        ),
        ("alive = true", "sensor = 'where', element = 1", "element is 1, and sensor 'where' has 1 numbers"),
        (
            "alive = true",
            "velocity = 'pole'",
            "reward.number 1: `axis` belongs to position and velocity",
        ),
        ("[features]", "[reset]\nqpos_noise = { reil = 1 }\n[features]", "unknown joint 'reil'. Did you mean 'rail'?"),
        (
            "[features]",
            "[reset]\nkeyframe = 'up'\n[features]",
            "unknown keyframe 'up'. Valid: leaning. reset.keyframe names",
        ),
        (
            "[features]",
            "[observation]\nsensors = ['gyro']\n[features]",
            "unknown sensor 'gyro'. Valid: top-speed, where.",
        ),
        ("training", "trainning", "one of them must be named training"),
        ("mass = [1.0, 2.0]", "weight = [1.0]", "unknown environmental feature 'weight'. Valid: mass."),
        ("mass = [1.0, 2.0]", "mass = [0.0]", "mass is 0.0; it must be a number greater than 0 kg."),
        ("mass = [1.0, 2.0]", "mass = { low = 3.5, high = 3.0 }", "tasks: mass: Range(3.5, 3.0) holds no value"),
        ("mass = [1.0, 2.0]", "mass = { low = 1 }", "a range is { low = 0.5, high = 2.0 }. Give both ends"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(file, old, new, message):
    assert old in WHOLE
    with pytest.raises(SamiError) as error:
        load_robot(file(WHOLE.replace(old, new)))
    assert message in str(error.value)


def test_an_actuator_without_a_range_is_named(file):
    with pytest.raises(SamiError, match="actuators without a control range: push"):
        load_robot(file(model=MODEL.replace(' ctrlrange="-2 4"', "")))


def test_a_model_that_mujoco_refuses_is_told_in_its_words(file):
    with pytest.raises(SamiError, match=r"MuJoCo cannot read .*robot\.xml: .*'unknown_thing'"):
        load_robot(file(model=MODEL.replace("<worldbody>", "<unknown_thing/><worldbody>")))


def test_a_strange_action_is_refused(file):
    env = MjcfEnv(str(file()))
    env.reset(seed=0)
    with pytest.raises(SamiError, match="robot takes 2 finite numbers"):
        env.step(np.array([np.nan, 0.0]))
    with pytest.raises(UnknownName, match="unknown render mode"):
        MjcfEnv(str(env.robot.path), render_mode="ascii")


SERVO = MODEL.replace(
    '<motor name="turn" joint="hinge" gear="3" ctrlrange="-1 1"/>',
    '<position name="turn" joint="hinge" kp="8" kv="0.5" forcerange="-4 4" ctrlrange="-1 1" nsample="5" delay="0"/>',
).replace('qpos="0.5 0.3 2 0 1 1 0 0 0"', 'qpos="0.5 0.3 2 0 1 1 0 0 0" ctrl="1 0.3"')


def in_task(file, feature, value):
    """The model, in a task with this value of a feature of the servo `turn`, or of the cart."""
    env = MjcfEnv(str(file(with_features(it=feature), SERVO)))
    env.reset(options={"task": {"it": value}})
    return env.model


@pytest.mark.parametrize(
    ("field", "element", "default"),
    [("dof_frictionloss", "rail", 0.0), ("dof_armature", "rail", 0.0), ("actuator_delay", "turn", 0.0)],
)
def test_a_field_of_one_number_is_overridden(file, field, element, default):
    feature = f'{{ sets = "{field}", of = ["{element}"] }}'
    text = with_features(it=feature).replace("[2.0]", "[0.02]")
    env = MjcfEnv(str(file(text, SERVO)))
    env.reset(options={"task": {"it": 0.03}})
    values = getattr(env.model, field)
    assert values[0 if element == "rail" else 1] == 0.03
    assert np.count_nonzero(values) == 1
    assert env.space.features[0].default == default


def test_the_stiffness_of_a_servo_is_its_kp_and_the_strength_of_a_motor_all_of_its_torque(file):
    model = in_task(file, '{ sets = "actuator_stiffness", of = ["turn"] }', 2.0)
    assert (model.actuator_gainprm[1, 0], *model.actuator_biasprm[1, :3]) == (2.0, 0.0, -2.0, -0.5)
    assert model.actuator_forcerange[1].tolist() == [-4.0, 4.0]
    model = in_task(file, '{ scales = "actuator_stiffness", of = ["turn"] }', 0.5)
    assert (model.actuator_gainprm[1, 0], *model.actuator_biasprm[1, :3]) == (4.0, 0.0, -4.0, -0.5)
    model = in_task(file, '{ scales = "actuator_strength", of = ["turn"] }', 0.5)
    assert (model.actuator_gainprm[1, 0], *model.actuator_biasprm[1, :3]) == (4.0, 0.0, -4.0, -0.25)
    assert model.actuator_forcerange[1].tolist() == [-2.0, 2.0]
    assert model.actuator_gainprm[0, 0] == 1.0
    model = in_task(file, '{ scales = "actuator_forcerange", of = ["turn"] }', 0.25)
    assert model.actuator_forcerange[1].tolist() == [-1.0, 1.0]


def test_a_load_is_moved_along_an_axis(file):
    model = in_task(file, '{ adds = "body_pos", axis = "z", of = ["cart"] }', -0.25)
    assert model.body("cart").pos.tolist() == [0.0, 0.0, 0.75]
    model = in_task(file, '{ sets = "body_pos", axis = "y", of = ["cart"] }', 0.5)
    assert model.body("cart").pos.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ('{ sets = "actuator_strength" }', "actuator_strength has more than one number, so it is scaled"),
        ('{ adds = "body_pos" }', "`axis` belongs to body_pos, and body_pos needs it"),
        ('{ sets = "actuator_delay", of = ["push"] }', "push keeps no past targets, so nothing can be delayed"),
    ],
)
def test_a_feature_that_cannot_be_is_refused_with_what_to_write(file, feature, message):
    with pytest.raises(SamiError, match=message):
        load_robot(file(with_features(it=feature), SERVO))


def test_a_delay_is_no_longer_than_the_targets_that_the_model_keeps(file):
    with pytest.raises(TaskError, match=re.escape("it is 2.0; it must be a number at least 0 and at most 0.04 s.")):
        load_robot(file(with_features(it='{ sets = "actuator_delay", of = ["turn"] }'), SERVO))


@pytest.mark.parametrize(
    ("reach", "controls"), [("0.5", ([1.5, 0.8], [1.0, 0.05])), ("{ push = 3, turn = 0.2 }", ([4.0, 0.5], [1.0, 0.2]))]
)
def test_an_action_may_be_about_a_pose(file, reach, controls):
    model = SERVO.replace(' ctrlrange="-2 4"', "")
    env = MjcfEnv(str(file(WHOLE + f'[action]\nabout = "leaning"\nreach = {reach}\n', model)))
    env.reset(seed=0)
    for action, control in zip(([1.0, 1.0], [0.0, -0.5]), controls, strict=True):
        env.step(np.array(action))
        assert env.data.ctrl == pytest.approx(control)
    assert "for turn" in load_robot(env.robot.path).action.meaning


def test_an_actuator_without_a_reach_is_named(file):
    with pytest.raises(SamiError, match=r"action\.reach lacks turn; give a number for each actuator"):
        load_robot(file(WHOLE + '[action]\nabout = "leaning"\nreach = { push = 1 }\n', SERVO))


def test_a_metric_is_the_mean_of_its_quantity_over_the_episode(file):
    described = WHOLE + '[[metric]]\nname = "place"\nunit = "m"\nsensor = "where"\n'
    assert [(metric.name, metric.unit) for metric in load_robot(file(described)).metrics] == [("place", "m")]
    env, places = MjcfEnv(str(file(described))), []
    for _ in range(2):  # a new episode begins with nothing
        env.reset(seed=0)
        places.clear()
        for _ in range(5):
            *_, info = env.step(np.array([1.0, 0.0]))
            places.append(env.data.joint("rail").qpos[0])
    assert info["metrics"]["place"] == pytest.approx(np.mean(places))


COMMANDED = (
    with_reward(
        '{ velocity = "cart", axis = "x", command = "speed", width = 0.5, weight = 2 }',
        more='[[metric]]\nname = "off"\nunit = "m/s"\nvelocity = "cart"\naxis = "x"\ncommand = "speed"\n',
    )
    + '[observation]\nlast_action = true\n[commands]\nspeed = { unit = "m/s", low = -1, high = 2 }\n'
)


def test_a_command_is_drawn_for_each_episode_observed_and_what_the_reward_is_measured_by(file):
    path = file(COMMANDED)
    env, spec = MjcfEnv(str(path)), load_robot(path)
    [speed, last] = [signal for signal in spec.signals if signal.command]
    assert (speed.name, speed.unit, speed.low, speed.high) == ("speed", "m/s", (-1,), (2,))
    assert (last.name, last.elements) == ("last_action", ("push", "turn"))
    assert not {"speed", "last_action"} & {signal.name for signal in spec.estimated}
    speeds = set()
    for seed in range(5):
        before = spec.layout.by_name(env.reset(seed=seed)[0])
        assert before["last_action"].tolist() == [0.0, 0.0]
        off = []
        for action in ([3.0, -0.5], [0.25, 0.0]):
            observation, reward, _, _, info = env.step(np.array(action))
            after = spec.layout.by_name(observation)
            assert after["speed"] == before["speed"]
            assert after["last_action"] == pytest.approx(np.clip(action, -1, 1))
            off.append(abs(env.data.joint("rail").qvel[0] - before["speed"][0]))
            assert reward == pytest.approx(2 * np.exp(-((off[-1] / 0.5) ** 2)), rel=1e-5)
        assert info["metrics"]["off"] == pytest.approx(np.mean(off), rel=1e-5)
        speeds.add(float(before["speed"][0]))
    assert len(speeds) == 5
    assert -1 <= min(speeds) < 0 < max(speeds) <= 2


def test_a_command_outlives_a_simulation_that_blows_up(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    path = file(COMMANDED)
    env, layout = MjcfEnv(str(path)), load_robot(path).layout
    before = layout.by_name(env.reset(seed=0)[0])["speed"]
    env.data.qvel[:] = 1e12
    observation, *_, info = env.step(np.zeros(2))
    assert info["unstable"]
    assert layout.by_name(observation)["speed"] == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('command = "speed", width', 'command = "sped", width', "unknown command 'sped'. Did you mean 'speed'?"),
        ("low = -1", "low = 2", "commands.speed: low is 2 and high is 2; low must be less"),
        ("width = 0.5", "width = 0", "reward.number 1.width: input should be greater than 0, and it is 0"),
        ("speed = {", '"top speed" = {', "commands.top speed"),
    ],
)
def test_a_command_that_cannot_be_is_refused_with_what_would_be_right(file, old, new, message):
    with pytest.raises(SamiError) as error:
        load_robot(file(COMMANDED.replace(old, new)))
    assert message in str(error.value)
