"""`sami skills` as users run it."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"


def test_shares_by_mass_and_friction_stand_beside_the_papers_figure(sami, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    result = sami("skills", str(RESULTS / "panda-100k"))
    assert result.code == 0
    for title in ("PEARL", "TESAC", "CCM", "SaTESAC", "SaCCM"):
        assert f"{title}, 3 runs: pick & place / tip / push / other (success), in percent of episodes" in result.out
    assert "friction 0.1" in result.out
    assert "the paper's figure: push at 10 and 30 kg, pick and place below" in result.out


def test_a_measured_model_tells_every_skill(sami):
    result = sami("skills", str(RESULTS / "skills" / "panda-satesac.json"), "--json")
    tasks = json.loads(result.out)["panda-satesac"]["tasks"]
    assert len(tasks) == 20
    assert all(sum(task["shares"].values()) == pytest.approx(1.0) for task in tasks)


def test_an_environment_without_skills_is_refused(sami):
    result = sami("skills", str(RESULTS / "hopper-6k-baselines"))
    assert result.code == 1
    assert "'hopper', which defines no skills" in result.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "other.json cannot be read: No such file or directory. Give the path of a file of evaluations."),
        ("", "other.json cannot be read: Expecting value"),
        ("{}", "other.json lacks 'tasks'"),
        ('{"env": "panda", "tasks": []}', "other.json has no task; measure again with: sami eval --model MODEL --json"),
    ],
)
def test_a_file_that_is_no_evaluation_is_refused_by_its_name(sami, content, message):
    if content is not None:
        Path("other.json").write_text(content)
    result = sami("skills", "other.json")
    assert (result.code, result.out) == (1, "")
    assert message in result.err
    assert "Train again" not in result.err
