"""Guards that are on by default for a robot: they know what training saw, and are turned off by name."""

import warnings

import numpy as np
import pytest

from sami_runtime import Executed, Limits, ManualClock, Observation, Run, SafetyStop, Session, UnknownName
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SafetyWarning
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.model.training_ranges import Spread, TrainingRanges
from sami_runtime.safety.limits import GUARDS
from sami_runtime.safety.watch import Watch

SAFE = Limits(rest=0.0)


class Standing:
    """A robot that stands where training was on average, behind a driver that `see` gets wrong."""

    def __init__(self, contract, clock, see=dict):
        self.observation, self.action, self.clock, self.see = contract.observation, contract.action, clock, see
        self.at = {
            signal.name: np.float32(contract.training_ranges.signals[signal.name].mean) for signal in self.observation
        }
        self.written = []

    def reset(self, seed=None):
        pass

    def read(self):
        return Observation(self.see(self.at), self.clock.now())

    def write(self, action):
        self.written.append(action)
        return Executed(action)

    def stop(self):
        pass

    def close(self):
        pass


def run(model, see=dict, steps=40, **options):
    """Return how often the robot acted, and why it was stopped."""
    session, clock = Session.load(shipped_models()[model]), ManualClock()
    robot = Standing(session.contract, clock, see)
    with Run(session, robot, clock, limits=SAFE, **options) as driving:
        try:
            driving.episode(max_steps=steps)
        except SafetyStop as stop:
            return len(robot.written), str(stop)
    return len(robot.written), ""


def scaled(names, factor):
    """Some signals in another unit."""

    def see(values):
        return {name: value * np.float32(factor) if name in names else value for name, value in values.items()}

    return see


def test_an_arm_in_degrees_acts_at_none_of_40_ticks_and_is_stopped():
    acted, reason = run("ant-satesac", scaled({"joint_angles"}, 180 / np.pi))
    assert acted == 0
    assert "ranges: joint_angles." in reason
    assert "training saw" in reason
    assert "probably degrees: divide joint_angles by 57.3 (unguarded = ['ranges'])" in reason


@pytest.mark.parametrize(("factor", "unit"), [(100, "cm"), (1000, "mm")])
def test_a_hand_in_another_unit_acts_at_none_of_40_ticks(factor, unit):
    acted, reason = run("panda-satesac", scaled({"ee_position"}, factor))
    assert acted == 0
    assert f"probably {unit}: divide ee_position by {factor}" in reason


def test_an_honest_robot_acts_and_so_does_one_whose_guard_is_turned_off():
    assert run("panda-satesac") == (40, "")
    loose = {"unguarded": ["ranges", "ood"]}
    assert run("ant-satesac", scaled({"joint_angles"}, 180 / np.pi), **loose) == (40, "")


def test_in_a_simulator_nothing_is_judged_and_nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run("ant-satesac", scaled({"joint_angles"}, 180 / np.pi), simulator=True) == (40, "")


def test_a_guard_of_an_unknown_name_is_refused_with_the_nearest_one(path, arm):
    with pytest.raises(UnknownName, match=r"unknown guard 'rangs'. Did you mean 'ranges'\?"):
        Run(Session.load(path), arm(), simulator=True, unguarded=["rangs"])


def test_margins_are_wider_once_the_policy_acts_and_an_angle_may_turn():
    contract = read_artifact(shipped_models()["half-cheetah-satesac"]).contract
    begin = {name: np.float32(spread.mean) for name, spread in contract.training_ranges.begin.items()}
    watch = Watch(Limits(), contract, guards=GUARDS)

    def verdict(**changes):
        return watch.judge(Observation(begin | {name: np.float32([v]) for name, v in changes.items()}, 0.0), None)

    assert verdict(torso_height=np.nan) is None, "what is not finite the policy refuses"
    assert "torso_pitch.pitch is 20 rad" in verdict(torso_pitch=20).reason, "and it does not pass"
    assert "torso_pitch.pitch is 20 rad" in verdict(torso_pitch=20).reason, "until one passes"
    assert verdict() is None
    assert verdict(torso_pitch=20) is None
    assert verdict(torso_height=3.0) is None
    assert verdict(torso_height=30.0).then == "hold"


def ranges_of(contract, rng, repeats):
    def spread(size):
        return Spread.of(rng.normal(size=(100, size)))

    begin = {signal.name: spread(signal.size) for signal in contract.observation}
    signals = {**begin, contract.action.name: spread(contract.action.size)}
    return TrainingRanges(measured="by hand", steps=100, episodes=2, signals=signals, begin=begin, repeats=repeats)


def test_a_camera_that_repeats_its_last_frame_with_fresh_stamps_is_noticed_where_it_cannot(make, arm):
    """Noise never repeated in training, or at most 4 times where messages were lost."""
    for repeats, most in (({"position": 1}, 5), ({"position": 4}, 9), ({}, None)):
        contract = make.contract_of(make.recurrent())
        contract = contract.model_copy(
            update={"training_ranges": ranges_of(contract, np.random.default_rng(0), repeats)}
        )
        watch = Watch(Limits(), contract, guards=GUARDS)
        frames = [
            Observation({"position": np.float32([0.1, 0.2]), "goal": np.float32([0.5])}, 0.04 * tick)
            for tick in range(12)
        ]
        objections = [watch.judge(frame, frame.time) is not None for frame in frames]
        assert objections == [most is not None and tick + 1 >= most for tick in range(12)]
        assert not any(Watch(Limits(), contract).judge(frame, frame.time) for frame in frames), "off by default"


def test_the_limits_own_numbers_count_before_the_default_ones(make):
    contract = make.contract_of(make.recurrent())
    contract = contract.model_copy(
        update={"training_ranges": ranges_of(contract, np.random.default_rng(0), {"position": 1})}
    )
    watch = Watch(Limits(frozen={"position": 2}), contract, guards=GUARDS)
    frame = Observation({"position": np.float32([0.1, 0.2]), "goal": np.float32([0.5])}, 0.0)
    assert watch.judge(frame, 0.0) is None
    assert "allowed are 1 (frozen.position)" in watch.judge(frame, 0.0).reason


def test_what_never_repeated_is_written_only_where_it_was_measured(make):
    contract = make.contract_of(make.recurrent())
    for repeats in ({}, {"position": 3}):
        report = contract.model_copy(update={"training_ranges": ranges_of(contract, np.random.default_rng(0), repeats)})
        text = report.dumps()
        assert ("repeats" in text) is bool(repeats)
        assert Contract.parse(text, "model.onnx") == report
    text = contract.model_copy(
        update={"training_ranges": ranges_of(contract, np.random.default_rng(0), {"camera": 3})}
    ).dumps()
    with pytest.raises(Exception, match=r"seen\.repeats names camera; the observation has position, goal"):
        Contract.parse(text, "model.onnx")


def test_a_robot_without_protections_is_warned_of_each_once(path, arm):
    clock = ManualClock()
    with pytest.warns(SafetyWarning) as caught:
        Run(Session.load(path), arm(clock), clock)
    assert [str(item.message).partition(":")[0].partition(" in ")[0] for item in caught] == [
        "no watchdog",
        "no limits",
        "no neutral action",
        "no training ranges",
        "no in-distribution reference",
    ]
    assert caught[0].filename == __file__
    with pytest.warns(SafetyWarning) as caught:
        Run(Session.load(path), arm(clock), clock, dry_run=True, unguarded=["ood"])
    assert len(caught) == 1
    assert "sami describe FILE" in str(caught[0].message)


def test_a_swap_warns_of_each_guard_that_the_new_file_lacks_as_the_start_does(make, arm):
    ranges = ranges_of(make.contract_of(make.recurrent()), np.random.default_rng(0), {})
    guarded, bare = make.write(make.recurrent(), training_ranges=ranges), make.write(make.recurrent(seed=1))
    for options, count in (({}, 2), ({"unguarded": ["ood"]}, 1), ({"simulator": True}, 0)):
        clock = ManualClock()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run = Run(Session.load(guarded), arm(clock), clock, dry_run=True, **options)
            before = len(caught)
            run.swap(bare)
        bare_model = [str(item.message).partition(" in ")[0] for item in caught[before:]]
        assert bare_model == ["no training ranges", "no in-distribution reference"][:count]
        assert all(item.category is SafetyWarning and item.filename == __file__ for item in caught[before:])
