"""Laws of a session: the table of semantics, row by row."""

import copy
import pickle

import numpy as np
import pytest

from sami_runtime.errors import SamiError, SignalError
from sami_runtime.session.session import Session


def play(session, observations, executed=None, start=0, stop=None):
    """(actions, contexts) of stepping through observations; tells what was executed where it is given."""
    answers = []
    for t in range(start, len(observations["position"]) if stop is None else stop):
        answers.append(session.step({name: value[t] for name, value in observations.items()}))
        if executed is not None:
            session.executed(executed[t])
    return np.array([a.action for a in answers]), np.array([a.context for a in answers])


@pytest.fixture
def observations(make):
    return make.observations(12)


def at(observations, t):
    return {name: value[t] for name, value in observations.items()}


def test_steps_equal_the_recurrence_computed_by_hand(policy, path, observations):
    actions, contexts = play(Session.load(path), observations)
    by_hand = policy.reference(observations)
    np.testing.assert_allclose(actions, by_hand[0], atol=1e-6)
    np.testing.assert_allclose(contexts, by_hand[1], atol=1e-6)


def test_the_encoder_sees_the_executed_action_as_the_previous_one(policy, path, observations):
    executed = np.random.default_rng(5).uniform(-1, 1, (12, 2)).astype(np.float32)
    actions, contexts = play(Session.load(path), observations, executed)
    by_hand = policy.reference(observations, executed)
    np.testing.assert_allclose(actions, by_hand[0], atol=1e-6)
    np.testing.assert_allclose(contexts, by_hand[1], atol=1e-6)
    assert np.abs(contexts - policy.reference(observations)[1]).max() > 0.01


def test_a_memoryless_policy_steps_too(make, observations):
    policy = make.memoryless()
    session = Session.load(make.write(policy))
    actions, contexts = play(session, observations, np.zeros((12, 2)))
    np.testing.assert_allclose(actions, policy.reference(observations)[0], atol=1e-6)
    assert contexts.shape == (12, 0)
    assert session.state.tensors == {}


def test_a_step_has_the_shapes_of_the_contract(path, observations):
    step = Session.load(path).step(at(observations, 0))
    assert step.action.shape == (2,)
    assert step.context.shape == (2,)
    assert step.inference_s > 0
    many = Session.load(path, batch=3).step({name: value[:3] for name, value in observations.items()})
    assert many.action.shape == (3, 2)
    assert many.context.shape == (3, 2)


def test_warm_up_does_not_leak_into_the_first_step(make, policy, path, observations):
    session = Session.load(path)
    fresh = session.state
    np.testing.assert_array_equal(fresh.tensors["memory"], np.full((1, 1, 3), 0.5, np.float32))
    np.testing.assert_array_equal(fresh.previous_action, np.zeros((1, 2)))
    first = session.step(at(observations, 0))
    session.reset()
    np.testing.assert_array_equal(session.step(at(observations, 0)).action, first.action)
    np.testing.assert_array_equal(Session.load(path).step(at(observations, 0)).action, first.action)


def test_reset_forgets_everything_and_is_idempotent(path, observations):
    session = Session.load(path)
    first = play(session, observations)
    session.reset()
    session.reset()
    again = play(session, observations)
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_two_sessions_share_nothing(path, observations):
    session, other = Session.load(path), Session.load(path)
    expected = play(Session.load(path), observations)
    play(session, observations)
    np.testing.assert_array_equal(play(other, observations)[0], expected[0])


def test_writing_into_an_answer_does_not_reach_the_next_step(policy, path, observations):
    session = Session.load(path)
    for t in range(12):
        step = session.step(at(observations, t))
        np.testing.assert_allclose(step.context, policy.reference(observations)[1][t], atol=1e-6)
        step.action[:] = 99.0
        step.context[:] = 99.0


@pytest.mark.parametrize("rows", [[0, 2], np.array([True, False, True, False]), (2, 0)])
def test_resetting_some_rows_leaves_the_others_bit_equal(path, observations, rows):
    batch = {name: np.stack([value] * 4, axis=1) for name, value in observations.items()}  # (T, 4, size)
    touched, untouched = Session.load(path, batch=4), Session.load(path, batch=4)
    for t in range(5):
        touched.step(at(batch, t))
        untouched.step(at(batch, t))
    touched.reset(rows)
    fresh = Session.load(path, batch=4)
    for t in range(5, 12):
        answer, other, new = touched.step(at(batch, t)), untouched.step(at(batch, t)), fresh.step(at(batch, t))
        np.testing.assert_array_equal(answer.action[[1, 3]], other.action[[1, 3]])
        np.testing.assert_array_equal(answer.context[[0, 2]], new.context[[0, 2]])


def test_a_batch_equals_single_sessions(make, path):
    worlds = [make.observations(12, seed) for seed in range(3)]
    batched = Session.load(path, batch=3)
    batch = {name: np.stack([world[name] for world in worlds], axis=1) for name in worlds[0]}
    actions = np.array([batched.step(at(batch, t)).action for t in range(12)])
    for row, world in enumerate(worlds):
        np.testing.assert_allclose(actions[:, row], play(Session.load(path), world)[0], atol=1e-6)


@pytest.mark.parametrize("rows", [[4], [-1], [True, False], [0.5], "all"])
def test_rows_outside_the_batch_are_refused(path, rows):
    with pytest.raises(SamiError, match=r"valid are indices from 0 to 3, or a mask of 4 booleans"):
        Session.load(path, batch=4).reset(rows)


def test_no_rows_reset_nothing(path, observations):
    session = Session.load(path)
    session.step(at(observations, 0))
    before = session.state
    session.reset([])
    np.testing.assert_array_equal(session.state.tensors["memory"], before.tensors["memory"])


REFUSED = {
    "NaN": ({"position": [0.0, np.nan]}, r"tick 3: observation 'position' contains NaN at y\. Give finite numbers"),
    "infinity": ({"goal": [np.inf]}, r"observation 'goal' contains infinity at x"),
    "too large for float32": (
        {"goal": [1e300]},
        r"observation 'goal' contains infinity at x",
    ),
    "too large for float32, as float64": ({"goal": np.array([1e300])}, r"observation 'goal' contains infinity at x"),
    "size": (
        {"position": [0.0] * 4},
        r"tick 3: observation 'position' has 4 values, expected 2 \[m\] \(x, y\)\.",
    ),
    "axes": (
        {"position": [[0.0], [0.0]]},
        r"observation 'position' has shape \(2, 1\), expected \(2,\) \[m\]",
    ),
    "scalar": ({"goal": 1.0}, r"observation 'goal' has shape \(\), expected \(1,\)"),
    "text": ({"goal": ["1"]}, r"observation 'goal' is \['1'\], expected 1 numbers \[m\] \(x\)"),
    "complex": ({"goal": [1j]}, r"observation 'goal' is \[1j\], expected 1 numbers"),
    "None": ({"goal": [None]}, r"observation 'goal' is \[None\], expected 1 numbers"),
    "ragged": ({"position": [[1.0], [1.0, 2.0]]}, r"'position' is \[\[1.0\], \[1.0, 2.0\]\], expected 2 num"),
    "unknown": (
        {"velocity": [0.0]},
        r"'velocity' is not read by this policy.*Give exactly: position, goal\.",
    ),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_observation_leaves_the_session_as_it_was(path, observations, change, message):
    session, other = Session.load(path), Session.load(path)
    play(session, observations, stop=3)
    play(other, observations, stop=3)
    with pytest.raises(SignalError, match=message):
        session.step(at(observations, 3) | change)
    assert session.tick == 3
    after = play(session, observations, start=3)
    np.testing.assert_array_equal(after[1], play(other, observations, start=3)[1])


def test_a_missing_signal_is_named_with_what_was_given_instead(path, observations):
    renamed = {"positon": observations["position"][0], "goal": observations["goal"][0]}
    with pytest.raises(
        SignalError, match=r"observation 'position' is missing; 'positon'.*did you mean 'position'"
    ) as e:
        Session.load(path).step(renamed)
    assert e.value.signal == "position"


def test_the_row_of_a_refused_number_is_named(path):
    batch = {"position": np.zeros((3, 2)), "goal": np.ones((3, 1))}
    batch["position"][2, 0] = np.nan
    with pytest.raises(SignalError, match=r"'position' contains NaN at x of row 2"):
        Session.load(path, batch=3).step(batch)


def test_a_batch_refuses_the_observation_of_one(path, observations):
    with pytest.raises(SignalError, match=r"has shape \(2,\), expected \(3, 2\)"):
        Session.load(path, batch=3).step(at(observations, 0))


@pytest.mark.parametrize("convert", [np.float64, np.float16, list, tuple])
def test_other_number_types_are_converted(path, observations, convert):
    exact = {name: np.float32(np.float16(value[0])) for name, value in observations.items()}
    table = {name: convert(value) if isinstance(convert, type) else value for name, value in exact.items()}
    np.testing.assert_array_equal(Session.load(path).step(table).action, Session.load(path).step(exact).action)


def test_integers_are_converted(path):
    whole = Session.load(path).step({"position": np.array([1, 0]), "goal": np.array([True])})
    exact = Session.load(path).step({"position": np.array([1.0, 0.0]), "goal": np.array([1.0])})
    np.testing.assert_array_equal(whole.action, exact.action)


def test_an_answer_that_is_not_finite_is_refused_and_advances_nothing(make):
    session = Session.load(make.write(make.inverse()))
    session.step({"position": [0.5, 0.25], "goal": [1.0]})
    before = session.state
    with pytest.raises(SignalError, match=r"output 'action' contains infinity at fx\. .*state was not advanced"):
        session.step({"position": [1.0, 0.0], "goal": [1e-39]})
    with pytest.raises(SignalError, match=r"tick 1: output 'action' contains NaN and infinity at fx, fy"):
        session.step({"position": [0.0, 1.0], "goal": [0.0]})
    np.testing.assert_array_equal(session.state.tensors["count"], before.tensors["count"])
    np.testing.assert_array_equal(session.state.previous_action, [[0.5, 0.25]])


def test_an_inference_error_advances_nothing(make):
    session = Session.load(make.write(make.table()))
    session.step({"position": [0.25, 0.0], "goal": [1.0]})
    before = session.state
    with pytest.raises(SamiError, match=r"tick 1: inference failed: .*out of data bounds.*state was not advanced"):
        session.step({"position": [0.0, 0.0], "goal": [7.0]})
    np.testing.assert_array_equal(session.state.tensors["count"], before.tensors["count"])
    np.testing.assert_array_equal(session.state.previous_action, [[0.75, 0.5]])
    np.testing.assert_array_equal(session.step({"position": [0.0, 0.0], "goal": [1.0]}).action, [0.5, 0.5])
    np.testing.assert_array_equal(session.state.tensors["count"], [[2.0]])


@pytest.mark.parametrize("action", [[np.nan, 0.0], [np.inf, 0.0], [0.0], [0.0, 0.0, 0.0], ["a", "b"]])
def test_an_executed_action_that_cannot_be_is_refused(path, observations, action):
    session = Session.load(path)
    session.step(at(observations, 0))
    before = session.state.previous_action
    with pytest.raises(SignalError, match=r"tick 1: (executed action )?'force'"):
        session.executed(action)
    np.testing.assert_array_equal(session.state.previous_action, before)


def test_executed_tells_nothing_about_rows_that_were_reset(path, observations):
    batch = {name: value[:2] for name, value in observations.items()}
    applied = np.full((2, 2), 0.3, np.float32)
    before, after = Session.load(path, batch=2), Session.load(path, batch=2)
    for session in (before, after):
        session.step(batch)
    before.executed(applied)
    before.reset([1])
    after.reset([1])
    after.executed(applied)
    np.testing.assert_array_equal(before.state.previous_action, np.float32([[0.3, 0.3], [0.0, 0.0]]))
    np.testing.assert_array_equal(after.state.previous_action, before.state.previous_action)


def test_a_held_tick_repeats_what_was_executed_and_advances_nothing(path, observations):
    session = Session.load(path)
    step = session.step(at(observations, 0))
    session.executed([0.25, -0.25])
    before = session.state
    repeated = session.hold()
    np.testing.assert_array_equal(repeated.action, [0.25, -0.25])
    np.testing.assert_array_equal(repeated.context, step.context)
    np.testing.assert_array_equal(session.state.tensors["memory"], before.tensors["memory"])
    np.testing.assert_array_equal(session.state.previous_action, [[0.25, -0.25]])


def test_nothing_can_be_held_before_the_first_step(path):
    with pytest.raises(SamiError, match=r"hold\(\) in row 0 before its first step"):
        Session.load(path).hold()


def test_a_restored_state_goes_on_bit_equal(path, observations):
    session = Session.load(path)
    play(session, observations, stop=5)
    state = session.state
    rest = play(session, observations, start=5)
    other = Session.load(path)
    other.restore(state)
    with pytest.raises(SignalError, match="tick 5: observation"):
        other.step({})
    np.testing.assert_array_equal(play(other, observations, start=5)[1], rest[1])
    session.restore(state)
    np.testing.assert_array_equal(play(session, observations, start=5)[1], rest[1])


def test_a_state_is_a_copy(path, observations):
    session = Session.load(path)
    session.step(at(observations, 0))
    session.state.tensors["memory"][:] = 9.0
    assert np.abs(session.state.tensors["memory"]).max() <= 1.0


def test_a_state_moves_only_between_the_same_weights_and_batch(make, path, observations):
    session = Session.load(path)
    with pytest.raises(SamiError, match="moves only between files of the same weights"):
        session.restore(Session.load(make.write(make.recurrent(seed=1))).state)
    with pytest.raises(SamiError, match="for a batch of 1"):
        session.restore(Session.load(path, batch=2).state)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_is_not_copied_but_its_state_is(path, observations, duplicate):
    session = Session.load(path)
    session.step(at(observations, 0))
    with pytest.raises(SamiError, match=r"Make another session of the same file.*restore\(session\.state\)"):
        duplicate(session)
    other = Session(session.artifact, session.batch)
    other.restore(pickle.loads(pickle.dumps(session.state)))
    assert other.step(at(observations, 1)).action.tolist() == session.step(at(observations, 1)).action.tolist()


def test_a_batch_below_one_is_refused(path):
    with pytest.raises(SamiError, match="batch is 0"):
        Session.load(path, batch=0)
