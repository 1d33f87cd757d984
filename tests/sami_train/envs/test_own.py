"""Environments of users' own: from any Gymnasium environment to a specification, and what is made of it."""

import copy
import pickle
import sys
from importlib.metadata import EntryPoint

import gymnasium as gym
import numpy as np
import pytest

from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.gap.profile import GapProfile
from sami_train.envs import EnvironmentSpec, Goal, Range, environment, signal
from sami_train.envs import catalog as catalog_module
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import spec_of
from sami_train.envs.layout import flat_size, flatten
from sami_train.envs.make import make
from sami_train.envs.tasks import TaskError
from tests.making import user_environments

PENDULUM = "tests.making.user_environments:PENDULUM"


def test_a_module_of_the_users_is_found_by_its_name_and_crosses_processes_by_it():
    spec = environment(PENDULUM)
    assert (spec.name, spec.short_name) == (PENDULUM, "tests.making.user_environments-PENDULUM")
    assert environment(PENDULUM) is spec is pickle.loads(pickle.dumps(spec)) is copy.deepcopy(spec)
    env = gym.make(spec.id, tasks="extreme")
    assert spec_of(env) is spec
    assert pickle.loads(pickle.dumps(env.spec)).kwargs["spec"] is spec


def test_one_that_is_filmed_is_made_without_a_warning_about_render_modes(recwarn):
    gym.make(environment(PENDULUM).id, render_mode="rgb_array").close()
    assert not [warning for warning in recwarn if "render_mode" in str(warning.message)]


def test_one_that_no_name_finds_crosses_by_what_it_holds():
    spec = pickle.loads(pickle.dumps(user_environments.PENDULUM))
    assert spec is not user_environments.PENDULUM
    assert spec == user_environments.PENDULUM


def test_installed_packages_bring_theirs_by_an_entry_point(monkeypatch):
    entry = EntryPoint("swing", PENDULUM, catalog_module.GROUP)
    monkeypatch.setattr(catalog_module, "entry_points", lambda group: [entry] if group == entry.group else [])
    assert environment("swing").plain is user_environments.PENDULUM.plain
    with pytest.raises(UnknownName, match=r"unknown environment 'swin'\. Did you mean 'swing'\?"):
        environment("swin")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:SPEC", "nowhere of nowhere:SPEC cannot be imported: .* or a .py file in the current folder"),
        ("tests.making.user_environments:PENDULOM", "Did you mean 'PENDULUM'"),
        ("tests.making.user_environments:Tipping", "is a ABCMeta|is a type"),
        (":SPEC", "write MODULE:OBJECT, e.g. my_robots:ARM"),
        ("nothing", "Your own: MODULE:SPEC"),
    ],
)
def test_a_name_that_finds_nothing_is_explained(name, message):
    with pytest.raises(SamiError, match=message):
        environment(name)


def test_what_a_model_file_names_is_never_called(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("def SPEC():\n    raise SystemExit('called')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SamiError, match="must be an EnvironmentSpec"):
        environment("trap:SPEC")
    sys.modules.pop("trap")


def test_rate_length_bounds_and_names_come_from_the_environment():
    spec = EnvironmentSpec.from_gymnasium("Pendulum-v1")
    assert (spec.rate_hz, spec.episode_steps, spec.measure.name) == (20.0, 200, "return")
    (observed,) = spec.signals
    assert (observed.name, observed.elements, observed.high) == ("observation", ("0", "1", "2"), (1.0, 1.0, 8.0))
    assert (spec.action.low, spec.action.high, spec.action.meaning) == ((-1.0,), (1.0,), "-1 to 1 stands for -2 to 2")
    assert spec.tasks.sets == {"training": ({},)}


def test_a_task_is_set_before_each_reset_and_told_in_the_info():
    env = make(user_environments.PENDULUM)
    task = {"mass": 1.25, "length": 0.5}
    _, info = env.reset(seed=1, options={"task": task})
    assert info["task"] == task
    assert env.step(np.zeros(1, np.float32))[4]["task"] == task
    plain = env.unwrapped.env.unwrapped
    assert (plain.m, plain.l) == (1.25, 0.5)
    env.unwrapped.set_dynamics({"mass": 2.0, "length": 1.0})
    assert (plain.m, plain.l) == (2.0, 1.0)
    with pytest.raises(TaskError, match=r"mass is 4\.0; it must be a number at least 0\.5 and at most 3"):
        env.reset(options={"task": {"mass": 4.0, "length": 0.5}})


def test_the_same_seed_draws_the_same_task_and_start_anew_from_a_range():
    env, other = make(user_environments.PENDULUM), make(user_environments.PENDULUM)
    starts = [env.reset(seed=seed) for seed in (3, 4, 3)]
    again, info = other.reset(seed=3)
    assert np.array_equal(starts[0][0], again)
    assert starts[0][1] == starts[2][1] == info != starts[1][1]
    assert env.unwrapped.tasks == (), "no list holds all that it may draw"


def test_the_start_of_an_episode_does_not_tell_the_task_that_was_drawn_for_it():
    env = make(user_environments.PENDULUM)
    starts, infos = zip(*(env.reset(seed=seed) for seed in range(400)), strict=True)
    cos, sin, speed = np.array(starts).T
    masses = [info["task"]["mass"] for info in infos]
    assert np.abs(np.corrcoef([masses, np.arctan2(sin, cos), speed])[0, 1:]).max() < 0.2


def test_actions_from_minus_one_to_one_are_the_environments_own():
    env = make(user_environments.TIPPING)
    env.reset(seed=0)
    for action, speed in (([-1.0, 0.0], 0.0), ([1.0, 0.0], 4.0), ([0.0, 1.0], np.hypot(2.0, 3.0)), ([-1.0, 9.0], 3.0)):
        observation, *_ = env.step(np.array(action, np.float32))
        assert observation["speed"] == pytest.approx([speed])
    assert user_environments.TIPPING.action.meaning == "0: -1 to 1 stands for 0 to 4, 1: -1 to 1 stands for -3 to 3"


def test_any_dictionary_of_numbers_is_an_observation():
    spec, env = user_environments.TIPPING, make(user_environments.TIPPING)
    assert [(s.name, s.size) for s in spec.signals] == [("place", 2), ("speed", 1)]
    observation, _ = env.reset(seed=2)
    flat = flatten(observation)
    assert flat.shape == (spec.layout.size,) == (flat_size(env.observation_space),)
    assert flatten(spec.layout.unflatten(flat)).tolist() == flat.tolist()
    robot = make_adapter(spec, env)
    robot.reset(2)
    assert robot.read().values["place"].tolist() == spec.layout.by_name(flat)["place"].tolist()


def test_a_gap_lies_between_in_an_environment_of_ones_own():
    env = make(user_environments.TIPPING, GapProfile.of({"noise": {"place": 0.5}}))
    clear = make(user_environments.TIPPING).reset(seed=5)[0]
    observation = env.reset(seed=5)[0]
    assert observation["speed"].tolist() == clear["speed"].tolist()
    assert np.abs(observation["place"] - clear["place"]).max() > 0.01


def goals():
    box = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    env = user_environments.Still()
    env.observation_space = gym.spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
    return env


def test_a_distance_makes_a_goal_of_gymnasiums_own():
    spec = EnvironmentSpec.from_gymnasium(goals, goal=0.05, episode_steps=5, name="points")
    assert spec.measure.name == "success"
    assert spec.goal == Goal(slice(2, 4), slice(4, 6), threshold=0.05)
    with pytest.raises(SamiError, match=r"observation lacks achieved_goal or desired_goal"):
        EnvironmentSpec.from_gymnasium("Pendulum-v1", goal=0.05)
    with pytest.raises(SamiError, match='give measure="success"'):
        EnvironmentSpec.from_gymnasium(goals, goal=0.05, episode_steps=5, measure="return")


def test_success_that_nobody_tells_is_refused_at_the_first_step():
    spec = EnvironmentSpec.from_gymnasium("Pendulum-v1", measure="success", name="swing")
    env = make(spec)
    env.reset(seed=0)
    with pytest.raises(SamiError, match="swing is judged by success, but its info has no is_success"):
        env.step(np.zeros(1, np.float32))


def test_an_error_in_a_module_of_an_environment_ends_with_one_full_stop(tmp_path, monkeypatch):
    (tmp_path / "slack.py").write_text(
        "from sami_runtime.errors import SamiError\nraise SamiError('signals lacks x.')\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SamiError, match=r"cannot be imported: SamiError: signals lacks x\. Correct the module\.$"):
        environment("slack:SPEC")


def limited():
    return gym.make("Pendulum-v1", max_episode_steps=7)


def test_a_time_limit_that_the_environment_brings_is_its_own_and_can_be_another():
    spec = EnvironmentSpec.from_gymnasium(limited)
    assert spec.episode_steps == 7
    env = make(spec, max_episode_steps=9)
    env.reset(seed=0)
    assert [env.step(np.zeros(1, np.float32))[3] for _ in range(9)] == [False] * 8 + [True]


def observing(space):
    class Odd(user_environments.Tipping):
        observation_space = space

    return Odd


@pytest.mark.parametrize(
    ("plain", "options", "message"),
    [
        ("CartPole-v1", {}, "Discrete actions are not supported: give the environment a continuous action"),
        ("Pendulum-v9", {}, "'Pendulum-v9' cannot be made"),
        ("Nothing-v1", {}, r"'Nothing-v1' cannot be made; import or install it: .*[^.]\.$"),
        ("Pendulum-v1", {"rate_hz": 0}, r"the rate of Pendulum-v1, .*, is 0; give a rate_hz above 0"),
        ("Pendulum-v1", {"rate_hz": -5.0}, r"the rate of Pendulum-v1, .*, is -5\.0; give a rate_hz above 0"),
        (observing(gym.spaces.Discrete(3)), {}, "its observation is a Discrete"),
        (observing(gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)), {}, "policies read vectors, not images"),
        (observing(gym.spaces.Dict({"a": gym.spaces.Dict({})})), {}, "its entry 'a' is a Dict"),
        (user_environments.Tipping, {"episode_steps": None}, "has no time limit of at least 1 step"),
        (user_environments.Tipping, {"signals": [signal("x")]}, "give a dict with the signals of each by its key"),
        (user_environments.Tipping, {"signals": {"plaice": signal("x")}}, "signals declares plaice"),
        (user_environments.Tipping, {"signals": {"place": signal("x")}}, "have 1 numbers together; it has 2"),
        (user_environments.Tipping, {"signals": {"place": signal("x", elements=3)}}, "more elements than are left"),
        (user_environments.Tipping, {"signals": {"place": signal("speed", elements=2)}}, "two signals named speed"),
        (
            user_environments.Tipping,
            {"action": signal("push")},
            "declared for Tipping has 1 numbers; its action space has 2",
        ),
        (user_environments.Tipping, {"tasks": {"training": [{"mass": 1.0}]}}, "has tasks but no set_task"),
        (user_environments.Tipping, {"set_task": print}, "has set_task but no tasks"),
        (user_environments.Tipping, {"measure": "speed"}, "unknown measure 'speed'"),
    ],
)
def test_what_a_policy_cannot_have_is_refused_in_a_sentence(plain, options, message):
    with pytest.raises(SamiError, match=message):
        EnvironmentSpec.from_gymnasium(plain, **{"episode_steps": 9, **options})


def test_dynamics_that_cannot_change_are_told_by_name():
    with pytest.raises(SamiError, match="has no tasks, so there are no dynamics that could change"):
        user_environments.TIPPING.require_changes()
    with pytest.raises(SamiError, match=r"has no set_dynamics, so its .*from_gymnasium\(set_dynamics=\.\.\.\)"):
        make(user_environments.STILL).unwrapped.set_dynamics({"wind": 0.0})
    user_environments.PENDULUM.require_changes()
    environment("panda").require_changes()


def test_a_range_holds_what_it_says():
    rng = np.random.default_rng(0)
    values = [Range(0.1, 10.0, log=True).draw(rng) for _ in range(400)]
    assert min(values) >= 0.1
    assert max(values) <= 10.0
    assert np.mean(np.array(values) < 1.0) == pytest.approx(0.5, abs=0.08), "as many below the middle ratio as above"
    for wrong in ((1.0, 1.0), (2.0, 1.0), (0.0, float("inf"))):
        with pytest.raises(TaskError, match="holds no value"):
            Range(*wrong)
    with pytest.raises(TaskError, match="must start above 0"):
        Range(0.0, 1.0, log=True)
