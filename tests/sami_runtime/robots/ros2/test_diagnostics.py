"""What those hear who watch: gate, policy, command and topics, with a level that says whether all is well."""

from dataclasses import replace

import numpy as np
import pytest

from sami_runtime import Outcome, Phase, Reading, StepRecord, shipped_models
from sami_runtime.loop.tick import SectionTimes
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.ros2.diagnostics import diagnose, stopped
from sami_runtime.robots.ros2.messages import ERROR, OK, WARN, Numbers

ACTED = StepRecord(
    step=3,
    outcome=Outcome.ACTED,
    observation=None,
    action=np.zeros(4, np.float32),
    executed=np.float32([0.5, 0.0, -1.0, 0.25]),
    context=np.float32([0.1, -0.2]),
    info={},
    times=SectionTimes(0.0, 0.0, 0.0, 0.0),
    limited_by=("rate dx",),
    age=1.5,
    telemetry=Reading(3, 0.01, Phase.SETTLED, 0.02, {"mass": 5.0}, 1.2, 0.7, False),
)


@pytest.fixture(scope="module")
def contract():
    return read_artifact(shipped_models()["panda-satesac"]).contract


def report(contract, record, commands=None, live=True):
    diagnosis = diagnose(record, contract, {}, commands or {}, live, 12.0)
    assert (diagnosis.stamp, diagnosis.hardware) == (12.0, contract.name)
    return {status.name.removeprefix("sami: "): status for status in diagnosis.statuses}


def test_a_tick_that_went_well_is_told_whole(contract):
    message = report(contract, ACTED, {"/arm": Numbers(np.array([0.5, -1.0]))})
    assert {status.level for status in message.values()} == {OK}
    gate, policy = message["gate"].values, message["policy"].values
    assert gate["outcome"] == "acted"
    assert gate["tripped"] == "false"
    assert (gate["limited_by"], gate["age_periods"], gate["executed.dz"]) == ("rate dx", "1.500", "-1.00000")
    assert policy["phase"] == "settled"
    assert (policy["context"], policy["score"], policy["nearest"]) == ("0.1000, -0.2000", "0.7", "mass 5")
    assert (message["command"].message, message["command"].values) == ("sent", {"/arm": "0.50000, -1.00000"})


def test_a_dry_run_tells_what_would_be_sent(contract):
    message = report(contract, ACTED, {"/arm": Numbers(np.array([0.5]))}, live=False)
    assert message["command"].message == "would be sent"
    assert message["command"].values == {"/arm": "0.50000"}


def test_an_alarm_warns_and_says_of_what(contract):
    message = report(contract, replace(ACTED, telemetry=ACTED.telemetry._replace(alarm=True, score=1.4)))
    assert message["policy"].level == WARN
    assert "out of distribution" in message["policy"].message
    assert message["policy"].values["alarm"] == "True"


@pytest.mark.parametrize("outcome", [Outcome.HELD, Outcome.LATE, Outcome.REFUSED, Outcome.FALLBACK])
def test_a_tick_without_the_policy_warns_with_the_reason(contract, outcome):
    message = report(contract, replace(ACTED, outcome=outcome, reason="age: cube_position is 0.3 s old"))
    assert (message["gate"].level, message["gate"].message) == (WARN, "age: cube_position is 0.3 s old")


def test_a_gate_that_tripped_is_an_error(contract):
    record = replace(ACTED, outcome=Outcome.HELD, executed=None, limited_by=("stop",), reason="age: too old")
    message = report(contract, record)
    assert (message["gate"].level, message["gate"].message) == (ERROR, "stopped: age: too old")
    assert message["gate"].values["tripped"] == "true"


def test_a_policy_without_context_or_atlas_is_told_of_as_well(contract):
    bare = replace(ACTED, context=np.zeros(0, np.float32), telemetry=Reading(0, 0.0), age={"cube_position": 2.0})
    message = report(contract, bare)
    assert message["policy"].message == "no atlas"
    assert message["gate"].values["age_periods"] == "2.000"
    assert report(contract, replace(ACTED, telemetry=None))["policy"].values["context"] == "0.1000, -0.2000"


def test_the_end_is_told(contract):
    (status,) = stopped(contract, 1.0).statuses
    assert (status.name, status.message) == ("sami: gate", "stopped")
