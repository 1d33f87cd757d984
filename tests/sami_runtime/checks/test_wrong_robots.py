"""Robots that kept every law and were wrong: each is found by what training saw, named, and the honest one passes."""

import numpy as np
import pytest

from sami_runtime import Executed, Limits, ManualClock, Observation, PandaAdapter, SamiError
from sami_runtime.checks.check_adapter import check_adapter
from sami_runtime.checks.judge_response import clear_responses
from sami_runtime.distribution import shipped_models
from sami_runtime.model.artifact import read_artifact

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("sami_train.envs")

FRAME = "gives numbers like those of training"
ANSWER = "responds to each element of the action as in simulation"
ANEW = "begins fresh"
AT_REST = Limits(rest=0.0)


@pytest.fixture(scope="module")
def contract():
    return read_artifact(shipped_models()["panda-satesac"]).contract


@pytest.fixture(scope="module")
def env():
    instance = gymnasium.make("sami/PandaSkill-v0", max_episode_steps=10_000)
    yield instance
    instance.unwrapped.close()


class Wrong(PandaAdapter):
    """Panda in the simulator behind a driver that `see` and `do` get wrong."""

    def __init__(self, env, clock, see=dict, do=np.array, first=0):
        super().__init__(env, clock)
        self.see, self.do, self.first = see, do, first

    def reset(self, seed=None):
        super().reset((seed or 0) + self.first)

    def read(self):
        observation = super().read()
        return Observation(self.see(observation.values), observation.time)

    def write(self, action):
        return Executed(action, super().write(self.do(action)).done)

    def close(self):
        """The next robot drives the same simulator."""


@pytest.fixture
def check(contract, env):
    def verdicts(excite=False, limits=AT_REST, **wrong):
        clock = ManualClock()
        return check_adapter(Wrong(env, clock, **wrong), contract, clock, limits, write=True, excite=excite)

    return verdicts


def broken(verdicts):
    """Faults by the law's first words; how long a simulator takes is not asked."""
    faults = {verdict.law.split(":")[0]: verdict.fault for verdict in verdicts if verdict.fault}
    faults.pop("leaves time for the policy", None)
    return faults


def variant(*names, by):
    return lambda values: {name: by(value) if name in names else value for name, value in values.items()}


POSITIONS = ("ee_position", "cube_position", "desired_goal", "achieved_goal")
BASE = np.float32([0.6, 0.0, 0.0])


def test_the_honest_robot_keeps_every_law(check):
    verdicts = check(excite=True, first=20)
    assert broken(verdicts) == {}
    assert [verdict.law.split(":")[0] for verdict in verdicts if verdict.note] == []


@pytest.mark.parametrize(
    ("wrong", "element", "reason"),
    [
        # The arm's own frame: panda-gym's base stands at x = -0.6.
        (
            variant(*POSITIONS, by=lambda v: v + BASE),
            "ee_position.x",
            "Probably another frame: ee_position.x lies +0.6 m",
        ),
        (variant("ee_position", by=lambda v: v + BASE), "ee_position.x", "whose base stands on it at x = -0.6 m"),
        (variant("desired_goal", by=lambda v: v + BASE), "desired_goal.x", "Probably another frame"),
        (variant("desired_goal", by=lambda v: v - BASE), "desired_goal.x", "Probably another frame"),
        (variant("desired_goal", by=lambda v: v * 100), "desired_goal.", "Probably cm where the model reads m: divide"),
        (variant("ee_position", by=lambda v: v * 1000), "ee_position.z", "Probably mm where the model reads m: divide"),
        (variant("ee_position", by=lambda v: v * [1, 1, -1]), "ee_position.z", "ee_position.z points the other way"),
        (
            variant("cube_rotation", by=lambda v: v + [0, 0, 45]),
            "cube_rotation.yaw",
            "Probably degrees where the model reads rad",
        ),
    ],
)
def test_numbers_that_training_never_saw_are_told_with_what_it_saw_and_what_is_probably_wrong(
    check, wrong, element, reason
):
    fault = broken(check(see=wrong))[FRAME]
    assert f" gave {element}" in fault
    assert "and training saw " in fault
    assert "deviations beyond" in fault
    assert reason in fault


def test_ten_millimetres_of_calibration_and_a_goal_a_little_off_are_honest(check):
    off = np.float32([0.01, -0.01, 0.01])
    assert broken(check(excite=True, see=variant(*POSITIONS, by=lambda v: v + off))) == {}


def test_a_hand_that_is_measured_at_its_flange_keeps_the_law_and_is_noted(check):
    verdicts = check(see=variant("ee_position", by=lambda v: v + np.float32([0, 0, 0.105])))
    assert broken(verdicts) == {}
    [note] = [verdict.note for verdict in verdicts if verdict.note]
    assert "began elsewhere than those of training: ee_position.z = 0.302 m (there 0.197 to 0.197)" in note
    assert "Home is: the joints at home_joints" in note


@pytest.mark.parametrize(
    ("wrong", "faults"),
    [
        (
            {"do": lambda a: a[[1, 0, 2, 3]] * np.float32([1, 1, -1, 1])},
            {
                "dx": ("dx and dy are swapped. Correct their order",),
                "dy": (),
                "dz": ("dz moved ee_position.z by -", "its sign is flipped"),
            },
        ),
        # Four faults of four elements.
        (
            {
                "do": lambda a: np.clip(a * np.float32([5, 1, 0, -1]), -1, 1),
                "see": variant("ee_velocity", by=lambda v: v * np.float32([1, -1, 1])),
            },
            {
                "dx": ("its scale is wrong by a factor of ",),
                "dy": ("dy moved ee_velocity.y by -0.1",),
                "dz": ("dz moved ee_position.z by ", "dz is dead, or its scale is too small"),
                "gripper": ("gripper moved gripper_width.width by",),
            },
        ),
    ],
)
def test_a_robot_that_answers_otherwise_than_in_simulation_is_found_by_moving_it_a_little_and_nothing_else_is_named(
    check, wrong, faults
):
    result = broken(check(excite=True, **wrong))
    assert FRAME not in result, "numbers alone do not tell"
    parts = result[ANSWER].split("; ")
    assert {part.split(" moved ")[0] for part in parts} == set(faults)
    for element, reasons in faults.items():
        [part] = [part for part in parts if part.startswith(f"{element} moved ")]
        assert [reason for reason in reasons if reason not in part] == []


def test_it_moves_no_farther_than_limits_allow_and_says_so_where_that_is_too_little(check):
    actions = []

    def rest(action):
        actions.append(action)
        return action

    assert broken(check(excite=True, do=rest, limits=Limits(rest=0.0, low=-0.05, high=0.05))) == {}
    assert np.abs(actions).max() == np.float32(0.05)
    verdicts = check(excite=True, limits=Limits(rest=0.0, low=-0.005, high=0.005))
    [unproven] = [verdict.unproven for verdict in verdicts if verdict.unproven]
    assert unproven.startswith("dx: the limits allow a move of 0.005 to either side, and it takes 0.01 to judge by")


def test_a_delay_of_three_ticks_is_honest(check):
    class Late:
        def __init__(self):
            self.queue = [np.zeros(4, np.float32)] * 3

        def __call__(self, action):
            self.queue.append(action)
            return self.queue.pop(0)

    assert broken(check(excite=True, do=Late())) == {}


class Homing(Wrong):
    """Homing takes two seconds, and the newest message is from before, unless the driver waits for another."""

    def __init__(self, env, clock, waits):
        super().__init__(env, clock)
        self.clock, self.waits = clock, waits

    def reset(self, seed=None):
        super().reset(seed)
        self.clock.advance(2.0)

    def read(self):
        observation = super().read()
        return Observation(observation.values, self.clock.now()) if self.waits else observation


@pytest.mark.parametrize("waits", [True, False])
def test_a_first_observation_from_before_the_reset_is_found(contract, env, waits):
    robot = Homing(env, ManualClock(), waits)
    limits = Limits(rest=0.0, max_age_s=10.0)
    result = broken(check_adapter(robot, contract, robot.clock, limits, write=True))
    assert set(result) == (set() if waits else {ANEW})
    if not waits:
        assert "was measured 2 s before reset() was done, which took 2 s: it is older than the reset" in result[ANEW]


def test_a_model_that_does_not_tell_cannot_judge(contract, env):
    plain = contract.model_copy(update={"training_ranges": None})
    clock = ManualClock()
    far = variant(*POSITIONS, by=lambda v: v + BASE)
    assert broken(check_adapter(Wrong(env, clock, see=far), plain, clock, Limits(rest=0.0), write=True)) == {}
    assert not clear_responses(plain).any()
    with pytest.raises(SamiError, match=r"has no responses of observations .* sami describe FILE"):
        check_adapter(Wrong(env, clock), plain, clock, Limits(rest=0.0), excite=True)
