"""What is left of a recording whose process was killed: all but its last moments, and an index that tools read."""

import subprocess
import sys
import time

import pytest

pytest.importorskip("mcap")
from mcap.reader import make_reader

from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.replay import replay
from sami_runtime.session.session import Session

KILLED = """
import sys
from sami_runtime import FakeAdapter, Observation, Recorder, Session, run_episode

class Arm(FakeAdapter):
    def __init__(self):
        super().__init__(axes=2)
        goal = {"name": "goal", "size": 1, "elements": ("x",), "low": (None,), "high": (None,)}
        position = self.observation[0].model_copy(update={"low": (-1e6,) * 2, "high": (1e6,) * 2})
        self.observation = (position, self.observation[1], position.model_copy(update=goal))

    def read(self):
        seen = super().read()
        return Observation({**seen.values, "goal": [0.5]}, seen.time)

session = Session.load(sys.argv[1])
recorder = Recorder(sys.argv[2], session)

def watch(record):
    recorder(record)
    print(record.step, flush=True)

run_episode(session, Arm(), max_steps=100_000, on_step=watch)
"""


@pytest.mark.parametrize("after_s", [0.9, 1.5])
def test_a_process_that_is_killed_leaves_all_but_the_last_second_and_an_index(make, tmp_path, after_s):
    """Half a second is what a chunk waits for, the rest is for a machine that is busy."""
    session, path = Session.load(make.write(make.recurrent())), tmp_path / "run.mcap"
    command = [sys.executable, "-c", KILLED, str(session.artifact.path), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            until = time.time() + after_s
            while time.time() < until:
                process.stdout.readline()
        finally:
            killed = time.time()
            process.kill()  # SIGKILL: no handler runs, nothing is flushed any more
        process.stdout.read()
    recording = read_recording(path)
    assert not recording.closed
    assert [step.record.step for step in recording.steps] == list(range(len(recording.steps)))
    assert replay(recording, session).same
    with path.open("rb") as file:
        reader = make_reader(file)
        *_, (_, _, last) = reader.iter_messages(topics=["/step"])  # by the index at its end
        statistics = reader.get_summary().statistics
    assert killed - 1e-9 * last.publish_time < 1.0
    assert len(recording.steps) == statistics.channel_message_counts[1]
