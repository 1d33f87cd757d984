"""The MuJoCo environments' table: the paper's sets, lengths and names, and what is refused. No simulator here."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

from sami_runtime.errors import SamiError, UnknownName
from sami_runtime.model.atlas import label, text_of
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.mujoco.table import ROWS, find_row
from sami_train.envs.tasks import TaskError, draw

FINE = {0.75, 0.85, 1.0, 1.15, 1.25}
COARSE = {0.75, 1.0, 1.25}
NEAR = {0.4, 0.5, 1.5, 1.6}
FAR = {0.2, 0.4, 1.6, 1.8}
FARTHEST = FAR | {4.0}
HUMAN = ({0.8, 0.9, 1.0, 1.15, 1.25}, {0.6, 0.7, 1.5, 1.6}, {0.4, 0.5, 1.7, 1.8})
UNCRIPPLED = {()}


def singles(*parts):
    return {(part,) for part in parts}


def two_of(n):
    return set(itertools.combinations(range(n), 2))


PAPER = {
    # name: scales of the three sets, crippled parts of the three sets, length
    "half-cheetah": ((FINE, NEAR, FARTHEST), None, 1000),
    "ant": ((FINE, NEAR, FARTHEST), None, 1000),
    "hopper": ((COARSE, NEAR, FARTHEST), None, 1000),
    "walker": ((COARSE, NEAR, FARTHEST), None, 2000),
    "slim-humanoid": (HUMAN, None, 1000),
    "humanoid-standup": ((*HUMAN[:2], HUMAN[2] | {4.0}), None, 1000),
    "crippled-half-cheetah": ((FINE, NEAR, FAR), (singles(3, 4, 5), singles(0, 1, 2), two_of(6)), 2000),
    "crippled-ant": ((FINE, NEAR, FAR), (UNCRIPPLED | singles(0, 1, 2, 3), singles(0, 1, 2, 3), two_of(4)), 2000),
    "crippled-hopper": ((COARSE, NEAR, FARTHEST), (UNCRIPPLED, UNCRIPPLED, singles(0, 1, 2)), 1000),
    "crippled-walker": ((COARSE, NEAR, FARTHEST), ({(0, 1, 2)}, singles(0, 1, 2), singles(3, 4, 5)), 2000),
    "half-cheetah-cadm": ((FINE, NEAR, FAR), None, 1000),
    "ant-cadm": ((FINE, NEAR, FAR), None, 1000),
    "slim-humanoid-cadm": (HUMAN, None, 500),
    "crippled-half-cheetah-cadm": ((FINE, NEAR, FAR), (singles(0, 1, 2, 3), singles(4, 5), {(4, 5)}), 1000),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_sets_are_the_papers_every_combination_once(name):
    scales, parts, _ = PAPER[name]
    space = ENVIRONMENTS[name].tasks
    for i, task_set in enumerate(("training", "moderate", "extreme")):
        results = [(task["mass"], task["damping"], tuple(task.get("crippled", ()))) for task in space.resolve(task_set)]
        expected = set(itertools.product(scales[i], scales[i], parts[i] if parts else UNCRIPPLED))
        assert len(results) == len(expected)
        assert set(results) == expected
        assert all(("crippled" in task) == (parts is not None) for task in space.resolve(task_set))


def test_names_ids_and_lengths():
    assert [row.name for row in ROWS] == list(PAPER)
    assert {name: spec.episode_steps for name, spec in ENVIRONMENTS.items() if name in PAPER} == {
        name: length for name, (_, _, length) in PAPER.items()
    }
    ids = [ENVIRONMENTS[name].id for name in PAPER]
    assert ids[:6] == [
        "sami/HalfCheetah-v0",
        "sami/Ant-v0",
        "sami/Hopper-v0",
        "sami/Walker-v0",
        "sami/SlimHumanoid-v0",
        "sami/HumanoidStandup-v0",
    ]
    assert ids[6:10] == [
        "sami/CrippledHalfCheetah-v0",
        "sami/CrippledAnt-v0",
        "sami/CrippledHopper-v0",
        "sami/CrippledWalker-v0",
    ]
    assert ids[10:12] == ["sami/HalfCheetahCaDM-v0", "sami/AntCaDM-v0"]


@pytest.mark.parametrize("name", PAPER)
def test_every_task_of_the_sets_is_one_that_the_space_accepts(name):
    space = ENVIRONMENTS[name].tasks
    assert all(space.check(task) == task for task_set in space.sets.values() for task in task_set)


def test_a_task_is_drawn_uniformly():
    tasks = ENVIRONMENTS["crippled-ant"].tasks.sets["training"]
    rng = np.random.default_rng(0)
    sample = [draw(tasks, rng) for _ in range(5000)]
    sound = np.mean([task["crippled"] == [] for task in sample])
    heavy = np.mean([task["mass"] == 1.25 for task in sample])
    for share in (sound, heavy):  # five choices each
        assert abs(share - 0.2) < 4 * math.sqrt(0.2 * 0.8 / 5000)


def test_a_task_may_leave_out_what_is_as_the_robot_was_built():
    space = ENVIRONMENTS["crippled-half-cheetah"].tasks
    assert space.check({"crippled": (5, np.int64(0))}) == {"mass": 1.0, "damping": 1.0, "crippled": [0, 5]}
    assert space.check({"mass": 2}) == {"mass": 2.0, "damping": 1.0, "crippled": []}
    assert ENVIRONMENTS["hopper"].tasks.check({"crippled": []}) == {"mass": 1.0, "damping": 1.0}
    with pytest.raises(TaskError, match="lacks friction"):
        ENVIRONMENTS["panda"].tasks.check({"mass": 1.0})


@pytest.mark.parametrize("value", [-1.0, 0.0, math.nan, math.inf, "heavy", None])
def test_an_impossible_mass_is_refused_with_the_range(value):
    with pytest.raises(TaskError, match=r"mass is .*; it must be a number greater than 0 \(times the robot's own\)"):
        ENVIRONMENTS["ant"].tasks.resolve({"mass": value, "damping": 1.0})


def test_negative_damping_is_refused_and_none_at_all_is_not():
    with pytest.raises(TaskError, match=r"damping is -0\.5; it must be a number at least 0"):
        ENVIRONMENTS["ant"].tasks.resolve({"mass": 1.0, "damping": -0.5})
    assert ENVIRONMENTS["ant"].tasks.check({"damping": 0})["damping"] == 0.0


@pytest.mark.parametrize("crippled", [[6], [-1], [0, 0], [0, 1, 2], [1.5], "0", 3, ["bfoot"], None, [True, 1]])
def test_joints_that_cannot_be_crippled_are_refused_with_those_that_can(crippled):
    with pytest.raises(TaskError) as caught:
        ENVIRONMENTS["crippled-half-cheetah"].tasks.check({"mass": 1.0, "damping": 1.0, "crippled": crippled})
    assert "at most 2 different joints of: 0 (bthigh), 1 (bshin), 2 (bfoot), 3 (fthigh)" in str(caught.value)


def test_two_crippled_joints_of_a_hoppers_three_and_three_legs_of_an_ant_are_refused():
    with pytest.raises(TaskError, match=r"crippled is \[0, 1\]; it must be a list of at most 1 different joints"):
        ENVIRONMENTS["crippled-hopper"].tasks.check({"crippled": [0, 1]})
    with pytest.raises(TaskError, match=r"at most 2 different legs of: 0 \(front left\), 1 \(front right\)"):
        ENVIRONMENTS["crippled-ant"].tasks.check({"crippled": [0, 1, 2]})
    assert ENVIRONMENTS["crippled-walker"].tasks.check({"crippled": [2, 1, 0]})["crippled"] == [0, 1, 2]


def test_a_robot_without_crippled_parts_says_which_has_them():
    with pytest.raises(UnknownName, match=r"Valid: damping, mass.*names begin with crippled-"):
        ENVIRONMENTS["half-cheetah"].tasks.check({"crippled": [0]})
    with pytest.raises(UnknownName, match="unknown environmental feature 'friction'") as caught:
        ENVIRONMENTS["half-cheetah"].tasks.check({"friction": 1.0})
    assert "crippled" not in str(caught.value)


def test_options_that_an_environment_does_not_have_are_refused():
    with pytest.raises(UnknownName, match=r"option of hopper 'contact_cost'.*Valid: control_cost, scale_inertia"):
        find_row("hopper").choose({"contact_cost": True})
    with pytest.raises(SamiError, match="control_cost is -1; it must be a number of at least 0"):
        find_row("hopper").choose({"control_cost": -1})
    with pytest.raises(UnknownName, match="Did you mean 'half-cheetah'"):
        find_row("halfcheetah")


def test_tasks_have_short_names():
    assert label({"mass": 1.5, "damping": 0.5, "crippled": [0, 3]}) == "mass 1.5, damping 0.5, crippled 0+3"
    assert text_of([]) == "none"


def test_signals_and_actions_lie_as_the_flat_observation_does():
    spec = ENVIRONMENTS["half-cheetah"]
    assert [(s.name, spec.layout.columns(s.name).start, s.size) for s in spec.signals] == [
        ("forward_speed", 0, 1),
        ("torso_height", 1, 1),
        ("torso_pitch", 2, 1),
        ("joint_angles", 3, 6),
        ("torso_velocity", 9, 2),
        ("torso_pitch_rate", 11, 1),
        ("joint_velocities", 12, 6),
    ]
    sizes = {name: (ENVIRONMENTS[name].layout.size, ENVIRONMENTS[name].action.size) for name in PAPER}
    assert [sizes[name] for name in list(PAPER)[:6]] == [(18, 6), (28, 8), (11, 3), (17, 6), (45, 17), (45, 17)]


def test_the_table_needs_no_simulator(tmp_path):
    script = """
import sys
sys.modules["mujoco"] = None
from sami_train.envs import ENVIRONMENTS
from sami_train.envs.make import make
from sami_runtime.distribution import install_hint
from sami_runtime.errors import AdapterError
assert len(ENVIRONMENTS) == 20
try:
    make(ENVIRONMENTS["ant"])
except AdapterError as error:
    assert install_hint("mujoco") in str(error), error
else:
    raise AssertionError
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
