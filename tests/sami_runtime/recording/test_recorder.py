"""Laws of recordings: all that a loop knew comes back to the last bit, also out of a process that was killed."""

import io
import json
import os
import re
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("mcap")
from mcap.reader import make_reader

from sami_runtime.adapters import Executed, Observation
from sami_runtime.clock import ManualClock
from sami_runtime.distribution import install_hint
from sami_runtime.errors import RecordingError, SafetyStop
from sami_runtime.loop.episode import run_episode
from sami_runtime.loop.tick import Outcome, SectionTimes, StepRecord
from sami_runtime.recording.mcap_file import ChunkedFile, mcap_parts
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.recorder import Recorder
from sami_runtime.recording.replay import replay
from sami_runtime.run import Run
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session


@pytest.fixture
def session(make):
    return Session.load(make.write(make.recurrent()))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.mcap"


def record(path, session, adapter, episodes=1, **options):
    """The records that a loop made while they were recorded, and the states after them."""
    records, states = [], []
    with Recorder(path, session) as recorder:

        def watch(step):
            recorder(step)
            records.append(step)
            states.append(session.digest)

        for seed in range(episodes):
            run_episode(session, adapter, seed=seed, on_step=watch, **options)
    return records, states


def bits(array):
    return None if array is None else (array.dtype, array.shape, array.tobytes())


def test_every_tick_comes_back_as_it_was(session, arm, path):
    clock = ManualClock(start=12.5)
    adapter = arm(clock, limit=0.3, reading=[0, 0, 0.05], nan_at_reads=[4], stale_at_reads=[6, 7, 8])
    records, states = record(path, session, adapter, episodes=2, clock=clock, loop_hz=50.0)
    recording = read_recording(path)
    assert recording.closed
    assert [step.episode for step in recording.steps] == [0] * 18 + [1] * 20
    assert [step.record.state for step in recording.steps] == states
    for (_, result), expected in zip(recording.steps, records, strict=True):
        for name in ("step", "outcome", "reason", "limited_by", "time", "lag", "missed", "times", "telemetry", "state"):
            assert getattr(result, name) == getattr(expected, name)
        for name in ("action", "executed", "context"):
            assert bits(getattr(result, name)) == bits(getattr(expected, name))
        assert (result.observation is None) == (expected.observation is None)
        if result.observation is not None:
            assert result.observation.time == expected.observation.time
            for name, value in expected.observation.values.items():
                np.testing.assert_array_equal(result.observation.values[name].astype(np.float32), value)


def messages(path):
    """Every tick of a recording, as the text that was written."""
    with open(path, "rb") as file:
        return [message.data.decode() for _, _, message in make_reader(file).iter_messages(topics=["/step"])]


@pytest.mark.parametrize("clock", [None, ManualClock(start=5.0)], ids=["without", "with"])
def test_no_two_ticks_have_one_time_also_of_episodes_that_a_clock_does_not_tell_apart(session, arm, path, clock):
    record(path, session, arm(*([clock] if clock else [])), episodes=3, clock=clock)
    with open(path, "rb") as file:
        times = [message.log_time for _, _, message in make_reader(file).iter_messages(topics=["/tick"])]
    assert np.diff(times).min() > 0.039e9
    assert times[-1] - times[0] == pytest.approx(29 * 0.04e9, abs=1e3)


def test_a_recorder_needs_nothing_but_the_records(session, arm, path, tmp_path):
    """Written later, beside a session that went on, they make the same recording; and so does what was read of it."""
    records, _ = record(path, session, arm(nan_at_reads=[4]), episodes=2)
    session.reset()
    read_back = [step.record for step in read_recording(path).steps]
    for name, again in {"later.mcap": records, "again.mcap": read_back}.items():
        with Recorder(tmp_path / name, session) as recorder:
            for item in again:
                recorder(item)
    assert json.loads(messages(path)[0])["telemetry"]["step"] == 0
    assert messages(path) == messages(tmp_path / "later.mcap")
    signals = [signal.name for signal in session.contract.observation]
    for first, second in zip(messages(path), messages(tmp_path / "again.mcap"), strict=True):
        first, second = json.loads(first), json.loads(second)
        for message in (first, second):
            message["observation"] = message["observation"] and [message["observation"][name] for name in signals]
        assert first == second


def test_a_record_that_nobody_read_or_stepped_is_kept_as_that(session, path):
    held_tick = StepRecord(0, Outcome.HELD, None, None, None, np.zeros(2, np.float32), {}, SectionTimes(0, 0, 0, 0))
    with Recorder(path, session) as recorder:
        recorder(held_tick)
    (step,) = read_recording(path).steps
    assert (step.record.telemetry, step.record.state) == (None, "")


def test_a_recording_says_what_it_is_one_of(session, arm, path):
    facts = {"env": "fake", "seed": 3}
    with Recorder(path, session, Limits(rest=0.0, max_age_s=float("inf")), facts) as recorder:
        run_episode(session, arm(), on_step=recorder)
    about = read_recording(path).about
    assert about["model"] == {
        "path": str(session.artifact.path),
        "name": "tiny",
        "weights_sha256": session.contract.weights_sha256,
    }
    assert (about["env"], about["seed"], about["providers"]) == ("fake", 3, ["CPUExecutionProvider"])
    assert (about["limits"]["rest"], about["limits"]["max_age_s"]) == (0.0, "inf")
    assert set(about["versions"]) == {"sami", "numpy", "onnxruntime"}
    assert read_recording(path).contract == session.contract


def test_times_by_signal_come_back_where_there_are_any(session, arm, path):
    class Cameras(arm):
        def read(self):
            observation = super().read()
            return replace(observation, times={"goal": observation.time - 0.01} if self.reads % 2 else None)

    records, _ = record(path, session, Cameras())
    observations = [step.record.observation for step in read_recording(path).steps]
    assert [item.times for item in observations] == [item.observation.times for item in records]
    assert observations[0].times == {"goal": observations[0].time - 0.01}
    assert observations[1].times is None


def test_any_mcap_reader_reads_it_and_every_message_is_strict_json(session, arm, path):
    record(path, session, arm(nan_at_reads=[4]))
    with open(path, "rb") as file:
        messages = list(make_reader(file).iter_messages(topics=["/step"]))
    assert len(messages) == 10
    schema, channel, _ = messages[0]
    assert (schema.encoding, channel.topic, channel.message_encoding) == ("jsonschema", "/step", "json")
    decoded = [json.loads(message.data, parse_constant=pytest.fail) for _, _, message in messages]
    assert {*decoded[0], "measured_by_signal", "passed"} == set(json.loads(schema.data)["properties"])
    assert decoded[4]["observation"]["position"][0] == "nan"


def test_what_an_adapter_tells_is_kept_as_far_as_json_goes(session, arm, path):
    class Telling(arm):
        def write(self, action):
            task = {"mass": np.float32(2.5), "grid": np.arange(2), "crippled": [1], "note": None}
            return Executed(super().write(action).action, info={"task": task, "is_success": np.True_, "odd": {1, 2}})

    record(path, session, Telling())
    info = read_recording(path).steps[0].record.info
    assert info["task"] == {"mass": 2.5, "grid": [0, 1], "crippled": [1], "note": None}
    assert (info["is_success"], info["odd"]) == (True, "{1, 2}")


def test_the_tick_of_a_safety_stop_is_in_the_recording_with_its_reason(session, arm, path):
    adapter = arm(nan_at_reads=range(4, 99))
    gate = SafetyGate(adapter, session.contract, Limits(stop_after=3))
    with pytest.raises(SafetyStop):
        record(path, session, adapter, gate=gate)
    recording = read_recording(path)
    assert recording.closed
    assert [step.record.outcome for step in recording.steps] == ["acted"] * 4 + ["refused"] * 3
    last = recording.steps[-1].record
    assert (last.executed, last.limited_by, last.reason[:24]) == (None, ("stop",), "refused: tick 4: observa")
    assert replay(recording, session).same


def test_a_recording_never_replaces_a_file(session, path):
    path.write_bytes(b"precious")
    with pytest.raises(RecordingError, match=r"run\.mcap exists; a recording never replaces one"):
        Recorder(path, session)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("name", "message"),
    [("run.txt", r"a recording is NAME\.mcap"), ("no/run.mcap", r"no/run\.mcap: No such file.* Make its folder")],
)
def test_a_place_that_cannot_be_recorded_to_is_refused(session, tmp_path, name, message):
    with pytest.raises(RecordingError, match=message):
        Recorder(tmp_path / name, session)


def test_closing_twice_is_harmless_and_a_recording_of_nothing_leaves_no_file(session, path):
    recorder = Recorder(path, session)
    recorder.close()
    recorder.close()
    assert not path.exists()


def test_a_disk_that_is_full_at_the_end_is_told_of_unless_worse_is(session, arm, path, monkeypatch):
    def full(data, whole=False):
        raise OSError(28, "No space left on device")

    recorder = Recorder(path, session)
    monkeypatch.setattr(recorder._chunks, "_write", full)
    with (
        pytest.raises(RecordingError, match=r"(completing|recording to) .*run\.mcap failed: .*No space left"),
        recorder,
    ):
        run_episode(session, arm(), on_step=recorder)
    other = Recorder(path.with_name("other.mcap"), session)
    monkeypatch.setattr(other._chunks, "_write", full)
    with pytest.raises(KeyboardInterrupt), other:
        raise KeyboardInterrupt


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("odd"), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("method", ["_write", "_chunk"])
def test_any_error_of_the_thread_ends_the_run_with_one_line_and_a_stopped_robot(
    session, arm, path, monkeypatch, error, method
):
    def failing(*_, **__):
        raise error

    adapter, clock = arm(), ManualClock()
    monkeypatch.setattr("sami_runtime.recording.recorder.CHUNK_S", 0.0)
    run = Run(session, adapter, clock, simulator=True, record=path)

    def episodes():
        with run:
            assert run.recorded
            monkeypatch.setattr(run._recorder._chunks, method, failing)
            while True:
                run.episode(max_steps=3)

    with pytest.raises(RecordingError, match=rf"run\.mcap failed: {str(error) or type(error).__name__}\. Its whole"):
        episodes()
    assert not run.recorded
    assert adapter.stops
    assert run._recorder._chunks._queue.empty()


def test_a_tick_that_cannot_be_encoded_ends_the_recording_and_not_in_silence(session, arm, path):
    class Odd:
        def __str__(self):
            raise KeyError("no text")

    class Telling(arm):
        def write(self, action):
            return Executed(super().write(action).action, info={"odd": Odd()})

    with (
        pytest.raises(RecordingError, match="failed: 'no text'"),
        Run(session, Telling(), simulator=True, record=path) as run,
    ):
        run.episode()
    assert not run.recorded


def test_what_waits_for_a_disk_that_hangs_is_bounded(session, arm, path, monkeypatch):
    monkeypatch.setattr("sami_runtime.recording.mcap_file.MOST_WAITING_BYTES", 2000)
    monkeypatch.setattr("sami_runtime.recording.recorder.CHUNK_S", 0.0)
    resumed = threading.Event()
    with Recorder(path, session) as recorder:
        monkeypatch.setattr(recorder._chunks, "_write", lambda *_, **__: resumed.wait())
        with pytest.raises(RecordingError, match="the disk is too slow"):
            run_episode(session, arm(), on_step=recorder)
        resumed.set()
        with pytest.raises(RecordingError, match=r"completing .* the disk is too slow"):
            recorder.close()


def test_a_tick_costs_as_much_at_the_end_of_a_long_recording_as_at_its_beginning(session, tmp_path, monkeypatch):
    """Here in bytes: a chunk is followed by a few, and the file stays one that any reader reads."""
    sizes, ends, write = [], [], os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: sizes.append(len(data)) or write(file, data, at))
    monkeypatch.setattr("sami_runtime.recording.mcap_file.INDEX_BYTES", 10_000)
    path = tmp_path / "long.mcap"
    with path.open("xb", buffering=0) as file:
        chunks = ChunkedFile(file, mcap_parts(), "test")
        channel = chunks.channel("/step", "x", ("jsonschema", "json"), b"{}", {})
        random = np.random.default_rng(0)
        for tick in range(2000):
            chunks.add(channel, random.bytes(400), tick, tick)
            chunks.end_chunk()
            if tick == 1000:
                while len(sizes) < 1001:
                    time.sleep(0.001)
                ends = path.read_bytes()
        chunks.close()
    assert sum(sizes[:-1]) < 1.1 * path.stat().st_size + 10_000
    assert max(sizes[100:-1]) < min(sizes[100:-1]) + 20
    for data, count in ((ends, 1001), (path.read_bytes(), 2000)):
        assert sum(1 for _ in make_reader(io.BytesIO(data)).iter_messages()) == count
    assert make_reader(io.BytesIO(ends)).get_summary() is None
    assert make_reader(io.BytesIO(path.read_bytes())).get_summary().statistics.message_count == 2000


def test_a_signal_that_is_no_number_is_left_out_and_the_rest_can_be_read(session, arm, path):
    class Talking(arm):
        def read(self):
            frame = super().read()
            return Observation({**frame.values, "mode": "auto", "ragged": [[1], [1, 2]], "count": 3}, frame.time)

    with Recorder(path, session) as recorder:
        run_episode(session, Talking(), on_step=recorder)
    steps = read_recording(path).steps
    assert set(steps[0].record.observation.values) == {"position", "velocity", "goal", "count"}
    assert replay(read_recording(path), Session.load(session.artifact.path)).same


def test_without_the_package_the_message_names_the_extra(session, path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcap", None)
    with pytest.raises(RecordingError, match=re.escape(install_hint("record"))):
        Recorder(path, session)
    assert not path.exists()


# --- what is damaged, cut off, or something else


def chunks(path):
    """Where each chunk begins and ends, by the index at the end of the file."""
    with open(path, "rb") as file:
        indexes = make_reader(file).get_summary().chunk_indexes
    return [(index.chunk_start_offset, index.chunk_start_offset + index.chunk_length) for index in indexes]


def test_cut_off_anywhere_it_gives_every_chunk_that_is_whole(session, arm, path, tmp_path, monkeypatch):
    monkeypatch.setattr("sami_runtime.recording.recorder.CHUNK_S", 0.0)  # a chunk each tick
    record(path, session, arm(), episodes=3)
    data, whole, places = path.read_bytes(), read_recording(path), chunks(path)
    partial, counts = tmp_path / "cut.mcap", []
    for size in range(places[0][0], len(data), 997):
        partial.write_bytes(data[:size])
        part = read_recording(partial)
        counts.append(len(part.steps))
        whole_chunks = [at for at, (_, end) in enumerate(places) if end <= size]
        assert len(part.steps) == len(whole_chunks)
        assert part.steps[-1:] == () or part.steps[-1].record.state == whole.steps[len(part.steps) - 1].record.state
        assert replay(part, session).same
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 30)


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.9])
def test_a_changed_byte_is_found(session, arm, path, at):
    record(path, session, arm())
    data = bytearray(path.read_bytes())
    end = chunks(path)[-1][1]
    data[int(at * end)] ^= 4
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=r"run\.mcap (is damaged, or no recording|has recording version none)"):
        read_recording(path)


def test_a_damaged_length_is_not_taken_for_a_killed_process(session, arm, path):
    record(path, session, arm())
    data = bytearray(path.read_bytes())
    data[chunks(path)[0][0] + 3] ^= 255  # the length of the chunk's record: 8 bytes behind its kind
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=r"run\.mcap is damaged, or no recording of sami run: "):
        read_recording(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89MCAP0\r\n", b"\x89MCAP0\r\n" + b"\xff" * 64])
def test_what_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / "other.mcap"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"other\.mcap (is damaged, or no recording|has recording version none)"):
        read_recording(path)
    with pytest.raises(RecordingError, match=r"none\.mcap cannot be read: No such file"):
        read_recording(tmp_path / "none.mcap")


def test_a_recording_of_a_newer_version_is_refused(session, arm, path, monkeypatch):
    monkeypatch.setattr("sami_runtime.recording.format.RECORDING_VERSION", 3)
    monkeypatch.setattr("sami_runtime.recording.format.message_of", lambda *_: {"other": "things"})
    record(path, session, arm())
    monkeypatch.undo()
    with pytest.raises(RecordingError, match="has recording version 3; this sami_runtime reads versions 1 and 2"):
        read_recording(path)
