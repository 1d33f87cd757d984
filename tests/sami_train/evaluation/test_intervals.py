"""Laws of intervals over starts, of draws by seed and task, and of what is kept for them."""

import json
from pathlib import Path

import numpy as np
import pytest

from sami_runtime.errors import SamiError
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.evaluation.evaluate import _among
from sami_train.evaluation.intervals import interval_of, interval_over_starts
from sami_train.evaluation.results import Evaluation, TaskResult
from sami_train.evaluation.robustness import KINDS, RobustnessPoint, parts_of

RESULTS = Path(__file__).parents[3] / "results"


def result(successes, mass=1.0):
    return TaskResult(
        "training", {"mass": mass}, len(successes), 20.0, float(np.mean(successes)), successes=tuple(successes)
    )


def test_an_interval_covers_the_mean_of_starts_that_share_their_luck():
    """Six tasks of each start succeed together: the 300 episodes tell no more than 50."""
    random, covered, wide = np.random.default_rng(0), 0, 0.0
    for _ in range(200):
        low, high = interval_over_starts((random.random(50) < 0.7).astype(float), (0.0, 1.0))
        covered += low <= 0.7 <= high
        wide += (high - low) / 200
    assert covered / 200 > 0.9
    assert wide == pytest.approx(2 * 1.96 * np.sqrt(0.21 / 50), rel=0.1)


def test_tasks_of_a_start_are_one_draw_of_the_bootstrap():
    luck = np.random.default_rng(1).random(50) < 0.5
    joint = Evaluation("panda", tuple(result(luck, mass) for mass in range(6)))
    independent = Evaluation("panda", tuple(result(np.roll(luck, 7 * mass), mass) for mass in range(6)))
    widths = [np.diff(interval_of(item, "training"))[0] for item in (joint, independent)]
    assert widths[0] > 1.6 * widths[1]


def test_where_all_starts_succeed_the_interval_says_how_few_they_are():
    low, high = interval_over_starts(np.ones(50), (0.0, 1.0))
    assert (low, high) == (pytest.approx(0.025 ** (1 / 50)), 1.0)
    assert interval_over_starts(np.zeros(50), (0.0, 1.0)) == (0.0, pytest.approx(1 - 0.025 ** (1 / 50)))
    assert interval_over_starts(np.ones(1)) is None
    assert interval_over_starts(np.full(5, 3.0)) == (3.0, 3.0)


def test_where_all_starts_score_alike_between_the_bounds_the_interval_is_no_point():
    """Five tasks are always solved, the sixth by one start in twenty: most draws of ten starts show none."""
    random, truth = np.random.default_rng(0), 5.05 / 6
    samples = [(5 + (random.random(10) < 0.05)) / 6 for _ in range(200)]
    covered = [low <= truth <= high for low, high in (interval_over_starts(scores, (0.0, 1.0)) for scores in samples)]
    assert np.mean(covered) > 0.9


def test_successes_survive_a_file_and_files_without_them_have_no_interval():
    results = Evaluation("panda", (result([True, False, True]),))
    row = results.to_dict()["tasks"][0]
    assert row["successes"] == "101"
    old = json.loads(json.dumps(results.to_dict())) | {"tasks": [{**row, "lifted": 0.5}]}
    back = Evaluation.from_dict(old)
    assert back.results[0].successes == (True, False, True)
    del old["tasks"][0]["successes"]
    before = Evaluation.from_dict(old)
    assert interval_of(before, "training") is None
    assert "successes" not in before.to_dict()["tasks"][0]


def test_a_gap_is_drawn_by_seed_and_task_and_a_seed_alone_draws_as_ever():
    spec = environment("panda")
    gap = Gap(GapProfile(bias=(-1.0, 1.0)), spec.signals, 4, 0.04)
    zero = np.zeros(sum(signal.size for signal in spec.signals))

    def observation(seed, among=None):
        gap.begin(seed, among=among)
        return gap.observe(zero)[0].tobytes()

    tasks = [_among(task) for task in spec.tasks.resolve("training")]
    draws = [observation(seed, among) for seed in (5, 6) for among in (None, 0, *tasks)]
    assert len(set(draws)) == len(draws)
    assert observation(5, tasks[0]) == draws[2]
    again = Gap(GapProfile(bias=(-1.0, 1.0)), spec.signals, 4, 0.04)
    again.begin(5)
    assert again.observe(zero)[0].tobytes() == draws[0]


def test_a_task_is_the_same_draw_however_it_is_written():
    assert _among({"mass": 1.0, "friction": 5.0}) == _among({"friction": 5.0, "mass": 1.0})


def test_a_profile_costs_as_a_whole_and_by_each_key():
    profile = GapProfile(latency_s=0.04, noise={"cube_position": 0.01}, same_as={"achieved_goal": "cube_position"})
    whole, *parts = parts_of(profile)
    spec = environment("panda")
    assert whole.point(spec, 1.0)[2] == profile
    assert {kind.name: kind.point(spec, 1.0)[2].to_dict() for kind in parts} == {
        "latency_s alone": {"latency_s": 0.04, "same_as": dict(profile.same_as)},
        "noise alone": {"noise": {"cube_position": 0.01}, "same_as": dict(profile.same_as)},
    }
    stuck = GapProfile(stuck_at_s=0.2, stuck_for_s=0.1, dropout=0.1)
    assert [kind.point(spec, 1.0)[2].stuck_for_s for kind in parts_of(stuck)] == [0.1, pytest.approx(np.inf), 0.1]
    assert len(parts_of(GapProfile(latency_s=0.04))) == 1
    with pytest.raises(SamiError, match="the profile is empty"):
        parts_of(GapProfile())


def test_how_far_tasks_lie_apart_is_no_part_of_a_returns_error():
    """Tasks of 0 and 1,000, each with a deviation of 1: the mean of 100 episodes is known to about 0.1."""
    rng = np.random.default_rng(0)
    rows = [
        TaskResult("training", {"mass": mass}, 50, 10.0, returns=tuple(1000.0 * mass + rng.normal(size=50)))
        for mass in (0.0, 1.0)
    ]
    results = Evaluation("hopper", tuple(rows))
    low, high = interval_of(results, "training")
    assert results.ret_error("training") == pytest.approx(0.1, rel=0.2)
    assert high - low == pytest.approx(2 * 1.96 * results.ret_error("training"), rel=0.1)
    single = [TaskResult("training", {"mass": k / 9}, 1, 10.0, returns=(1000.0 * k,)) for k in range(10)]
    sample = Evaluation("hopper", tuple(single))
    assert sample.ret_error("training") == pytest.approx(sample.ret_std("training") / np.sqrt(10))


@pytest.mark.parametrize("count", [2, 3, 4, 50])
def test_few_episodes_of_each_task_make_no_interval_too_narrow(count):
    returns = np.random.default_rng(0).normal(size=(100 // count, count))
    rows = (TaskResult("training", {"mass": k}, count, 10.0, returns=tuple(row)) for k, row in enumerate(returns))
    results = Evaluation("hopper", tuple(rows))
    low, high = interval_of(results, "training")
    assert high - low == pytest.approx(2 * 1.96 * results.ret_error("training"), rel=0.05)


def test_measurements_of_before_starts_were_kept_are_read():
    document = json.loads((RESULTS / "panda-200k-latency" / "trained-without.json").read_text())
    points = [RobustnessPoint.from_dict(item, document["env"]) for item in document["points"]]
    assert len(points) == 1 + len(next(kind for kind in KINDS if kind.name == "latency").severities)
    assert points[1].score("training") == (pytest.approx(0.8167, abs=1e-4), None)
    with pytest.raises(SamiError, match="a point of the measurement lacks 'kind'"):
        RobustnessPoint.from_dict({}, "panda")
