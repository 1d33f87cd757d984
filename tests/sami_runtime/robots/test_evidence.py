"""The evidence log: what is in it, and that no line can be changed or removed unseen."""

import errno
import hashlib
import json
import os
import pwd
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime import Session, run_episode
from sami_runtime.errors import ArtifactError, RecordingError, SafetyStop, SamiError
from sami_runtime.loop.episode import EpisodeReport
from sami_runtime.loop.tick import LoopReport, Outcome, SectionTimes, StepRecord
from sami_runtime.robots.evidence import FIRST, EvidenceLog, check_log
from sami_runtime.safety.gate import SafetyGate

FACTS = {"model": {"name": "arm", "sha256": "ab" * 32}}
RATE_HZ = 50.0
EMPTY = np.zeros(0, np.float32)


def tick(step, outcome=Outcome.ACTED, executed=EMPTY, **changes):
    times = SectionTimes(0.0, 0.0, 0.0, 0.0)
    return StepRecord(step, outcome, None, None, executed, EMPTY, {}, times, **{"time": step / RATE_HZ} | changes)


def write(path, ticks, key=None):
    with EvidenceLog(path, FACTS, key) as log:
        for record in ticks:
            log(record)
        log.conclude(EpisodeReport(len(ticks), False, {}, EMPTY, LoopReport()))
    return path


@pytest.fixture
def log(tmp_path):
    ticks = [tick(step) for step in range(200)]
    ticks[30] = tick(30, limited_by=("rate dx", "bounds dy"))
    ticks[31] = tick(31, limited_by=("rate dx",))
    ticks[100:120] = [tick(step, Outcome.HELD, reason="age: the observation is 3 s old") for step in range(100, 120)]
    ticks[150:160] = [tick(step, Outcome.PILOTED) for step in range(150, 160)]
    ticks[199] = tick(199, executed=None, limited_by=("stop",), reason="age: the last action is too old")
    return write(tmp_path / "log.jsonl", ticks)


def test_every_intervention_hand_over_and_stop_is_in_the_log(log):
    check = check_log(log)
    assert (check.fault, check.complete, check.cut, check.signer) == ("", True, False, None)
    assert dict(check.counts) == {
        **{"ticks": 200, "rate dx": 2, "bounds dy": 1, "held": 20, "age": 21, "piloted": 10, "stop": 1}
    }
    interventions = [(line["step"], line["what"]) for line in check.of_kind("intervention")]
    assert interventions[:4] == [(30, "rate dx"), (30, "bounds dy"), (100, "held"), (100, "age")]
    assert [(line["step"], line["to"]) for line in check.of_kind("hand-over")] == [(150, "person"), (160, "policy")]
    assert [line["reason"] for line in check.of_kind("trip")] == ["age: the last action is too old"]
    assert check.lines[0]["model"] == FACTS["model"]
    assert "STOPPED at step 199: age: the last action is too old" in str(check)
    assert all(len(line) <= 80 for line in str(check).splitlines())


@pytest.mark.parametrize("stopped", ["before the write", "after its record"])
def test_a_stop_has_one_line_whenever_in_the_tick_it_came(make, arm, tmp_path, stopped):
    session, adapter = Session.load(make.write(make.memoryless())), arm()
    gate, path = SafetyGate(adapter, session.contract), tmp_path / "log.jsonl"
    log, write = EvidenceLog(path, FACTS), gate.write

    def watch(record):
        log(record)
        if record.step == 2 and stopped == "after its record":
            gate.trip("a person came near")

    if stopped == "before the write":
        gate.write = lambda ruling: (log._step == 1 and gate.trip("a person came near")) or write(ruling)
    with pytest.raises(SafetyStop), log:
        run_episode(session, adapter, gate=gate, on_step=watch)
    check = check_log(path)
    (line,) = check.of_kind("trip")
    assert line["step"] == 2
    assert "a person came near" in line["reason"]
    assert f"STOPPED at step 2: {line['reason']}" in str(check)


def test_a_second_of_the_same_intervention_is_one_line_and_a_later_one_another(tmp_path):
    ticks = [tick(step, limited_by=("rate dx",) if step < 100 or step >= 160 else ()) for step in range(200)]
    check = check_log(write(tmp_path / "log.jsonl", ticks))
    assert [line["step"] for line in check.of_kind("intervention")] == [0, 160]
    assert check.counts["rate dx"] == 140


def test_each_line_that_is_changed_removed_moved_or_repeated_breaks_the_chain_there(log):
    whole = log.read_bytes().splitlines(keepends=True)
    assert len(whole) > 10
    rng = np.random.default_rng(0)
    for at, line in enumerate(whole[:-1]):
        place = int(rng.integers(len(line) - 1))
        edit = line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
        for wrong in (
            [*whole[:at], edit, *whole[at + 1 :]],
            [*whole[:at], *whole[at + 1 :]],
            [*whole[:at], whole[at + 1], line, *whole[at + 2 :]],
            [*whole[:at], line, line, *whole[at + 1 :]],
        ):
            log.write_bytes(b"".join(wrong))
            check = check_log(log)
            assert check.fault.startswith((f"line {at + 1} ", f"line {at + 2} ")), (at, check.fault)
            assert not check.complete


def test_a_line_that_was_sealed_anew_does_not_fit_the_next_one(log, tmp_path):
    other = write(tmp_path / "other.jsonl", [tick(step) for step in range(60)])
    lines, other_lines = (path.read_bytes().splitlines(keepends=True) for path in (log, other))
    log.write_bytes(b"".join([*other_lines[:3], *lines[3:]]))
    assert "does not follow the line before" in check_log(log).fault


def test_a_removed_end_is_seen_by_the_last_line_and_by_the_signature(tmp_path):
    pytest.importorskip("cryptography")
    from sami_runtime.model.signing import new_key

    public = new_key(tmp_path / "arm.key", "Ada")
    log = write(tmp_path / "log.jsonl", [tick(step) for step in range(120)], tmp_path / "arm.key")
    assert check_log(log, public).signer == "Ada"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    check = check_log(log)
    assert (check.fault, check.complete) == ("", False)
    assert "the run did not come to its end" in str(check)
    with pytest.raises(ArtifactError, match=r"it, or log\.jsonl\.sig, was changed since"):
        check_log(log, public)
    (tmp_path / "log.jsonl.sig").unlink()
    with pytest.raises(ArtifactError, match="is not signed"):
        check_log(log, public)


def test_a_log_that_was_put_in_place_of_the_runs_own_is_not_signed(tmp_path):
    pytest.importorskip("cryptography")
    from sami_runtime.model.signing import new_key

    harmless, path, key = write(tmp_path / "harmless.jsonl", [tick(0)]), tmp_path / "log.jsonl", tmp_path / "arm.key"
    public = new_key(key, "Arm 3")
    log = EvidenceLog(path, FACTS, key)
    path.rename(tmp_path / "hidden.jsonl")
    path.write_bytes(harmless.read_bytes())
    log(tick(0, executed=None, limited_by=("stop",), reason="age: the last action is too old"))
    with pytest.raises(RecordingError, match=r"log\.jsonl is not the log that this run wrote; it is not signed"):
        log.close()
    assert check_log(path).complete
    with pytest.raises(ArtifactError):
        check_log(path, public)


def test_a_process_that_is_killed_leaves_a_log_that_holds_up_to_its_last_second(tmp_path):
    path = tmp_path / "log.jsonl"
    child = os.fork()
    if child == 0:
        log, step = EvidenceLog(path, FACTS), 0
        while True:
            log(tick(step, limited_by=("rate dx",) if step % 7 == 0 else (), time=step / 1000))
            step += 1
            time.sleep(0.0002)
    for _ in range(1000):
        if path.exists() and b'"counts"' in path.read_bytes():
            break
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    check = check_log(path)
    assert (check.fault, check.complete) == ("", False)
    assert check.counts["ticks"] >= 1001
    assert (check.counts["ticks"] - 1) % 1000 == 0, "every second has its line"
    with path.open("ab") as file:
        file.write(b'{"number":9,"prev')
    assert check_log(path).cut


def test_a_run_that_fails_says_why_in_its_last_line(tmp_path):
    path = tmp_path / "log.jsonl"

    def run():
        with EvidenceLog(path, FACTS) as log:
            log(tick(0))
            raise OSError("the bus is silent")

    with pytest.raises(OSError, match="the bus is silent"):
        run()
    assert check_log(path).lines[-1]["error"] == "OSError: the bus is silent"


@pytest.mark.parametrize("fault", ["write", "fsync"])
def test_a_disk_that_is_full_at_the_last_line_is_an_error(tmp_path, monkeypatch, fault):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = EvidenceLog(tmp_path / "log.jsonl", FACTS)
    if fault == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:  # the kernel takes as much as there is room for, and says how much
        file = log._file
        log._file = SimpleNamespace(write=lambda line: file.write(line[:9]), fileno=file.fileno, close=file.close)
        log._file.closed = False
    with pytest.raises(RecordingError, match=r"writing .*log\.jsonl failed: .*No space left"):
        log.close()
    assert not check_log(tmp_path / "log.jsonl").complete or fault == "fsync"


def test_a_user_without_a_name_is_a_number(tmp_path, monkeypatch):
    def getpwuid(_):
        raise KeyError("uid not found")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", getpwuid)
    EvidenceLog(tmp_path / "log.jsonl", FACTS).close()
    assert check_log(tmp_path / "log.jsonl").lines[0]["user"].startswith(f"{os.getuid()}@")


def test_an_episode_that_ended_before_its_first_tick_has_a_number_of_its_own(tmp_path):
    with EvidenceLog(tmp_path / "log.jsonl", FACTS) as log:
        for ticks in ([tick(0), tick(1)], [], [tick(0)]):
            for record in ticks:
                log(record)
            log.conclude(EpisodeReport(len(ticks), False, {}, EMPTY, LoopReport()))
    check = check_log(tmp_path / "log.jsonl")
    for kind in ("episode", "ended"):
        assert [line["episode"] for line in check.of_kind(kind)] == [0, 1, 2]
    assert [line["steps"] for line in check.of_kind("ended")] == [2, 0, 1]


def test_a_log_that_cannot_be_completed_does_not_hide_what_ended_the_run(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = EvidenceLog(tmp_path / "log.jsonl", FACTS)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SafetyStop, match="the robot has fallen"), log:
        raise SafetyStop("the robot has fallen")


def test_a_model_that_takes_over_is_in_the_log_and_breaks_it_not(tmp_path):
    swapped = SimpleNamespace(path="new.onnx", weights_sha256="cd" * 32)
    check = check_log(write(tmp_path / "log.jsonl", [tick(0), tick(1, swapped=swapped)]))
    assert (check.fault, check.complete) == ("", True)
    assert [(line["step"], line["model"]) for line in check.of_kind("model")] == [(1, "new.onnx")]


def test_what_is_no_log_is_refused(tmp_path, log):
    with pytest.raises(RecordingError, match=r"log\.jsonl exists; an evidence log never replaces one"):
        EvidenceLog(log, FACTS)
    with pytest.raises(RecordingError, match=r"cannot write to .*: No such file or directory"):
        EvidenceLog(tmp_path / "no" / "log.jsonl", FACTS)
    with pytest.raises(SamiError, match="cannot be read: No such file"):
        check_log(tmp_path / "none.jsonl")
    for text, fault in ((b"", None), (b"{}\n", "line 1 has no hash at its end"), (b'{"a":1,"hash":"zz"}\n', "no hash")):
        log.write_bytes(text)
        if fault is None:
            with pytest.raises(SamiError, match="has no whole line"):
                check_log(log)
        else:
            assert fault in check_log(log).fault


def sealed(path, *lines):
    """Write a log of these lines, texts as they are, with right numbers and hashes, as any stranger can."""
    previous, whole = FIRST, b""
    for number, line in enumerate(lines):
        fields = {"number": number, "previous": previous, "utc": "now", "clock": 0.0}
        text = line if isinstance(line, bytes) else json.dumps(fields | line, separators=(",", ":")).encode()
        previous = hashlib.sha256(text).hexdigest()
        whole += text[:-1] + f',"hash":"{previous}"}}\n'.encode()
    path.write_bytes(whole)
    return check_log(path)


BEGIN = {"kind": "begin", "user": "me", **FACTS}


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "trip", "reason": "age"},
        {"kind": "hand-over"},
        {"kind": "hand-over", "step": 1},
        {"kind": "ended"},
        {"kind": "ended", "ended": [1]},
        {"kind": "counts", "ticks": "many"},
        {"user": "me"},
        BEGIN | {"model": "arm"},
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_line_of_a_stranger_that_no_log_has_is_where_the_log_breaks(tmp_path, line):
    check = sealed(tmp_path / "log.jsonl", *([] if "model" in str(line)[:99] else [BEGIN]), line)
    assert "is no line of an evidence log" in check.fault
    assert "BROKEN: line " in str(check)
    json.dumps(check.summary())


def test_no_text_of_a_stranger_is_a_line_of_the_summary_or_obeyed_by_a_terminal(tmp_path):
    forged = "x\x1b[2J\nsigned by the maker"
    facts = {"user": forged, "model": {"name": forged, "sha256": forged}}
    trip, ending = {"kind": "trip", "step": 1, "reason": forged}, {"kind": "ended", "ended": forged}
    check = sealed(tmp_path / "log.jsonl", {"kind": "begin", **facts}, trip, ending, {"kind": "end", "error": forged})
    assert check.complete
    assert all(line.isprintable() and not line.startswith("signed by") for line in str(check).split("\n"))


def test_lines_are_plain_json(log):
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert (kinds[0], kinds[1], kinds[-2], kinds[-1]) == ("begin", "episode", "ended", "end")
