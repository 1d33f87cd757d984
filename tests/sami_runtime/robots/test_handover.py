"""The stages of a hand-over: their order, that nothing jumps, what refuses one, and where a pulled cable ends."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime import Limits, ManualClock, Observation, Run, SafetyStop, SamiError, Session, UnknownName
from sami_runtime.adapters.base import Executed
from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SignalError
from sami_runtime.loop.pilot import Ending, Request
from sami_runtime.robots.body import BodyGate, BodySettings
from sami_runtime.robots.evidence import EvidenceLog, check_log
from sami_runtime.robots.handover import HandoverSequence, HandoverSettings
from sami_runtime.robots.kit.motion import eased
from sami_runtime.signals import Signal

pytestmark = pytest.mark.filterwarnings("ignore::sami_runtime.errors.SafetyWarning")
LIMITS = {"rest": 0.0, "blend_in_s": 0.2, "stop_after": 5, "max_age_s": 0.2}
UP = {"at": {"dx": 0.04, "dy": 0.0, "dz": 0.25}, "seconds": 1.0, "within": 0.01}
DECLARED = {
    "stages": ["damp", "home", "up"],
    "recover": "up",
    "velocity": {"ee_velocity": 0.1},
    "wait_s": 1.0,
    "poses": {"up": UP},
}
WITHOUT_NUMBERS = {"ragged": [0.0, [1.0, 2.0]], "text": "0 0 0"}
STAGES = ["damp", "home", "up", "policy", "up", "damp"]
PERIOD = 0.04


@pytest.fixture(scope="module")
def session():
    return Session.load(shipped_models()["panda-satesac"])


class Hand:
    """A Panda's hand that follows, with joints of its own; a fault begins when somebody says so."""

    def __init__(self, clock, contract):
        joints = Signal(name="joints", size=2, unit="rad", elements=("one", "two"), low=(None,) * 2, high=(None,) * 2)
        self.observation, self.action, self.clock = (*contract.observation, joints), contract.action, clock
        self.at, self.velocity, self.joints = np.zeros(3), np.zeros(3), np.zeros(2)
        self.written, self.times, self.calls, self.cut, self.pulled_at = [], [], [], "", None
        self.reach = 0.03

    def reset(self, seed=None):
        self.calls.append("reset")
        self._require_line("reset")
        self.at, self.velocity = np.array([0.0384, 0.0, 0.1974]), np.zeros(3)

    def read(self):
        self._require_line("read")
        values = {signal.name: np.zeros(signal.size, np.float32) for signal in self.observation}
        values |= {"ee_position": self.at.astype(np.float32), "ee_velocity": self.velocity.astype(np.float32)}
        values |= {"joints": self.joints.astype(np.float32)}
        if self.cut == "nan":
            values["ee_position"] = np.full(3, np.nan, np.float32)
        if self.cut in WITHOUT_NUMBERS:
            values["ee_velocity"] = WITHOUT_NUMBERS[self.cut]
        return Observation(values, self.pulled_at if self.cut == "stale" else self.clock.now())

    def write(self, action):
        self._require_line("write")
        self.velocity = self.reach * action[:3].astype(np.float64) / PERIOD
        self.at = self.at + PERIOD * self.velocity
        self.written.append(action.copy())
        self.times.append(self.clock.now())
        return Executed(action)

    def stop(self):
        self.calls.append(("stop", len(self.written)))
        self.velocity = np.zeros(3)

    def close(self):
        pass

    def pull(self, cable):
        self.cut, self.pulled_at = cable, self.clock.now()

    def _require_line(self, end):
        if self.cut == end:
            raise OSError("the cable is out")


def run_of(session, declared=None, limits=None, body=None, listen=None, **changes):
    """A run with its hand-over, its hand, and the list of the changes of its stages."""
    clock = ManualClock()
    hand, allowed, handovers = Hand(clock, session.contract), Limits.of({**LIMITS, **(limits or {})}, "here"), []
    settings = HandoverSettings.of({**DECLARED, **(declared or {})})
    sequence = HandoverSequence(settings, hand, session.contract, allowed, body)

    def hear(change):
        handovers.append(change)
        if listen:
            listen(hand, change, len([item for item in handovers if item.after == change.after]))

    sequence.listen = hear
    unguarded = ("ranges", "ood", "frozen")
    options = {"limits": allowed, "unguarded": unguarded, "sequence": sequence, "enforce_timing": True, **changes}
    if body:
        options["gate"] = partial(BodyGate, settings=body)
    return Run(session, hand, clock, **options), hand, handovers


def test_a_way_begins_and_ends_at_rest_and_never_goes_back():
    shares = [eased(share) for share in np.linspace(-0.5, 1.5, 201)]
    assert (shares[0], shares[100], shares[-1]) == (0.0, 0.5, 1.0)
    assert min(np.diff(shares)) >= 0.0
    assert max(np.diff(shares)) <= 1.5 * 0.01 + 1e-9
    assert eased(1e-3) < 1e-5


def test_the_stages_follow_each_other_and_each_is_a_line_of_the_evidence_log(session, tmp_path):
    with EvidenceLog(tmp_path / "log.jsonl", {}) as log:
        run, hand, changes = run_of(session, listen=lambda hand, change, count: log.hand_over(change))
        with run:
            report = run.episode(seed=0, max_steps=10, on_step=log)
            log.conclude(report)
    assert [change.after for change in changes] == STAGES
    assert [change.before for change in changes] == ["", *STAGES[:-1]]
    assert {change.reason for change in changes} == {""}
    assert report.steps == 10
    assert hand.calls == [("stop", 0), "reset", ("stop", len(hand.written))]
    lines = check_log(tmp_path / "log.jsonl")
    assert [(line["from"], line["to"]) for line in lines.of_kind("hand-over")] == [
        (change.before, change.after) for change in changes
    ]
    assert "stage policy - up" in str(lines)
    assert hand.at == pytest.approx([0.04, 0.0, 0.25], abs=0.011)


def test_the_policy_begins_in_its_initial_state_whatever_was_driven_before(session):
    run, _, _ = run_of(session)
    records = []
    with run:
        run.episode(seed=0, max_steps=1, on_step=records.append)
    fresh = Session.load(shipped_models()["panda-satesac"])
    values = {signal.name: records[0].observation.values[signal.name] for signal in session.contract.observation}
    answer = fresh.step(values)
    assert answer.context.tobytes() == records[0].context.tobytes()
    assert answer.action.tobytes() == records[0].action.tobytes()


def test_nothing_jumps_where_stages_change_and_a_rate_is_held_throughout(session):
    marks = []
    for limits in ({}, {"rate": 2.0}):
        run, hand, _ = run_of(
            session, limits=limits, listen=lambda hand, change, count: marks.append(len(hand.written))
        )
        with run:
            run.episode(seed=0, max_steps=20)
        steps = abs(np.diff([np.zeros(4), *hand.written], axis=0)).max(axis=1)
        if limits:
            assert steps.max() <= 2.0 * PERIOD * (1 + 1e-5)
        else:
            changes = [steps[mark] for mark in marks if mark < len(steps)]
            assert max(changes) <= 2.0 * PERIOD / LIMITS["blend_in_s"] + 1e-6


@pytest.mark.parametrize("loop_hz", [None, 100.0])
@pytest.mark.parametrize("ending", [None, Ending.SUCCESS])
def test_stages_write_a_period_apart_also_where_they_change(session, loop_hz, ending):
    """A pose's last write and the policy's first came at once: a robot that makes a step at each made two."""
    pilot = SimpleNamespace(
        reset=lambda: None, request=lambda standing: Request(end=ending if len(hand.times) > 60 else None)
    )
    run, hand, _ = run_of(session, pilot=pilot, loop_hz=loop_hz)
    with run:
        run.episode(seed=0, max_steps=20)
    assert np.diff(hand.times) == pytest.approx(1.0 / (loop_hz or 25.0))


def fast(hand, change, count):
    if change.after == "home":
        hand.reset = lambda seed=None: setattr(hand, "velocity", np.array([0.3, 0.0, 0.0]))
        hand.at = np.array([0.0384, 0.0, 0.1974])


def stuck(hand, change, count):
    if change.after == "up":
        hand.reach = 0.0


def silent(hand, change, count):
    if change.after == "home":
        hand.pull("stale")
        hand.pulled_at -= 1.0


def move_joints(hand, change, count):
    hand.joints = np.array([0.5, 0.0])


@pytest.mark.parametrize(
    ("listen", "reason"),
    [
        (fast, r"home to up is refused: velocity: ee_velocity\.x is 0\.3 m/s, allowed are 0\.1"),
        (stuck, r"up to policy is refused: pose: what dz moves, of ee_position, is at 0\.\d+; 0\.25 within 0\.01"),
        (silent, "home to up is refused: age"),
    ],
)
def test_a_stage_that_may_not_begin_is_refused_with_its_reason_and_the_robot_is_damped(session, listen, reason):
    run, hand, changes = run_of(session, listen=listen)
    with run, pytest.raises(SafetyStop, match=reason):
        run.episode(seed=0, max_steps=20)
    assert changes[-1].after == "damp"
    assert "is refused" in changes[-1].reason
    assert "policy" not in [change.after for change in changes]
    assert hand.calls[-1] == ("stop", len(hand.written)), "nothing is written after it"
    with run, pytest.raises(SafetyStop, match=r"until rearm\(\), or a new start"):
        run.episode(seed=0)


def test_a_model_that_is_not_warm_in_time_does_not_take_over(session):
    run, _, changes = run_of(session, limits={"deadline_s": 1e-6})
    with run, pytest.raises(SafetyStop, match=r"up to policy is refused: warm: a step of the model takes"):
        run.episode(seed=0, max_steps=20)
    assert changes[-1].before == "up"


def test_joints_outside_the_start_envelope_refuse_the_policy_and_no_stage_before_it(session):
    body = BodySettings.of(
        {
            "command": "joint_positions",
            "joints": ("one", "two"),
            "positions": "joints",
            "elements": ("dx", "dy"),
            "home": (0.0, 0.0),
            "start": {"within": 0.1},
            "velocity": {"most": 1.0},
        }
    )
    run, hand, _ = run_of(
        session, {"stages": ["damp", "home"], "recover": "damp", "poses": {}}, body=body, listen=move_joints
    )
    with run, pytest.raises(SafetyStop, match=r"home to policy is refused: start: one is at 0\.5"):
        run.episode(seed=0, max_steps=20)
    assert hand.written == []


@pytest.mark.parametrize("cable", ["read", "write", "stale", "nan", *WITHOUT_NUMBERS])
@pytest.mark.parametrize("at", range(5))
def test_a_cable_that_is_pulled_in_any_stage_ends_in_a_stop_and_its_reason_is_logged(session, tmp_path, at, cable):
    """The stages in the order of STAGES; the second `up` is what follows the policy."""

    def pull(hand, change, count):
        log.hand_over(change)
        if change.after == STAGES[at] and count == 1 + STAGES[:at].count(STAGES[at]):
            hand.pull(cable)

    with EvidenceLog(tmp_path / "log.jsonl", {}) as log:
        run, hand, changes = run_of(session, listen=pull)
        with run, pytest.raises((SafetyStop, OSError, SignalError)) as stopped:
            run.episode(seed=0, max_steps=10, on_step=log)
    assert changes[-1].after == "damp"
    assert changes[-1].before in STAGES[at : at + 3]
    assert hand.calls[-1] == ("stop", len(hand.written)), "and nothing is written after it"
    assert abs(hand.velocity).max() == 0.0
    [*_, last] = check_log(tmp_path / "log.jsonl").of_kind("hand-over")
    assert last["to"] == "damp"
    assert last["reason"] == str(stopped.value)
    kinds = {"read": "cable is out", "write": "cable is out", "stale": "age", "nan": "finite|nan"}
    kinds |= dict.fromkeys(WITHOUT_NUMBERS, "ee_velocity")
    assert any(kind in last["reason"].lower() for kind in kinds[cable].split("|"))


class Ends:
    """A person who ends the run, or the episode, at the fifth tick."""

    def __init__(self, ending):
        self.ending, self.ticks = ending, 0

    def reset(self):
        self.ticks = 0

    def request(self, standing):
        self.ticks += 1
        return Request(end=self.ending if self.ticks == 5 else None)


@pytest.mark.parametrize("during", ["policy", "home"])
def test_a_robot_that_was_stopped_after_its_last_tick_or_on_its_way_home_is_not_moved_on(session, monkeypatch, during):
    def stop(self=None, standing=None):
        run.stop("somebody saw something")
        return Request(end=Ending.SUCCESS)

    monkeypatch.setattr(Hand, "home", stop if during == "home" else lambda hand: hand.calls.append("home"), False)
    person = Ends(Ending.SUCCESS)
    if during == "policy":
        monkeypatch.setattr(person, "request", lambda standing: stop() if hand.written else Request())
    run, hand, changes = run_of(session, {"recover": "home"}, pilot=person)
    with run, pytest.raises(SafetyStop, match="somebody saw something"):
        run.episode(seed=0, max_steps=20)
    assert "home" not in hand.calls
    assert changes[-1].before == during
    assert changes[-1].reason.startswith("somebody saw something")


@pytest.mark.parametrize(("ending", "recovers"), [(Ending.STOP, False), (Ending.SUCCESS, True)])
def test_a_robot_recovers_after_an_episode_and_not_where_a_person_ended_the_run(session, ending, recovers):
    run, _, changes = run_of(session, pilot=Ends(ending))
    with run:
        assert run.episode(seed=0, max_steps=20).ended is ending
    assert [change.after for change in changes[-2:]] == (["up", "damp"] if recovers else ["policy", "damp"])
    assert ("a person ended the run" in changes[-1].reason) is not recovers


def test_a_way_back_that_does_not_come_to_its_end_stops_the_robot_and_says_so(session):
    def jam(hand, change, count):
        if change.after == "up" and count == 2:
            hand.reach = 0.0
            hand.at[0] += 0.2

    run, hand, changes = run_of(session, listen=jam)
    with run, pytest.raises(SafetyStop, match=r"up did not come to its end: pose: what dx moves"):
        run.episode(seed=0, max_steps=5)
    assert changes[-1].after == "damp"
    assert run.gate.tripped
    assert hand.calls[-1] == ("stop", len(hand.written))


def test_a_model_that_the_poses_do_not_fit_cannot_take_over(session, tmp_path):
    run, *_ = run_of(session)
    document = session.contract.model_dump(mode="json", by_alias=True)
    document["action"]["moves"] = None
    other = Session.load(shipped_models()["panda-satesac"])
    other.contract = type(session.contract).model_validate(document)
    with pytest.raises(SamiError, match="the pose up names dx, and nothing says what that moves"):
        run.swap(other)
    assert run.session is session


def test_another_thread_stops_a_stage(session):
    def stop(hand, change, count):
        if change.after == "up":
            run.gate.trip("somebody saw something")

    run, hand, changes = run_of(session, listen=stop)
    with run, pytest.raises(SafetyStop, match="somebody saw something"):
        run.episode(seed=0, max_steps=20)
    assert hand.written == []
    assert changes[-1].reason.startswith("somebody saw something")


def test_a_pose_of_joints_goes_out_from_where_they_are_and_arrives(session):
    """Targets of position, and velocities; the elements of the body's joints."""
    for command, reach in (("joint_positions", None), ("joint_velocities", PERIOD)):
        table = {"command": command, "joints": ("one", "two"), "positions": "joints", "elements": ("dx", "dy")}
        table |= {"scale": 0.5, "offset": {"dx": 0.1}} | ({"velocities": "speeds"} if reach else {})
        body = BodySettings.of(table)
        declared = {"poses": {"up": {"at": {"dx": 0.3, "dy": -0.2}, "seconds": 1.0}}, "velocity": {}, "recover": "damp"}
        contract, clock = session.contract, ManualClock()
        hand, limits = Hand(clock, contract), Limits.of(LIMITS, "here")
        settings = HandoverSettings.of({**DECLARED, **declared})
        drive = HandoverSequence(settings, hand, contract, limits, body).require_fit(contract)["up"]
        hand.joints = np.array([-0.2, 0.1])
        drive.begin(0.0, hand.read(), None, 1)
        steps = []
        for _ in range(40):
            action = drive.action(hand.read(), clock.now())
            commanded = np.array([0.1, 0.0]) + 0.5 * action[:2]
            before, hand.joints = hand.joints, hand.joints + reach * commanded if reach else commanded
            steps.append(abs(hand.joints - before).max())
            clock.advance(PERIOD)
        assert hand.joints == pytest.approx([0.3, -0.2], abs=0.01)
        assert max(steps) <= 1.6 * 0.5 * PERIOD
        assert steps[0] < 0.01
        assert action[2:].tolist() == [0.0, 0.0], "the others rest"
        assert drive.fault(hand.read()) == ""


@pytest.mark.parametrize(
    ("declared", "limits", "message"),
    [
        ({"stage": []}, {}, "stage: unknown key 'stage'. Did you mean 'stages'?"),
        (
            {"poses": {"up": {"secnds": 1}}},
            {},
            "poses.up.secnds: unknown key 'secnds'. Did you mean 'seconds'? Valid: at, ",
        ),
        ({"stages": ["damp", "hom"]}, {}, "unknown stage 'hom'. Did you mean 'home'?"),
        ({"stages": ["damp"]}, {}, "exactly one of them is home or stand"),
        ({"stages": ["up", "home"]}, {}, "before home comes damp or nothing"),
        ({"stages": ["home", "up", "up"]}, {}, "stages names one twice"),
        ({"recover": "down"}, {}, "unknown stage 'down'"),
        ({"recover": "home"}, {}, "Hand has no home() that moves it there"),
        ({"poses": {"up": UP, "down": UP}}, {}, "no stage uses the pose down"),
        ({"poses": {"up": UP, "damp": UP}}, {}, "a pose is called damp, which is a stage already"),
        ({"poses": {"up": {"at": {}}}}, {}, "poses.up.at"),
        ({"poses": {"up": {"at": {"dx": float("nan")}}}}, {}, "poses.up.at.dx"),
        ({"poses": {"up": {"at": {"dq": 0.1}}}}, {}, "unknown element of the action 'dq'"),
        ({"poses": {"up": {"at": {"gripper": 0.1}}}}, {}, "names gripper, and nothing says what that moves"),
        ({"velocity": {"ee_velocty": 0.1}}, {}, "unknown signal 'ee_velocty'. Did you mean 'ee_velocity'?"),
        ({"velocity": {"ee_position": 0.1}}, {}, "whose unit is m: no speed"),
        ({}, {"blend_in_s": 0.0}, "needs limits with rest and blend_in_s"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_before_anything_moves(session, declared, limits, message):
    with pytest.raises((SamiError, UnknownName)) as refused:
        run_of(session, declared, limits)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


class Beats:
    """A watchdog of a run that records when it is beaten [s]."""

    name, stop_s, fired = "beats", 2.0, False

    def __init__(self):
        self.clock, self.times = None, []

    def beat(self):
        self.times.append(self.clock.now())

    def _ignore(self, *_):
        return None

    require_rate = rearm = begin = fault = stopping = end = fire = _ignore


def test_a_pose_beats_and_writes_as_often_as_the_loop(session):
    """A loop faster than the policy may have a watchdog that waits for less than a period of the policy."""
    dog = Beats()
    run, hand, changes = run_of(session, {"recover": "damp"}, loop_hz=100.0, watchdog=dog)
    dog.clock, hand.reach = hand.clock, hand.reach / 4  # it is written to four times as often
    with run:
        run.episode(seed=0, max_steps=3)
    assert [change.after for change in changes] == ["damp", "home", "up", "policy", "damp"]
    assert np.diff(dog.times).max() == pytest.approx(0.01)
    assert len(dog.times) == len(hand.written)
