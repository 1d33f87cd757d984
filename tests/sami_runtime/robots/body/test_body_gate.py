"""The gate of a robot whose body has limits: what reaches robot, record and evidence log, and what is refused."""

from functools import partial

import numpy as np
import pytest

from sami_runtime import FakeAdapter, Limits, ManualClock, Observation, Run, SafetyStop, SamiError, Session, UnknownName
from sami_runtime.model.training_ranges import Spread, TrainingRanges
from sami_runtime.robots.body import BodyGate, BodySettings
from sami_runtime.robots.evidence import EvidenceLog, check_log
from sami_runtime.signals import Signal

pytestmark = pytest.mark.filterwarnings("ignore::sami_runtime.errors.SafetyWarning")


@pytest.fixture
def session(path):
    return Session.load(path)


class Joints(FakeAdapter):
    """An arm that observes its joints beside what the policy reads, and follows positions."""

    def __init__(self, clock, contract):
        super().__init__(contract.action.size, period=1.0 / contract.rate_hz, clock=clock)
        self.observation, self.action, size = contract.observation, contract.action, contract.action.size
        self.joints = Signal(
            name="joints",
            size=size,
            unit="rad",
            elements=contract.action.elements,
            low=(None,) * size,
            high=(None,) * size,
        )
        self.observation = (*self.observation, self.joints)
        self.at, self.clock = np.zeros(size, np.float32), clock

    def read(self):
        values = {signal.name: np.zeros(signal.size, np.float32) for signal in self.observation}
        return Observation({**values, "joints": self.at.copy()}, self.clock.now())

    def write(self, action):
        self.at = action.copy()
        return super().write(action)


def settings_of(contract, **changes):
    table = {"command": "joint_positions", "joints": contract.action.elements, "positions": "joints"}
    return BodySettings.of({**table, "velocity": {"most": 0.2}, **changes})


def run_of(session, clock, settings, **changes):
    return Run(session, Joints(clock, session.contract), clock, gate=partial(BodyGate, settings=settings), **changes)


@pytest.fixture
def elbow(make):
    """A function that makes the begun gate of one joint from -1 to 1 rad, and the time of a period."""

    def begin(command, limits=None, period=None, **table):
        joints = Signal(name="joints", size=1, unit="rad", elements=("elbow",), low=(None,), high=(None,))
        speeds = joints.model_copy(update={"name": "speeds", "unit": "rad/s"})
        action = speeds.model_copy(update={"name": "targets", "low": (-3.0,), "high": (3.0,)})
        contract = make.contract_of(make.memoryless(), observation=(joints, speeds), action=action)
        table |= {"command": command, "joints": ["elbow"], "positions": "joints", "velocities": "speeds"}
        adapter = FakeAdapter(axes=1, limit=100.0)
        adapter.observation = contract.observation
        adapter.reset()
        settings = BodySettings.of({"position": {"low": -1.0, "high": 1.0}, **table})
        gate, period = BodyGate(adapter, contract, limits, settings=settings), period or 1.0 / contract.rate_hz
        gate.begin(period)
        return gate, period

    return begin


def of_elbow(place, speed, stamp):
    return Observation({"joints": np.float32([place]), "speeds": np.float32([speed])}, stamp)


def test_no_step_that_reaches_the_robot_is_faster_and_the_log_says_why(session, tmp_path):
    clock, records = ManualClock(), []
    with EvidenceLog(tmp_path / "log.jsonl", {}) as log, run_of(session, clock, settings_of(session.contract)) as run:
        log.explanations = run.gate.explanations

        def watch(record):
            records.append(record)
            log(record)

        run.episode(seed=0, max_steps=20, on_step=watch)
    steps = np.diff([np.zeros(session.contract.action.size), *run.adapter.written], axis=0)
    assert abs(steps).max() <= 0.2 / session.contract.rate_hz * (1 + 1e-5)
    names = {name for record in records for name in record.limited_by}
    assert names <= {f"body velocity {element}" for element in session.contract.action.elements}
    [first, *_] = check_log(tmp_path / "log.jsonl").of_kind("intervention")
    assert first["what"] in names
    assert "rad was asked for, allowed are" in first["reason"]


@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize("acceleration", [None, 20.0])
def test_late_joints_do_not_lead_commanded_velocities_beyond_an_end(elbow, late, acceleration):
    """The commands since the measurement count: three periods of latency led 0.18 rad beyond."""
    gate, period = elbow("joint_velocities", **({"acceleration": acceleration} if acceleration else {}))
    way, speed = [(0.0, 0.0)], 0.0
    for tick in range(60):
        measured = max(0, tick - late)
        assert gate.fault(of_elbow(*way[measured], measured * period), tick * period) is None
        command = float(gate.write(gate.propose(np.float32([3.0]), tick * period)).action[0])
        most = np.inf if acceleration is None else acceleration * period
        speed += np.clip(command - speed, -most, most)
        way.append((way[-1][0] + period * speed, speed))
    assert max(place for place, _ in way) == pytest.approx(1.0, abs=0.03)
    assert max(place for place, _ in way) <= 1.0 + 1e-4


@pytest.mark.parametrize("late", [1, 5])
@pytest.mark.parametrize("gain", [1.0, 1e9], ids=["speeds_up_as_it_brakes", "speeds_up_at_once"])
def test_late_joints_that_brake_slowly_stay_within_their_ends_under_random_commands(make, late, gain):
    """At 5 rad/s^2 and 3 rad/s, joints measured one period ago went 0.12 rad beyond an end, and 0.43 at five."""
    count, rng, parts = 20, np.random.default_rng(0), 10
    names, free = tuple(f"joint{at}" for at in range(count)), (None,) * count
    joints = Signal(name="joints", size=count, unit="rad", elements=names, low=free, high=free)
    speeds = joints.model_copy(update={"name": "speeds", "unit": "rad/s"})
    action = speeds.model_copy(update={"name": "targets", "low": (-3.0,) * count, "high": (3.0,) * count})
    contract = make.contract_of(make.memoryless(), observation=(joints, speeds), action=action)
    table = {"command": "joint_velocities", "joints": names, "positions": "joints", "velocities": "speeds"}
    table |= {"position": {"low": -1.0, "high": 1.0}, "acceleration": 5.0}
    adapter, period = FakeAdapter(axes=count, limit=100.0), 1.0 / contract.rate_hz
    adapter.observation = contract.observation
    adapter.reset()
    gate = BodyGate(adapter, contract, Limits(max_age_s=1.0), settings=BodySettings.of(table))
    gate.begin(period)
    place, speed, target = np.zeros(count), np.zeros(count), np.full(count, 3.0)
    states, furthest = [(place, speed)], 0.0
    for tick in range(150):
        measured = max(0, tick - late)
        values = dict(zip(("joints", "speeds"), states[measured], strict=True))
        assert gate.fault(Observation(values, measured * period), tick * period) is None
        target = np.where(rng.random(count) < 0.1, rng.choice([-3.0, 3.0], count), target)
        command = gate.write(gate.propose(target.astype(np.float32), tick * period)).action
        for _ in range(parts):
            change = command - speed
            most = 5.0 * period / parts * np.where(speed * change < 0, 1.0, gain)
            before, speed = speed, speed + change.clip(-most, most)
            place = place + period / parts * (before + speed) / 2
            furthest = max(furthest, abs(place).max())
        states.append((place, speed))
    assert 0.95 < furthest <= 1.0 + 1e-3


@pytest.mark.parametrize("late", [60, 100])
def test_at_1_khz_all_commands_since_late_joints_count(elbow, late):
    """The gate stored 64, and stopped a loop with joints 100 ms ago; of a pause, it stored all."""
    gate, _ = elbow("joint_velocities", Limits(max_age_s=0.2, rest=0.0), 0.001)
    way = [0.0]
    for tick in range(1200):
        now, measured = tick / 1000, max(0, tick - late)
        if tick % 40 == 0:
            assert gate.fault(of_elbow(way[measured], 0.0, measured / 1000), now) is None
            ruling = gate.propose(np.float32([3.0]), now)
        else:
            ruling = gate.stand(now)
        way.append(way[-1] + float(gate.write(ruling).action[0]) / 1000)
    assert 0.99 < max(way) <= 1.0 + 1e-4
    for tick in range(1200, 2400):
        gate.write(gate.rest(tick / 1000))
    assert len(gate._commands) == pytest.approx(200, abs=2)


def test_the_step_after_a_late_tick_is_no_longer_than_others(elbow):
    """It was twice as long, and a robot makes each step in one period: at twice the allowed speed."""
    gate, period = elbow("joint_positions", velocity={"most": 2.0})
    place, now = 0.0, 0.0
    for late in (1.0, 3.0, 1.0, 0.5):
        assert gate.fault(of_elbow(place, 0.0, now), now) is None
        step = float(gate.write(gate.propose(np.float32([0.9]), now)).action[0]) - place
        assert step == pytest.approx(2.0 * period, abs=1e-6)
        place, now = place + step, now + late * period
    assert gate.fault(of_elbow(place, 0.0, now), now) is None
    assert gate.propose(np.float32([0.9]), now).action[0] - place == pytest.approx(period, abs=1e-6)


def test_a_limit_that_stops_latches_the_gate_with_its_reason(session):
    settings = settings_of(session.contract, velocity={"most": 1e-4, "then": "stop"})
    with (
        run_of(session, ManualClock(), settings) as run,
        pytest.raises(SafetyStop, match=r"body velocity .* allowed are"),
    ):
        run.episode(seed=0, max_steps=20)
    assert run.adapter.written == []


def test_actions_are_mapped_to_joints_by_scale_and_offset(session):
    elements, clock = session.contract.action.elements, ManualClock()
    settings = settings_of(
        session.contract, scale=0.5, offset={elements[0]: 0.1}, velocity={}, position={"low": -0.05, "high": 0.12}
    )
    gate = BodyGate(Joints(clock, session.contract), session.contract, settings=settings)
    gate.begin(0.1)
    assert gate.fault(gate.adapter.read(), clock.now()) is None
    action = gate.propose(np.full(len(elements), 0.8, np.float32), clock.now()).action
    assert action == pytest.approx([0.04] + [0.24] * (len(elements) - 1))


@pytest.mark.parametrize("value", [[0.0, [1.0]], "0 0", ["0", "0"], {"joint1": 0.0}, None], ids=repr)
def test_joints_that_are_no_numbers_are_held(session, value):
    clock, contract = ManualClock(), session.contract
    gate = BodyGate(robot := Joints(clock, contract), contract, settings=settings_of(contract))
    gate.begin(0.1)
    observation = Observation({**robot.read().values, "joints": value}, clock.now())
    assert gate.fault(observation, clock.now()) == f"body: joints is {value}, expected {len(robot.at)} finite numbers"


def test_joints_that_are_not_finite_are_held(session):
    clock = ManualClock()
    gate = BodyGate(robot := Joints(clock, session.contract), session.contract, settings=settings_of(session.contract))
    gate.begin(0.1)
    robot.at[0] = np.nan
    assert gate.fault(robot.read(), clock.now()).startswith("body: joints is [nan")
    with pytest.raises(SamiError, match="no valid value of joints was seen"):
        gate.propose(np.zeros(len(robot.at), np.float32), clock.now())


def test_joints_that_the_policy_does_not_read_are_held_too_once_they_are_too_old(session):
    robot = Joints(clock := ManualClock(), session.contract)
    gate = BodyGate(robot, session.contract, settings=settings_of(session.contract))
    gate.begin(0.1)
    values = robot.read().values
    for age, oldest in ((0.1, None), (0.15, "age: joints was measured 0.15 s before now")):
        clock.advance(1.0)
        now = clock.now()
        fault = gate.fault(Observation(values, now - age, {**dict.fromkeys(values, now), "joints": now - age}), now)
        assert fault is None if oldest is None else fault.startswith(oldest)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "angles"}, "unknown signal of the joints 'angles'"),
        ({"joints": ["one"]}, "has [body] has 1 joints"),
        ({"elements": ["nobody"]}, "unknown element of the action 'nobody'"),
        ({"elements": ()}, "Name one for each"),
        ({"scale": 0.0}, "has a 0"),
        ({"scale": {"nobody": 1.0}}, "unknown element of the action 'nobody'"),
    ],
)
def test_what_does_not_fit_the_model_and_the_adapter_is_refused(session, changes, message):
    with pytest.raises((SamiError, UnknownName)) as refused:
        run_of(session, ManualClock(), settings_of(session.contract, **changes), limits=Limits())
    assert message.replace("has [body]", "and [body]") in str(refused.value)
    assert "\n" not in str(refused.value)


START = {"home": (0.0, 0.0), "start": {"within": 0.1}}


def test_a_policy_begins_only_where_it_may_and_is_stopped_with_the_reason_where_it_never_may(session, tmp_path):
    clock, settings = ManualClock(), settings_of(session.contract, **START)
    with EvidenceLog(tmp_path / "log.jsonl", {}) as log, run_of(session, clock, settings) as run:
        run.adapter.at[:] = 0.3
        with pytest.raises(
            SafetyStop, match=r"lastly: start: .* is at 0.3, and the policy takes over from -0.1 to 0.1"
        ):
            run.episode(seed=0, max_steps=20, on_step=log)
    assert run.adapter.written == []
    check = check_log(tmp_path / "log.jsonl")
    assert check.of_kind("intervention")[1]["what"] == "start"
    assert "the policy takes over from" in check.of_kind("intervention")[1]["reason"]


def test_a_policy_that_may_not_take_over_from_a_person_is_held_until_it_may(session):
    robot = Joints(clock := ManualClock(), session.contract)
    gate = BodyGate(robot, session.contract, settings=settings_of(session.contract, velocity={"most": 1e3}, **START))
    robot.reset()
    gate.begin(0.1)
    action = np.full(len(robot.at), 0.05, np.float32)
    rulings = []
    for place in (0.0, 0.3, 0.05):
        robot.at[:] = place
        clock.sleep_until(clock.now() + 0.1)
        assert gate.fault(robot.read(), clock.now()) is None
        rulings.append(gate.propose(action, clock.now()) if rulings else gate.command(action * 2, clock.now()))
        gate.write(rulings[-1])
    assert rulings[1].action.tolist() == rulings[0].action.tolist()
    assert rulings[1].reason.startswith("start: ")
    assert (rulings[2].action.tolist(), rulings[2].reason) == (action.tolist(), "")


def test_a_start_that_nothing_describes_is_refused(session):
    with pytest.raises(SamiError, match="no training range of joints"):
        run_of(session, ManualClock(), settings_of(session.contract, start={}))
    with pytest.raises(SamiError, match="home is not"):
        settings_of(session.contract, start={"within": 0.1})


def test_a_swap_to_a_model_with_no_place_to_begin_is_refused_and_the_next_episode_runs(make):
    def spread(signal):
        return Spread.of(np.full((2, signal.size), ((0.0,), (1.0,))))

    contract = make.contract_of(make.recurrent())
    begin = {signal.name: spread(signal) for signal in contract.observation}
    signals = {**begin, contract.action.name: spread(contract.action)}
    ranges = TrainingRanges(measured="by hand", steps=100, episodes=2, signals=signals, begin=begin)
    session, other = (
        Session.load(make.write(make.recurrent(), training_ranges=training)) for training in (ranges, None)
    )
    settings = settings_of(contract, positions="position", start={})
    with run_of(session, ManualClock(), settings) as run:
        with pytest.raises(SamiError, match=r"start of .body. has no within, and .* no training range of position"):
            run.swap(other)
        run.episode(seed=0, max_steps=5)
    assert run.session is session
