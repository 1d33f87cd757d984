"""Laws of the excitation: it rests, moves every element within limits and back, and a person's keys come first."""

import numpy as np
import pytest

from sami_runtime.clock import ManualClock
from sami_runtime.errors import SamiError
from sami_runtime.loop.excitation import REST_TICKS, Excitation
from sami_runtime.loop.pilot import Ending, Request
from sami_runtime.run import Run
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session


@pytest.fixture
def contract(make):
    return make.contract_of(make.recurrent())


def commands(pilot, ticks=60):
    return np.array([pilot.request(None).command for _ in range(ticks)])


def test_it_rests_first_then_every_element_goes_to_both_sides_and_back(contract):
    request = commands(Excitation(contract, Limits(rest=0.1)))
    assert (request[:REST_TICKS] == np.float32(0.1)).all()
    for element in request.T:
        assert np.unique(element) == pytest.approx([-0.35, 0.1, 0.55])
        assert abs(np.cumsum(element - 0.1)).max() <= 4 * 0.45 + 1e-5
    assert not np.array_equal(*request.T)


def test_each_episode_has_its_own_pattern_and_a_seed_repeats_it(contract):
    excitation, other = Excitation(contract, Limits(rest=0.0), seed=4), Excitation(contract, Limits(rest=0.0), seed=4)
    for pilot in (excitation, other):
        pilot.reset()
    first, again = commands(excitation), commands(other)
    excitation.reset()
    assert first.tobytes() == again.tobytes() != commands(excitation).tobytes()


def test_in_a_faster_loop_a_command_stands_for_a_period_of_the_policy(contract):
    slow, fast = (commands(Excitation(contract, Limits(rest=0.0), every=every), 40 * every) for every in (1, 4))
    np.testing.assert_array_equal(fast[::4], slow)
    np.testing.assert_array_equal(fast[3::4], slow)


def test_limits_shape_what_is_written(path, arm):
    clock = ManualClock()
    limits = Limits(rest=0.0, high={"fx": 0.3}, rate=2.0, out_of_bounds="act")
    session, robot = Session.load(path), arm(clock)
    pilot = Excitation(session.contract, limits, share=1.0)
    with Run(session, robot, clock, simulator=True, limits=limits, pilot=pilot) as run:
        report = run.episode(seed=0, max_steps=50)
    actions = np.array(robot.written)
    assert report.loop.limited["rate fx"] > 0
    assert np.abs(actions[:, 0]).max() == pytest.approx(0.3)
    assert np.abs(np.diff(actions, axis=0)).max() <= 2.0 * 0.04 + 1e-6


class Person:
    """Says the same at every tick."""

    def __init__(self, reply):
        self.reply, self.resets = reply, 0

    def reset(self):
        self.resets += 1

    def request(self, standing):
        return self.reply


@pytest.mark.parametrize(
    "reply", [Request(pause=True), Request(end=Ending.STOP), Request(command=np.zeros(2, np.float32))]
)
def test_a_person_comes_first(contract, reply):
    person = Person(reply)
    pilot = Excitation(contract, Limits(rest=0.0), person=person)
    assert pilot.request(None) is reply
    person.reply = Request()
    assert pilot.request(None).command is not None
    assert person.resets == 1
    person.reply = None
    with pytest.raises(SamiError, match=r"Person\.request\(\) returned None\. Return a Request; Request\(\) lets"):
        pilot.request(None)


def test_without_rest_or_bounds_nothing_moves(contract):
    for rest in (None, "position"):
        with pytest.raises(SamiError, match="the limits must set rest in numbers"):
            Excitation(contract, Limits(rest=rest))
    endless = contract.action.model_copy(update={"low": (None, -1.0), "high": (None, 1.0)})
    free = contract.model_copy(update={"action": endless})
    with pytest.raises(SamiError, match="fx has no bounds"):
        Excitation(free, Limits(rest=0.0))
    with pytest.raises(SamiError, match=r"the share is 1\.5"):
        Excitation(contract, Limits(rest=0.0), share=1.5)
