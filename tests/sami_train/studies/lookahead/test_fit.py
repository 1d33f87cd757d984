"""What a forward model learns from episodes and from recordings, whatever was late in them, and how good it is."""

import dataclasses

import numpy as np
import pytest
import torch

from sami_runtime import (
    FakeAdapter,
    GapProfile,
    Limits,
    ManualClock,
    Run,
    SamiError,
    Session,
    read_artifact,
    read_recording,
)
from sami_runtime.signals import Signal
from sami_train.studies.lookahead import fit as fitting
from sami_train.studies.lookahead.fit import fit
from sami_train.studies.lookahead.stretches import Stretch, recorded_stretches
from tests.making import looking

PERIOD = looking.PERIOD


def signal(name, size, unit="m"):
    return Signal(
        name=name, size=size, unit=unit, elements=tuple("xyz"[:size]), low=(None,) * size, high=(None,) * size
    )


SIGNALS = (signal("position", 2), signal("angle", 1, "rad"), signal("goal", 2))


def turned(angle):
    return (angle + np.pi) % (2 * np.pi) - np.pi


def world(episodes, steps=30, seed=0):
    """Episodes of a made world: a position that actions push, an angle that turns past pi, and a goal."""
    rng, stretches = np.random.default_rng(seed), []
    for _ in range(episodes):
        position, angle, goal = rng.normal(size=2), rng.uniform(-3, 3), rng.normal(size=2)
        actions = rng.uniform(-1, 1, (steps + 1, 2)).astype(np.float32)
        rows = []
        for t in range(steps + 1):
            if t:
                position, angle = (
                    position + 0.1 * actions[t] + 0.02 * actions[t - 1],
                    turned(angle + 0.3 + 0.1 * actions[t, 0]),
                )
            rows.append([*position, angle, *goal])
        stretches.append(Stretch(np.float32(rows), actions, np.zeros((steps + 1, 1), np.float32)))
    return stretches


@pytest.fixture(scope="module")
def forward_fit():
    return fit(world(60), SIGNALS, 3, updates=300)


def test_it_predicts_what_actions_do_over_one_period_and_more(forward_fit):
    for name in ("position", "angle"):
        error = forward_fit.errors[name]
        for predicted, standing in zip(error.predicted, error.standing, strict=True):
            assert predicted < 0.2 * standing, name


def test_a_goal_stays_to_the_bit(forward_fit):
    assert forward_fit.errors["goal"].standing == (0.0, 0.0, 0.0)
    row = world(1)[0].observations[:1]
    zeros = np.zeros((1, 2), np.float32)
    ahead = forward_fit.model.ahead(row, np.full((1, 5), 3.0), [zeros + 0.7] * 4, np.zeros((1, 1), np.float32))
    assert ahead[:, 3:].tobytes() == row[:, 3:].tobytes()
    assert (ahead[:, :2] != row[:, :2]).all()


def test_age_0_is_the_observation_itself(forward_fit):
    row = world(1)[0].observations[:1]
    actions = [np.ones((1, 2), np.float32)] * 4
    assert forward_fit.model.ahead(row, np.zeros((1, 5)), actions, np.zeros((1, 1))).tobytes() == row.tobytes()


def test_what_it_says_is_bounded_wherever_it_is_asked(forward_fit):
    far = np.full((1, 5), 1e6, np.float32)
    change = forward_fit.model.change(far, np.full((1, 2), 1e6), np.zeros((1, 2)), np.zeros((1, 1)))
    assert np.abs(change).max() < 10.0


def test_the_same_seed_fits_the_same():
    first, second = (fit(world(10), SIGNALS, 1, updates=20).model for _ in range(2))
    assert [w.tobytes() for w in first.weights] == [w.tobytes() for w in second.weights]


def test_it_uses_one_thread():
    """With two it took 12 times as long, where something else used the cores."""
    threads = set()
    torch.set_num_threads(2)
    fit(world(10), SIGNALS, 1, updates=1, on_update=lambda _: threads.add(torch.get_num_threads()))
    torch.set_num_threads(1)
    assert threads == {1}


def test_it_goes_on_from_a_model_that_is_there(forward_fit):
    on = fit(world(10, seed=1), SIGNALS, 3, updates=1, start=forward_fit.model)
    anew = fit(world(10, seed=1), SIGNALS, 3, updates=1)
    for error in (on.errors[name] for name in ("position", "angle")):
        assert error.predicted[0] < 0.3 * error.standing[0]
    assert anew.errors["position"].predicted[0] > 0.3 * anew.errors["position"].standing[0]


def test_a_signal_that_nothing_predicts_is_left_as_it_arrives():
    value = world(30)
    rng = np.random.default_rng(5)
    for item in value:
        item.observations[:, :2] = rng.normal(size=(len(item) + 1, 2)) * rng.choice([0.01, 10.0], (len(item) + 1, 1))
        item.observations[:, 2] = 0.1 * item.actions[:, 0]
    model = fit(value[:8], SIGNALS, 1, updates=400).model
    columns = np.abs(model.weights[-1]).max(axis=0)
    assert columns[2] > 0.0
    assert (columns[3:] == 0.0).all()


def test_what_it_is_judged_by_was_held_out(monkeypatch):
    parts = []
    judge = fitting.errors_of
    monkeypatch.setattr(
        fitting, "errors_of", lambda model, held_out, *rest: (parts.append(held_out), judge(model, held_out, *rest))[1]
    )
    value = world(20)
    forward_fit = fit(value, SIGNALS, 2, updates=10)
    assert [len(part) for part in parts] == [2, 2]  # to stop by, and to judge by
    assert not {id(item) for item in parts[0]} & {id(item) for item in parts[1]}
    assert (forward_fit.transitions, forward_fit.held_out) == (16 * 30, 2 * 30)


def test_each_period_is_predicted_with_the_context_of_the_step_before_it_as_in_a_model_file():
    [stretch] = world(1, steps=8)
    stretch.contexts[:, 0] = np.arange(9)
    contexts, valid = (fitting._Windows([stretch], SIGNALS, 3).all()[part][:, :, 0] for part in (2, 4))
    expected = torch.arange(8)[:, None] + torch.arange(3)
    assert (contexts == expected)[valid > 0].all()
    assert valid.sum() == 8 + 7 + 6


def test_too_little_is_refused():
    with pytest.raises(SamiError, match=r"there are 10 transitions in 1 stretches .* it takes at least 40"):
        fit(world(3, steps=10), SIGNALS, 3)


def record(path, model, gap, episodes=3, command_delay_s=None, **script):
    """A recording of the fake with a sim-to-real profile, driven by a plain policy whose commands wander."""
    clock = ManualClock()
    robot = FakeAdapter(clock=clock, **script)
    limits = Limits(max_age_s=10.0, stop_after=30)
    with Run(
        Session.load(model), robot, clock, gap=GapProfile.of(gap), simulator=True, limits=limits, record=path,
        command_delay_s=command_delay_s,
    ) as run:  # fmt: skip
        for seed in range(episodes):
            run.episode(seed)
    return path


@pytest.fixture
def plain(tmp_path):
    return looking.write(tmp_path / "plain.onnx", steps=0)


def require_law(stretches):
    """Every transition is the fake's law under the action that it is told."""
    count = 0
    for stretch in stretches:
        position, velocity = stretch.observations.T
        faster = velocity[:-1] + stretch.actions[1:, 0] * PERIOD
        np.testing.assert_allclose(velocity[1:], faster, atol=1e-5)
        np.testing.assert_allclose(position[1:], position[:-1] + faster * PERIOD, atol=1e-5)
        count += len(stretch)
    return count


@pytest.mark.parametrize(
    ("gap", "message"),
    [
        ({}, None),
        ({"latency_s": 2 * PERIOD}, None),
        ({"latency_s": PERIOD, "jitter_s": 2 * PERIOD, "dropout": 0.2}, None),
        ({"action_latency_s": 2 * PERIOD}, 2 * PERIOD),
        ({"latency_s": PERIOD, "action_latency_s": PERIOD}, PERIOD),
    ],
)
def test_recordings_are_laid_where_observations_were_measured_and_actions_acted(plain, tmp_path, gap, message):
    path = record(tmp_path / "run.mcap", plain, gap, command_delay_s=message)
    assert require_law(recorded_stretches([path], read_artifact(looking.write(tmp_path / "ahead.onnx")))) >= 30


def test_a_command_delay_that_was_found_out_later_is_taken_into_account(plain, tmp_path):
    path = record(tmp_path / "run.mcap", plain, {"action_latency_s": 2 * PERIOD})
    artifact = read_artifact(plain)
    require_law(recorded_stretches([path], artifact, 2 * PERIOD))
    with pytest.raises(AssertionError):
        require_law(recorded_stretches([path], artifact))


def test_contexts_are_those_of_the_model_that_is_fitted_whichever_made_the_recording(plain, tmp_path):
    path = record(tmp_path / "run.mcap", plain, {}, episodes=1)
    other = looking.write(tmp_path / "other.onnx", steps=0, context="Neg")
    recorded = np.stack([step.record.context for step in read_recording(path).steps])
    for model, sign in ((plain, 1.0), (other, -1.0)):
        [stretch] = recorded_stretches([path], read_artifact(model))
        assert np.ptp(stretch.contexts) > 0.0
        np.testing.assert_array_equal(stretch.contexts, sign * recorded[: len(stretch.contexts)])


def test_what_was_not_finite_is_no_observation(plain, tmp_path):
    path = record(tmp_path / "run.mcap", plain, {}, nan_at_reads=[5, 6, 50])
    stretches = recorded_stretches([path], read_artifact(plain))
    assert len(stretches) > 3
    require_law(stretches)


def test_a_recording_of_another_robot_is_refused(plain, tmp_path):
    path = record(tmp_path / "run.mcap", plain, {}, episodes=1)
    artifact = read_artifact(looking.write(tmp_path / "ahead.onnx"))
    action = artifact.contract.action
    renamed = action.model_copy(update={"elements": ("other",) * action.size})  # of another order, they were mixed up
    for changes, fault in (
        ({"rate_hz": 50.0}, "it was recorded at 25 Hz instead of 50 Hz"),
        ({"action": renamed}, ".* instead of other"),
    ):
        other = dataclasses.replace(artifact, contract=artifact.contract.model_copy(update=changes))
        with pytest.raises(SamiError, match=f"does not fit model 'looking': {fault}"):
            recorded_stretches([path], other)
