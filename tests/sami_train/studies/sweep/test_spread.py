"""A measurement that is spread over jobs is the one that a single process makes, whatever becomes of its jobs."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from sami_runtime.gap.profile import GapProfile
from sami_train.config.resolve import resolve
from sami_train.envs import catalog
from sami_train.evaluation.evaluate import evaluate_gaps
from sami_train.evaluation.result_store import keeping
from sami_train.runs import train
from sami_train.studies.sweep import spread as spreading
from sami_train.studies.sweep.engines import Look, SweepError
from sami_train.studies.sweep.spread import spread
from tests.making.killed import EXAMPLES, TINY, Forks

MODELS = Path(__file__).parents[4] / "models"
PANDA = (MODELS / "panda-satesac.onnx", "panda", ["training"], [None, GapProfile.of({"latency_s": 0.08})], 2)
HOPPER = (MODELS / "hopper-satesac.onnx", "hopper", ["training", "moderate"], [None], 3)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Jobs are forks, so that they have the short episodes too."""
    monkeypatch.setattr(spreading, "POLL", 0.05)
    for name in ("panda", "hopper"):
        short = dataclasses.replace(catalog.ENVIRONMENTS[name], episode_steps=8)
        monkeypatch.setitem(catalog.of_commands, name, short)


def plain(evaluations):
    return [evaluation.to_dict() for evaluation in evaluations]


def spread_and_read(arguments, keep, engine, policy=None):
    """Spread, then evaluate from what is kept; also return which results were told."""
    model, env, sets, gaps, episodes = arguments
    results = []
    with keeping(keep):
        spread(engine, policy or {"model": str(model)}, model, env, sets, gaps, episodes, keep, results.append)
        return plain(evaluate_gaps(model, env, sets, gaps, episodes, keep=keep)), results


@pytest.mark.parametrize("arguments", [PANDA, HOPPER], ids=["by task", "by set"])
def test_it_is_what_one_process_measures_and_leaves_nothing_behind(tmp_path, arguments):
    model, env, sets, gaps, episodes = arguments
    result, results = spread_and_read(arguments, tmp_path / "evaluation.json", Forks())
    assert result == plain(evaluate_gaps(model, env, sets, gaps, episodes))
    assert len(results) == sum(len(item["tasks"]) for item in result)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_run_is_spread_as_well_as_a_file(tmp_path, monkeypatch):
    """Of an environment of one's own, which the jobs find where this process does."""
    monkeypatch.syspath_prepend(EXAMPLES)
    agent = train.start(resolve("fast-cpu", TINY | {"steps": 600}), tmp_path / "run", show=False)
    weights, keep = agent.policy.numpy_weights(), tmp_path / "run" / "evaluation.json"
    arguments = (weights, TINY["env"], ["training", "moderate"], [None], 2)
    result, _ = spread_and_read(arguments, keep, Forks(), {"run": str(tmp_path / "run")})
    assert result == plain(evaluate_gaps(*arguments))


def test_once_it_is_spread_nothing_is_left_to_measure(tmp_path, monkeypatch):
    from sami_train.evaluation import evaluate

    model, env, sets, gaps, episodes = PANDA
    keep = tmp_path / "e.json"
    with keeping(keep):
        spread(Forks(), {"model": str(model)}, model, env, sets, gaps, episodes, keep, lambda _: None)
        monkeypatch.setattr(evaluate, "_Worker", None)
        assert len(evaluate_gaps(model, env, sets, gaps, episodes, keep=keep)) == 2


class Losing(Forks):
    """An engine that loses the nodes of the first jobs before they did anything."""

    def __init__(self, losses):
        self.losses = losses

    def submit(self, logs):
        if self.losses:
            self.losses -= 1
            return Lost(logs / "log.txt")
        return super().submit(logs)


class Lost:
    def __init__(self, log):
        self.log = log

    def look(self):
        return Look("lost", "its node is gone")

    def stop(self):
        pass


def test_a_part_whose_node_is_lost_goes_on_elsewhere(tmp_path):
    model, env, sets, gaps, episodes = PANDA
    result, _ = spread_and_read(PANDA, tmp_path / "evaluation.json", Losing(3))
    assert result == plain(evaluate_gaps(model, env, sets, gaps, episodes))


def test_a_part_that_is_lost_again_and_again_is_told_and_the_next_attempt_measures_what_is_missing(tmp_path):
    keep = tmp_path / "evaluation.json"
    with pytest.raises(SweepError, match=r"2 of 2 parts failed, 001-000 because its job was lost or stopped 5 times"):
        spread_and_read(PANDA, keep, Losing(1000))
    parts = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("evaluation.parts/001-*/part.json"))]
    assert [len(part["pieces"]) for part in parts] == [6, 6]
    assert {part["policy"]["model"] for part in parts} == {str(PANDA[0])}
    result, _ = spread_and_read(PANDA, keep, Forks())
    assert [len(item["tasks"]) for item in result] == [6, 6]


def test_what_a_part_measured_before_it_failed_is_kept(tmp_path):
    """A model that one of the nodes does not see."""
    keep = tmp_path / "evaluation.json"

    class Blind(Forks):
        def submit(self, logs):
            if logs.name.endswith("001"):
                part = json.loads((logs / "part.json").read_text())
                part["policy"]["model"] = "/elsewhere/model.onnx"
                (logs / "part.json").write_text(json.dumps(part))
            return super().submit(logs)

    with pytest.raises(SweepError, match=r"1 of 2 parts failed, 001-001 because .*/elsewhere/model.onnx"):
        spread_and_read(PANDA, keep, Blind())
    (rest,) = tmp_path.glob("evaluation.*.unfinished.jsonl")
    assert len(rest.read_text().splitlines()) == 6
    shutil.rmtree(tmp_path / "evaluation.parts")
    result, results = spread_and_read(PANDA, keep, Forks())
    assert len(results) == 12
    assert sum(len(item["tasks"]) for item in result) == 12
