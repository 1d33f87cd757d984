"""The page of a run in a real browser: it complains of nothing, asks nobody, and shows what was recorded."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sami_runtime.recording.view import write_page

pytest.importorskip("mcap")

from sami_runtime import Recorder, Run, Session, read_recording, shipped_models
from sami_train.envs.adapter import make_adapter
from sami_train.envs.catalog import environment
from sami_train.envs.make import make
from tests.making.browser import LOCAL, Browser, needs_chromium

ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests/sami_runtime/recording/version-1.mcap"
HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def browser(tmp_path):
    needs_chromium()
    with Browser(tmp_path) as result:
        yield result


@pytest.fixture
def recorded(tmp_path):
    """An old recording again, with a swap of a name for one that would command a page, and limited actions."""
    recording = read_recording(OLD)
    session = Session.load(ROOT / "models/panda-satesac.onnx")
    with Recorder(tmp_path / "run.mcap", session, facts={"env": HOSTILE, "simulator": True}) as recorder:
        for step in recording.steps:
            recorder(step.record)
    return read_recording(tmp_path / "run.mcap")


def open_page(browser, recordings, path, **look):
    write_page(recordings, path)
    browser.open(path.as_uri(), **look)


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1440, True), (390, False), (390, True)])
def test_it_complains_of_nothing_and_asks_nobody(browser, recorded, tmp_path, width, dark):
    open_page(browser, [recorded, read_recording(OLD)], tmp_path / "view.html", width=width, dark=dark)
    for key in (" ", " ", "ArrowRight", "ArrowLeft", "+", "-", "]", "[", "0"):
        browser.key(key)
    assert browser.complaints == []
    assert [item for item in browser.requested if not item.startswith(LOCAL)] == []
    assert browser.value("document.documentElement.dataset.theme") == ("dark" if dark else "light")
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), "nothing stands out at the side"
    assert browser.value("views.length") == 2


def test_it_shows_what_was_recorded(browser, recorded, tmp_path):
    open_page(browser, [recorded], tmp_path / "view.html")
    ticks = [step.record for step in recorded.steps]
    assert browser.value("views[0].run.count") == len(ticks) == 12
    result = browser.value("Array.from(views[0].run.col('executed.dx'))")
    assert result == pytest.approx([float(tick.executed[0]) for tick in ticks], abs=1e-6)
    result = browser.value("Array.from(views[0].run.col('observation.ee_position.z'))")
    assert result == pytest.approx([float(tick.observation.values["ee_position"][2]) for tick in ticks], abs=1e-6)
    assert browser.value("views[0].run.episodes.map(each => each.to - each.from)") == [6, 6]
    browser.value("choose(1)")
    browser.wait_for("document.querySelector('.side h2').textContent.startsWith('Episode 1, step 0')")
    browser.key("ArrowRight")
    browser.wait_for("document.querySelector('.side h2').textContent.startsWith('Episode 1, step 1')")
    pixels = "getContext('2d').getImageData(60, 0, 800, 40).data"
    colours = f"new Set(new Uint32Array(document.querySelectorAll('.lane canvas')[1].{pixels}.buffer)).size"
    assert browser.value(colours) > 3, "there are curves"


def test_the_score_and_its_threshold_are_explained_in_words(browser, recorded, tmp_path):
    open_page(browser, [recorded], tmp_path / "view.html")
    scored = next(at for at, step in enumerate(recorded.steps) if step.record.telemetry.score is not None)
    browser.value(f"look.at = views[0].run.t({scored}); dirty = true")
    browser.wait_for("document.querySelector('.side .card').textContent.includes('standard deviations')")
    text = browser.value("document.querySelector('.side .card').textContent")
    reading = recorded.steps[scored].record.telemetry
    assert f"Score {reading.score:.2f}" in text
    assert "3.83 are allowed (score 1)" in text
    assert "Calibrated for false alarms in 5 % of episodes" in text


def test_a_recording_cannot_command_the_page(browser, recorded, tmp_path):
    open_page(browser, [recorded], tmp_path / "view.html")
    browser.wait_for("document.querySelector('.sub').textContent")  # from the first frame on
    assert HOSTILE in browser.value("document.querySelector('.sub').textContent")
    assert browser.value("document.images.length") == 0


def test_a_run_is_shown_while_it_happens_and_nothing_else_is_asked(browser, tmp_path):
    command = [sys.executable, "-c", "from sami_cli.app import main; main()"]
    command += [*("run", "--model", str(ROOT / "models/panda-satesac.onnx"), "--env", "panda"), "--real-time", "--live"]
    command += ["--set", "keys=false", "--episodes", "99"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = next(line for line in process.stderr if "watch it at " in line).split()[-1]
            browser.open(address)
            browser.wait_for("views.length === 1 && views[0].run.count > 20")
            first = browser.value("views[0].run.count")
            browser.wait_for(f"views[0].run.count > {first} + 20")
            assert {item.rsplit("/", 1)[0] for item in browser.requested if not item.startswith(LOCAL)} == {
                address[:-1]
            }
            os.kill(process.pid, signal.SIGTERM)
            browser.wait_for("document.getElementById('live').textContent === 'over'")
            assert browser.value("views[0].run.count") > 40, "the page keeps what it has"
            assert browser.complaints == []
        finally:
            process.kill()
        process.stderr.read()
    time.sleep(0.1)


@pytest.mark.parametrize("name", ["panda-mujoco", "half-cheetah"])
def test_the_robot_moves_with_the_scrubber(browser, tmp_path, name):
    """The pixels of the scene are those of the chosen time, and of no other."""
    pytest.importorskip("mujoco")
    spec = environment(name)
    adapter = make_adapter(spec, make(spec))
    session = Session.load(shipped_models()[f"{name.removesuffix('-mujoco')}-satesac"])
    with Run(session, adapter, simulator=True, record=tmp_path / "run.mcap") as run:
        run.episode(seed=0, max_steps=40)
    adapter.close()
    open_page(browser, [read_recording(tmp_path / "run.mcap")], tmp_path / "view.html", dark=True)

    def pixels(step):
        browser.value(f"look.at = views[0].run.t({step}); dirty = true")
        browser.wait_for(f"document.querySelector('.side h2').firstChild.textContent.endsWith('step {step}')")
        browser.wait_for("!dirty")
        return browser.value("document.querySelector('.stage canvas').toDataURL()")

    first, later = pixels(0), pixels(5)
    assert first != later
    assert pixels(0) == first
    assert browser.value("views[0].robot.links.length") == len(adapter.scene.links)
    assert browser.complaints == []
    assert [item for item in browser.requested if not item.startswith(LOCAL)] == []
