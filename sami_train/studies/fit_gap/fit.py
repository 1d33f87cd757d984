"""Fits a sim-to-real profile to a robot's log: every effect that the log identifies, with its uncertainty."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sami_runtime.errors import SamiError, quantity
from sami_runtime.gap.profile import GapProfile
from sami_train.studies import conjunction
from sami_train.studies.fit_gap import sensing
from sami_train.studies.fit_gap.response import (
    ActuatorResponse,
    Answer,
    answers,
    explained,
    fit_response,
    misfits_of,
    motions,
)
from sami_train.studies.fit_gap.trace import Log, Trace

LAG_ERROR = 0.3
"""Additional error of a lag [periods], because robots respond nonlinearly to commands; measured on known profiles."""
EXCITED = 0.05
"""Least standard deviation of a command that counts as excitation, as a fraction of the command's range."""
CHANGES, MOTIONS, MARGIN = 8, 40, 12.0
"""Fewest changes of the commands and fewest motions between readings that identify a delay; least difference in twice
the log likelihood to every other delay."""
HELD_OUT = 3
"""Every HELD_OUT-th episode is held out."""
NOISIER = 1.2
"""A signal has noise of its own if its deviation is more than this many times that of the reference."""
STILLNESS = 0.01
"""Largest motion before the first command that counts as rest, as a fraction of the deviation over an episode."""
BIAS_ERROR = 1e-4
"""Largest error that does not count as a bias, in the signal's unit."""
FEW_LOST = 0.005
"""Largest fraction of lost messages that does not count as dropout."""


@dataclass(frozen=True)
class FittedNumber:
    """One fitted number of the profile."""

    key: str
    """Key of the profile."""
    signal: str
    """Empty if the number applies to all signals."""
    estimate: sensing.Estimate
    unit: str
    by: str
    """The data that it was estimated from."""


@dataclass(frozen=True)
class FittedGap:
    """A sim-to-real profile fitted to a log, and its uncertainty."""

    profile: GapProfile
    estimates: tuple[FittedNumber, ...]
    unidentified: tuple[str, ...]
    """Effects that the log does not identify, a sentence each."""
    notes: tuple[str, ...]
    """Findings without an estimate, a sentence each."""
    checks: Mapping[str, Any]
    """How well a fit to some episodes explains the motions of held-out episodes; empty if there are too few."""
    names: tuple[str, ...]
    episodes: int


def fit_gap(log: Log, reference: Sequence[Trace]) -> FittedGap:
    """Return the profile that explains the differences between a robot's log and reference episodes of a simulator.

    The simulator's actuators and sensors are ideal.

    Raises:
        SamiError: The log has too little excitation to identify a delay, or commands move nothing in the reference.
    """
    signals = log.contract.observation
    same_as = sensing.copies(log.traces, signals)
    sensed = [signal for signal in signals if signal.name not in same_as]
    elements = [(f"{s.name}.{e}", s.name, column) for s in sensed for column, e in enumerate(s.elements)]
    motion_answers = answers(reference, elements)
    _require_answers(log, motion_answers)
    misfits = misfits_of(log.traces, motion_answers)
    response = fit_response(log.traces, motion_answers, misfits)
    if response.margin < MARGIN:
        raise SamiError(f"{_title(log)} does not separate one delay of its commands from another. {_advice(log)}")
    senses = {signal.name: _sensed(log, reference, signal.name) for signal in sensed}
    arrived = _arrived(log)
    numbers = [*_times(log, arrived, response), *(item for sense in senses.values() for item in sense.numbers)]
    profile: dict[str, Any] = {"same_as": same_as} if same_as else {}
    for item in numbers:
        span = _span(item)
        profile[item.key] = span if not item.signal else {**profile.get(item.key, {}), item.signal: span}
    unidentified = tuple(_unidentified(log, arrived, senses))
    notes = *(f"{name} always equals {source}: same_as." for name, source in same_as.items()), *_notes(log, response)
    checks = _checks(log, motion_answers, misfits)
    return FittedGap(GapProfile.of(profile), tuple(numbers), unidentified, notes, checks, log.names, len(log.traces))


class _Sense(NamedTuple):
    """The fitted sensor errors of one signal."""

    numbers: list[FittedNumber]
    noise_identified: bool
    bias: str
    """The biases of some of its elements, as text: a profile needs all elements; empty if none is known."""
    bias_identified: bool


class _Arrived(NamedTuple):
    """Signals whose messages arrive together."""

    names: list[str]
    spacing: float
    """Periods between their messages."""
    fit: sensing.Arrival | None
    """None if messages arrive less often than once a period, or never."""


def _times(log: Log, arrived: Sequence[_Arrived], response: ActuatorResponse) -> list[FittedNumber]:
    period, numbers = log.period, []

    def add(key: str, ends: Sequence[float], unit: str, by: str) -> None:
        numbers.append(FittedNumber(key, "", sensing.Estimate(*ends), unit, by))

    # A profile has one latency for all signals: take the longest.
    late = max((item.fit for item in arrived if item.fit), key=lambda fit: fit.latency[1], default=None)
    if late is not None:
        low, high = late.latency
        stamps = f"the stamps of {late.messages} messages"
        if high > 0.0:
            add("latency_s", (low * period, (low + high) / 2 * period, high * period), "s", stamps)
        if late.jitter[1] > 0.0:
            add("jitter_s", [periods * period for periods in late.jitter], "s", stamps)
        if late.dropout[1] > FEW_LOST:
            add("dropout", late.dropout, "share", stamps)
    by = f"the motion of {conjunction(list(dict.fromkeys(name.partition('.')[0] for name in response.elements)))}"
    if response.delay[2] > 0:
        add("action_latency_s", [periods * period for periods in response.delay], "s", by)
    low, lag, high = response.lag
    if low > LAG_ERROR:
        ends = (low - LAG_ERROR, lag, high + LAG_ERROR)
        add("actuator_lag_s", [periods * period for periods in ends], "s", by)
    return numbers


def _arrived(log: Log) -> list[_Arrived]:
    """Return the arrival of messages, once for all signals with the same time stamps."""
    groups: dict[bytes, list[str]] = {}
    for name in log.traces[0].measured_at:
        groups.setdefault(b"".join(trace.measured_at[name].tobytes() for trace in log.traces), []).append(name)
    arrived = []
    for names in groups.values():
        messages = [sensing.arrivals(trace, names[0]) for trace in log.traces]
        interval = sensing.spacing(log.traces, names[0])
        regular = interval == 1.0 and any(item.read.sum() for item in messages)
        arrived.append(_Arrived(names, interval, sensing.fit_arrival(messages) if regular else None))
    return arrived


def _sensed(log: Log, reference: Sequence[Trace], name: str) -> _Sense:
    """Fit noise, rounding and bias of a signal."""
    signal = next(declared for declared in log.contract.observation if declared.name == name)
    numbers, step = list[FittedNumber](), 0.0

    def add(key: str, ends: Iterable[float], by: str) -> None:
        numbers.append(FittedNumber(key, name, sensing.Estimate(*ends), signal.unit, by))

    sizes = [sensing.fit_step(log.traces, name, column) for column in range(signal.size)]
    detected = [size for size in sizes if size is not None]
    if detected and not any(sensing.fit_step(reference, name, column) for column in range(signal.size)):
        step = max(detected)
        add("quantisation", (min(detected), step, step), "all readings")
    noise, calm = (sensing.fit_noise(traces, name, log.rest) for traces in (log.traces, reference))
    deviation, reference_noise = 0.0, calm.deviation.value if calm else 0.0
    if noise is not None:
        deviation = noise.deviation.value
        hidden = bool(step) and deviation**2 < step**2 / 6.0
        noisy = noise.deviation.low > NOISIER * reference_noise and deviation > _negligible(log.traces, name)
        spread = max(trace.values[name].std(axis=0).max() for trace in log.traces)
        if noise.in_motion and (noisy or deviation > STILLNESS * spread):
            noise = None
        elif noisy and not hidden:
            other = reference_noise**2 + step**2 / 12.0
            ends = (float(np.sqrt(max(0.0, end**2 - other))) for end in noise.deviation)
            add("noise", ends, f"{noise.differences} differences at rest")
    biases = sensing.fit_bias(log.traces, signal, log.known_values, log.rest, deviation)
    if len(biases) < signal.size:
        parts = [f"{element} has {e.value:.4g} ({e.low:.4g} to {e.high:.4g})" for element, e in biases.items()]
        return _Sense(numbers, noise is not None, ", ".join(parts), False)
    low, high = min(error.low for error in biases.values()), max(error.high for error in biases.values())
    if max(-low, high) > sensing.SIGMAS * deviation / np.sqrt(len(log.traces)) + BIAS_ERROR:
        value = float(np.mean([error.value for error in biases.values()]))
        add("bias", (low, value, high), "known values at rest")
    return _Sense(numbers, noise is not None, "", True)


def _unidentified(log: Log, arrived: Sequence[_Arrived], senses: Mapping[str, _Sense]) -> Iterator[str]:
    """Yield the effects that the log does not identify, a sentence each."""
    yield "latency before a sensor's stamp, which counts as latency of commands"
    yield "stuck sensors, clock drift, gain errors, noise that grows with the value"
    fits = [item for item in arrived if item.fit]
    if len({fit.fit.latency for fit in fits if fit.fit}) > 1:
        latencies = [f"{conjunction(item.names)} {item.fit.latency[1] * log.period:.3g} s" for item in fits if item.fit]
        yield f"a latency for each signal ({'; '.join(latencies)}): all signals have the longest one"
    for item in arrived:
        if item.spacing != 1.0:
            yield f"the arrival of {conjunction(item.names)}: one every {item.spacing:g} periods, or without a stamp"
    if restless := [name for name, sense in senses.items() if not sense.noise_identified]:
        yield f"noise of {conjunction(restless)}: nothing rested for a few readings before the first command"
    if half := [sense.bias for sense in senses.values() if sense.bias]:
        yield f"the bias of single elements: {'; '.join(half)}; the others' true values at rest are unknown"
    if unknown := [name for name, sense in senses.items() if not (sense.bias or sense.bias_identified)]:
        yield f"the bias of {conjunction(unknown)}: their true values at rest are unknown (the limits' [known])"


def _notes(log: Log, response: ActuatorResponse) -> Iterator[str]:
    """Yield findings that a profile cannot express, a sentence each."""
    seconds = np.concatenate([np.diff(trace.times) for trace in log.traces])
    ticks = np.concatenate([np.diff(trace.ticks) for trace in log.traces])
    periods = seconds[ticks > 0] / ticks[ticks > 0]  # a loop faster than the policy has several ticks in a period
    low, middle, high = np.percentile(periods, [2.5, 50.0, 97.5])
    yield f"The measured period is {middle:.4g} s ({low:.4g} to {high:.4g}); the policy's is {log.period:.4g} s."
    yield f"Commands move the robot {response.gain:.2f} times as far as the reference."
    start, lag, end = response.lag
    if start <= LAG_ERROR < lag:
        yield f"The motions fit an actuator lag of 0 to {(end + LAG_ERROR) * log.period:.2g} s; the profile omits it."


def _negligible(traces: Sequence[Trace], name: str) -> float:
    """Return the largest noise that single precision may cause in a signal's values."""
    largest = max(float(np.abs(trace.values[name]).max()) for trace in traces)
    return 8.0 * float(np.spacing(np.float32(max(largest, 1e-6)))) + 1e-6


def _span(number: FittedNumber) -> float | list[float]:
    """Return a number in the form of a profile: a range if the ends of its interval differ."""
    low, value, high = (float(f"{end:.4g}") for end in number.estimate)
    if number.key == "quantisation" or low == high:
        return value
    return [low, min(high, 1.0) if number.key == "dropout" else high]


def _checks(log: Log, motion_answers: Sequence[Answer], misfits: np.ndarray) -> dict[str, Any]:
    """Return how well a fit to the other episodes explains the held-out ones; empty if there are too few episodes."""
    out = np.arange(len(log.traces)) % HELD_OUT == HELD_OUT - 1
    test_traces = [trace for trace, held_out in zip(log.traces, out, strict=True) if held_out]
    if not test_traces:
        return {}
    traces = [trace for trace, held_out in zip(log.traces, out, strict=True) if not held_out]
    response = fit_response(traces, motion_answers, misfits[~out])
    return {
        "episodes": len(test_traces),
        "delay_periods": response.delay[1],
        "motion_explained": explained(test_traces, motion_answers, response.delay[1], response.lag[1]),
        "motion_explained_without_gap": explained(test_traces, motion_answers, 0, 0.0),
    }


def require_excitation(log: Log) -> np.ndarray:
    """Return which elements of the action change enough for a fit, (A,) bool.

    Raises:
        SamiError: No element does; the message describes a motion that suffices.
    """
    action, commands = log.contract.action, np.concatenate([trace.executed for trace in log.traces])
    low, high = (np.array([np.nan if b is None else b for b in side], float) for side in (action.low, action.high))
    spread = np.where(np.isfinite(high - low), high - low, np.ptp(commands, axis=0) + 1e-12)
    steps = np.concatenate([np.abs(np.diff(trace.executed, axis=0)) for trace in log.traces])
    excited = (commands.std(axis=0) > EXCITED * spread) & ((steps > EXCITED * spread).sum(axis=0) >= CHANGES)
    if not excited.any():
        raise SamiError(f"{_title(log)} excites nothing: {conjunction(action.elements)} hardly change. {_advice(log)}")
    return np.asarray(excited)


def _require_answers(log: Log, motion_answers: Sequence[Answer]) -> None:
    """Raise SamiError if excited commands move nothing in the reference, or motions between readings are too few."""
    excited = require_excitation(log)
    answers = [answer for answer in motion_answers if (np.abs(answer.weights).sum(axis=0) > 0)[excited].any()]
    if not answers:
        raise SamiError(
            "in the reference no element of the observation is moved by the commands, so that nothing shows how late "
            "they are followed. Give a recording of the simulator with --reference, made by sami run --set excite=true."
        )
    count = sum(len(motions(trace, answers[0].signal, answers[0].column).changes) for trace in log.traces)
    if count < MOTIONS:
        raise SamiError(
            f"{_title(log)} has {count} motions between two readings in a row, and {MOTIONS} are the fewest that tell "
            f"a delay. {_advice(log)}"
        )


def _advice(log: Log) -> str:
    elements = conjunction(log.contract.action.elements)
    return (
        f"Record one in which {elements} step to both sides of the neutral action by a "
        "good share of their range, each for 1 to 4 periods, after half a second without motion, for some 10 episodes: "
        "sami run --set excite=true --record NAME.mcap does."
    )


def _title(log: Log) -> str:
    return log.names[0] if len(log.names) == 1 else f"the log of {len(log.names)} recordings"


def document_of(result: FittedGap) -> str:
    """Return the text of the profile's TOML file, which `GapProfile.load` reads."""
    episodes = quantity(result.episodes, "episode")
    lines = [
        f"# The sim-to-real profile that sami fit-gap estimated from {', '.join(result.names)}: {episodes}.",
        "# A range [low, high] is the 95 % interval, or the spread over episodes; each episode draws its own value.",
        *(f"# {line}" for line in (*summary_lines(result), *result.notes)),
        "",
    ]
    for key, value in result.profile.to_dict().items():
        for item in result.estimates:
            if item.key == key:
                low, middle, high = (f"{end:.3g}" for end in item.estimate)
                lines.append(f"# {item.signal or item.key}: {middle} {item.unit} ({low} to {high}), from {item.by}")
        lines += [f"{key} = {_toml(value)}", ""]
    lines.append("# The log does not show, or this file omits:")
    lines += [f"# - {sentence}" for sentence in result.unidentified]
    return "\n".join(lines) + "\n"


def summary_lines(result: FittedGap) -> list[str]:
    """Return sentences about the fit, and about how well it explains the held-out episodes."""
    lines = [] if result.profile.to_dict() else ["This log identifies no difference that a profile can express."]
    checks = result.checks
    if not checks:
        return [*lines, "Not validated: there are too few episodes to hold one out."]
    share = checks["motion_explained"]
    lines.append(
        f"Episodes held out: {checks['episodes']}. The fit to the others (a delay of {checks['delay_periods']} "
        f"periods) explains {share:.2f} of their motion, and no profile {checks['motion_explained_without_gap']:.2f}."
    )
    if share < 0.3:
        lines.append(
            "This share is low, so the numbers mean little: in this log the robot does not move as the reference does. "
            "Record an excitation (--set excite=true, one task: --fix); if the share stays low, use sami fit-robot."
        )
    return lines


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(item)}' for name, item in value.items())} }}"
    return json.dumps(value)
