"""Whether LeRobot's own reader, and Rerun's, read what `sami convert` writes."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'sami-rl[convert]'")

from sami_runtime import read_recording
from sami_runtime.recording.tables import write_lerobot

OLD = Path(__file__).parents[1] / "sami_runtime/recording/version-1.mcap"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lerobot") / "set"
    assert write_lerobot(read_recording(OLD), folder) == 2
    return folder


def test_lerobot_reads_every_step_with_its_task(dataset, monkeypatch):
    """It wants another torch than ours, so it is not installed here: by hand, in an environment of its own."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    reader = pytest.importorskip("lerobot.datasets.lerobot_dataset", reason="lerobot is not installed")
    lerobot_data = reader.LeRobotDataset("local/run", root=dataset)
    steps = read_recording(OLD).steps
    assert (len(lerobot_data), lerobot_data.num_episodes, lerobot_data.fps) == (12, 2, 25)
    for at, (number, record) in enumerate(steps):
        frame = lerobot_data[at]
        np.testing.assert_array_equal(frame["action"].numpy(), record.executed)
        state = np.concatenate([record.observation.values[name] for name in record.observation.values])
        assert sorted(frame["observation.state"].numpy()) == sorted(state.astype(np.float32))
        assert int(frame["episode_index"]) == number
        assert frame["task"] == f"panda: mass {record.info['task']['mass']}, friction {record.info['task']['friction']}"


def test_rerun_reads_every_episode(dataset):
    rerun = pytest.importorskip("rerun.experimental", reason="rerun-sdk is not installed: pip install 'sami-rl[tools]'")
    reader = rerun.LeRobotReader(str(dataset))
    assert len(reader.episodes() if callable(reader.episodes) else reader.episodes) == 2
    assert "3" in str(reader.version() if callable(reader.version) else reader.version)
