"""`sami compare` as users run it: tables, data, a report folder, refusals."""

import contextlib
import csv
import io
import json
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from sami_runtime.distribution import install_hint
from sami_train.studies.compare import estimates
from tests.cli.conftest import call, too_wide
from tests.making.made_runs import made_run


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two methods, two seeds, two values of a key, in a folder as a sweep makes it, and a report of it beside it."""
    folder = tmp_path_factory.mktemp("compare")
    for seed in range(2):
        for trajectories in (16, 64):
            made_run(
                folder / "sweep" / f"satesac-{trajectories}-{seed}",
                "satesac",
                seed,
                success=lambda name, task, seed=seed: 0.1 if task["mass"] == 30 else 0.9 - 0.02 * seed,
                contrast__trajectories=trajectories,
            )
        made_run(folder / "sweep" / f"tesac-{seed}", "tesac", seed, success=0.8)
    return folder


@pytest.fixture(scope="module")
def reported(study):
    """What a report's command printed, and its folder."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
        patch.setattr(estimates, "REPLICATES", 50)
        patch.chdir(study)
        assert call(patch, "compare", "sweep", "--by", "contrast.trajectories", "--out", "report") == 0
    return output.getvalue(), study / "report"


@pytest.fixture
def sweep(study, tmp_path, monkeypatch):
    """The folder of the sweep in the current one, for a test to change."""
    monkeypatch.setattr(estimates, "REPLICATES", 50)
    shutil.copytree(study / "sweep", tmp_path / "here" / "sweep")


def test_it_prints_a_table_for_each_set_and_one_for_what_sance_brings(sami, sweep, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = sami("compare", "sweep")
    assert result.code == 0
    for words in (
        "training: success, 6 tasks, 100 episodes per task",
        "moderate: success, ",
        "extreme: success, 8 tasks",
        "Does SaNCE help? Differences paired by seed",
        "SaTESAC trajectories=16 - TESAC",
        "0.50 ± 0.22",
        "2 seeds: p < 0.05 needs",
    ):
        assert words in result.out


def test_json_is_all_that_is_printed_and_holds_every_pair(sami, sweep):
    result = sami("compare", "sweep", "--json")
    assert (result.code, result.err) == (0, "")
    data = json.loads(result.out)
    assert [group["label"] for group in data["groups"]] == [
        "TESAC",
        "SaTESAC trajectories=16",
        "SaTESAC trajectories=64",
    ]
    assert data["groups"][0]["runs"] == ["sweep/tesac-0", "sweep/tesac-1"]
    assert data["equal_budget"] is True
    assert len(data["results"]) == 3 * 3
    pairs = {(c["x"], c["y"], c["claimed_by_the_paper"]) for c in data["contests"]}
    assert pairs == {
        ("SaTESAC trajectories=16", "TESAC", True),
        ("SaTESAC trajectories=64", "TESAC", True),
        ("SaTESAC trajectories=64", "SaTESAC trajectories=16", False),
    }


def test_a_single_run_is_shown_without_an_interval(sami, sweep, monkeypatch):
    result = sami("compare", "sweep/tesac-0", "--json")
    data = json.loads(result.out)
    assert data["cautions"] == ["One seed only, so neither deviation nor interval: TESAC."]
    assert data["results"][0]["mean"] == {"value": pytest.approx(0.8), "low": None, "high": None}
    monkeypatch.setenv("COLUMNS", "160")
    assert "no interval" in sami("compare", "sweep/tesac-0").out
    monkeypatch.delenv("COLUMNS")
    assert sami("compare", "sweep").code == 0, "its tables fit 80 columns"


def test_a_narrow_terminal_breaks_no_number(sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("COLUMNS", "40")
    assert call(monkeypatch, "compare", "sweep") == 0
    table = capsys.readouterr().out.split("moderate: ")[0]
    assert " 0.800 " in table
    assert " 0.783 " in table


def test_a_report_holds_tables_raw_results_and_plots(reported):
    output, out = reported
    assert too_wide(output) == []
    plots = ["intervals.png", "improvement.png", "by_key.png", "learning_curves.png", "heat_maps.png"]
    assert sorted(path.name for path in out.iterdir()) == sorted(["report.md", "results.csv", *plots])
    assert "\nwrote report/report.md\nwrote report/results.csv\nwrote report/intervals.png\n" in output
    text = (out / "report.md").read_text()
    assert "sami compare sweep --by contrast.trajectories --out report\n" in text
    assert "| TESAC | 2 | 0.800 ± 0.000 | [0.800, 0.800] | 0.800 [0.800, 0.800] | 0.783 | 0.50 ± 0.22 |" in text
    assert "| TESAC | 1 | 550,000 | 34,375 | 10.0 | " in text
    assert "Training took 1.0 hours in all" in text
    assert "Success while exploring, mean over training tasks." in text
    assert "mean over seeds. Hatched: hardly more than doing nothing scores." in text
    assert [line for line in text.splitlines() if line.endswith(".png)")] == [
        line for name in plots for line in text.splitlines() if line.endswith(f"({name})")
    ]
    for name in plots:
        with Image.open(out / name) as image:
            assert min(image.size) > 200
            assert len(image.convert("RGB").getcolors(1 << 24)) > 20


def test_results_are_one_row_for_each_run_and_task(reported):
    with (reported[1] / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 * 20
    (row,) = [r for r in rows if (r["run"], r["mass"], r["friction"]) == ("sweep/satesac-16-1", "10.0", "30.0")]
    assert row["group"] == "SaTESAC trajectories=16"
    assert (row["task_set"], row["seed"], row["contrast.trajectories"]) == ("extreme", "1", "16")
    assert (float(row["success"]), float(row["above_floor"])) == (pytest.approx(0.88), pytest.approx(0.8 / 0.92))


def test_an_earlier_report_is_replaced_only_with_force_and_other_files_stay(sami, sweep, tmp_path, contents):
    out = tmp_path / "here" / "report"
    out.mkdir()
    for name in ("notes.md", "by_key.png", "report.md"):
        (out / name).write_text("earlier")
    before = contents(out)
    result = sami("compare", "sweep/tesac-0", "--out", "report")
    assert (result.code, result.out) == (1, "")
    assert "report is not empty; choose another --out, or replace an earlier report with --force." in result.err
    assert contents(out) == before
    assert sami("compare", "sweep/tesac-0", "--out", "report", "--force").code == 0
    assert (out / "notes.md").read_text() == "earlier"
    assert not (out / "by_key.png").exists()
    assert (out / "report.md").read_text().startswith("# Comparison on `panda`")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nothing", "there is no run folder nothing"),
        ("sweep --by contrast.trajectoris", "Did you mean 'contrast.trajectories'?"),
        ("sweep --by learning.discount", "--by learning.discount: no method's runs differ in it"),
        ("sweep copy", "are both TESAC with seed 0; a seed counts once"),
        ("sweep --out sweep/tesac-0/run.json", "sweep/tesac-0/run.json is a file; give --out a folder."),
    ],
)
def test_a_refusal_is_one_message_and_leaves_nothing_behind(sami, sweep, tmp_path, contents, arguments, message):
    made_run(tmp_path / "here" / "copy", "tesac", 0)
    before = contents(tmp_path)
    words = arguments.split() if "--out" in arguments else [*arguments.split(), "--out", "report"]
    result = sami("compare", *words)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("sami: ")
    assert message in result.err
    assert contents(tmp_path) == before


def test_no_run_is_wrong_usage(sami):
    result = sami("compare")
    assert (result.code, result.out) == (2, "")
    assert "Usage: " in result.err


@pytest.mark.parametrize(("module", "options"), [("arch", []), ("matplotlib", ["--out", "report"])])
def test_a_missing_extra_is_named_before_anything_is_written(
    sami, sweep, monkeypatch, tmp_path, contents, module, options
):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    before = contents(tmp_path)
    result = sami("compare", "sweep", *options)
    assert (result.code, result.out) == (1, "")
    assert f"(install it with: {install_hint('report')})" in result.err
    assert contents(tmp_path) == before


def test_comparing_needs_no_torch_and_warns_of_nothing(sweep, tmp_path):
    script = """
import sys
from sami_cli.app import main
sys.argv[0] = "sami"
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
assert not {"torch", "stable_baselines3", "onnx"} & sys.modules.keys()
"""
    command = [sys.executable, "-W", "error", "-c", script, "compare", "sweep/tesac-0", "--out", "report", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path / "here")
    assert (process.returncode, process.stderr) == (0, "")
    assert json.loads(process.stdout)["env"] == "panda"
    assert (tmp_path / "here" / "report" / "report.md").is_file()


def test_gathered_runs_compare_as_their_folders_do(sami, sweep, tmp_path):
    of_folders = json.loads(sami("compare", "sweep", "--json").out)
    result = sami("gather", "sweep", "--out", "kept/runs.jsonl")
    assert (result.code, result.out, result.err) == (0, "wrote kept/runs.jsonl: 6 runs\n", "")
    shutil.rmtree(tmp_path / "here" / "sweep")
    of_lines = json.loads(sami("compare", "kept", "--json").out)
    assert of_lines["groups"][0].pop("runs") == ["kept/runs.jsonl:tesac-0", "kept/runs.jsonl:tesac-1"]
    for group in of_folders["groups"] + of_lines["groups"]:
        group.pop("runs", None)
    assert of_lines == of_folders
    document = json.loads(sami("compare", "kept:tesac-*", "--json", "--out", "report").out)
    assert [(group["label"], group["seeds"]) for group in document["groups"]] == [("TESAC", [0, 1])]
    assert (tmp_path / "here" / "report" / "learning_curves.png").is_file()


def test_gathering_replaces_a_file_only_with_force(sami, sweep, tmp_path, contents):
    assert sami("gather", "sweep:tesac-0", "--out", "kept/runs.jsonl").out == "wrote kept/runs.jsonl: 1 run\n"
    before = contents(tmp_path)
    result = sami("gather", "sweep", "--out", "kept/runs.jsonl")
    assert (result.code, result.out) == (1, "")
    assert "kept/runs.jsonl exists; choose another name, or replace it with --force." in result.err
    assert contents(tmp_path) == before
    result = sami("gather", "kept", "sweep:*-1", "--out", "kept/runs.jsonl", "--force")
    assert result.out == "wrote kept/runs.jsonl: 4 runs\n"


def test_a_line_without_evaluation_is_told_what_brings_one(sami, sweep, tmp_path):
    (tmp_path / "here" / "sweep" / "tesac-0" / "evaluation.json").unlink()
    result = sami("gather", "sweep:tesac-*", "--out", "kept/runs.jsonl")
    assert result.out == "wrote kept/runs.jsonl: 2 runs, 1 without an evaluation\n"
    result = sami("compare", "kept")
    assert result.code == 1
    assert (
        "runs without an evaluation, 1 of 2: kept/runs.jsonl:tesac-0. Evaluate first: sami eval --run RUN" in result.err
    )
    assert "and then sami gather RUN... --out kept/runs.jsonl --force" in result.err
