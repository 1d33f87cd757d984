"""Laws of a person beside the loop: pauses, take-overs and ends, and what the policy knows of them."""

import numpy as np
import pytest

from sami_runtime import Ending, ManualClock, Request, SafetyGate, SamiError, Session, read_recording, run_episode
from sami_runtime.recording.replay import replay
from sami_runtime.run import Run
from sami_runtime.safety.limits import Limits


class Scripted:
    """Wants something at some ticks of the loop."""

    def __init__(self, **ticks):
        self.script = {int(tick.removeprefix("at")): request for tick, request in ticks.items()}
        self.standing, self.resets, self.tick = [], 0, -1

    def reset(self):
        self.resets, self.tick = self.resets + 1, -1

    def request(self, standing):
        self.tick += 1
        self.standing.append(standing)
        return self.script.get(self.tick, Request())


PAUSE = Request(pause=True)
PUSH = Request(command=np.float32([9.0, -0.25]))


@pytest.fixture
def session(path):
    return Session.load(path)


def run(session, robot, clock, pilot, limits=None, **options):
    records = []
    gate = SafetyGate(robot, session.contract, limits or Limits(rest=0.0))
    report = run_episode(session, robot, 0, clock=clock, gate=gate, pilot=pilot, on_step=records.append, **options)
    return report, records, [record.outcome.value for record in records]


def test_a_pause_rests_asks_nobody_and_takes_no_step_of_the_episode(session, arm):
    clock = ManualClock()
    robot, pilot = arm(clock), Scripted(at3=PAUSE, at4=PAUSE, at5=PAUSE)
    report, records, outcomes = run(session, robot, clock, pilot, max_steps=5)
    assert outcomes == ["acted"] * 3 + ["paused"] * 3 + ["acted"] * 2
    assert (report.steps, robot.reads, report.contexts.shape) == (5, 5, (5, 2))
    assert report.loop.missed == 0
    np.testing.assert_array_equal([record.executed for record in records[3:6]], np.zeros((3, 2)))
    assert len({record.state for record in records[4:6]}) == 1
    np.testing.assert_array_equal(pilot.standing[4], [0.0, 0.0])
    assert pilot.standing[0] is None
    assert (pilot.resets, report.ended, report.success) == (1, Ending.STEPS, None)


def test_a_pilot_that_returns_no_request_is_named_and_the_robot_stopped(session, arm):
    robot = arm(ManualClock())
    with pytest.raises(SamiError, match=r"Scripted\.request\(\) returned None\. Return a Request; Request\(\) lets"):
        run(session, robot, ManualClock(), Scripted(at3=None))
    assert (len(robot.written), robot.stops) == (3, 1)


def test_in_a_loop_that_is_faster_a_pause_begins_at_once_and_no_tick_of_the_policy_is_made_up_for(session, arm):
    clock = ManualClock()
    pilot = Scripted(**{f"at{tick}": PAUSE for tick in range(3, 11)})
    report, _, outcomes = run(session, arm(clock), clock, pilot, max_steps=3, loop_hz=100.0)
    assert (
        outcomes
        == ["acted", *["standing"] * 2, *["paused"] * 8, "standing", "acted", *["standing"] * 3, "acted"]
        + ["standing"] * 3
    )
    assert report.loop.missed == 0


def test_what_a_person_did_is_what_the_policy_reads_as_executed(session, policy, arm):
    """The policy goes on being asked: when the person hands back, it knows all that happened."""
    clock = ManualClock()
    robot, pilot = arm(clock), Scripted(at4=PUSH, at5=PUSH, at6=PUSH)
    report, records, outcomes = run(session, robot, clock, pilot)
    assert outcomes == ["acted"] * 4 + ["piloted"] * 3 + ["acted"] * 3
    np.testing.assert_array_equal([record.executed for record in records[4:7]], [[1.0, -0.25]] * 3)
    assert records[4].limited_by == ("bounds fx",)
    table = {name: np.array([r.observation.values[name] for r in records]) for name in ("position", "goal")}
    actions, contexts = policy.reference(table, np.array([record.executed for record in records]))
    np.testing.assert_allclose([record.action for record in records], actions, atol=1e-6)
    np.testing.assert_allclose(report.contexts, contexts, atol=1e-6)
    assert [record.telemetry.step for record in records] == list(range(10))


def test_with_a_bad_observation_a_person_does_not_drive_either(session, arm):
    clock = ManualClock()
    robot = arm(clock, nan_at_reads=[2])
    _, records, outcomes = run(session, robot, clock, Scripted(at2=PUSH), max_steps=4)
    assert outcomes == ["acted", "acted", "refused", "acted"]
    np.testing.assert_array_equal(records[2].executed, records[1].executed)


@pytest.mark.parametrize(
    ("ending", "success"),
    [(Ending.SUCCESS, True), (Ending.FAILURE, False), (Ending.REDO, None), (Ending.STOP, None)],
)
def test_a_person_ends_an_episode_before_anything_more_is_written(session, arm, tmp_path, ending, success):
    clock = ManualClock()
    robot, pilot = arm(clock), Scripted(at4=Request(end=ending))
    with Run(session, robot, clock, record=tmp_path / "r.mcap", pilot=pilot) as driving:
        report = driving.episode(0)
        assert (report.ended, report.success, report.steps, robot.writes, robot.stops) == (ending, success, 4, 4, 1)
        pilot.script.clear()
        assert driving.episode(0).ended is Ending.STEPS
        driving.conclude(Ending.STEPS, True)
    recording = read_recording(tmp_path / "r.mcap")
    assert recording.episodes == {0: (ending, success), 1: (Ending.STEPS, True)}
    assert replay(recording, Session.load(session.artifact.path)).same


def test_an_episode_that_ended_before_its_first_tick_says_nothing_of_the_one_before(session, arm, tmp_path):
    clock, pilot = ManualClock(), Scripted()
    with Run(session, arm(clock), clock, record=tmp_path / "r.mcap", pilot=pilot) as driving:
        driving.episode(0)
        pilot.script[0] = Request(end=Ending.STOP)
        report = driving.episode(0)
        driving.conclude(Ending.FAILURE, False)
    assert (report.ended, report.steps, report.contexts.shape) == (Ending.STOP, 0, (0, 2))
    assert read_recording(tmp_path / "r.mcap").episodes == {0: (Ending.STEPS, None)}


def test_what_the_world_says_of_success_is_recorded(session, arm, tmp_path):
    class Judge(arm):
        def write(self, action):
            result = super().write(action)
            return type(result)(result.action, self.writes % 3 == 0, {"is_success": np.bool_(self.writes == 6)})

    clock = ManualClock()
    with Run(session, Judge(clock), clock, record=tmp_path / "r.mcap") as driving:
        reports = [driving.episode(0) for _ in range(2)]
    assert [(report.ended, report.success) for report in reports] == [(Ending.WORLD, False), (Ending.WORLD, True)]
    recording = read_recording(tmp_path / "r.mcap")
    assert recording.episodes == {0: (Ending.WORLD, False), 1: (Ending.WORLD, True)}
    assert str(recording).endswith("; 1 of 2 succeeded")


def test_a_pause_without_a_rest_ends_with_what_to_do_and_the_robot_is_stopped(session, arm):
    clock = ManualClock()
    robot = arm(clock)
    with pytest.raises(SamiError, match=r"Set rest, such as rest = 0\.0"):
        run(session, robot, clock, Scripted(at2=PAUSE), Limits())
    assert robot.stops == 1
