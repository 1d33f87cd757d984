"""`sami skills` as users run it."""

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"


def test_shares_by_mass_and_friction_stand_beside_the_papers_figure(sami, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    done = sami("skills", str(RESULTS / "panda-100k"))
    assert done.code == 0
    for title in ("PEARL", "TESAC", "CCM", "SaTESAC", "SaCCM"):
        assert f"{title}, 3 runs: pick & place / tip / push / other (success), in percent of episodes" in done.out
    assert "friction 0.1" in done.out
    assert "the paper's figure: push at 10 and 30 kg, pick and place below" in done.out


def test_a_measured_model_tells_every_skill(sami):
    done = sami("skills", str(RESULTS / "skills" / "panda-satesac.json"), "--json")
    tasks = json.loads(done.out)["panda-satesac"]["tasks"]
    assert len(tasks) == 20
    assert all(sum(task["shares"].values()) == pytest.approx(1.0) for task in tasks)


def test_an_environment_without_skills_is_refused(sami):
    done = sami("skills", str(RESULTS / "hopper-6k-baselines"))
    assert done.code == 1
    assert "'hopper', which defines no skills" in done.err


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
    done = sami("skills", "other.json")
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert "Train again" not in done.err
