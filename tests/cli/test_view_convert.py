"""`sami view`, `sami convert` and `sami run --live`."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mcap")
from sami_runtime.errors import SamiError
from sami_runtime.loop.episode import EpisodeReport
from sami_runtime.loop.tick import LoopReport
from sami_runtime.model.artifact import read_artifact
from sami_runtime.recording.live import SOCKET_BYTES, Feed, LiveHistory
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.view import RunRows, page, run_of

ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests/sami_runtime/recording/version-1.mcap"
MODEL = ROOT / "models/panda-satesac.onnx"


def test_view_writes_one_file_that_names_nobody_else(sami):
    result = sami("view", OLD, OLD, "--out", "both.html", "--no-open")
    assert (result.code, result.out) == (0, "wrote both.html\n")
    text = Path("both.html").read_text()
    assert "connect-src 'none'" in text
    assert re.findall(r"https?://[^\s\"'`)]+", text) == []
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    runs = json.loads(data)["runs"]
    assert [(run["count"], run["model"]) for run in runs] == [(12, "panda-satesac")] * 2


def test_view_refuses_what_is_no_recording(sami):
    Path("other.mcap").write_bytes(b"hello")
    result = sami("view", "other.mcap", "--no-open")
    assert (result.code, result.out) == (1, "")
    assert "other.mcap is damaged, or no recording" in result.err
    assert not Path("other.html").exists()
    Path("run.csv").write_text("episode,step\n0,0\n")
    result = sami("view", "run.csv", "--no-open")
    assert (result.code, result.err) == (1, "sami: run.csv is no recording. Give NAME.mcap, which --record wrote.\n")


def test_nothing_in_a_recording_can_end_the_script_that_it_stands_in():
    run = run_of(read_recording(OLD)) | {"name": "</script><script>alert(1)</script>"}
    assert page([run]).count("</script>") == 2


def test_convert_wants_to_know_what_to_write(sami):
    result = sami("convert", OLD)
    assert result.code == 2
    assert "Missing argument 'OUT...'" in result.err
    result = sami("convert", OLD, "run.txt")
    assert (result.code, list(Path().iterdir())) == (1, [])
    assert "run.txt ends in .txt; give NAME.csv, NAME.parquet, or a folder's name without a suffix" in result.err


def test_convert_writes_a_table(sami):
    result = sami("convert", OLD, "run.csv")
    assert (result.code, result.out) == (0, "wrote run.csv: 12 rows\n")
    assert len(Path("run.csv").read_text().splitlines()) == 13


@pytest.fixture(scope="module")
def live():
    """The address of a run that goes on until the tests are done."""
    command = [sys.executable, "-c", "from sami_cli.app import main; main()", "run", "--model", str(MODEL)]
    command += ["--env", "panda", "--episodes", "999", "--real-time", "--live", "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield next(line for line in process.stderr if "watch it at " in line).split()[-1]
        finally:
            os.kill(process.pid, signal.SIGKILL)


def fetch(address, method="GET", host=None, data=None):
    """The status of an answer, and the answer."""
    request = urllib.request.Request(address, method=method, headers={"Host": host} if host else {}, data=data)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.read(200)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b""


def test_a_run_is_served_to_who_knows_the_address_and_to_nobody_else(live):
    assert fetch(live)[0] == 200
    server, token = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)([\w-]{22})/", live).groups()
    for address in (server, f"{server}events", f"{server}{token[:-1]}/", live + "other", f"{server}{'x' * 22}/events"):
        assert fetch(address)[0] == 404, address
    assert fetch(live, host="example.org")[0] == 404, "a page elsewhere that calls this machine by another name"
    port = int(server.split(":")[2].strip("/"))
    machine = socket.gethostbyname(socket.gethostname())
    if machine != "127.0.0.1":
        with socket.socket() as other:
            assert other.connect_ex((machine, port)) != 0, "only this machine may ask"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_commanded(live, method):
    assert fetch(live, method, data=b"stop")[0] == 501
    assert fetch(live + "events", method, data=b"stop")[0] == 501


def test_events_tell_what_the_run_is_and_every_tick_from_the_first(live):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(live + "events", timeout=60) as answer:
        reports = []
        for line in answer:
            if line.startswith(b"data: "):
                reports.append(json.loads(line[6:]))
            if len(reports) > 40:
                break
    run = reports[0]["run"]
    assert (run["model"], run["env"], run["rate"]) == ("panda-satesac", "panda", 25.0)
    rows = [dict(zip(run["columns"], item["row"], strict=True)) for item in reports[1:] if "row" in item]
    steps = [row["step"] for row in rows if row["episode"] == 0]
    assert steps == list(range(len(steps)))
    assert {"executed.dx", "context.0", "observation.ee_position.z", "infer"} <= rows[0].keys()


def test_the_history_of_a_live_run_is_bounded_and_who_comes_late_gets_the_newest(monkeypatch):
    monkeypatch.setattr("sami_runtime.recording.live.MOST_BYTES", 100_000)
    history, (feed, peer) = LiveHistory(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with peer:
        thread = threading.Thread(target=history.follow, args=(peer,))
        thread.start()
        with feed:
            for tick in range(5000):
                feed.send(f"{tick:0500}".encode())
        thread.join()
    assert sum(map(sys.getsizeof, history._ticks)) <= 100_000
    result, newest = history.after(0, 0.0)
    assert (newest, int(result[-1])) == (5000, 4999)
    assert len(result) > 100


@pytest.mark.parametrize(
    "info",
    [
        {"reward": np.ones(3), "is_success": np.ones(2), "task": 3, "skill": [1]},
        {"reward": "much", "is_success": "yes", "task": {"mass": object()}, "skill": {}},
        {"reward": {}, "task": {1: [[2], [3, 4]]}},
        {"reward": 1e400, "task": {"x": np.array([np.nan])}},
        {"reward": np.array([[0.5]]), "task": None},
    ],
)
def test_whatever_an_adapter_reports_ends_no_watched_run(info):
    steps = [replace(step.record, info=info) for step in read_recording(OLD).steps]
    contract = read_recording(OLD).contract
    with closing(Feed(contract, {}, "odd")) as feed:
        for step in steps:
            feed(step)
    assert feed.dropped == 0
    report = EpisodeReport(1, True, info, np.zeros((0, 0)), LoopReport())
    assert report.success in (None, True, False)


def test_a_tick_that_cannot_be_shown_is_counted_and_ends_no_run(monkeypatch):
    recording = read_recording(OLD)
    monkeypatch.setattr(RunRows, "row", lambda *_: 1 / 0)
    with closing(Feed(recording.contract, {}, "odd")) as feed:
        feed(recording.steps[0].record)
    assert feed.dropped == 1


def test_the_longest_message_that_the_system_takes_arrives_whole():
    history, (feed, peer) = LiveHistory(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    feed.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    size = min(feed.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) - 64, 4_000_000)
    with feed, peer:
        feed.send(bytes(size))
        feed.shutdown(socket.SHUT_WR)
        history.follow(peer)
    assert [len(message) for message in history.after(0, 0.0)[0]] == [size]


def test_the_head_of_a_live_run_may_be_longer_than_any_message():
    with closing(Feed(read_artifact(MODEL).contract, {"limits": {"inside": "long" * 1_250_000}}, "large")) as feed:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(feed.url + "events", timeout=30) as answer:
            lines = (answer.readline() for _ in range(3))
            head = next(line for line in lines if line.startswith(b"data: "))
    assert len(json.loads(head[6:])["run"]["limits"]["inside"]) == 5_000_000


def test_a_live_view_is_refused_where_the_system_is_not_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    contract = read_artifact(MODEL).contract
    with pytest.raises(SamiError, match="needs Linux, this is darwin"):
        Feed(contract, {}, "run")
