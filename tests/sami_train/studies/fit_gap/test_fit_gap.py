"""Laws of fit-gap: a recording behind a known profile gives it back, and what a recording cannot tell is not told."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("mcap")

from sami_runtime.clock import ManualClock
from sami_runtime.errors import SamiError
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.excitation import Excitation
from sami_runtime.loop.pilot import Request
from sami_runtime.recording.reader import read_recording
from sami_runtime.run import Run
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session
from sami_runtime.signals import Signal
from sami_train.studies import conjunction
from sami_train.studies.fit_gap import fit
from sami_train.studies.fit_gap.fit import document_of, fit_gap, summary_lines
from sami_train.studies.fit_gap.sensing import copies
from sami_train.studies.fit_gap.trace import read_log
from tests.making.servo_arm import HOME, ServoArm
from tests.sami_runtime.conftest import Maker, contract_of

PERIOD = 0.04
VALUES = {"position.x": HOME[0], "position.y": HOME[1], "goal.x": 0.5}
FREE = {"low": (-9, -9), "high": (9, 9)}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    make = Maker(tmp_path_factory.mktemp("model"))
    position, goal = make.observation_signals
    return make.write(make.recurrent(), observation=(position.model_copy(update=FREE), goal))


class Still:
    """Commands that hardly change: nothing is excited."""

    def reset(self):
        """Nothing is kept."""

    def request(self, standing):
        """The same again."""
        return Request(command=np.zeros(2, np.float32))


def recorder(model, folder):
    """Return what records an excited robot with a sim-to-real profile."""

    def write(gap=None, episodes=10, steps=50, pilot=None, seed=0, **limits):
        session, clock = Session.load(model), ManualClock()
        path = folder / f"{len(list(folder.iterdir()))}.mcap"
        allowed = Limits(rest=0.0, max_age_s=np.inf, **limits)
        pilot = pilot or Excitation(session.contract, allowed, seed=seed)
        profile = None if gap is None else GapProfile.of(gap)
        robot = ServoArm(session.contract, clock)
        with Run(session, robot, clock, simulator=True, limits=allowed, gap=profile, pilot=pilot, record=path) as run:
            for episode in range(episodes):
                run.episode(seed=100 * seed + episode, max_steps=steps)
        return path

    return write


@pytest.fixture
def record(model, tmp_path):
    return recorder(model, tmp_path)


@pytest.fixture(scope="module")
def reference(model, tmp_path_factory):
    """The robot without a gap, as the simulator has it."""
    return read_log([recorder(model, tmp_path_factory.mktemp("reference"))(seed=7)]).traces


@pytest.fixture
def gap_fit(record, reference):
    """What is fitted to a robot with a sim-to-real profile."""

    def fit(gap=None, **options):
        return fit_gap(read_log([record(gap, **options)]), reference)

    return fit


def spans(gap_fit):
    """What was found, by key."""
    return {(item.key, item.signal): item.estimate for item in gap_fit.estimates}


def test_without_a_gap_nothing_is_found(gap_fit):
    fit = gap_fit(known=VALUES)
    assert fit.profile == GapProfile()
    assert fit.checks["motion_explained"] == pytest.approx(1.0, abs=0.01)
    first, held_out = summary_lines(fit)
    assert first == "This log identifies no difference that a profile can express."
    assert held_out.startswith("Episodes held out: ")
    copied = replace(fit, profile=GapProfile.of({"same_as": {"goal": "position"}}))
    assert summary_lines(copied)[0].startswith("Episodes held out: ")
    for share in (-28.44, 0.04):
        alien = summary_lines(replace(fit, checks={**fit.checks, "motion_explained": share}))
        assert f"explains {share} of their motion" in alien[1]
        assert "the robot does not move as the reference does. Record an excitation (--set excite=true," in alien[2]


@pytest.mark.parametrize(("delay", "lag"), [(0, 0.0), (4, 0.0), (0, 0.08), (2, 0.04)])
def test_a_delay_of_commands_is_exact_and_a_lag_within_a_hundredth_of_a_second(gap_fit, delay, lag):
    gap = {"action_latency_s": delay * PERIOD, "actuator_lag_s": lag, "noise": {"position": 0.003}}
    fit = gap_fit(gap)
    assert fit.profile.action_latency_s == pytest.approx(delay * PERIOD)
    estimate = spans(fit).get(("actuator_lag_s", ""))
    assert (0.0 if estimate is None else estimate.value) == pytest.approx(lag, abs=0.01)
    assert estimate is None or estimate.low <= lag <= estimate.high


def test_a_lag_that_the_motions_do_not_separate_from_none_is_no_finding(gap_fit, monkeypatch):
    response = fit.fit_response
    monkeypatch.setattr(fit, "fit_response", lambda *data: response(*data)._replace(lag=(0.2, 0.6, 0.8)))
    result = gap_fit()
    assert ("actuator_lag_s", "") not in spans(result)
    assert result.profile == GapProfile()
    assert "The motions fit an actuator lag of 0 to 0.044 s; the profile omits it." in result.notes


@pytest.mark.parametrize(("latency", "commands"), [(1, 0), (0, 1), (3, 2)])
def test_delays_of_observations_and_of_commands_are_told_apart_by_stamps(gap_fit, latency, commands):
    result = gap_fit({"latency_s": latency * PERIOD, "action_latency_s": commands * PERIOD}).profile
    assert (result.latency_s, result.action_latency_s) == pytest.approx((latency * PERIOD, commands * PERIOD))


@pytest.mark.parametrize("commands", [0, 2])
def test_a_first_tick_that_is_later_than_those_after_it_adds_no_delay(reference, model, tmp_path, commands):
    """Its code is not in the processor's cache: 20 to 45 microseconds were measured."""
    session, clock, path = Session.load(model), ManualClock(), tmp_path / "cold.mcap"
    limits = Limits(rest=0.0, max_age_s=np.inf)

    class Cold(Excitation):
        def request(self, standing):
            if not self._requests:
                clock.advance(1e-4)
            return super().request(standing)

    robot, gap = ServoArm(session.contract, clock), GapProfile(action_latency_s=commands * PERIOD)
    pilot = Cold(session.contract, limits)
    with Run(session, robot, clock, simulator=True, limits=limits, gap=gap, pilot=pilot, record=path) as run:
        for episode in range(8):
            run.episode(seed=episode, max_steps=50)
    assert fit_gap(read_log([path]), reference).profile.action_latency_s == pytest.approx(commands * PERIOD)


@pytest.mark.parametrize(("latency", "commands"), [(0, 2), (2, 0), (1, 1)])
def test_a_robot_that_stamps_what_it_is_asked_for_is_as_fresh_as_a_simulator_that_stamps_a_period_before(
    reference, model, tmp_path, latency, commands
):
    session, clock = Session.load(model), ManualClock()
    limits = Limits(rest=0.0, max_age_s=np.inf)
    robot = ServoArm(session.contract, clock, late=commands, real=True)
    gap = GapProfile(latency_s=latency * PERIOD)
    pilot, path = Excitation(session.contract, limits), tmp_path / "robot.mcap"
    with Run(session, robot, clock, limits=limits, gap=gap, pilot=pilot, record=path) as run:
        for episode in range(8):
            run.episode(seed=episode, max_steps=50)
    result = fit_gap(read_log([path]), reference).profile
    assert (result.latency_s, result.action_latency_s) == pytest.approx((latency * PERIOD, commands * PERIOD))
    assert result.dropout == result.actuator_lag_s == 0.0


@pytest.mark.parametrize("dropout", [0.1, 0.3])
def test_dropout_lies_within_its_interval(gap_fit, dropout):
    estimate = spans(gap_fit({"dropout": dropout, "latency_s": PERIOD}))["dropout", ""]
    assert estimate.value == pytest.approx(dropout, abs=0.05)
    assert estimate.low <= dropout <= estimate.high
    assert estimate.high - estimate.low < 0.12


def test_jitter_of_some_periods_is_found_beside_latency_and_dropout(gap_fit):
    result = spans(gap_fit({"latency_s": PERIOD, "jitter_s": 3 * PERIOD, "dropout": 0.1}, episodes=16))
    assert result["jitter_s", ""].value == pytest.approx(3 * PERIOD, abs=0.75 * PERIOD)
    assert result["latency_s", ""].value == pytest.approx(PERIOD, abs=0.5 * PERIOD)
    assert result["dropout", ""].value == pytest.approx(0.1, abs=0.06)


def test_a_latency_that_each_episode_draws_is_a_range(gap_fit):
    latency = gap_fit({"latency_s": (0.0, 2 * PERIOD)}).profile.latency_s
    assert latency == pytest.approx((0.0, 2 * PERIOD))


def test_a_delay_and_a_lag_that_each_episode_draws_are_ranges(gap_fit):
    assert gap_fit({"action_latency_s": (0.0, 2 * PERIOD)}).profile.action_latency_s == pytest.approx((0.0, 2 * PERIOD))
    low, high = gap_fit({"actuator_lag_s": (0.02, 0.12)}, episodes=16).profile.actuator_lag_s
    assert low == pytest.approx(0.02, abs=0.02)
    assert high == pytest.approx(0.12, abs=0.03)


@pytest.mark.parametrize("noise", [0.001, 0.005])
def test_noise_lies_within_its_interval_and_says_nothing_of_other_signals(gap_fit, noise):
    result = spans(gap_fit({"noise": {"position": noise}}))
    assert [name for key, name in result if key == "noise"] == ["position"]
    estimate = result["noise", "position"]
    assert estimate.value == pytest.approx(noise, rel=0.15)
    assert estimate.low <= noise <= estimate.high


def test_steps_of_rounding_are_exact(gap_fit):
    result = spans(gap_fit({"quantisation": {"position": 0.004}}))
    assert result["quantisation", "position"].value == pytest.approx(0.004, rel=1e-4)
    assert ("noise", "position") not in result


def test_a_bias_is_told_where_the_value_at_rest_is_known_whether_it_was_calibrated_or_not(record, gap_fit):
    gap = {"bias": {"position": 0.012}, "noise": {"position": 0.002}}
    calibrated = spans(gap_fit(gap, known=VALUES))["bias", "position"]
    assert calibrated.value == pytest.approx(0.012, abs=0.001)
    assert calibrated.low <= 0.012 <= calibrated.high
    log = read_log([record(gap)])
    raw = fit_gap(replace(log, known_values=VALUES), read_log([record(seed=7)]).traces)
    assert spans(raw)["bias", "position"].value == pytest.approx(0.012, abs=0.001)


def test_a_bias_that_each_episode_draws_is_a_range(gap_fit):
    low, high = gap_fit({"bias": {"position": (-0.02, 0.02)}}, known=VALUES).profile.bias["position"]
    assert -0.02 <= low < -0.01
    assert 0.01 < high <= 0.02


def test_what_is_not_known_is_said_and_not_guessed(gap_fit):
    gap = {"bias": {"position": 0.012}}
    result = gap_fit(gap)
    assert result.profile == GapProfile()
    assert (
        "the bias of position and goal: their true values at rest are unknown (the limits' [known])"
        in result.unidentified
    )
    half = gap_fit(gap, known={"position.x": HOME[0]})
    assert half.profile == GapProfile()
    assert any("position.x has 0.012" in report for report in half.unidentified)


def test_without_rest_noise_is_said_to_be_unknown(gap_fit):
    class Restless(Excitation):
        def request(self, standing):
            self._requests = max(self._requests, 12)
            return super().request(standing)

    pilot = Restless(contract_of(Maker.recurrent()), Limits(rest=0.0))
    fit = gap_fit({"noise": {"position": 0.004}, "action_latency_s": PERIOD}, pilot=pilot)
    assert fit.profile.action_latency_s == pytest.approx(PERIOD)
    assert ("noise", "position") not in spans(fit)
    assert "noise of position and goal: nothing rested for a few readings before the first command" in fit.unidentified


@pytest.mark.parametrize(
    ("noise", "speed", "identified"), [(0.004, 0.0, True), (0.004, 0.05, False), (0.0, 0.05, False)]
)
def test_motion_before_the_first_command_is_not_noise(record, reference, noise, speed, identified):
    log = read_log([record({"noise": {"position": noise}})])

    def falling(trace):
        motion = speed * np.cumsum(np.minimum(np.arange(len(trace.ticks)), 12))[:, None] * PERIOD  # a swing, a fall
        return replace(trace, values={**trace.values, "position": trace.values["position"] + motion})

    fit = fit_gap(replace(log, traces=tuple(map(falling, log.traces))), reference)
    assert (("noise", "position") in spans(fit)) == identified
    assert any(text.startswith("noise of position: nothing rested") for text in fit.unidentified) != identified


def test_a_log_that_excites_nothing_is_refused_and_told_which_motion_would_tell(gap_fit):
    with pytest.raises(SamiError, match=r"excites nothing: fx and fy hardly change\. Record one .* fx and fy step"):
        gap_fit({"action_latency_s": PERIOD}, pilot=Still())


def test_a_log_of_a_few_ticks_is_refused(gap_fit):
    with pytest.raises(
        SamiError, match=r"excites nothing|motions between two readings in a row, and 40 are the fewest"
    ):
        gap_fit({"action_latency_s": PERIOD}, episodes=1, steps=20)


def test_stamps_of_another_clock_are_refused(record):
    with pytest.raises(SamiError, match=r"position is stamped 1 s in the future\. Its clock is ahead"):
        read_log([record({"clock_offset_s": 1.0}, episodes=1)])


def test_recordings_of_one_robot_are_fitted_together_and_others_refused(record, make_other, gap_fit):
    first, second = record({"latency_s": PERIOD}, episodes=4), record({"latency_s": PERIOD}, episodes=4, seed=3)
    assert len(read_log([first, second]).traces) == 8
    with pytest.raises(SamiError, match="is of another robot or rate"):
        read_log([first, make_other])


@pytest.fixture
def make_other(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    make, clock = Maker(folder), ManualClock()
    session = Session.load(make.write(make.recurrent(), rate_hz=50.0))
    with Run(session, ServoArm(session.contract, clock), clock, simulator=True, record=folder / "o.mcap") as run:
        run.episode(seed=0)
    return folder / "o.mcap"


def test_the_document_that_is_written_is_the_profile_that_was_found(gap_fit, tmp_path):
    gap = {
        "latency_s": PERIOD,
        "action_latency_s": PERIOD,
        "actuator_lag_s": 0.05,
        "dropout": 0.1,
        "noise": {"position": 0.002},
        "bias": {"position": 0.01},
    }
    fit = gap_fit(gap, known=VALUES)
    path = tmp_path / "gap.toml"
    path.write_text(document_of(fit))
    assert GapProfile.load(path) == fit.profile
    assert set(fit.profile.to_dict()) == set(gap)
    assert "The log does not show" in path.read_text()
    assert fit.checks["episodes"] == 3
    assert fit.checks["motion_explained"] > fit.checks["motion_explained_without_gap"] + 0.3


def test_what_actuators_made_of_commands_is_not_looked_at(record):
    """A simulator tells it, a robot cannot."""
    path = record({"action_latency_s": PERIOD})
    log = read_log([path])
    steps = [step.record for step in read_recording(path).steps if step.episode == 0]
    assert "actuated" in steps[-1].info
    np.testing.assert_array_equal(log.traces[0].executed[:-1], [step.executed for step in steps][:-1])


def test_signals_with_one_sensor_are_found(record):
    log = read_log([record({"noise": {"position": 0.001}}, episodes=2)])
    for trace in log.traces:
        trace.values["twin"] = trace.values["position"]
    twin = Signal(**{**log.contract.observation[0].model_dump(), "name": "twin"})
    assert copies(log.traces, (*log.contract.observation, twin)) == {"twin": "position"}


def test_words_are_put_into_a_sentence():
    assert [conjunction(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_a_reading_that_is_not_finite_hides_no_noise(record, reference, monkeypatch):
    reads = iter(range(10_000))
    read = ServoArm.read

    def broken(arm):
        observation = read(arm)
        if next(reads) != 260:
            return observation
        return replace(observation, values={**observation.values, "position": np.full(2, np.nan, np.float32)})

    monkeypatch.setattr(ServoArm, "read", broken)
    fit = fit_gap(read_log([record({"noise": {"position": 0.003}})]), reference)
    assert spans(fit)["noise", "position"].value == pytest.approx(0.003, rel=0.2)
    assert fit.checks["motion_explained"] > 0.9
