"""An adapter whose sensors' constant errors are taken out: what the home pose tells is compared with what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.around import Around
from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, UnknownName
from sami_runtime.safety.limits import Known, elements_of
from sami_runtime.signals import Signal, finite_numbers, numbers_of

Float64 = NDArray[np.float64]

STILL_UNITS = ("m", "rad")
"""Units of signals that stand still while a robot rests, whether anything is known of them or not."""
STILL = Known(value=0.0).still
"""How far they may drift while it rests, where nothing is said of them, in these units."""
FEWEST = 3
"""Readings that show whether something moves."""
DOUBT = 6.0
"""Standard errors that a drift is beyond what is allowed before it is one: with ten readings, noise alone does that in
one of some thousand episodes."""


class Zeroed(Around):
    """Measures by how much known values are misread while the robot rests, and takes that out of every reading.

    It does so in `reset`, before an episode begins: `readings` of them, a period apart. What is not known is passed on
    as it is, to the last bit. `info["zeroed"]` tells the offsets, by element, at every write, so that recordings have
    them; what is recorded as observed is what the policy saw, without the offsets.

    Args:
        inner: The adapter whose sensors are wrong.
        known: By `SIGNAL.ELEMENT`, the value that it has after a reset.
        readings: How many readings the offset is the mean of, at least 3.
        clock: Keeps them a period apart, and stamps them: only new ones count. None where the world stands still while
            nothing is written, so that every reading is as new as another.
        period: Time between two readings [s].

    Raises:
        UnknownName: A known element is not among the adapter's.
    """

    def __init__(
        self,
        inner: Adapter,
        known: Mapping[str, Known],
        readings: int = 10,
        clock: Clock | None = None,
        period: float = 0.0,
    ) -> None:
        super().__init__(inner)
        self.offsets: dict[str, float] = {}
        """By element, what it is misread by in this episode, in its unit."""
        self._known, self._readings, self._clock, self._period = dict(known), max(FEWEST, readings), clock, period
        elements = elements_of(self.observation)
        for name in known:
            if name not in elements:
                raise UnknownName("element of an observation", name, elements, "It is said to be known.")
        self._signals = {name.partition(".")[0] for name in known}
        self._watched = [s for s in self.observation if s.name in self._signals or s.unit in STILL_UNITS]

    def reset(self, seed: int | None = None) -> None:
        """Begins an episode, and measures the offsets.

        Raises:
            AdapterError: The robot does not rest, a reading is missing or not finite, or an offset is implausible.
        """
        super().reset(seed)
        self.offsets = {}
        readings = self._at_rest()
        for signal in self._watched:
            self._require_rest(signal, readings[signal.name])
        for name, known in self._known.items():
            of, _, element = name.partition(".")
            column = next(signal for signal in self.observation if signal.name == of).elements.index(element)
            self.offsets[name] = self._offset(name, known, readings[of][:, column])

    def read(self) -> Observation:
        """Return what the adapter behind observes, without the offsets."""
        observation = self.observed()
        values = dict(observation.values)
        for signal in self.observation:
            if signal.name in self._signals and signal.name in values:
                values[signal.name] = self._corrected(signal, values[signal.name])
        return replace(observation, values=values)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,), and tell the offsets beside what was sent."""
        sent = self.sent(action)
        return Executed(sent.action, sent.done, {**sent.info, "zeroed": dict(self.offsets)})

    def _corrected(self, signal: Signal, value: NDArray[np.float32]) -> NDArray[np.float32]:
        offsets = np.array([self.offsets.get(f"{signal.name}.{element}", 0.0) for element in signal.elements])
        numbers = numbers_of(value)
        if not offsets.any() or numbers.shape != offsets.shape:
            return value  # one that is misshapen is named by whoever reads it
        kind = np.result_type(numbers, np.float32)  # integers would round the offset off
        return np.where(offsets != 0.0, numbers.astype(np.float64) - offsets, numbers).astype(kind)

    def _at_rest(self) -> dict[str, Float64]:
        """Return by watched signal what it read, (n, size); of a clock's readings only those that were new."""
        readings: dict[str, dict[float, Float64]] = {signal.name: {} for signal in self._watched}
        start_time = 0.0 if self._clock is None else self._clock.now()
        for number in range(self._readings):
            if self._clock is not None and number:
                self._clock.sleep_until(start_time + number * self._period)
            observation = self.observed()
            for signal in self._watched:
                value = finite_numbers(reading := observation.values.get(signal.name), signal.size)
                if value is None:
                    raise AdapterError(
                        f"{signal.name} was {reading} while its offset was measured at rest; expected "
                        f"{signal.size} finite numbers [{signal.unit}]. Correct the adapter's read()."
                    )
                stamp = float(number) if self._clock is None else observation.measured(signal.name)
                readings[signal.name].setdefault(stamp, value)
        for name in self._signals:
            if len(readings[name]) < FEWEST:
                raise AdapterError(
                    f"{name} gave {len(readings[name])} new readings in {self._readings} periods at rest, and {FEWEST} "
                    "are the fewest that show whether the robot rests. Check its sensor, or raise known_readings."
                )
        return {name: np.array(list(values.values())) for name, values in readings.items()}

    def _require_rest(self, signal: Signal, readings: Float64) -> None:
        """Refuse readings (n, size) that drift by more than noise does."""
        if len(readings) < FEWEST:
            return
        steps = np.arange(len(readings)) - (len(readings) - 1) / 2.0
        slope = steps @ readings / (steps @ steps)
        left = readings - readings.mean(axis=0) - np.outer(steps, slope)
        drift, variance = slope * (len(readings) - 1), (left**2).sum(axis=0) / (len(readings) - 2)
        deviation = np.sqrt(np.maximum(variance, variance.mean()))  # few readings tell an own one too low at times
        doubt = DOUBT * deviation * (len(readings) - 1) / np.sqrt(steps @ steps)
        for element, moved, unsure in zip(signal.elements, drift, doubt, strict=True):
            name = f"{signal.name}.{element}"
            still = self._known[name].still if name in self._known else STILL
            if abs(moved) > still + unsure:
                raise AdapterError(
                    f"the robot is not at rest: {name} moved by {moved:.3g} {signal.unit} in {len(readings)} readings "
                    f"before the episode, allowed are {still:g} (still). Let reset() return when everything stands "
                    "still."
                )

    def _offset(self, name: str, known: Known, readings: Float64) -> float:
        """Return the mean misreading of readings (n,) of one element."""
        offset = float(readings.mean()) - known.value
        error = float(readings.std(ddof=1)) / np.sqrt(len(readings))
        if error > known.still:
            raise AdapterError(
                f"{name} varies too much at rest: the mean of {len(readings)} readings is known within {error:.3g}, "
                f"allowed are {known.still:g} (still). Let the robot rest, or raise known_readings."
            )
        if abs(offset) > known.most:
            raise AdapterError(
                f"{name} reads {known.value + offset:.4g} at rest, {abs(offset):.3g} off its known value "
                f"{known.value:g}; at most {known.most:g} is taken for a sensor's bias (known.{name}.most). Check the "
                "home pose, the calibration and the known value."
            )
        return offset
