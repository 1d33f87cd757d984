"""An atlas finds what it was made of, and its false alarms are as rare on fresh episodes as it says."""

import dataclasses
import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest

from sami_runtime.checks.verify import verify
from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.atlas import Locator
from sami_train.envs.catalog import environment
from sami_train.evaluation.model_policy import SessionPolicy
from sami_train.evaluation.recorded_policy import RecordedPolicy
from sami_train.export.atlas import (
    attach,
    farthest,
    fit,
    least_episodes,
    measure,
    tolerance_limit,
    usual_window,
    windowed,
)
from sami_train.export.training_ranges import MeasuredGap, collect_contexts, known_gap
from sami_train.studies.contexts.alarms import check

FINE_PHYSICS = True

ROOT = Path(__file__).parents[4]
MODEL = ROOT / "models" / "panda-satesac.onnx"
FOR_A_CAMERA = ROOT / "models" / "panda-satesac-camera.onnx"
TASKS = ({"mass": 1.0}, {"mass": 10.0})
MEANS = np.array([[0.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
FACTORS = np.array([[[0.5, 0.0, 0.0], [0.2, 0.4, 0.0], [0.0, 0.1, 0.3]], np.eye(3)])
STEPS = 20


def episodes(task, count, rng):
    """Contexts (20, 3) that run to their task within three steps, and are independent Gaussians there."""
    results = []
    for _ in range(count):
        contexts = MEANS[task] + rng.normal(size=(STEPS, 3)) @ FACTORS[task].T
        contexts[:3] = np.array([[-30.0], [-20.0], [-10.0]]) + rng.normal(size=(3, 1))
        results.append(contexts.astype(np.float32))
    return results


def samples(count, rng):
    return [episodes(task, count, rng) for task in range(2)]


@pytest.mark.parametrize("window", [3, 5])
def test_an_atlas_of_known_gaussians_recovers_their_means_and_the_covariances_of_windows(window):
    rng = np.random.default_rng(0)
    atlas = fit(samples(1600, rng), samples(40, rng), TASKS, window)
    # The first window is left to exploring, and a mean of W independent contexts has a W-th of their covariance.
    assert (atlas.window, atlas.step) == (window, 2 * window - 1)
    assert (atlas.episodes, atlas.held_out, atlas.tasks) == (3200, 80, TASKS)
    np.testing.assert_allclose(atlas.mean, MEANS, atol=0.05)
    np.testing.assert_allclose(np.multiply(atlas.covariance, window), FACTORS @ FACTORS.transpose(0, 2, 1), atol=0.06)


@pytest.mark.parametrize(("steps", "window"), [(1, 1), (4, 2), (7, 3), (50, 3), (64, 4), (1000, 62)])
def test_a_window_is_a_sixteenth_of_the_median_episode_and_more_where_that_is_short(steps, window):
    assert usual_window([np.zeros((length, 3)) for length in (1, steps, 5000)]) == window


def test_a_window_that_no_episode_fills_is_refused_with_the_length_that_there_is():
    rng = np.random.default_rng(7)
    with pytest.raises(SamiError, match="episodes of at least 22 steps; the median episode has 20"):
        fit(samples(20, rng), samples(23, rng), TASKS, window=11)


def test_gaits_are_told_apart_by_the_mean_of_a_window_and_not_by_single_contexts():
    """Strides that are wider than the dynamics are apart, in episodes that begin anywhere in them."""
    rng = np.random.default_rng(8)

    def stride(task):
        phase = rng.uniform(0, 2 * np.pi) + 2 * np.pi * np.arange(160) / 8
        return np.stack([np.cos(phase) + 0.3 * task, np.sin(phase)], axis=1) + 0.02 * rng.normal(size=(160, 2))

    def right(window):
        training, held_out, fresh = ([[stride(task) for _ in range(23)] for task in range(2)] for _ in range(3))
        locate = Locator(fit(training, held_out, TASKS, window))
        return np.mean([locate(windowed(item, window)[-1]).nearest == k for k in range(2) for item in fresh[k]])

    assert right(8) > 0.95
    assert right(1) < 0.75


def test_covariances_of_few_episodes_are_drawn_towards_their_mean():
    rng = np.random.default_rng(1)
    few = fit([item[:3] for item in samples(3, rng)], samples(23, rng), TASKS)
    values = np.array([few.covariance[k] for k in range(2)])
    truth = FACTORS @ FACTORS.transpose(0, 2, 1) / few.window
    # Three episodes and three numbers: half of each is the mean of both.
    assert abs(values[0] - values[1]).max() == pytest.approx(abs(truth[0] - truth[1]).max() / 2, rel=0.5)


def test_false_alarms_on_fresh_episodes_keep_to_the_rate_in_most_atlases_and_unknown_dynamics_raise_one():
    rng = np.random.default_rng(2)
    rates = []
    for _ in range(20):
        atlas = fit(samples(20, rng), samples(50, rng), TASKS, rate=0.1)
        fresh = [episode for task in samples(100, rng) for episode in task]
        rates.append(np.mean([farthest(atlas, episode) > atlas.threshold for episode in fresh]))
    # One in ten may give more; and of 200 fresh episodes so many more by chance.
    assert np.mean(np.array(rates) > 0.1 + 2 * np.sqrt(0.1 * 0.9 / 200)) <= 0.1
    assert 0.02 < np.mean(rates) < 0.1
    unknown = episodes(0, 50, rng)
    assert all(farthest(atlas, episode + np.array([0.0, 8.0, 0.0])) > atlas.threshold for episode in unknown)
    last = [(k, windowed(item, atlas.window)[-1]) for k in range(2) for item in episodes(k, 200, rng)]
    right = [Locator(atlas)(mean).nearest == k for k, mean in last]
    assert np.mean(right) > 0.95


@pytest.mark.parametrize(("count", "rate", "rank"), [(45, 0.05, 45), (77, 0.05, 76), (99, 0.1, 94), (100, 0.1, 95)])
def test_the_threshold_is_the_kth_smallest_of_the_held_out(count, rate, rank):
    values = np.random.default_rng(3).permutation(count) + 1.0
    assert tolerance_limit(values, rate) == rank


def test_too_few_episodes_are_refused_with_the_fewest_that_are_enough():
    with pytest.raises(SamiError, match="44 held-out episodes are too few for a false-alarm rate of 5%"):
        tolerance_limit([1.0] * 44, 0.05)
    assert least_episodes(6) == 16
    with pytest.raises(SamiError, match="15 episodes of each of 6 tasks are too few"):
        measure(MODEL, environment("panda"), 15)
    rng = np.random.default_rng(4)
    fit(samples(4, rng), samples(23, rng), TASKS)
    with pytest.raises(SamiError, match="too few"):
        fit(samples(4, rng), samples(22, rng), TASKS)


def test_episodes_that_are_over_before_contexts_count_give_no_alarm():
    rng = np.random.default_rng(5)
    atlas = fit(samples(20, rng), samples(23, rng), TASKS)
    assert farthest(atlas, np.full((atlas.step, 3), 1e6)) == 0.0
    assert farthest(atlas, np.full((atlas.step + 1, 3), 1e6)) > atlas.threshold


def test_a_context_with_a_number_that_never_changes_has_an_atlas():
    rng = np.random.default_rng(6)
    padded = [[[np.pad(e, ((0, 0), (0, 1))) for e in task] for task in samples(23, rng)] for _ in range(2)]
    atlas = fit(*padded, TASKS)
    assert atlas.size == 4
    assert Locator(atlas)(np.array([*atlas.mean[1][:3], 0.0])).score == pytest.approx(0.0, abs=1e-6)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Path(shutil.copy(MODEL, tmp_path_factory.mktemp("atlas") / "copy.onnx"))


def test_attaching_an_atlas_changes_nothing_else_of_a_model_file(copy):
    before = read_artifact(copy)
    atlas = before.contract.atlas.model_copy(update={"threshold": 7.0})
    contract = attach(copy, atlas)
    after = read_artifact(copy)
    assert contract == after.contract
    assert after.contract.atlas == atlas
    assert after.graph_sha256 == before.graph_sha256
    assert after.contract.model_copy(update={"atlas": None}) == before.contract.model_copy(update={"atlas": None})
    assert verify(copy).passed
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy.onnx"]


def test_the_shipped_model_has_an_atlas_of_its_training_tasks():
    atlas = read_artifact(MODEL).contract.atlas
    assert [dict(task) for task in atlas.tasks] == [dict(task) for task in environment("panda").tasks.sets["training"]]
    assert atlas.held_out >= 100


def test_contexts_are_those_of_the_model_file_and_the_same_seed_gives_them_again():
    spec, task = environment("panda"), {"mass": 1.0, "friction": 0.1}
    first, again, other = (
        collect_contexts(MODEL, spec, [task] * count, 2, seed) for count, seed in ((1, 5), (2, 5), (1, 6))
    )
    # Episodes of another task never begin like one before: they would count as one.
    assert len({item.tobytes() for task in again for item in task}) == 4
    first, again, other = first[0], again[0], other[0]
    assert [a.tobytes() for a in first] == [b.tobytes() for b in again]
    assert first[0].tobytes() != other[0].tobytes()
    policy = RecordedPolicy(SessionPolicy(MODEL, spec, 2))
    policy.reset()
    np.testing.assert_array_equal(policy.step(np.zeros((2, 25), np.float32))[1], policy.rounds[0][0][2])


def test_alarms_are_not_counted_without_an_atlas(copy):
    path = copy.with_name("plain.onnx")
    shutil.copy(copy, path)
    attach(path, None)
    with pytest.raises(SamiError, match="has no atlas; add one with: sami atlas"):
        check(path, environment("panda"), 2)
    with pytest.raises(SamiError, match="has no atlas: it infers no context"):
        check(MODEL.with_name("panda-sac.onnx"), environment("panda"), 2)


def test_the_contract_has_the_profile_that_a_policy_was_trained_with():
    learned = known_gap(read_artifact(FOR_A_CAMERA).contract.training)
    assert learned == MeasuredGap(GapProfile.load(ROOT / "examples" / "camera.toml"), 0.6)
    assert known_gap(read_artifact(MODEL).contract.training) == MeasuredGap()
    assert known_gap({}) == known_gap({"config": [1]}) == MeasuredGap()
    late = {"gap": '{"latency_s": 0.04}'}
    assert (
        known_gap({"config": late}).clean_share
        == known_gap({"config": late | {"with_profile": [1]}}).clean_share
        == 0.0
    )
    assert known_gap({"config": late | {"with_profile": {"clean_share": 0.5}}}).clean_share == 0.5
    assert known_gap({"config": late | {"behind_gap": {"spared": 0.5}}}).clean_share == 0.5
    for key, share in itertools.product(("behind_gap", "with_profile"), ("x", 1.5, -0.1, float("nan"), None)):
        with pytest.raises(SamiError, match=rf"with_profile.clean_share is {share!r}; it must be the share"):
            known_gap({"config": late | {key: {"clean_share": share}}})
    with pytest.raises(SamiError, match="must be a sim-to-real profile, a table"):
        known_gap({"config": {"gap": 5}})


def test_a_share_of_the_episodes_with_a_profile_is_clean():
    spec, late = dataclasses.replace(environment("panda"), episode_steps=10), GapProfile(latency_s=0.08)
    clean, gapped, spared, half = (
        [
            context.tobytes()
            for context in collect_contexts(MODEL, spec, [{"mass": 1.0, "friction": 0.1}], 8, 5, None, way)[0]
        ]
        for way in (None, MeasuredGap(late), MeasuredGap(late, 1.0), MeasuredGap(late, 0.5))
    )
    assert spared == clean
    reports = [k for k in range(8) if clean[k] != gapped[k]]  # the others are over at their first step
    assert len(reports) > 4
    assert all(half[k] in (clean[k], gapped[k]) for k in reports)
    assert 0 < sum(half[k] == clean[k] for k in reports) < len(reports)


def test_the_file_for_a_camera_has_a_reference_measured_with_its_profile():
    """A reference from clean episodes alone gave an alarm in 0.84 of these episodes."""
    spec, contract = environment("panda"), read_artifact(FOR_A_CAMERA).contract
    profile = MeasuredGap(known_gap(contract.training).gap)
    contexts = collect_contexts(FOR_A_CAMERA, spec, spec.tasks.sets["training"], 6, 7, None, profile)
    alarms = [farthest(contract.atlas, item) > contract.atlas.threshold for task in contexts for item in task]
    assert np.mean(alarms) < 0.3
