"""Looking ahead: what a session keeps and shifts, which ages it takes, and what the policy then sees."""

import numpy as np
import pytest

from sami_runtime import ContractError, Session, SignalError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from tests.making import looking


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return looking.write(tmp_path_factory.mktemp("looking") / "looking.onnx")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return looking.write(tmp_path_factory.mktemp("plain") / "plain.onnx", steps=0)


@pytest.fixture
def session(path):
    return Session.load(path)


def observed(position, velocity=0.0):
    return {"position": np.float32([position]), "velocity": np.float32([velocity])}


def now(position, velocity, *forces):
    """What the law makes of a state under some forces, one a period."""
    for force in forces:
        velocity = velocity + force * looking.PERIOD
        position = position + velocity * looking.PERIOD
    return position, velocity


def act(position, velocity):
    return np.tanh(-3.0 * position - velocity)


def run_steps(session, *forces):
    """A session that acted once for each force, which was executed in its place."""
    for force in forces:
        session.step(observed(0.1))
        session.executed([force])
    return session


def test_at_age_0_it_answers_as_the_file_without_it_to_the_bit(session, plain):
    bare, rng = Session.load(plain), np.random.default_rng(0)
    for step in range(50):
        if step == 25:
            session.reset()
            bare.reset()
        observation = observed(*rng.normal(size=2))
        answer, expected = session.step(observation, age=0.0), bare.step(observation)
        assert (answer.action.tobytes(), answer.context.tobytes()) == (
            expected.action.tobytes(),
            expected.context.tobytes(),
        )
        executed = rng.uniform(-1, 1, 1)
        for item in (session, bare):
            item.executed(executed)
            item.elapse(int(rng.integers(3)) if item is session else 1)


def test_it_acts_on_what_the_actions_since_then_made_of_what_it_saw(session):
    run_steps(session, 0.1, 0.2, 0.3, 0.4)
    for age, forces in ((1, (0.4,)), (2, (0.3, 0.4)), (3, (0.2, 0.3, 0.4))):
        state = session.state
        assert session.step(observed(0.5, 0.2), age).action[0] == pytest.approx(act(*now(0.5, 0.2, *forces)), abs=1e-6)
        session.restore(state)


def test_half_a_period_is_half_a_step_under_the_older_action(session):
    run_steps(session, 0.1, 0.9, -0.4)
    half = np.array([0.5, 0.2]) + 0.5 * (np.array(now(0.5, 0.2, 0.9)) - [0.5, 0.2])
    assert session.step(observed(0.5, 0.2), 1.5).action[0] == pytest.approx(act(*now(*half, -0.4)), abs=1e-6)


def test_each_signal_has_an_age_of_its_own(session):
    run_steps(session, 0.7)
    position, _ = now(0.5, 0.2, 0.7)
    answer = session.step(observed(0.5, 0.2), {"position": 1.0, "velocity": 0.0})
    assert answer.action[0] == pytest.approx(act(position, 0.2), abs=1e-6)


def test_a_held_tick_shifts_the_actions(session):
    run_steps(session, 0.1, 0.2)
    assert session.hold().action == pytest.approx([0.2])
    session.executed([-0.5])  # what a gate made of holding
    assert session.step(observed(0.5), 3).action[0] == pytest.approx(act(*now(0.5, 0.0, 0.1, 0.2, -0.5)), abs=1e-6)


def test_a_step_that_is_taken_back_leaves_the_actions_as_they_were(session):
    run_steps(session, 0.1, 0.2)
    before = session.digest
    session.step(observed(3.0), 2)
    assert session.digest != before
    session.undo()
    assert session.digest == before


def test_a_reset_forgets_the_actions(path, session):
    run_steps(session, 0.1, 0.9, -0.4)
    session.reset()
    assert session.digest == Session.load(path).digest
    assert session.step(observed(0.5, 0.2), 3).action[0] == pytest.approx(act(*now(0.5, 0.2, 0, 0, 0)), abs=1e-6)


def test_rows_of_a_batch_have_ages_and_held_periods_of_their_own(path):
    pair, single = Session.load(path, batch=2), [Session.load(path) for _ in range(2)]
    rng = np.random.default_rng(0)
    for rows in ([], [1], [0, 1], [0]):
        observation, ages = {name: rng.normal(size=(2, 1)) for name in observed(0)}, rng.uniform(0, 3, 2)
        pair.elapse(rows=rows)
        for row in rows:
            single[row].elapse()
        answer = pair.step(observation, ages)
        for row, session in enumerate(single):
            row_step = session.step({name: value[row] for name, value in observation.items()}, float(ages[row]))
            assert answer.action[row].tobytes() == row_step.action.tobytes()


@pytest.mark.parametrize("age", [3.1, -0.1, np.nan, {"position": 0.0, "velocity": 4.0}])
def test_an_age_that_was_not_fitted_is_refused_and_nothing_moves(session, age):
    run_steps(session, 0.1)
    before = session.digest
    with pytest.raises(SignalError, match=r"periods old, and the file was fitted for 0 to 3\. Hold the last action"):
        session.step(observed(0.5), age)
    assert session.digest == before


def test_an_age_that_nobody_told_is_named(session):
    with pytest.raises(SignalError, match="the age of velocity is missing"):
        session.step(observed(0.5), {"position": 1.0})


def test_a_file_that_does_not_look_ahead_takes_all_for_the_present(plain):
    bare, other = Session.load(plain), Session.load(plain)
    assert bare.step(observed(0.5), 7.0).action.tobytes() == other.step(observed(0.5)).action.tobytes()
    before = bare.digest
    bare.elapse(5)
    assert bare.digest == before


def test_a_signal_that_never_changes_may_be_as_old_as_it_likes(tmp_path, path):
    contract = read_artifact(path).contract
    errors = dict(contract.lookahead.errors)
    errors["position"] = errors["position"].model_copy(update={"standing": (0.0,) * 3})
    ahead = contract.lookahead.model_copy(update={"errors": errors})
    assert ahead.changing == {"velocity"}


def test_contracts_without_it_are_written_as_before(plain, path):
    assert "lookahead" not in read_artifact(plain).contract.dumps()
    contract = read_artifact(path).contract
    assert Contract.parse(contract.dumps(), "x") == contract
    assert list(contract.inputs) == [
        *("observation.position", "observation.velocity", "age"),
        *("previous_action", "state.sum.in", "state.past_actions.in"),
    ]


def test_a_contract_without_room_for_the_actions_is_refused(path):
    text = read_artifact(path).contract.dumps().replace('"past_actions"', '"past"')
    with pytest.raises(ContractError, match=r"no state 'past_actions' of shape \(3, 1\)"):
        Contract.parse(text, "x")
