"""An adapter that keeps what it owes to the loop passes, and each way of breaking it is found and named."""

import signal
import time

import numpy as np
import pytest

from sami_runtime import Executed, Limits, ManualClock, Observation, SamiError
from sami_runtime.adapters import DryRun, Gapped
from sami_runtime.checks.check_adapter import CLOSING, FOUNDATIONS, READING, STOPPING, WRITING, check_adapter
from sami_runtime.gap.profile import GapProfile


@pytest.fixture
def contract(make):
    return make.contract_of(make.recurrent())


@pytest.fixture
def check(contract):
    """Verdicts on an adapter that is made with the clock of the check."""

    def verdicts(factory, clock=None, **options):
        clock = clock or ManualClock()
        options = {"ticks": 5, "write": True, "limits": Limits(rest=0.0)} | options
        return check_adapter(factory(clock), contract, clock, **options)

    return verdicts


def broken(verdicts):
    return {verdict.law.split(":")[0]: verdict.fault for verdict in verdicts if verdict.fault}


def test_a_good_adapter_keeps_every_law_and_is_stopped_and_closed_twice(check, arm):
    robots = []

    def factory(clock):
        robots.append(arm(clock=clock))
        return robots[0]

    verdicts = check(factory)
    assert broken(verdicts) == {}
    assert [v.law for v in verdicts] == [law.sentence for law in (*FOUNDATIONS, *READING, *WRITING, STOPPING, CLOSING)]
    assert (robots[0].resets, robots[0].reads, robots[0].closes) == (1, 5, 2)
    assert [action.tolist() for action in robots[0].written] == [[0.0, 0.0]] * 5
    # Twice before the episode, twice in the middle of it, and once on the way out.
    assert robots[0].stops == 5


def test_without_writing_nothing_is_ever_written(check, arm):
    robots = []

    class Sensing(arm):
        """Measures at each read, as a robot does."""

        def read(self):
            self._measured = self.clock.now()
            return super().read()

    def factory(clock):
        robots.append(Sensing(clock=clock))
        return robots[0]

    verdicts = check(factory, write=False)
    assert broken(verdicts) == {}
    assert {law.sentence for law in WRITING}.isdisjoint(verdict.law for verdict in verdicts)
    assert robots[0].written == []


def test_adapters_around_others_keep_the_laws_too(check, arm):
    profile = GapProfile.model_validate({"noise": 0.001, "latency_s": 0.04, "actuator_lag_s": 0.05})
    assert broken(check(lambda clock: Gapped(arm(clock=clock), profile, 25.0))) == {}
    # What a dry run watches stands still: the simulator in it is not stepped.
    assert set(broken(check(lambda clock: DryRun(arm(clock=clock))))) == {
        "measures anew",
        "stamps observations with the loop's clock, when they were measured",
    }


def test_what_is_written_is_the_rest_of_the_limits(check, arm):
    for rest, expected in ((0.25, [0.25, 0.25]), ({"fx": -0.5, "fy": 0.5}, [-0.5, 0.5])):
        robots = []
        assert broken(check(lambda clock, r=robots: r.append(arm(clock=clock)) or r[0], limits=Limits(rest=rest))) == {}
        assert robots[0].written[0].tolist() == expected


def overwrites(arm):
    class Overwrites(arm):
        """Gives the same buffer at each read."""

        buffer = np.zeros(2, np.float32)

        def read(self):
            observation = super().read()
            self.buffer[:] = observation.values["position"] + 1e-3 * self.reads
            return Observation({**observation.values, "position": self.buffer}, observation.time)

    return Overwrites


def changed_read(change):
    """An arm whose observation is changed by `change(values, time)`."""

    def adapter(arm):
        class WrongArm(arm):
            def read(self):
                observation = super().read()
                return Observation(*change(dict(observation.values), observation.time))

        return WrongArm

    return adapter


def changed_write(change):
    """An arm whose answer to an action is `change(action)`."""

    def adapter(arm):
        class WrongArm(arm):
            def write(self, action):
                super().write(action)
                return change(action)

        return WrongArm

    return adapter


def leave(action):
    raise SystemExit(0)


def no_second(method):
    """An arm whose method cannot be called twice."""

    def adapter(arm):
        class Once(arm):
            was_called = False

            def once(self):
                if self.was_called:
                    raise OSError("the bus is closed")
                self.was_called = True

        setattr(Once, method, Once.once)
        return Once

    return adapter


def other_unit(arm):
    class Millimetres(arm):
        def __init__(self, **options):
            super().__init__(**options)
            first = self.observation[0].model_copy(update={"unit": "mm"})
            self.observation = (first, *self.observation[1:])

    return Millimetres


def slow(arm):
    class Slow(arm):
        def read(self):
            time.sleep(0.03)
            return super().read()

    return Slow


@pytest.mark.parametrize(
    ("defect", "law", "fault"),
    [
        (other_unit, "declares the signals", "position' has unit m, the adapter's has mm"),
        (no_second("stop"), "stops from any state", "OSError: the bus is closed (test_check_adapter.py, line "),
        (
            changed_read(lambda v, t: ({k: v[k] for k in ("position", "velocity")}, t)),
            "gives every signal",
            "lacks goal",
        ),
        (
            changed_read(lambda v, t: ({**v, "goal": np.zeros(2)}, t)),
            "gives every signal",
            "array([0., 0.]), expected 1 num",
        ),
        (changed_read(lambda v, t: ({**v, "goal": np.array(["a"])}, t)), "gives every signal", "goal = array(['a']"),
        (changed_read(lambda v, t: ({**v, "goal": [0, [1]]}, t)), "gives every signal", "goal = [0, [1]], expected 1"),
        (
            changed_read(lambda v, t: ({**v, "goal": np.array([np.nan])}, t)),
            "gives every signal",
            "[nan], which",
        ),
        (
            changed_read(lambda v, t: ({**v, "position": np.array([0.0, 1000.0])}, t)),
            "stays within the bounds",
            "position.y = 1000, beyond -1.0 to 1.0 [m]; is the unit another one?",
        ),
        (
            changed_read(lambda v, t: (v, t + 1.7e9)),
            "stamps observations with the loop's clock",
            "-1.7e+09 s old, allowed are 0 to 0.12 (max_age_s)",
        ),
        (changed_read(lambda v, t: (v, -0.01 * t)), "measures anew", "before read 1 at"),
        (changed_read(lambda v, t: (v, t, {"goal": 0.0})), "measures anew", "all 5 readings of goal are stamped 0 s"),
        (changed_read(lambda v, t: (v, t, {"goal": t - 9})), "stamps observations with the loop's", "has goal stamped"),
        (
            changed_read(lambda v, t: (v, t, {"gaol": t})),
            "begins an episode",
            "times of gaol, which it did not observe",
        ),
        (changed_read(lambda v, t: (v, 0.0)), "measures anew", "all 5 observations are stamped 0 s"),
        (overwrites, "returns new arrays", "read 0 gave position as a buffer that a later one reuses"),
        (slow, "leaves time for the policy", "ms of 40 ms"),
        (changed_write(lambda a: Executed(a + 2.0)), "returns the applied action", "fx = 2, beyond -1.0 to 1.0 [N]"),
        (
            changed_write(lambda a: Executed(a[:1])),
            "begins an episode",
            "executed action of shape (1,), expected (2,)",
        ),
        (changed_write(lambda a: Executed(a * np.nan)), "begins an episode", "contains NaN at fx, fy"),
        (
            changed_write(lambda a: None),
            "begins an episode",
            "WrongArm.write() returned NoneType; return Exec",
        ),
        (changed_write(leave), "begins an episode", "SystemExit: 0 (test_check_adapter.py, line "),
        (no_second("close"), "closes, and twice", "OSError: the bus is closed (test_check_adapter.py, line "),
    ],
)
def test_each_broken_law_is_named_with_what_broke_it(check, arm, defect, law, fault):
    result = broken(check(lambda clock: defect(arm)(clock=clock)))
    (name, other), *results = result.items()
    assert name.startswith(law)
    assert fault in other
    # What only follows: a stamp of nothing but zeros is too old in the end, and who cannot stop twice is not stopped.
    assert [other for _, other in results if "0 to 0.12" not in other and "stop() failed twice" not in other] == []


def test_nothing_is_tried_after_a_law_that_the_others_build_on(check, arm):
    verdicts = check(lambda clock: arm(clock=clock, raise_at_reads=[2]))
    assert [bool(verdict.fault) for verdict in verdicts] == [False, False, True, False]
    assert verdicts[2].fault == "FakeAdapter: read 2 fails, as scripted by raise_at_reads."


def test_an_adapter_is_stopped_and_closed_also_where_it_fails_and_where_the_check_is_interrupted(contract, arm):
    robot = arm(clock=ManualClock(), raise_at_reads=[0])
    check_adapter(robot, contract, robot.clock)
    assert (robot.stops, robot.closes) == (3, 2)

    def interrupt(verdict):
        if not robot.closes:
            raise KeyboardInterrupt

    robot = arm(clock=ManualClock())
    with pytest.raises(KeyboardInterrupt):
        check_adapter(robot, contract, robot.clock, on_verdict=interrupt)
    assert (robot.stops, robot.closes) == (1, 2)


def test_a_signal_to_terminate_ends_the_check_and_is_no_fault_of_the_adapter(check, arm):
    robots, verdicts = [], []

    class Ended(arm):
        def read(self):
            if self.reads == 3:
                signal.raise_signal(signal.SIGTERM)
            return super().read()

    with pytest.raises(SystemExit, match="143"):
        check(lambda clock: robots.append(Ended(clock=clock)) or robots[0], on_verdict=verdicts.append)
    assert (robots[0].writes, robots[0].stops, robots[0].closes) == (3, 3, 2)
    assert broken(verdicts) == {}


def test_nothing_is_written_where_nobody_said_what_moves_nothing(check, arm):
    robots = []
    with pytest.raises(SamiError, match="the limits set no rest"):
        check(lambda clock: robots.append(arm(clock=clock)) or robots[0], limits=Limits())
    assert (robots[0].resets, robots[0].writes) == (0, 0)


def test_a_robot_that_gives_way_is_not_followed_and_a_bound_that_is_reached_is_not_exceeded(make, arm):
    signal = make.action_signal.model_copy(update={"name": "position", "low": (-0.1, -0.1), "high": (0.1, 0.1)})
    contract = make.contract_of(make.recurrent(), observation=(signal,), action=make.action_signal)

    class Drooping(arm):
        """A position-controlled arm that stays 0.01 below its command."""

        def __init__(self, **options):
            super().__init__(**options)
            self.observation, self.at = (signal,), np.float32([0.1, 0.1])

        def read(self):
            return Observation({"position": self.at.copy()}, super().read().time)

        def write(self, action):
            super().write(action)
            self.at = action - np.float32(0.01)
            return Executed(action)

    clock = ManualClock()
    robot = Drooping(clock=clock)
    limits = Limits(rest="position", high=0.1)
    assert broken(check_adapter(robot, contract, clock, limits, ticks=5, write=True)) == {}
    np.testing.assert_array_equal(robot.written, [np.float32([0.1, 0.1])] * 5)


def test_an_episode_that_the_world_ends_is_not_written_to_any_more(check, arm):
    robots = []
    results = check(lambda clock: robots.append(arm(clock=clock, episode_steps=3)) or robots[0])
    assert broken(results) == {}
    assert robots[0].writes == 3
