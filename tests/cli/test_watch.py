"""`sami watch` on a terminal of its own (a pty) and through a pipe."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from sami_train.locks import locked
from sami_train.runs.folder import RunFolder
from tests.making.made_runs import made_run

SCRIPT = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[0] = 'sami'; "
    "from sami_cli.app import main; main()"
)
"""`sami`, which hears Ctrl-C also where the tests run in the background of a shell, which ignores it."""
ENTER, LEAVE, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TASKS = ("mass=1 friction=0.1", "mass=5 friction=0.1")
SECONDS = 60.0


def rows(count):
    return [
        {"step": 5000 * k, "time/seconds": 60.0 * k, "rollout/success": 0.1 * k}
        | {f"success/{task}": 0.1 * k for task in TASKS}
        for k in range(1, count + 1)
    ]


def going(path, count=5):
    """A run that says that it goes on; who trains is whoever holds its lock."""
    run = RunFolder(made_run(path, steps=50_000))
    run.update(state="running")
    run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows(count)))
    return run


class Terminal:
    """A pseudo-terminal of some size, with `sami` in it."""

    def __init__(self, *arguments, size=(24, 80)):
        self.master, slave = pty.openpty()
        self.resize(*size)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
        command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def resize(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, words, seconds=SECONDS):
        """Read until the words came since the last call."""
        start, end = len(self.text), time.monotonic() + seconds
        while words not in self.text[start:]:
            assert time.monotonic() < end, f"no {words!r} in {self.text[start:]!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:  # the other side is closed
                    assert words in self.text[start:], f"ended without {words!r}: {self.text[start:]!r}"
        return self.text[start:]

    def ends(self, words):
        told = self.until(words)
        while self.process.poll() is None or select.select([self.master], [], [], 0.1)[0]:
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    break
        assert self.process.wait(SECONDS) == 0
        os.close(self.master)
        return told


def widest(drawn):
    return max(len(line) for line in ESCAPE.sub("", drawn).replace("\r", "\n").split("\n"))


def test_a_terminal_shows_curves_by_task_follows_its_size_and_ends_with_the_run(tmp_path):
    run = going(tmp_path / "run")
    with locked(run.path / "lock"):
        terminal = Terminal("watch", run.path, "--every", "0.3")
        drawn = terminal.until(TASKS[1])
        assert ENTER in terminal.text
        assert "running, 25,000 of 550,000 steps" in drawn
        terminal.resize(12, 50)
        again = terminal.until("Ctrl-C ends looking")
        assert widest(again[again.rindex("\x1b[H") :]) <= 50
        run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows(6)))
        terminal.until("30,000 of 550,000")
        run.update(state="finished")
    terminal.ends(LEAVE)
    assert CURSOR in terminal.text
    assert "finished, 30,000 of 550,000 steps" in terminal.text[terminal.text.rindex(LEAVE) :]


def test_ctrl_c_ends_looking_and_gives_the_terminal_back(tmp_path):
    run = going(tmp_path / "run")
    with locked(run.path / "lock"):
        terminal = Terminal("watch", run.path)
        terminal.until(TASKS[1])
        os.killpg(terminal.process.pid, signal.SIGINT)
        terminal.ends(LEAVE)
    assert CURSOR in terminal.text
    assert "Traceback" not in terminal.text
    assert run.facts()["state"] == "running"


def test_a_pipe_gets_a_line_for_each_new_measurement_and_no_escapes(tmp_path):
    run = going(tmp_path / "run")
    with locked(run.path / "lock"):
        command = [sys.executable, "-c", SCRIPT, "watch", str(run.path), "--every", "0.2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        first = process.stdout.readline()
        run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows(6)))
        second = process.stdout.readline()
        run.update(state="finished")
        rest, _ = process.communicate(timeout=SECONDS)
    assert first.startswith("run: running, 25,000 of 550,000 steps (5%), 5 min, ")
    assert "success while exploring 0.50; mass=1 friction=0.1 0.50, mass=5 friction=0.1 0.50" in first
    assert "30,000 of 550,000" in second
    assert rest.startswith("run: finished, 30,000 of 550,000")
    assert "\x1b" not in first + second + rest
    assert process.returncode == 0


def test_a_run_whose_process_is_gone_is_cut_off_and_a_finished_one_is_shown_at_once(sami, tmp_path):
    assert "here: cut off" in sami("watch", going(tmp_path / "there" / "here").path).out
    sweep = tmp_path / "sweep"
    for seed in range(2):
        made_run(sweep / f"satesac-{seed}", seed=seed)
    done = sami("watch", sweep)
    assert done.code == 0
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["satesac-0", "satesac-1"]


def test_what_is_no_run_is_refused(sami, tmp_path):
    done = sami("watch", tmp_path)
    assert done.code == 1
    assert "is no run folder, and holds none yet" in done.err


@pytest.mark.slow
def test_training_shows_its_curves_and_ctrl_c_stops_it_at_a_safe_place(panda, tmp_path, small):
    terminal = Terminal("train", "--steps", 100_000, *small(), "--out", tmp_path / "run", "--watch", size=(30, 100))
    terminal.until("steps/s", 2 * SECONDS)
    os.killpg(terminal.process.pid, signal.SIGINT)
    terminal.until(LEAVE)
    terminal.until("Go on with:")
    assert terminal.process.wait(SECONDS) == 130
    assert CURSOR in terminal.text
    assert RunFolder(tmp_path / "run").facts()["state"] == "stopped"


@pytest.mark.slow
def test_a_sweep_shows_the_curves_of_its_cells_and_leaves_its_table(panda, tmp_path, small):
    out = tmp_path / "sweep"
    given = ("--steps", 600, "--seed", "0,1", "--episodes", 1, "--jobs", 2, *small())
    terminal = Terminal("sweep", *given, "--out", out, "--watch", size=(40, 110))
    terminal.until("cells: ", 2 * SECONDS)
    terminal.until("2 done", 4 * SECONDS)
    terminal.ends(LEAVE)
    drawn, left = (ESCAPE.sub("", part) for part in terminal.text.split(ENTER)[1].split(LEAVE))
    cells = [run.parent.name for run in out.glob("*/run.json")]
    assert len(cells) == 2
    assert all(cell in drawn and cell in left for cell in cells)
    assert CURSOR in terminal.text


def test_a_run_whose_name_the_locale_does_not_know_is_found(tmp_path):
    run = made_run(tmp_path / "\u00fcbung")
    command = [sys.executable, "-c", "from sami_cli.app import main; main()", "watch", "--once", str(run)]
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, env=plain, check=True)
    assert "\u00fcbung: finished" in done.stdout.decode()
