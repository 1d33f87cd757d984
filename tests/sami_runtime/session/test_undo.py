"""Laws of taking a step back, and of the digest that tells two states apart."""

import numpy as np
import pytest

from sami_runtime.errors import SamiError
from sami_runtime.session.session import Session


@pytest.fixture
def observations(make):
    return make.observations(12)


def at(observations, t, batch=1):
    return {name: value[t] if batch == 1 else value[t : t + batch] for name, value in observations.items()}


def bits(session):
    """All that a session tells of itself."""
    state = session.state
    arrays = (state.previous_action, state.context, state.acted, *state.tensors.values())
    return session.tick, state.tick, session.digest, [array.tobytes() for array in arrays]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_step_that_was_taken_back_was_never_made(path, observations, batch):
    session, other = Session.load(path, batch=batch), Session.load(path, batch=batch)
    applied = np.full((batch, 2), 0.25, np.float32).reshape((2,) if batch == 1 else (batch, 2))
    for t in range(6):
        before = bits(session)
        session.step(at(observations, 9 - t, batch))
        session.executed(-applied)
        session.prewarm()
        assert bits(session) != before
        session.undo()
        assert bits(session) == before == bits(other)
        steps = [item.step(at(observations, t, batch)) for item in (session, other)]
        assert steps[0].action.tobytes() == steps[1].action.tobytes()
        assert steps[0].context.tobytes() == steps[1].context.tobytes()
        if t % 2:
            session.executed(applied)
            other.executed(applied)


def test_a_step_after_some_rows_were_reset_is_taken_back_to_there(path, observations):
    session = Session.load(path, batch=2)
    session.step(at(observations, 0, 2))
    session.reset([1])
    before = bits(session)
    session.step(at(observations, 1, 2))
    session.undo()
    assert bits(session) == before


def test_the_first_step_of_an_episode_can_be_taken_back_and_then_nothing_can_be_held(path, observations):
    session = Session.load(path)
    session.step(at(observations, 0))
    session.undo()
    assert bits(session) == bits(Session.load(path))
    with pytest.raises(SamiError, match=r"hold\(\) in row 0 before its first step"):
        session.hold()


@pytest.mark.parametrize("between", ["nothing", "undo", "reset", "restore", "no rows"])
def test_without_a_last_step_there_is_nothing_to_take_back(path, observations, between):
    session = Session.load(path)
    if between != "nothing":
        session.step(at(observations, 0))
        actions = {
            "undo": session.undo,
            "reset": session.reset,
            "restore": lambda: session.restore(session.state),
            "no rows": lambda: session.reset([]),
        }
        actions[between]()
    before = bits(session)
    with pytest.raises(SamiError, match=rf"undo\(\) at tick {session.tick}: there is no step to take back"):
        session.undo()
    assert bits(session) == before


def test_a_step_that_failed_cannot_be_taken_back_and_one_that_was_refused_hides_none(make):
    session = Session.load(make.write(make.inverse()))
    session.step({"position": [0.5, 0.25], "goal": [1.0]})
    before = bits(session)
    # The answer is refused, and was computed over the state before the last step.
    with pytest.raises(SamiError, match="contains NaN and infinity"):
        session.step({"position": [0.0, 1.0], "goal": [0.0]})
    with pytest.raises(SamiError, match="or a step that failed"):
        session.undo()
    assert bits(session) == before
    session.step({"position": [0.5, 0.25], "goal": [1.0]})
    # The observation is refused, and nothing was computed.
    with pytest.raises(SamiError, match="observation 'goal' is missing"):
        session.step({"position": [0.5, 0.25]})
    session.undo()
    assert bits(session) == before


def test_a_digest_tells_any_bit_of_the_state_from_any_other(path, observations):
    session = Session.load(path)
    session.step(at(observations, 0))
    state, digests = session.state, set()
    for array in (state.previous_action, *state.tensors.values()):
        for index in range(array.size):
            session.restore(state)
            digests.add(session.digest)
            array.reshape(-1).view(np.uint32)[index] ^= 1
    session.restore(state)
    assert len(digests | {session.digest}) == state.previous_action.size + 4
    state.acted[:] = False
    session.restore(state)
    assert session.digest not in digests
