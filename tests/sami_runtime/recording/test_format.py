"""Laws of the format: what a tick is in a recording follows from `StepRecord`, for every reader."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mcap")

from sami_runtime.loop.tick import Outcome, SectionTimes, StepRecord
from sami_runtime.recording.format import FIELDS, KINDS, SCHEMA, TICK, TYPES, message_of, recorded_step, tick_values
from sami_runtime.recording.reader import read_recording
from sami_runtime.recording.tables import rows
from sami_runtime.recording.topics import TICK_FIELDS, Schemas
from sami_runtime.recording.view import RunRows
from sami_runtime.session.telemetry import Phase, Reading

OLD = Path(__file__).parent / "version-1.mcap"


@pytest.fixture
def record():
    """A tick that has a value for everything that tools show."""
    reading = Reading(4, 0.5, Phase.SETTLED, 0.25, {"mass": 2.0}, 1.5, 0.75, True)
    return StepRecord(
        *(4, Outcome.ACTED, None, np.ones(2, np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)),
        info={"reward": -1.0},
        times=SectionTimes(0.1, 0.2, 0.3, 0.4),
        **{"reason": "why", "limited_by": ("rate x", "stop"), "time": 2.0, "age": {"a": 1.0, "b": 3.0}, "lag": 0.5},
        **{"passed": 2, "missed": 1, "telemetry": reading, "state": "abc"},
    )


def test_every_field_of_a_step_record_is_in_a_message_and_in_its_schema():
    assert {*FIELDS, "observation"} == {field.name for field in fields(StepRecord)}
    extra = {"extra", "swapped"}
    assert {*FIELDS} - extra | {"episode", "observation", "measured", "measured_by_signal"} == {*SCHEMA["properties"]}
    assert all(KINDS[TYPES[name]] is kind for name, kind in FIELDS.items())


def test_a_tick_comes_back_from_its_message(record):
    episode, result = recorded_step(message_of(3, record))
    assert episode == 3
    for name in ("step", "outcome", "reason", "limited_by", "time", "age", "lag", "passed", "missed", "telemetry"):
        expected = 0.0 if name == "age" else getattr(record, name)  # there is no age without an observation
        assert getattr(result, name) == expected, name


def test_tools_are_shown_every_number_and_text_of_a_tick(record):
    values = tick_values(3, record)
    assert values.keys() == TICK.keys()
    assert (values["episode"], values["age"], values["times.write"], values["info.reward"]) == (3, 3.0, 0.4, -1.0)
    assert (values["limited_by"], values["telemetry.phase"], values["telemetry.nearest"]) == (
        "rate x; stop",
        "settled",
        "mass 2",
    )


def test_topics_tables_and_the_viewer_show_them_by_the_same_names(record):
    pytest.importorskip("google.protobuf")
    recording = read_recording(OLD)
    (step,) = [step._replace(record=replace(step.record, telemetry=record.telemetry)) for step in recording.steps[:1]]
    (row,) = rows(replace(recording, steps=(step,)))
    assert set(TICK) <= {*row, "info.reward"}
    names = {field.name for field in Schemas().declare("sami.Tick", TICK_FIELDS).DESCRIPTOR.fields}
    assert names == {name.rpartition(".")[2] for name in TICK}
    hidden = {"time", "age", "passed", "alarm"}
    assert names - hidden <= set(RunRows(recording.contract).columns)
