"""Contexts are placed among known dynamics, and telemetry tells what becomes of them."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from sami_runtime import ContractError, Phase, Recorder, Session, Telemetry, run_episode
from sami_runtime.model.atlas import Atlas, Locator
from sami_runtime.model.contract import Contract
from sami_runtime.recording.format import TOPIC
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.replay import replay
from sami_train.export.atlas import windowed

UNIT = ((1.0, 0.0), (0.0, 1.0))


def atlas_of(**changes):
    fields = {
        "tasks": ({"mass": 1.0}, {"mass": 10.0}),
        "mean": ((0.0, 0.0), (4.0, 0.0)),
        "covariance": (UNIT, UNIT),
        "step": 2,
        "threshold": 2.0,
        "slow": 0.1,
        "fast": 0.5,
        "false_alarm_rate": 0.05,
        "episodes": 50,
        "held_out": 50,
    }
    return Atlas(**(fields | changes))


@pytest.fixture
def contract(make):
    return make.contract_of(make.recurrent(), atlas=atlas_of())


def reported(telemetry, *xs):
    """The readings of contexts (x, 0)."""
    return [telemetry.update(np.array([x, 0.0], np.float32)) for x in xs]


def test_a_context_equal_to_the_mean_of_a_task_is_nearest_to_it_at_distance_0():
    atlas = atlas_of(covariance=(((2.0, 0.5), (0.5, 1.0)), UNIT))
    for number, mean in enumerate(atlas.mean):
        assert Locator(atlas)(np.array(mean)) == (number, 0.0, 0.0)


def test_the_distance_is_mahalanobis_to_the_nearest_task_and_the_score_its_share_of_the_threshold():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(2, 2, 2))
    covariances = np.array([f @ f.T + 0.1 * np.eye(2) for f in factors])
    covariances = (covariances + covariances.transpose(0, 2, 1)) / 2
    atlas = atlas_of(covariance=tuple(tuple(map(tuple, c)) for c in covariances.tolist()), threshold=3.0)
    locate = Locator(atlas)
    for context in rng.normal(size=(50, 2)) * 4:
        offsets = context - np.array(atlas.mean)
        by_hand = [float(np.sqrt(o @ np.linalg.solve(c, o))) for o, c in zip(offsets, covariances, strict=True)]
        place = locate(context)
        assert place.nearest == int(np.argmin(by_hand))
        assert place.distance == pytest.approx(min(by_hand))
        assert place.score == pytest.approx(min(by_hand) / 3.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ({"mass": 1.0},)}, "2 means and 2 covariances for 1 tasks"),
        ({"mean": ((0.0,), (4.0,))}, "not all of size 1"),
        ({"covariance": (UNIT, ((1.0, 2.0), (2.0, 1.0)))}, "covariance 1 is not symmetric and positive definite"),
        ({"covariance": (((1.0, 0.1), (0.0, 1.0)), UNIT)}, "covariance 0 is not symmetric and positive definite"),
        ({"window": 3}, "step 2 is before 3, by which a window and the one before are full"),
        ({"fast": 0.05}, "fast 0.05 is below slow 0.1"),
        ({"threshold": 0.0}, "threshold"),
        ({"mean": ((0.0, float("nan")), (4.0, 0.0))}, "finite"),
    ],
)
def test_an_atlas_that_means_nothing_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        atlas_of(**changes)


def test_a_contract_carries_its_atlas_to_the_last_bit_and_only_one_of_its_size(make, contract):
    assert Contract.parse(contract.dumps(), "x") == contract
    document = json.loads(contract.dumps())
    document["context"]["size"] = 3
    with pytest.raises(ContractError, match="the atlas has contexts of size 2, the policy of 3"):
        Contract.parse(json.dumps(document), "x")


def test_an_episode_explores_adapts_and_adapts_again(contract):
    telemetry = Telemetry(contract)
    assert (telemetry.now.step, telemetry.now.phase) == (-1, Phase.IDENTIFYING)
    xs = (0.0, 0.0, 0.3, 0.35, 0.65, 2.0, 2.05, 2.1, 10.0, 10.0, 4.0, 4.05)
    readings = reported(telemetry, *xs)
    start, settled, again = Phase.IDENTIFYING, Phase.SETTLED, Phase.READAPTING
    # Step 1 rests, but too early to count; 0.3 and 0.65 move faster than `slow` and slower than `fast`.
    expected = [start, start, start, settled, settled, again, settled, settled, again, again, again, settled]
    assert [reading.phase for reading in readings] == expected
    assert [reading.step for reading in readings] == list(range(12))
    assert [reading.speed for reading in readings] == pytest.approx([0.0, *np.abs(np.diff(xs))], abs=1e-6)
    assert [reading.drift for reading in readings] == [None, None, *(reading.speed for reading in readings[2:])]
    assert [reading.alarm for reading in readings] == [False] * 8 + [True, True, False, False]
    assert [reading.nearest for reading in readings[:2]] == [None, None]
    assert [reading.nearest["mass"] for reading in readings[2:]] == [1, 1, 1, 1, 10, 10, 10, 10, 10, 10]
    assert telemetry.summary() == {
        "phase": "settled",
        "adapted_at": 3,
        "readapted": 2,
        "nearest": {"mass": 10.0},
        "distance": pytest.approx(0.05),
        "score": 3.0,
        "alarm_at": 8,
        "speed": pytest.approx(0.05, abs=1e-6),
    }


def test_what_is_placed_and_drifts_is_the_mean_of_the_last_contexts(make):
    atlas = atlas_of(window=3, step=5)
    telemetry = Telemetry(make.contract_of(make.recurrent(), atlas=atlas))
    for seed in range(2):  # the second episode knows nothing of the first
        contexts = np.random.default_rng(seed).normal(size=(12, 2)).astype(np.float32)
        readings = [telemetry.update(context) for context in contexts]
        means = windowed(contexts, 3)
        assert [reading.distance for reading in readings[:5]] == [None] * 5
        expected = [Locator(atlas)(mean).distance for mean in means[3:]]
        assert [reading.distance for reading in readings[5:]] == pytest.approx(expected)
        drifts = np.linalg.norm(np.diff(means, axis=0), axis=1)[2:]
        assert [reading.drift for reading in readings[5:]] == pytest.approx(drifts)
        telemetry.reset()


def test_an_atlas_of_before_there_were_windows_places_each_context_by_itself():
    document = json.loads(atlas_of().model_dump_json())
    del document["window"]
    assert Atlas.model_validate_json(json.dumps(document)).window == 1


def test_a_context_out_of_distribution_never_settles(contract):
    readings = reported(Telemetry(contract), *[20.0] * 6)
    assert {reading.phase for reading in readings} == {Phase.IDENTIFYING}
    assert [reading.alarm for reading in readings] == [False, False, True, True, True, True]


def test_a_policy_that_has_not_learned_never_adapts(contract):
    for training, phase in (({"updates": 0}, Phase.IDENTIFYING), ({"updates": 1}, Phase.SETTLED), ({}, Phase.SETTLED)):
        telemetry = Telemetry(contract.model_copy(update={"training": training}))
        assert reported(telemetry, 0.0, 0.0, 0.0, 0.0)[-1].phase is phase
        assert (telemetry.adapted_at is None) == (phase is Phase.IDENTIFYING)


def test_a_reset_forgets_everything(contract):
    telemetry = Telemetry(contract)
    reported(telemetry, 20.0, 20.0, 20.0, 4.0, 4.0, 0.0)
    telemetry.reset()
    assert telemetry.summary() == Telemetry(contract).summary()
    assert reported(telemetry, 3.0, 3.5, 3.55) == reported(Telemetry(contract), 3.0, 3.5, 3.55)


def test_without_an_atlas_only_the_speed_is_told(make):
    telemetry = Telemetry(make.contract_of(make.recurrent()))
    assert reported(telemetry, 0.0, 3.0)[1] == (1, 3.0, None, None, None, None, None, False)
    assert {k: v for k, v in telemetry.summary().items() if v} == {"speed": 3.0}
    memoryless = Telemetry(make.contract_of(make.memoryless()))
    assert memoryless.update(np.zeros(0, np.float32)).speed == 0.0


def test_a_tick_at_which_the_policy_does_not_act_tells_nothing_new(make, arm, contract):
    session = Session.load(make.write(make.recurrent(), atlas=contract.atlas))
    telemetry, readings = Telemetry(session.contract), []

    def watch(record):
        telemetry(record)
        readings.append(telemetry.now)

    # A goal that is not finite is refused: the policy is not asked.
    report = run_episode(session, arm(goals={3: np.nan}), on_step=watch)
    assert readings[3] is readings[2]
    acted = [reading for at, reading in enumerate(readings) if at != 3]
    assert [reading.step for reading in acted] == list(range(9))
    contexts = np.delete(report.contexts.astype(float), 3, axis=0)
    assert [reading.speed for reading in acted[1:]] == pytest.approx(np.linalg.norm(np.diff(contexts, axis=0), axis=1))
    run_episode(session, arm(), max_steps=1, on_step=watch)
    assert readings[-1].step == 0


def test_a_recording_holds_what_the_context_told_and_replays_as_before(make, arm, contract, tmp_path):
    session = Session.load(make.write(make.recurrent(), atlas=contract.atlas))
    telemetry, path = Telemetry(session.contract), tmp_path / "run.mcap"
    summaries = []
    with Recorder(path, session) as recorder:

        def watch(record):
            recorder(record)
            telemetry(record)
            summaries.append(json.loads(json.dumps(telemetry.now.plain(), default=dict)))

        run_episode(session, arm(), on_step=watch)
    with open(path, "rb") as file:
        reader = pytest.importorskip("mcap.reader").make_reader(file)
        messages = [json.loads(message.data) for *_, message in reader.iter_messages(topics=[TOPIC])]
    assert len(summaries) == 10
    assert [message["telemetry"] for message in messages] == summaries
    assert replay(read_recording(path), Session.load(session.artifact.path)).same


def test_phases_of_older_recordings_are_read():
    assert [Phase(word) for word in ("exploring", "adapted")] == [Phase.IDENTIFYING, Phase.SETTLED]
    with pytest.raises(ValueError, match="'elsewhere' is not a valid Phase"):
        Phase("elsewhere")
