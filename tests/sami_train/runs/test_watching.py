"""Curves of runs in whatever room there is."""

import io
import json

import pytest
from rich.console import Console

from sami_train.runs.watching import Curves, WatchedRun
from tests.making.made_runs import made_return_run, made_run

TASKS = [f"mass={mass} friction=0.1" for mass in range(1, 9)]


@pytest.fixture
def run(tmp_path):
    path = made_run(tmp_path / "run", steps=50_000)
    rows = [
        {"step": 10_000 * k, "rollout/success": k / 5} | {f"success/{task}": k / 5 for task in TASKS}
        for k in range(1, 6)
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return WatchedRun(path)


def drawn(runs, width=80, height=24, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, height=height, force_terminal=True, color_system=None)
    console.print(Curves(runs, "below"))
    file.flush()
    return file.buffer.getvalue().decode(encoding).splitlines()


@pytest.mark.parametrize(("width", "height"), [(200, 50), (80, 24), (40, 10), (20, 4)])
def test_it_is_never_wider_or_higher_than_the_terminal(run, width, height):
    lines = drawn([run], width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1] == "below"


def test_every_task_has_a_curve_and_its_newest_value(run):
    lines = drawn([run])
    for task in TASKS:
        (line,) = [line for line in lines if line.startswith(task)]
        assert line.split()[-1] == "1.00"


def test_a_curve_that_rises_is_drawn_rising_and_ends_where_the_run_is(run):
    (line,) = [line for line in drawn([run], width=120) if line.startswith(TASKS[0])]
    bars = line[len(TASKS[0]) + 1 : line.rindex(" 1.00")]
    heights = ["▁▂▃▄▅▆▇█".index(bar) for bar in bars.strip()]
    assert heights == sorted(heights)
    assert heights[-1] == 7
    # 50,000 of 550,000 steps.
    assert len(bars.strip()) == pytest.approx(len(bars.rstrip()), abs=0)
    assert len(bars.strip()) <= 0.15 * 100


def test_what_does_not_fit_is_counted(run):
    assert any("lines more: make the terminal higher" in line for line in drawn([run], height=8))


def test_a_terminal_without_blocks_gets_characters_that_it_has(run):
    text = "\n".join(drawn([run], encoding="ascii"))
    assert "▁" not in text
    assert "@" in text


def test_several_runs_have_a_line_each_also_where_returns_count(tmp_path):
    runs = [WatchedRun(made_return_run(tmp_path / f"hopper-{seed}", seed=seed)) for seed in range(3)]
    lines = drawn(runs)
    assert lines[0] == "3 runs: 3 finished"
    assert [line.split()[0] for line in lines[1:4]] == ["hopper-0", "hopper-1", "hopper-2"]
    assert lines[1].split()[-1] == "5,000"


def test_a_run_that_has_measured_nothing_says_when_it_will(tmp_path):
    path = made_run(tmp_path / "new")
    (path / "metrics.jsonl").unlink()
    assert any("nothing measured yet" in line for line in drawn([WatchedRun(path)]))
