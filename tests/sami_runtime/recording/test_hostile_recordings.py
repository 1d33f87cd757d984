"""Recordings that somebody rewrote: refused with a message of ours, or read; no bare error, hang or full memory."""

import json
import os
import re
import resource
import zlib

import numpy as np
import pytest

pytest.importorskip("mcap")
import lz4.frame
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.writer import CompressionType, Writer

from sami_runtime.errors import RecordingError, SamiError
from sami_runtime.loop.episode import run_episode
from sami_runtime.recording.format import METADATA, TOPIC
from sami_runtime.recording.mcap_file import MAGIC
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.recorder import Recorder
from sami_runtime.recording.replay import conditions, replay
from sami_runtime.recording.tables import write_csv, write_lerobot, write_parquet
from sami_runtime.session.session import Session

MUTATIONS = 400


@pytest.fixture
def recorded(make, policy, arm, tmp_path):
    """What a recording says of itself, and its messages."""
    session, path = Session.load(make.write(policy)), tmp_path / "run.mcap"
    with Recorder(path, session) as recorder:
        run_episode(session, arm(), max_steps=3, on_step=recorder)
    with path.open("rb") as file:
        reader = make_reader(file)
        about = next(item.metadata["about"] for item in reader.iter_metadata() if item.name == METADATA)
        messages = [json.loads(message.data) for _, _, message in reader.iter_messages(topics=[TOPIC])]
    return session, json.loads(about), messages


def write(path, about, messages, compression=CompressionType.NONE):
    with path.open("wb") as file:
        writer = Writer(file, compression=compression)
        writer.start()
        writer.add_metadata(METADATA, {"about": about if isinstance(about, str) else json.dumps(about)})
        schema = writer.register_schema("s", "jsonschema", b"{}")
        channel = writer.register_channel(TOPIC, "json", schema)
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            writer.add_message(channel, 0, data, 0)
        writer.finish()
    return path


@pytest.mark.parametrize("compression", CompressionType)
def test_one_that_was_packed_again_is_read(recorded, tmp_path, compression):
    session, about, messages = recorded
    result = read_recording(write(tmp_path / "packed.mcap", about, messages, compression))
    assert replay(result, session).same
    assert len(result.steps) == 3


def strange(draw):
    values = [None, True, -1, 10**400, 1e308, "", "nan", "\x1b[2J", [], [[1.0]], {}, {"a": 1}, [None], "x" * 1000]
    return values[draw.integers(len(values))]


def mutated(value, draw):
    """Return a JSON value of which one part, somewhere, is another: gone, of another kind, or there twice."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key, choice = list(value)[draw.integers(len(value))], draw.random()
        if choice < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: strange(draw) if choice < 0.5 else mutated(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        at = int(draw.integers(len(value)))
        return [*value[:at], mutated(value[at], draw), *value[at + draw.integers(2) :]]
    return strange(draw)


def test_no_rewritten_one_escapes_as_another_error(recorded, tmp_path):
    session, about, messages = recorded
    draw, outcomes = np.random.default_rng(0), {"refused": 0, "read": 0}
    for _ in range(MUTATIONS):
        header, rewritten = about, list(messages)
        if draw.random() < 0.4:
            header = mutated(about, draw)
        else:
            at = int(draw.integers(len(rewritten)))
            rewritten[at] = mutated(rewritten[at], draw)
        try:
            result = read_recording(write(tmp_path / "hostile.mcap", header, rewritten))
            text = f"{result}{conditions(result, session)}{replay(result, session)}{json.dumps(dict(result.about))}"
            outcomes["read"] += 1
        except SamiError as error:
            text = str(error)
            outcomes["refused"] += 1
        assert "\x1b" not in text
    assert min(outcomes.values()) > MUTATIONS / 10, outcomes


DEEP = "[" * 100_000


@pytest.mark.parametrize("where", ["about", "message"])
def test_one_that_is_nested_deeply_or_says_a_key_twice_is_refused(recorded, tmp_path, where):
    _, about, messages = recorded
    twice = json.dumps(about)[:-1] + ', "version": 1}'
    for hostile in (DEEP, twice):
        say, report = (hostile, messages) if where == "about" else (about, [hostile.encode()])
        with pytest.raises(RecordingError, match="is damaged, or no recording of sami run"):
            read_recording(write(tmp_path / "deep.mcap", say, report))


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
@pytest.mark.parametrize("false_size", [False, True])
def test_a_chunk_that_unpacks_to_gigabytes_is_refused_before_it_fills_the_memory(tmp_path, kind, false_size):
    """50 kB took 3 GB and 8 s before they were refused."""
    large = bytes(256 * 1024 * 1024)
    data = zstandard.compress(large) if kind == "zstd" else lz4.frame.compress(large)
    builder, path = RecordBuilder(), tmp_path / "bomb.mcap"
    Chunk(kind, data, 0, 0, zlib.crc32(large), 10 if false_size else len(large)).write(builder)
    path.write_bytes(MAGIC + builder.end())
    del large
    assert path.stat().st_size < 2_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RecordingError, match=re.escape("unpack to more than")):
        read_recording(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000, "kB"


def test_a_pipe_and_a_folder_are_refused_and_nobody_waits_for_them(tmp_path):
    os.mkfifo(tmp_path / "pipe.mcap")
    for name in ("pipe.mcap", ""):
        with pytest.raises(RecordingError, match="is no regular file"):
            read_recording(tmp_path / name)


def hostile(value, draw):
    """A value in the place of one of a tick: odd shapes, texts, numbers beyond any, or nothing."""
    odd = [{}, [], None, "nan", "x", "\ud800", 1e308, [[1.0, 2.0]], [["nan"] * 3] * 2, ["inf"] * 5, {"a": [1, {}]}]
    return odd[draw.integers(len(odd))] if draw.random() < 0.7 else mutated(value, draw)


def test_no_readable_one_ends_a_viewer_or_converter_in_a_bare_error(recorded, tmp_path):
    """Seeded. What is refused is refused in one line, and leaves no half file."""
    from sami_runtime.recording.view import write_page
    from sami_train.studies.fit_gap.trace import read_log

    session, about, messages = recorded
    draw, count, refused = np.random.default_rng(0), 0, []
    writers = [lambda message, path: write_page([message], path), write_csv, write_parquet, write_lerobot]
    writers.append(lambda message, _: (replay(message, session), conditions(message, session)))
    writers.append(lambda message, _: read_log([message.path]))
    parts = ("observation", "action", "executed", "context", "info", "telemetry", "times", "extra", "age", "limited_by")
    for number in range(220):
        ticks = [json.loads(json.dumps(message)) for message in messages] * int(draw.integers(0, 3))
        for _ in range(draw.integers(1, 3) if ticks else 0):
            tick, part = ticks[draw.integers(len(ticks))], parts[draw.integers(len(parts))]
            value = tick.get(part)
            if isinstance(value, dict) and value and draw.random() < 0.7:
                name = [*value, "reward", "task"][draw.integers(len(value) + 2)]
                tick[part] = {**value, name: hostile(value.get(name), draw)}
            else:
                tick[part] = hostile(value, draw)
        report = mutated(about, draw) if draw.random() < 0.3 else about
        try:
            result = read_recording(write(tmp_path / "hostile.mcap", report, ticks))
        except RecordingError:
            continue
        count += 1
        for at, use in enumerate(writers):
            target = tmp_path / f"{number}-{at}"
            try:
                use(result, target)
            except SamiError as error:
                refused.append(str(error))
                assert not target.exists()
    assert count > 60
    assert [line for line in refused if "\n" in line] == []
    assert not list(tmp_path.glob("*.unfinished"))
