"""A card of many tasks tells what each value of each feature costs, and leaves no episode out."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

from sami_runtime.model.artifact import read_artifact
from sami_train.evaluation.results import Evaluation
from sami_train.export.card import MOST_LISTED, card_files
from sami_train.studies.sweep.study import find_runs

REPOSITORY = Path(__file__).parents[4]


def card(name, tmp_path, **facts):
    contract = read_artifact(REPOSITORY / "models" / f"{name}.onnx").contract
    (run,) = find_runs([REPOSITORY / "results" / f"models:{name}"])
    run.facts.update(facts)
    page, *_ = card_files(run, contract, tmp_path / f"{name}.onnx").values()
    return page.decode(), Evaluation.from_dict(contract.evaluation)


def test_many_tasks_are_told_of_by_feature_and_each_feature_has_every_episode(tmp_path):
    text, result = card("crippled-ant-satesac", tmp_path)
    episodes, total = defaultdict(int), defaultdict(float)
    for name, feature, count, ret in re.findall(r"\| (\w+) \| (\w+) [^|]+ \| (\d+) \| ([\d,-]+) \|", text):
        episodes[name, feature] += int(count)
        total[name, feature] += int(count) * int(ret.replace(",", ""))
    assert set(episodes) == {(name, feature) for name in result.sets for feature in ("mass", "damping", "crippled")}
    assert set(episodes.values()) == {100}
    for (name, _), item in total.items():
        assert item / 100 == pytest.approx(result.ret(name), abs=0.5)


def test_few_tasks_are_listed_one_by_one(tmp_path):
    text, result = card("half-cheetah-satesac", tmp_path)
    assert all(len(result.of(name)) <= MOST_LISTED for name in result.sets)
    assert len(re.findall(r"\| mass [\d.]+, damping [\d.]+ \|", text)) == len(result.results)


def test_a_run_that_was_given_more_steps_is_repeated_by_all_its_commands(tmp_path):
    longer = [{"from": 400000, "to": 500000}, {"from": 500000, "to": 600000}]
    text, _ = card("hopper-satesac", tmp_path, extended=longer)
    commands = text.split("```")[1].strip().splitlines()
    assert commands[1:3] == [
        "sami train --resume runs/hopper-satesac --steps 500000  # after 400,000 steps",
        "sami train --resume runs/hopper-satesac --steps 600000  # after 500,000 steps",
    ]
    assert commands[0].startswith("sami train --quiet --env hopper")
    assert commands[3].startswith("sami eval --run runs/hopper-satesac")


def test_a_card_names_the_parts_that_no_training_task_let_obey(tmp_path):
    text, _ = card("crippled-walker-satesac", tmp_path)
    assert "**These motors work in no training task: joint thigh_joint, joint leg_joint, joint foot_joint.**" in text
    for name in ("walker-satesac", "crippled-half-cheetah-satesac", "crippled-hopper-satesac", "crippled-ant-satesac"):
        assert "work in no training task" not in card(name, tmp_path)[0]


@pytest.mark.parametrize("name", ["panda-satesac", "crippled-ant-satesac", "walker-satesac", "half-cheetah-satesac"])
def test_a_card_says_where_the_contrast_hardly_taught_the_encoder(tmp_path, name):
    text, _ = card(name, tmp_path)
    (line,) = re.findall("^Contrast: .*$", text, re.MULTILINE)
    assert ("hardly from the contrast" in line) == (name in ("crippled-ant-satesac", "walker-satesac"))
    assert re.search("keys of the (momentum )?encoder, ", line)
    assert line in (REPOSITORY / "models" / f"{name}.md").read_text(encoding="utf-8")
