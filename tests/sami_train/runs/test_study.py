"""A study holds its runs in one file: nothing of them is lost, some can be picked, and damage is told by its line."""

import json
import shutil

import pytest

from sami_train.runs.folder import RunError, RunFolder
from sami_train.runs.record import RunRecord
from sami_train.studies.sweep.study import find_runs, read_study, write_study
from tests.making.made_runs import made_run


def gathered(folder, *names, **options):
    """Made runs in a folder, and a study beside them that holds them."""
    paths = [made_run(folder / name, seed=seed, **options) for seed, name in enumerate(names)]
    write_study(folder / "runs.jsonl", find_runs(paths))
    return folder / "runs.jsonl"


def relocated(folder, *names, **options):
    """The study alone."""
    study = gathered(folder, *names, **options)
    for name in names:
        shutil.rmtree(folder / name)
    return study


def names(*paths):
    return [record.name for record in find_runs(paths)]


def test_the_files_of_a_run_folder_can_be_rebuilt_byte_for_byte(tmp_path):
    study = gathered(tmp_path, "a", "b", contrast__coefficient=0.1 + 0.2)
    for record in read_study(study):
        for name, value in (("config", record.config), ("run", record.facts), ("evaluation", record.evaluation)):
            assert (tmp_path / record.name / f"{name}.json").read_text() == json.dumps(value, indent=2) + "\n"
        lines = "".join(json.dumps(row) + "\n" for row in record.metrics)
        assert (tmp_path / record.name / "metrics.jsonl").read_text() == lines


def test_a_run_without_evaluation_is_kept_as_one(tmp_path):
    RunFolder(made_run(tmp_path / "a")).evaluation.unlink()
    write_study(tmp_path / "runs.jsonl", find_runs([tmp_path]))
    assert [record.evaluation for record in read_study(tmp_path / "runs.jsonl")] == [None]


def test_a_line_says_what_it_holds(tmp_path):
    (line,) = gathered(tmp_path, "a").read_text().splitlines()
    value = json.loads(line)
    assert list(value) == ["version", "run", "config", "facts", "evaluation", "metrics"]
    assert (value["version"], value["run"], value["facts"]["state"]) == (1, "a", "finished")


def test_runs_are_found_in_folders_files_and_folders_that_hold_either(tmp_path):
    made_run(tmp_path / "sweep" / "b")
    study = relocated(tmp_path / "results" / "mine", "a", "c")
    assert names(tmp_path / "sweep" / "b") == names(tmp_path / "sweep") == ["b"]
    assert names(study) == names(study.parent) == names(tmp_path / "results") == ["a", "c"]
    assert names(tmp_path) == names(study, tmp_path / "sweep", tmp_path) == ["a", "c", "b"]


def test_a_pattern_picks_runs_by_name(tmp_path):
    study = relocated(tmp_path / "mine", "ccm-0-k8", "ccm-0-k64", "saccm-0-k64")
    made_run(tmp_path / "sweep" / "ccm-0-k8")
    made_run(tmp_path / "sweep" / "ccm-1-k8")
    assert names(f"{study}:*-k64") == names(f"{study.parent}:*-k64") == ["ccm-0-k64", "saccm-0-k64"]
    assert names(f"{tmp_path / 'sweep'}:ccm-1-*") == ["ccm-1-k8"]
    with pytest.raises(RunError, match=r"mine holds no run whose name is \*-k9; it holds ccm-0-k64, ccm-0-k8, "):
        find_runs([tmp_path / "mine:*-k9"])


def test_a_run_with_a_folder_and_a_line_is_named_once_where_no_name_fits(tmp_path):
    made_run(tmp_path / "sweep" / "a")
    write_study(tmp_path / "sweep" / "runs.jsonl", find_runs([tmp_path / "sweep"]))
    with pytest.raises(RunError, match=r"no run whose name is b; it holds a\.$"):
        find_runs([tmp_path / "sweep:b"])


def test_a_runs_address_finds_it_again(tmp_path):
    made_run(tmp_path / "sweep" / "a")
    relocated(tmp_path / "mine", "a", "b")
    for record in find_runs([tmp_path]):
        assert find_runs([record.address]) == [record]


def test_a_colon_in_the_name_of_a_folder_is_its_own(tmp_path):
    made_run(tmp_path / "at 12:30")
    assert names(tmp_path / "at 12:30") == ["at 12:30"]


def test_where_a_run_stands_beside_its_line_it_counts_once_as_it_is_now(tmp_path):
    study = gathered(tmp_path, "a", "b")
    RunFolder(tmp_path / "a").update(seconds=1.0)
    shutil.rmtree(tmp_path / "b")
    a, b = find_runs([study, tmp_path])
    assert (a.study, a.facts["seconds"], b.study, b.facts["seconds"]) == (None, 1.0, study, 600.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-20], r"is damaged: Unterminated string"),
        (lambda line: "<<<<<<< HEAD", r"is damaged: Expecting value"),
        (lambda line: "", r"is damaged: Expecting value"),
        (lambda line: "[]", r"is damaged: it holds a list instead of a JSON object"),
        (lambda line: line.replace('"facts"', '"fact"', 1), r"is damaged: its facts is missing or no dict"),
        (lambda line: line.replace('"version"', '"state"', 1), r"is damaged: its version is missing or no int"),
    ],
)
def test_a_damaged_line_is_refused_with_its_number_and_what_to_do(tmp_path, change, message):
    study = relocated(tmp_path / "mine", "a", "b", "c")
    lines = study.read_text().splitlines()
    lines[1] = change(lines[1])
    study.write_text("\n".join(lines) + "\n")
    with pytest.raises(RunError, match=message) as caught:
        find_runs([tmp_path])
    assert str(caught.value).startswith(f"{study}, line 2 is damaged: ")
    assert f"take the file from git again, or make it again: sami gather RUN... --out {study}" in str(caught.value)


def test_a_name_stands_once_in_a_study(tmp_path):
    study = relocated(tmp_path / "mine", "a")
    study.write_text(study.read_text() * 2)
    with pytest.raises(RunError, match=r"runs\.jsonl, line 2 has run 'a' a second time"):
        read_study(study)
    first, second = (RunRecord.of_folder(made_run(tmp_path / name / "a")) for name in ("one", "other"))
    with pytest.raises(RunError, match=r"one/a and .*other/a have the same name"):
        write_study(tmp_path / "new" / "runs.jsonl", [first, second])
    assert not (tmp_path / "new").exists()


def test_another_version_is_refused_of_a_line_by_its_number_and_of_a_run_by_its_address(tmp_path):
    study = relocated(tmp_path / "mine", "a")
    line = study.read_text()
    study.write_text(line.replace('"version": 1', '"version": 2', 1))
    with pytest.raises(RunError, match=r"runs\.jsonl, line 1 is of version 2; this sami reads version 1"):
        read_study(study)
    study.write_text(line.replace('"facts": {"version": 1', '"facts": {"version": 2'))
    with pytest.raises(RunError, match=r"runs\.jsonl:a is of run version 2; this sami reads version 1"):
        read_study(study)


def test_a_study_is_named_runs_jsonl_so_that_folders_tell_of_it(tmp_path):
    record = RunRecord.of_folder(made_run(tmp_path / "a"))
    with pytest.raises(RunError, match=r"metrics\.jsonl is not named runs\.jsonl; a study is FOLDER/runs\.jsonl"):
        write_study(tmp_path / "a" / "metrics.jsonl", [record])
    with pytest.raises(RunError, match=r"metrics\.jsonl is no run folder and no runs\.jsonl"):
        find_runs([tmp_path / "a" / "metrics.jsonl"])
    with pytest.raises(RunError, match=r"there is no .*runs\.jsonl; `sami gather RUN\.\.\. --out"):
        find_runs([tmp_path / "runs.jsonl"])
