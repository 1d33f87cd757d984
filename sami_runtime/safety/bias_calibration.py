"""Sensor-bias calibration: an adapter measures constant sensor errors at the known home pose and subtracts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adapters.around import Around
from sami_runtime.adapters.base import Adapter, Executed, Observation
from sami_runtime.clock import Clock
from sami_runtime.errors import AdapterError, require_known
from sami_runtime.safety.limits import KnownValue, elements_of
from sami_runtime.signals import Signal, finite_numbers, numbers_of

Float64 = NDArray[np.float64]

STILL_UNITS = ("m", "rad")
"""Units of signals that must not change while a robot rests, even if their values are not in `known`."""
STILL = KnownValue(value=0.0).still
"""Largest drift of such signals at rest, if their values are not in `known`; in their units."""
FEWEST = 3
"""Fewest readings from which a drift can be estimated."""
DOUBT = 6.0
"""A drift must exceed its limit by this many standard errors to count: with ten readings, noise alone does so in about
one of some thousand episodes."""


class BiasCalibration(Around):
    """Measures the biases of sensors while the robot rests at known values, and subtracts them from every reading.

    `reset` measures them before an episode begins, as the mean over `readings` readings, a period apart. Elements that
    are not in `known_values` stay bit-equal. Every write reports the biases by element in `info["zeroed"]`, and so
    recordings contain them; recorded observations are those that the policy got, after the subtraction.

    Args:
        inner: The adapter whose sensors have a bias.
        known_values: True values after a reset, by `SIGNAL.ELEMENT`.
        readings: Number of readings, at least 3.
        clock: Keeps the readings a period apart; only readings with a new stamp count. None for a simulator that waits
            for the next write: then every reading counts.
        period: Time between two readings [s].

    Raises:
        UnknownName: A known element is not among the adapter's.
    """

    def __init__(
        self,
        inner: Adapter,
        known_values: Mapping[str, KnownValue],
        readings: int = 10,
        clock: Clock | None = None,
        period: float = 0.0,
    ) -> None:
        super().__init__(inner)
        self.offsets: dict[str, float] = {}
        """Biases in this episode by `SIGNAL.ELEMENT`, in the element's unit."""
        self._known_values, self._readings, self._clock, self._period = (
            dict(known_values),
            max(FEWEST, readings),
            clock,
            period,
        )
        elements = elements_of(self.observation)
        require_known("element of an observation", known_values, elements, "The limit known names it.")
        self._signals = {name.partition(".")[0] for name in known_values}
        self._watched = [s for s in self.observation if s.name in self._signals or s.unit in STILL_UNITS]

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode, and measure the biases.

        Raises:
            AdapterError: The robot does not rest, a reading is missing or not finite, or a bias is implausibly large.
        """
        super().reset(seed)
        self.offsets = {}
        readings = self._at_rest()
        for signal in self._watched:
            self._require_rest(signal, readings[signal.name])
        for name, entry in self._known_values.items():
            of, _, element = name.partition(".")
            column = next(signal for signal in self.observation if signal.name == of).elements.index(element)
            self.offsets[name] = self._offset(name, entry, readings[of][:, column])

    def read(self) -> Observation:
        """Return the inner adapter's observation, with the biases subtracted."""
        observation = self.read_inner()
        values = dict(observation.values)
        for signal in self.observation:
            if signal.name in self._signals and signal.name in values:
                values[signal.name] = self._corrected(signal, values[signal.name])
        return replace(observation, values=values)

    def write(self, action: NDArray[np.float32]) -> Executed:
        """Send an action (A,), and return what was sent, with the biases in `info`."""
        result = self.write_inner(action)
        return Executed(result.action, result.done, {**result.info, "zeroed": dict(self.offsets)})

    def _corrected(self, signal: Signal, value: NDArray[np.float32]) -> NDArray[np.float32]:
        offsets = np.array([self.offsets.get(f"{signal.name}.{element}", 0.0) for element in signal.elements])
        numbers = numbers_of(value)
        if not offsets.any() or numbers.shape != offsets.shape:
            return value  # the session reports a wrong shape
        kind = np.result_type(numbers, np.float32)  # an integer type would round the bias
        return np.where(offsets != 0.0, numbers.astype(np.float64) - offsets, numbers).astype(kind)

    def _at_rest(self) -> dict[str, Float64]:
        """Return the readings (n, size) of each watched signal at rest; with a clock, only those with a new stamp."""
        readings: dict[str, dict[float, Float64]] = {signal.name: {} for signal in self._watched}
        start_time = 0.0 if self._clock is None else self._clock.now()
        for number in range(self._readings):
            if self._clock is not None and number:
                self._clock.sleep_until(start_time + number * self._period)
            observation = self.read_inner()
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
        """Raise AdapterError if readings (n, size) drift by more than `still` and noise explain."""
        if len(readings) < FEWEST:
            return
        steps = np.arange(len(readings)) - (len(readings) - 1) / 2.0
        slope = steps @ readings / (steps @ steps)
        residuals = readings - readings.mean(axis=0) - np.outer(steps, slope)
        drift, variance = slope * (len(readings) - 1), (residuals**2).sum(axis=0) / (len(readings) - 2)
        deviation = np.sqrt(np.maximum(variance, variance.mean()))  # few readings may underestimate one element's noise
        doubt = DOUBT * deviation * (len(readings) - 1) / np.sqrt(steps @ steps)
        for element, offset, unsure in zip(signal.elements, drift, doubt, strict=True):
            name = f"{signal.name}.{element}"
            still = self._known_values[name].still if name in self._known_values else STILL
            if abs(offset) > still + unsure:
                raise AdapterError(
                    f"the robot is not at rest: {name} moved by {offset:.3g} {signal.unit} in {len(readings)} readings "
                    f"before the episode, allowed are {still:g} (still). Let reset() return when everything stands "
                    "still."
                )

    def _offset(self, name: str, entry: KnownValue, readings: Float64) -> float:
        """Return the bias of one element from its readings (n,); raise AdapterError if it is too large or uncertain."""
        offset = float(readings.mean()) - entry.value
        error = float(readings.std(ddof=1)) / np.sqrt(len(readings))
        if error > entry.still:
            raise AdapterError(
                f"{name} varies too much at rest: the mean of {len(readings)} readings is known within {error:.3g}, "
                f"allowed are {entry.still:g} (still). Let the robot rest, or raise known_readings."
            )
        if abs(offset) > entry.most:
            raise AdapterError(
                f"{name} reads {entry.value + offset:.4g} at rest, {abs(offset):.3g} off its known value "
                f"{entry.value:g}; at most {entry.most:g} is taken for a sensor's bias (known.{name}.most). Check the "
                "home pose, the calibration and the known value."
            )
        return offset
