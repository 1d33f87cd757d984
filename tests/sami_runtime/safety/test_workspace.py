"""Laws of the workspace: no action leads out of it, and one that leads nowhere out is not touched."""

from dataclasses import replace

import numpy as np
import pytest

from sami_runtime import FakeAdapter, Reading
from sami_runtime.errors import SamiError
from sami_runtime.model.atlas import Atlas
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.telemetry import Phase
from sami_runtime.signals import Moves
from tests.making.gates import PERIOD, drive, frame

SCALE = 0.05
LIMITS = {
    "workspace": {"position.x": [-0.5, 0.5], "position.y": [-0.2, 0.3]},
    "moves": {"fx": {"element": "position.x", "scale": SCALE}, "fy": {"element": "position.y", "scale": -SCALE}},
    "rest": 0.0,
}


@pytest.fixture
def boxed(gate):
    def new_gate(**limits):
        return gate(**{**LIMITS, **limits})

    return new_gate


def step(gate, position, proposed, now):
    """What is executed of a proposal at a position, and the limits that changed it."""
    assert gate.fault(frame(position, now), now) is None
    ruling = gate.propose(np.float32(proposed), now)
    result = gate.write(ruling)
    return result.action, gate.changed(ruling, result)


def test_an_action_that_leads_nowhere_out_is_not_touched(boxed):
    proposed = np.float32([0.7, -0.3])
    executed, limited = step(boxed(), (0.0, 0.0), proposed, 0.0)
    assert executed.tobytes() == proposed.tobytes()
    assert limited == ()


@pytest.mark.parametrize(
    ("position", "proposed", "expected", "limited"),
    [
        ((0.48, 0.0), (1.0, 0.0), (0.4, 0.0), ("workspace fx",)),
        ((-0.48, 0.0), (-1.0, 0.5), (-0.4, 0.5), ("workspace fx",)),
        ((0.0, 0.27), (0.0, -1.0), (0.0, -0.6), ("workspace fy",)),  # fy moves y the other way
        ((0.0, -0.17), (0.0, 1.0), (0.0, 0.6), ("workspace fy",)),
        ((0.5, 0.3), (1.0, -1.0), (0.0, 0.0), ("workspace fx", "workspace fy")),
        ((0.6, 0.0), (1.0, 0.0), (0.0, 0.0), ("workspace fx",)),  # outside already: it is not driven back
        ((0.6, 0.0), (-1.0, 0.0), (-1.0, 0.0), ()),  # but may go there
    ],
)
def test_an_action_that_leads_out_is_limited_to_what_leads_to_the_border(boxed, position, proposed, expected, limited):
    executed, names = step(boxed(), position, proposed, 0.0)
    np.testing.assert_allclose(executed, expected, atol=1e-6)
    assert names == limited


@pytest.mark.parametrize("rate", [None, 2.5, 12.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_robot_that_does_as_it_is_told_never_leaves_and_the_rate_is_kept(boxed, rate, seed):
    random = np.random.default_rng(seed)
    armed, position, last = boxed(rate=rate), np.zeros(2), np.zeros(2)
    targets = np.repeat(random.uniform(-1.5, 1.5, (20, 2)), 10, axis=0)
    for tick, target in enumerate(targets):
        executed, _ = step(armed, position, target, tick * PERIOD)
        position = position + SCALE * executed * (1, -1)
        assert (position <= np.array([0.5, 0.3]) + 1e-6).all()
        assert (position >= np.array([-0.5, -0.2]) - 1e-6).all()
        if rate is not None:
            assert (np.abs(executed - last) <= rate * PERIOD + 1e-6).all()
        last = executed


@pytest.mark.parametrize("limits", [{}, {"rate": 5.0}, {"rate": 5.0, "acceleration": 40.0}])
@pytest.mark.parametrize(("spacings", "beyond"), [((1.0, 0.5, 0.1), 0.0), ((1.0, 1.0, 3.0), 2.0)])
@pytest.mark.parametrize("seed", range(3))
def test_hostile_actions_lead_out_only_by_late_ticks(boxed, limits, spacings, beyond, seed):
    """As docs/reference/guards.md says, also if positions are old, missing or outside."""
    random = np.random.default_rng(seed)
    armed = boxed(**limits, out_of_bounds="act", max_age_s=1.0, stop_after=40)
    low, high, way = np.array([-0.5, -0.2]), np.array([0.5, 0.3]), SCALE * np.array([1.0, -1.0])
    place, applied, now = random.uniform(low - 0.2, high + 0.2), np.zeros(2), 0.0
    low, high, past = np.minimum(low, place), np.maximum(high, place), [(place, 0.0)]
    if "rate" in limits:  # from the full speed, a late tick also delays the braking
        beyond *= 3.0
    for _ in range(80):
        at = random.integers(len(past))
        (reading, stamp), past = past[at], past[at:][-2:]
        reading = np.where(random.random(2) < 0.2, np.nan, reading) if now else reading
        assert armed.fault(frame(reading, stamp), now) is None
        target = random.choice([-1e6, -1.0, 0.3, 1.0, 1e6], 2)
        applied = armed.write(armed.propose(np.float32(target), now)).action.astype(float)
        elapsed = random.choice(spacings)
        place, now = place + way * applied * elapsed, now + PERIOD * elapsed
        past.append((place, now))
        excess = np.maximum(place - high, low - place).max() / SCALE
        assert excess <= beyond + 1e-4


@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize("rate", [None, 2.5])
@pytest.mark.parametrize("share", [1, 4])
def test_late_positions_do_not_lead_out(gate, late, rate, share):
    """The actions since the measurement count: without a rate, three periods of latency led 0.15 m out."""
    armed = gate(**LIMITS, rate=rate, max_age_s=1.0, period=PERIOD / share)
    way = [0.0]
    for tick in range(80 * share):
        now, measured = tick * PERIOD / share, max(0, tick - late * share)
        if tick % share:
            ruling = armed.stand(now)
        else:
            assert armed.fault(frame((way[measured], 0.0), measured * PERIOD / share), now) is None
            ruling = armed.propose(np.float32([1.0, 0.0]), now)
        way.append(way[-1] + SCALE * float(armed.write(ruling).action[0]) / share)
    assert max(way) == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("share", [0.4, 0.8])
def test_the_last_action_moves_the_robot_on_while_the_policy_computes(boxed, share, every):
    """The way between a reading and its action did not count: 0.8 periods of inference led 0.04 m out."""
    armed, position, last, reading = boxed(max_age_s=1.0), 0.3, 0.0, (0.3, 0.0)
    for tick in range(40):
        now = tick * PERIOD
        reading = reading if tick % every else (position, now)
        assert armed.fault(frame((reading[0], 0.0), reading[1]), now) is None
        position += SCALE * last * share
        assert position == pytest.approx(min(position, 0.5), abs=1e-6)
        last = float(armed.write(armed.propose(np.float32([1.0, 0.0]), now + share * PERIOD)).action[0])
        position += SCALE * last * (1.0 - share)
    assert position == pytest.approx(0.5, abs=1e-6)


def test_at_1_khz_all_actions_since_a_late_position_count(gate):
    """The gate stored 64 writes, and stopped a loop of 1 kHz with positions 100 ms ago."""
    armed, period, way = gate(**LIMITS, max_age_s=0.12, period=0.001), 0.001, [0.0]
    for tick in range(1200):
        now, measured = tick * period, max(0, tick - 100)
        if tick % 40:
            ruling = armed.stand(now)
        else:
            assert armed.fault(frame((way[measured], 0.0), measured * period), now) is None
            ruling = armed.propose(np.float32([1.0, 0.0]), now)
        way.append(way[-1] + SCALE * float(armed.write(ruling).action[0]) * period / PERIOD)
    assert max(way) == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("by_signal_first", [True, False])
def test_a_stamp_of_a_signal_does_not_go_back_behind_that_of_an_observation_or_the_reverse(gate, by_signal_first):
    """Only stamps of one form were compared: a position of the past came after a newer one."""
    armed = gate(**LIMITS, max_age_s=1.0)
    whole, by_signal = frame((0.0, 0.0), 1.0), replace(frame((0.0, 0.0), 0.9), times={"position": 1.0})
    old = replace(frame((0.1, 0.0), 0.9), times=None if by_signal_first else {"position": 0.9})
    assert armed.fault(by_signal if by_signal_first else whole, 1.0) is None
    assert armed.fault(old, 1.04).startswith("order: ")


@pytest.mark.parametrize("stamped", [True, False])
def test_an_episode_without_end_stores_only_the_actions_since_the_last_position(gate, stamped):
    armed = gate(**LIMITS)
    for tick in range(200):
        now = tick * PERIOD
        assert armed.fault(frame((0.0, 0.0), max(0, tick - 2) * PERIOD), now if stamped else None) is None
        drive(armed, [(0.0, 0.0)], [now])
    assert len(armed._episode.workspace._commands) <= 4


@pytest.mark.parametrize("acceleration", [None, 50.0])
def test_a_gentle_rate_leaves_the_whole_rate_to_brake_at_the_border(make, acceleration):
    """At a tenth of the rate an action took ten times as long to end, and led 3 m out."""
    about = {"mean": ((0.0, 0.0),), "covariance": (((1.0, 0.0), (0.0, 1.0)),), "step": 1, "threshold": 1.0}
    atlas = Atlas(tasks=({},), slow=0.1, fast=0.1, false_alarm_rate=0.05, episodes=1, held_out=1, **about)
    adapt = {"time_to_adapt": {"steps": 999, "gentle": 0.1}, "rate": 2.0, "acceleration": acceleration}
    adapter = FakeAdapter(axes=2, limit=100.0)
    adapter.reset()
    armed = SafetyGate(adapter, make.contract_of(make.recurrent(), atlas=atlas), Limits(**LIMITS, **adapt))
    armed.begin(PERIOD)
    position, farthest = 0.0, 0.0
    for tick in range(60):
        if position > 0.3:
            armed.record_telemetry(Reading(tick, 0.0, Phase.READAPTING, score=2.0, alarm=True))
        position += SCALE * step(armed, (position, 0.0), (1.0, 0.0), tick * PERIOD)[0][0]
        farthest = max(farthest, position)
    assert farthest == pytest.approx(0.5, abs=1e-6)


def test_a_held_action_does_not_lead_out_either(boxed):
    armed = boxed(hold_ticks=9, stop_after=10)
    step(armed, (0.4, 0.0), (0.8, 0.0), 0.0)
    results = []
    for tick in range(1, 6):
        ruling = armed.hold("age: ...", tick * PERIOD)
        results.append((round(float(armed.write(ruling).action[0]), 6), ruling.limited_by))
    # 0.44 m, 0.48 m, and the border.
    assert results == [(0.8, ()), (0.4, ("workspace fx",)), (0.0, ("workspace fx",)), (0.0, ()), (0.0, ())]


def test_a_held_action_leads_on_for_as_long_as_the_loop_paused(boxed):
    """A process that is suspended for a while finds an old observation when it goes on: two periods were counted."""
    armed = boxed(hold_ticks=9, stop_after=10)
    step(armed, (0.3, 0.0), (0.8, 0.1), 0.0)
    assert armed.fault(frame((0.3, 0.0), 0.0), 8 * PERIOD).startswith("age: ")
    ruling = armed.hold("age: ...", 8 * PERIOD, 8)
    np.testing.assert_array_equal(armed.write(ruling).action, np.float32([0.0, 0.1]))
    assert ruling.limited_by == ("workspace fx",)  # it is at 0.62 m
    assert armed.command(np.float32([0.1, 0.1]), 9 * PERIOD).limited_by == ("workspace fx",)


def test_a_held_action_does_not_lead_out_where_the_position_is_not_finite_either(boxed):
    armed = boxed(hold_ticks=9, stop_after=10)
    step(armed, (0.4, 0.0), (0.8, 0.0), 0.0)
    results = []
    for tick in range(1, 6):
        armed.fault(frame((np.nan, 0.0), tick * PERIOD), tick * PERIOD)
        results.append(round(float(armed.write(armed.hold("refused: ...", tick * PERIOD)).action[0]), 6))
    assert results == [0.8, 0.4, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("stamped", "results"), [(True, [0.8, 0.8, 0.4, 0.0]), (False, [0.8] * 4)])
def test_an_observation_that_comes_again_does_not_undo_the_way_since(boxed, stamped, results):
    """A sensor slower than the policy repeats its measurement. Without stamps, each reading counts as a new one."""
    armed, repeated = boxed(), frame((0.4, 0.0), 0.0)
    actual = []
    for tick in range(4):
        assert armed.fault(repeated, tick * PERIOD if stamped else None) is None
        ruling = armed.propose(np.float32([0.8, 0.0]), tick * PERIOD)
        actual.append(round(float(armed.write(ruling).action[0]), 6))
    assert actual == results
    new = frame((0.4, 0.0), 3 * PERIOD)  # the robot did not move: an equal value counts if it was measured anew
    assert armed.fault(new, 4 * PERIOD) is None
    assert armed.propose(np.float32([0.8, 0.0]), 4 * PERIOD).limited_by == ()


def test_between_two_ticks_of_the_policy_an_action_moves_by_its_share_of_the_period(gate):
    armed = gate(period=PERIOD / 4, **LIMITS)
    step(armed, (0.46, 0.0), (1.0, 0.0), 0.0)  # 0.8 of it would lead to the border
    results = [float(armed.write(armed.stand(tick * PERIOD / 4)).action[0]) for tick in (1, 2, 3)]
    way, action, expected = 0.04, 0.8, []
    for _ in range(3):
        way -= SCALE * action / 4
        action = min(1.0, way / SCALE)
        expected.append(action)
    np.testing.assert_allclose(results, expected, rtol=1e-5)


def test_what_the_contract_says_counts_and_the_limits_before_it(make):
    moves = {"fx": Moves(element="position.x", scale=0.1)}
    signal = make.action_signal.model_copy(update={"moves": moves})
    contract = make.contract_of(make.recurrent(), action=signal)
    box = {"workspace": {"position.x": [-0.5, 0.5]}}
    assert Limits(**box).moves_of(contract) == moves
    Limits(**box).require_fit(contract)
    stricter = Limits(**box, moves={"fx": {"element": "position.x", "scale": 0.2}})
    assert stricter.moves_of(contract)["fx"].scale == 0.2


def test_without_a_good_observation_nothing_is_proposed(boxed):
    armed = boxed()
    with pytest.raises(
        SamiError, match=r"no valid value of position\.x, position\.y was seen, whose workspace is limited"
    ):
        armed.propose(np.float32([0, 0]), 0.0)
    assert armed.fault(frame([np.nan, 0], 0.0), 0.0) is None
    with pytest.raises(SamiError, match="no valid value"):
        armed.propose(np.float32([0, 0]), 0.0)


def test_a_new_episode_knows_nothing_of_the_last_one(boxed):
    armed = boxed()
    step(armed, (0.5, 0.0), (1.0, 0.0), 0.0)
    armed.begin(PERIOD)
    executed, _ = step(armed, (0.0, 0.0), (1.0, 0.0), 0.0)
    np.testing.assert_array_equal(executed, np.float32([1, 0]))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"workspace": {"position.x": [0, 1]}},
            "exactly one element of the action that moves it; declared as moving it: none",
        ),
        (
            {
                "workspace": LIMITS["workspace"],
                "moves": {n: {"element": "position.x", "scale": 1} for n in ("fx", "fy")},
            },
            "declared as moving it: fx and fy",
        ),
        ({**LIMITS, "low": 0.1, "rest": 0.5}, "workspace.position.x needs fx to be able to be 0 at the range's end"),
        (
            {"workspace": {"positon.x": [0, 1]}},
            "unknown element of an observation 'positon.x'. Did you mean 'position.x'?",
        ),
        (
            {"moves": {"dx": {"element": "position.x", "scale": 1}}},
            "unknown element of the action 'dx'. Valid: fx, fy.",
        ),
        ({"moves": {"fx": {"element": "position.z", "scale": 1}}}, "The limit moves.fx names it."),
    ],
)
def test_a_workspace_that_cannot_be_kept_is_refused(make, limits, message):
    with pytest.raises(SamiError) as caught:
        SafetyGate(None, make.contract_of(make.recurrent()), Limits(**limits))
    assert message in str(caught.value)


def test_a_long_pause_stores_no_more_writes_than_a_position_may_be_late(gate):
    """Each tick of a pause was stored: after ten minutes at 1 kHz, the first look took a quarter of a second."""
    armed, period = gate(**LIMITS, max_age_s=0.1, period=0.001), 0.001
    step(armed, (0.0, 0.0), (1.0, 0.0), 0.0)
    for tick in range(1, 1001):
        armed.write(armed.rest(tick * period))
    assert len(armed._episode.workspace._commands) == pytest.approx(0.1 / period, abs=2)
