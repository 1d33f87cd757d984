"""Fits the parameters of a robot's body by least squares, together with the initial state of each window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import SamiError, enumeration
from sami_train.studies.fit_gap.fit import require_excitation
from sami_train.studies.fit_gap.sensing import Estimate
from sami_train.studies.fit_gap.trace import Log
from sami_train.studies.fit_robot.body import Parameter, RobotBody
from sami_train.studies.fit_robot.windows import RecordedWindows, windows_of

Array = NDArray[np.float64]

Verdict = Literal["identified", "rough", "not identifiable"]

IDENTIFIED, ROUGH = 0.1, 0.5
"""Largest half width of the 95 % interval of an identified and of a rough parameter, as fractions of the parameter's
value."""
NEGLIGIBLE = 0.01
"""A parameter whose interval ends below this fraction of its scale counts as identified, too."""
CLOSE = {"bias": (0.005, 0.03), "delay": (0.001, 0.005)}
"""Half widths that suffice for an identified and for a rough bias [rad or m] or delay [s], however small the value."""
SMALL = 1e-5
"""Step of numerical derivatives, as a fraction of a parameter's scale. A larger step would suggest information that
does not exist: in directions that hardly affect the motion, first-order effects cancel, but curvatures do not."""
TURNS, TRIES, SETTLED = 25, 8, 0.05
"""Most steps of a fit, attempts at a step, and the decrease of the cost, made or predicted, below which a fit ends."""
ROUNDS = 3
"""Number of fits; each is weighted by the noise that the previous fit estimated."""
DELAYS_S = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07)
"""Candidate delays [s]; the first fit starts from the best one."""
START_FREEDOM = (0.2, 2.0)
"""Prior standard deviation of a window's initial positions [rad or m] and velocities [per s] about the readings."""


class FittedParameter(NamedTuple):
    """A parameter of the model, its estimate and its 95 % interval."""

    parameter: Parameter
    low: float
    value: float
    """Best fit, even if the parameter is not identifiable."""
    high: float
    verdict: Verdict

    @property
    def model_value(self) -> float:
        """Value in the fitted model: the nominal value if the parameter is not identifiable."""
        return self.parameter.nominal if self.verdict == "not identifiable" else self.value


@dataclass(frozen=True)
class FittedRobot:
    """The fitted parameters of a robot's body, and the errors on held-out windows."""

    parameters: tuple[FittedParameter, ...]
    replay: dict[str, tuple[Estimate, Estimate]]
    """RMS errors of the nominal and of the fitted model, as written, in held-out windows, by unit of the joints."""
    windows: tuple[int, int]
    """Number of windows that were fitted, and held out."""
    fixed: tuple[str, ...]
    """Joints that were not recorded, and are fixed."""


def fit_robot(body: RobotBody, log: Log) -> FittedRobot:
    """Fit the parameters of a body to recordings.

    Raises:
        SamiError: Commands hardly change, tasks differ, there are too few windows, or the simulation is unstable.
    """
    require_excitation(log)
    _require_one_task(log)
    width = len(body.joints) * (1 + body.velocities)
    windows, test = windows_of(log, body.columns, width, body.control)
    count = len(body.joints)
    positions = windows.readings[:, :, :count]
    speeds = np.ptp(positions, axis=1).max(axis=0) / (windows.period * (positions.shape[1] - 1))
    parameters = body.parameters(np.maximum(speeds, 0.1 * speeds.max()))
    problem = _Problem(body, windows, parameters)
    nominal = np.array([parameter.nominal for parameter in parameters])
    values, starts = problem.first_guess(), problem.starts
    for _ in range(ROUNDS):
        values, starts = problem.fit(values, starts)
        problem.take_noise(values, starts)
    deviations = problem.deviations(values, starts)
    sigmas = 1.96 + 2.6 / (len(windows) - 1)  # Student's t for a 95 % interval
    results = [
        _verdict(parameter, float(value), float(deviation), sigmas)
        for parameter, value, deviation in zip(parameters, values, deviations, strict=True)
    ]
    estimates = np.array([parameter.model_value for parameter in results])
    return FittedRobot(
        tuple(results), _replay(body, test, problem, nominal, estimates), (len(windows), len(test)), tuple(body.fixed)
    )


def _require_one_task(log: Log) -> None:
    differing = {name: values for name, values in log.tasks.items() if len(values) > 1}
    if differing:
        spans = enumeration([f"{name} ({min(values):.3g} to {max(values):.3g})" for name, values in differing.items()])
        raise SamiError(
            f"{', '.join(log.names)}: the recorded tasks differ in {spans}, and a fit describes one robot. Record one "
            f"task: add {' '.join(f'--fix {name}=VALUE' for name in differing)} to sami run."
        )


def _verdict(parameter: Parameter, value: float, deviation: float, sigmas: float) -> FittedParameter:
    reach = sigmas * deviation
    low, high = max(parameter.low, value - reach), min(parameter.high, value + reach)
    narrow, wide = CLOSE.get(parameter.field, (0.0, 0.0))
    verdict: Verdict = "not identifiable"
    negligible = parameter.low == 0.0 and high <= NEGLIGIBLE * parameter.scale
    if reach <= max(IDENTIFIED * abs(value), narrow) or negligible:
        verdict = "identified"
    elif reach <= max(ROUGH * abs(value), wide):
        verdict = "rough"
    return FittedParameter(parameter, low, value, high, verdict)


class _Problem:
    """The least-squares problem: residuals of windows, their derivatives, and a prior."""

    def __init__(self, body: RobotBody, windows: RecordedWindows, parameters: Sequence[Parameter]) -> None:
        self.body, self.windows, self.parameters = body, windows, parameters
        self.free = np.ones(len(parameters), bool)
        self._scales = np.array([parameter.scale for parameter in parameters])
        self._low, self._high = (np.array([getattr(item, end) for item in parameters]) for end in ("low", "high"))
        self._nominal = np.array([parameter.nominal for parameter in parameters])
        readings, count = windows.readings, len(body.joints)
        self.starts = np.zeros((len(windows), 2 * count))
        self.starts[:, : readings.shape[2]] = readings[:, 0]
        if readings.shape[2] == count:
            first, second, third = readings[:, 0], readings[:, 1], readings[:, 2]
            self.starts[:, count:] = (-3.0 * first + 4.0 * second - third) / (2.0 * windows.period)
        self._freedom = np.repeat(START_FREEDOM, count)
        self._least = 1e-6 * (readings.std(axis=(0, 1)) + 1e-3)
        self.noise = 1e4 * self._least
        """Standard deviation of each reading, (C,)."""

    def first_guess(self) -> Array:
        """Return the nominal values with the best candidate delay, (P,).

        Raises:
            SamiError: The simulation is unstable with every candidate.
        """
        late = np.array([parameter.field == "delay" for parameter in self.parameters])
        guesses = [np.where(late, delay, self._nominal) for delay in (*DELAYS_S, self._nominal[late][0])]
        costs = [self._cost(guess, self._residuals(guess, self.starts), self.starts) for guess in guesses]
        if not np.isfinite(min(costs)):
            raise SamiError(
                "the model's simulation blows up from where the robot was. Give it a smaller timestep, or check that "
                "the recording's joints have the model's zero and signs."
            )
        return guesses[int(np.argmin(costs))]

    def fit(self, values: Array, starts: Array) -> tuple[Array, Array]:
        """Improve values (P,) and starts (W, 2 n) by Levenberg-Marquardt steps, and return them."""
        damping = 1e-3
        residuals = self._residuals(values, starts)
        cost = self._cost(values, residuals, starts)
        for _ in range(TURNS):
            step, predicted = self._step(values, starts, residuals)
            if predicted < SETTLED:
                break
            for _ in range(TRIES):
                new_values, new_starts = step(damping)
                residuals = self._residuals(new_values, new_starts)
                new_cost = self._cost(new_values, residuals, new_starts)
                if new_cost < cost:
                    break
                damping *= 8.0
            else:
                return values, starts
            gain, damping = cost - new_cost, damping / 8.0
            values, starts, cost = new_values, new_starts, new_cost
            if gain < SETTLED:
                break
        return values, starts

    def take_noise(self, values: Array, starts: Array) -> None:
        """Set `noise` from the residuals of a fit."""
        residuals = self._residuals(values, starts) * self.noise
        count, ticks, columns = residuals.shape
        freedom = 1.0 - (2 * len(self.body.joints) + self.free.sum() / count) / (ticks * columns)
        self.noise = np.maximum(np.sqrt(np.square(residuals).mean(axis=(0, 1)) / max(freedom, 0.1)), self._least)

    def deviations(self, values: Array, starts: Array) -> Array:
        """Return the standard deviation of each parameter, (P,): the larger of two estimates.

        One assumes that residuals are independent noise. The other allows dependence within a window, as model errors
        cause it.
        """
        jacobian, residuals, _ = self._projected(values, starts, self._residuals(values, starts))
        inverse = np.linalg.inv(np.einsum("wmp,wmq->pq", jacobian, jacobian) + np.eye(len(values)))
        scores = np.einsum("wmp,wm->wp", jacobian, residuals)
        spread = inverse @ (scores.T @ scores) @ inverse * len(scores) / (len(scores) - 1)
        return np.sqrt(np.maximum(np.diag(inverse), np.diag(spread))) * self._scales

    def errors(self, values: Array) -> Array:
        """Fit only the starts to the windows, and return the errors of positions (W, L + 1, n)."""
        self.free[:] = False
        _, starts = self.fit(values, self.starts)
        return (self._residuals(values, starts) * self.noise)[:, :, : len(self.body.joints)]

    def _residuals(self, values: Array, starts: Array) -> Array:
        """Return residuals (W, L + 1, C), in standard deviations of the noise."""
        simulated = self.body.simulate(self.windows, values, starts)
        return (simulated[:, :, : len(self.noise)] - self.windows.readings) / self.noise

    def _cost(self, values: Array, residuals: Array, starts: Array) -> float:
        prior = np.square((values - self._nominal) / self._scales).sum()
        prior += np.square((starts - self.starts) / self._freedom).sum()
        cost = float(np.square(residuals).sum() + prior)
        return cost if np.isfinite(cost) else np.inf

    def _projected(self, values: Array, starts: Array, residuals: Array) -> tuple[Array, Array, Callable[..., Array]]:
        """Return derivatives by scaled parameters (W, M, P) and residuals (W, M), both without what starts explain.

        The third result is a function that returns the step of the starts (W, 2 n) for a step of the parameters (P,).
        """
        count = len(residuals)
        plain = residuals.reshape(count, -1)
        by_value = np.zeros((*plain.shape, len(values)))
        for number in np.flatnonzero(self.free).tolist():
            shifted = values.copy()
            by = SMALL * self._scales[number]
            shifted[number] += by if values[number] + by <= self._high[number] else -by
            change = self._residuals(shifted, starts).reshape(count, -1) - plain
            by_value[:, :, number] = change / (shifted[number] - values[number]) * self._scales[number]
        by_start = np.zeros((*plain.shape, starts.shape[1]))
        for number, freedom in enumerate(self._freedom):
            shifted = starts.copy()
            by = SMALL * freedom
            shifted[:, number] += by
            change = self._residuals(values, shifted).reshape(count, -1) - plain
            by_start[:, :, number] = change / by
        # Append the rows of the starts' prior.
        prior = np.broadcast_to(np.diag(1.0 / self._freedom), (count, *self._freedom.shape * 2))
        by_start = np.concatenate([by_start, prior], axis=1)
        by_value = np.concatenate([by_value, np.zeros((count, len(self._freedom), len(values)))], axis=1)
        whole = np.concatenate([plain, (starts - self.starts) / self._freedom], axis=1)
        basis, corner = np.linalg.qr(by_start)
        turned = basis.transpose(0, 2, 1)

        def starts_step(step: Array) -> Array:
            return np.asarray(-np.linalg.solve(corner, turned @ (whole + by_value @ step)[:, :, None])[:, :, 0])

        rest = (whole[:, :, None] - basis @ (turned @ whole[:, :, None]))[:, :, 0]
        return by_value - basis @ (turned @ by_value), rest, starts_step

    def _step(
        self, values: Array, starts: Array, residuals: Array
    ) -> tuple[Callable[[float], tuple[Array, Array]], float]:
        """Return a function that maps a damping to new values and starts, and the predicted decrease of the cost."""
        jacobian, rest, starts_step = self._projected(values, starts, residuals)
        matrix = np.einsum("wmp,wmq->pq", jacobian, jacobian) + np.eye(len(values))
        slope = np.einsum("wmp,wm->p", jacobian, rest) + (values - self._nominal) / self._scales

        def free_step(damping: float) -> Array:
            free, by = self.free.copy(), np.zeros(len(values))
            while free.any():  # fix parameters that would leave their bounds, and solve for the others again
                at = np.ix_(free, free)
                by[free] = -np.linalg.solve(matrix[at] + damping * np.diag(np.diag(matrix[at])), slope[free])
                new = np.clip(values + by * self._scales, self._low, self._high)
                beyond = free & (new != values + by * self._scales) & (new == values)
                by = (new - values) / self._scales
                if not beyond.any():
                    break
                free &= ~beyond
                by[~free] = 0.0
            return by

        def step(damping: float) -> tuple[Array, Array]:
            by = free_step(damping)
            return values + by * self._scales, starts + starts_step(by)

        of_starts = np.square(residuals).sum() + np.square((starts - self.starts) / self._freedom).sum()
        return step, float(of_starts - np.square(rest).sum() - slope @ free_step(0.0))


def _replay(
    body: RobotBody, test: RecordedWindows, problem: _Problem, nominal: Array, estimates: Array
) -> dict[str, tuple[Estimate, Estimate]]:
    """Return the errors of the nominal and of the fitted model in held-out windows, by unit."""
    squared_errors = []
    for values in (nominal, estimates):
        replay = _Problem(body, test, problem.parameters)
        replay.noise = problem.noise
        squared_errors.append(np.square(replay.errors(values)).mean(axis=1))
    draws = np.random.default_rng(0).integers(len(test), size=(1000, len(test)))
    units = np.array([parameter.unit for parameter in problem.parameters if parameter.field == "bias"])
    errors: dict[str, tuple[Estimate, Estimate]] = {}
    for unit in dict.fromkeys(units.tolist()):
        first, second = (squares[:, units == unit].mean(axis=1) for squares in squared_errors)
        errors[unit] = _rms(first, draws), _rms(second, draws)
    return errors


def _rms(squares: Array, draws: NDArray[np.intp]) -> Estimate:
    """Return the root of the mean of squares by window (W,), with its 95 % interval over drawn windows (draws, W)."""
    low, high = np.percentile(np.sqrt(squares[draws].mean(axis=1)), [2.5, 97.5]).tolist()
    return Estimate(low, float(np.sqrt(squares.mean())), high)
