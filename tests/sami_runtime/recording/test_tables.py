"""Laws of conversion: every number of a recording under its name, and a dataset whose steps are equally far apart."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mcap")

from sami_runtime.errors import SamiError
from sami_runtime.loop.episode import run_episode
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.recorder import Recorder
from sami_runtime.recording.tables import rows, write_csv, write_lerobot, write_parquet
from sami_runtime.run import Run
from sami_runtime.session.session import Session

OLD = Path(__file__).parents[1] / "recording/version-1.mcap"


@pytest.fixture
def recording(make, arm, tmp_path):
    """Two episodes of 10 ticks; at tick 4 nothing could be read."""
    session, path = Session.load(make.write(make.recurrent())), tmp_path / "held.mcap"
    with Recorder(path, session) as recorder:
        for seed in range(2):
            run_episode(session, arm(nan_at_reads=[4]), seed=seed, on_step=recorder)
    return read_recording(path)


def test_a_csv_holds_every_digit_of_every_number_under_its_name(tmp_path):
    recording = read_recording(OLD)
    assert write_csv(recording, tmp_path / "run.csv") == 12
    with (tmp_path / "run.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, (episode, record) in zip(rows, recording.steps, strict=True):
        assert (int(row["episode"]), int(row["step"]), row["outcome"]) == (episode, record.step, "acted")
        for signal in recording.contract.observation:
            results = [float(row[f"observation.{signal.name}.{element}"]) for element in signal.elements]
            np.testing.assert_array_equal(results, record.observation.values[signal.name])
        for kind, value in {"proposed": record.action, "executed": record.executed}.items():
            results = [float(row[f"{kind}.{element}"]) for element in ("dx", "dy", "dz", "gripper")]
            np.testing.assert_array_equal(np.float32(results), value)
        assert float(row["info.task.mass"]) == record.info["task"]["mass"]
        assert float(row["times.infer"]) == record.times.infer


def test_what_a_tick_does_not_have_is_empty(recording, tmp_path):
    result = rows(recording)
    assert "proposed.fx" not in result[4]
    assert np.isnan(result[4]["observation.position.x"])
    write_csv(recording, tmp_path / "run.csv")
    with (tmp_path / "run.csv").open() as file:
        assert list(csv.DictReader(file))[4]["proposed.fx"] == ""


def test_parquet_holds_the_same_as_numbers(recording, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'sami-rl[convert]'")
    assert write_parquet(recording, tmp_path / "run.parquet") == 20
    table = parquet.read_table(tmp_path / "run.parquet")
    result = rows(recording)
    for name in table.column_names:
        expected = [row.get(name) for row in result]
        assert table.column(name).to_pylist() == pytest.approx(expected, nan_ok=True), name
    assert str(table.schema.field("executed.fx").type) == "double"
    assert str(table.schema.field("step").type) == "int64"


def test_a_dataset_is_cut_where_a_step_is_missing(recording, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'sami-rl[convert]'")
    assert write_lerobot(recording, tmp_path / "set") == 4
    info = json.loads((tmp_path / "set/meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["total_episodes"], info["total_frames"]) == ("v3.0", 25, 4, 18)
    assert info["features"]["observation.state"]["names"] == ["position.x", "position.y", "goal.x"]
    frames = parquet.read_table(tmp_path / "set/data/chunk-000/file-000.parquet").to_pydict()
    records = [step.record for step in recording.steps if step.record.step != 4]
    np.testing.assert_array_equal(np.float32(frames["action"]), [record.executed for record in records])
    assert frames["episode_index"] == [0] * 4 + [1] * 5 + [2] * 4 + [3] * 5
    assert frames["frame_index"] == [*range(4), *range(5)] * 2
    np.testing.assert_allclose(frames["timestamp"], np.array(frames["frame_index"]) / 25.0, atol=1e-6)
    assert frames["next.done"] == [at in (8, 17) for at in range(18)], "a stretch that was cut did not end there"
    episodes = parquet.read_table(tmp_path / "set/meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [(episode["dataset_from_index"], episode["dataset_to_index"]) for episode in episodes] == [
        *((0, 4), (4, 9)),
        *((9, 13), (13, 18)),
    ]


def test_a_dataset_of_a_run_that_was_slower_has_its_rate(path, arm, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'sami-rl[convert]'")
    record = tmp_path / "slow.mcap"
    with Run(Session.load(path), arm(), slower=5, simulator=True, record=record) as run:
        run.episode(seed=0, max_steps=8)
    recording = read_recording(record)
    assert recording.rate_hz == 5.0
    write_lerobot(recording, tmp_path / "set")
    assert json.loads((tmp_path / "set/meta/info.json").read_text())["fps"] == 5


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "set"])
def test_nothing_is_replaced(recording, tmp_path, name):
    if name != "run.csv":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'sami-rl[convert]'")
    write = {"run.csv": write_csv, "run.parquet": write_parquet, "set": write_lerobot}[name]
    (tmp_path / name).write_text("precious")
    with pytest.raises(SamiError, match="exists; choose another name"):
        write(recording, tmp_path / name)
    assert (tmp_path / name).read_text() == "precious"
