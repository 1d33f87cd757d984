"""Robustness to the sim-to-real gap: a policy's score under one kind of gap at a time, by its severity. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.errors import SamiError, require_known
from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.evaluate import evaluate_gaps
from sami_train.evaluation.intervals import interval_of, scores_of_starts
from sami_train.evaluation.model_policy import Source
from sami_train.evaluation.results import Evaluation, OnTask

POSITIONS, SPEEDS = ("m", "rad"), ("m/s", "rad/s")


@dataclass(frozen=True)
class Kind:
    """One kind of gap, with everything else as in the simulator."""

    name: str
    unit: str
    """Unit of the severities; `"periods"` are those of the policy, and are shown in seconds."""
    severities: tuple[float, ...]
    profile: Callable[[EnvironmentSpec, float], Mapping[str, Any]]
    """Returns the values of the `GapProfile` of a severity."""

    def point(self, spec: EnvironmentSpec, severity: float) -> tuple[float, str, GapProfile]:
        """Return a severity with its unit, and its profile."""
        in_periods = self.unit == "periods"
        value = severity / spec.rate_hz if in_periods else severity
        shared = {"same_as": spec.same_sensor} if spec.same_sensor else {}
        return value, "s" if in_periods else self.unit, GapProfile.of({**shared, **self.profile(spec, value)})


def _measured(spec: EnvironmentSpec, units: Sequence[str]) -> list[str]:
    """Return the signals in these units, without goals and commands, which no sensor measures."""
    desired = None if spec.goal is None else spec.goal.desired
    measured = [signal for signal in spec.signals if not signal.command and signal.name not in spec.commands]
    return [s.name for s in measured if s.unit in units and spec.layout.columns(s.name) != desired]


def _on(key: str, units: Sequence[str], span: bool = False) -> Callable[[EnvironmentSpec, float], Mapping[str, Any]]:
    return lambda spec, s: {key: dict.fromkeys(_measured(spec, units), [-s, s] if span else s)}


STARTS = 50
"""Starts in each task: with fewer, random draws from a profile's ranges dominate the result."""
STUCK_FROM = 3
"""Period from which all sensors are stuck."""

KINDS = (
    Kind("latency", "periods", (1, 2, 4), lambda _, s: {"latency_s": s}),
    Kind("jitter", "periods", (1, 2, 4), lambda _, s: {"jitter_s": s}),
    Kind("dropout", "share", (0.1, 0.3, 0.6), lambda _, s: {"dropout": s}),
    Kind("noise of positions", "m or rad", (0.002, 0.005, 0.01, 0.02), _on("noise", POSITIONS)),
    Kind("noise of speeds", "m/s or rad/s", (0.05, 0.1, 0.2), _on("noise", SPEEDS)),
    Kind("bias of positions", "m or rad, +-", (0.005, 0.01, 0.02, 0.04), _on("bias", POSITIONS, span=True)),
    Kind("quantisation", "m or rad", (0.005, 0.01, 0.02), _on("quantisation", POSITIONS)),
    Kind(
        "stuck sensors",
        "periods",
        (2, 5, 10),
        lambda spec, s: {"stuck_at_s": STUCK_FROM / spec.rate_hz, "stuck_for_s": s},
    ),
    Kind("action latency", "periods", (1, 2, 3), lambda _, s: {"action_latency_s": s}),
    Kind("actuator lag", "periods", (0.5, 1, 2, 4), lambda _, s: {"actuator_lag_s": s}),
)
"""The kinds that `sweep` measures by default; not clock skew, which changes stamps, but no input of the policy."""


@dataclass(frozen=True)
class RobustnessPoint:
    """Evaluation of a policy with one profile."""

    kind: str
    """Name of the kind; empty for the evaluation without a profile."""
    severity: float
    unit: str
    gap: Mapping[str, Any]
    evaluation: Evaluation

    def score(self, task_set: str) -> tuple[float, tuple[float, float] | None]:
        """Return a set's score, and its 95 % interval over starts or None if that is unknown."""
        return self.evaluation.score(task_set), interval_of(self.evaluation, task_set)

    def tracking_error(self, task_set: str) -> float | None:
        """Return the mean tracking error, in `EnvironmentSpec.tracks`' unit; None if the task is no command."""
        if environment(self.evaluation.env).tracks is None:
            return None
        return float(np.mean([-(result.ret or 0.0) / result.steps for result in self.evaluation.of(task_set)]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        sets = {}
        for name in self.evaluation.sets:
            value, interval = self.score(name)
            sets[name] = {
                self.evaluation.measure.key: value,
                "interval": interval,
                "episodes": sum(result.episodes for result in self.evaluation.of(name)),
                "starts": len(scores_of_starts(self.evaluation, name)),
            }
            if (error := self.tracking_error(name)) is not None:
                sets[name]["tracking_error"] = error
        facts = {"kind": self.kind, "severity": self.severity, "unit": self.unit, "gap": dict(self.gap), "sets": sets}
        return facts | {"tasks": self.evaluation.to_dict()["tasks"]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], env: str) -> RobustnessPoint:
        """Return the point that `to_dict` wrote; scores of older files, without starts, have no interval.

        Raises:
            SamiError: a value is missing.
        """
        try:
            kind, severity, unit, gap = (values[key] for key in ("kind", "severity", "unit", "gap"))
            return cls(kind, severity, unit, gap, Evaluation.from_dict({"env": env, "tasks": values["tasks"]}))
        except (KeyError, TypeError) as error:
            raise SamiError(f"a point of the measurement lacks {error}; measure again with: sami robustness.") from None


def kinds(names: Sequence[str] | None = None) -> list[Kind]:
    """Return the kinds with these names, each once; all kinds if None.

    Raises:
        UnknownName: there is no such kind.
    """
    by_name = {kind.name: kind for kind in KINDS}
    require_known("kind of disturbance", names or (), by_name, "A profile is named NAME.toml or NAME.json.")
    return [by_name[name] for name in dict.fromkeys(by_name if names is None else names)]


def parts_of(gap: GapProfile) -> list[Kind]:
    """Return kinds with one severity, to measure what a profile costs: the whole profile, and each of its keys alone.

    Raises:
        SamiError: the profile is empty.
    """
    whole = gap.to_dict()
    shared = {"same_as": whole.pop("same_as")} if "same_as" in whole else {}
    single_parts = {key: {key: value} for key, value in whole.items() if key != "stuck_for_s"}
    if "stuck_for_s" in whole:  # has no effect without `stuck_at_s`
        single_parts["stuck_at_s"]["stuck_for_s"] = whole["stuck_for_s"]
    if not single_parts:
        raise SamiError("the profile is empty, so there is nothing to measure; give one with at least one key.")
    parts = {"the whole gap": whole}
    if len(single_parts) > 1:
        parts |= {f"{key} alone": part for key, part in single_parts.items()}
    return [_part(name, {**shared, **part}) for name, part in parts.items()]


def _part(name: str, profile: Mapping[str, Any]) -> Kind:
    return Kind(name, "of the profile", (1.0,), lambda spec, severity: profile)


def gaps_of(spec: EnvironmentSpec, kinds: Sequence[Kind]) -> list[GapProfile | None]:
    """Return the profiles that `sweep` evaluates, in order; None, without a profile, comes first."""
    return [None, *(profile for *_, profile in _points(spec, kinds))]


def _points(spec: EnvironmentSpec, kinds: Sequence[Kind]) -> list[tuple[Kind, float, str, GapProfile]]:
    return [(kind, *kind.point(spec, severity)) for kind in kinds for severity in kind.severities]


def sweep(
    source: Source,
    env: str,
    task_sets: Sequence[str],
    kinds: Sequence[Kind] = KINDS,
    episodes: int = STARTS,
    cores: int = 1,
    on_task: OnTask | None = None,
    keep: Path | None = None,
) -> list[RobustnessPoint]:
    """Evaluate a policy without a profile, then with each severity of each of `kinds`.

    The starts are the same for every point; a profile's random draws differ by start and by task. The other arguments
    are those of `evaluate_gaps`.
    """
    spec = environment(env)
    points = _points(spec, kinds)
    clean, *gapped = evaluate_gaps(source, env, task_sets, gaps_of(spec, kinds), episodes, cores, on_task, keep)
    return [
        RobustnessPoint("", 0.0, "", {}, clean),
        *(
            RobustnessPoint(kind.name, severity, unit, profile.to_dict(), evaluation)
            for (kind, severity, unit, profile), evaluation in zip(points, gapped, strict=True)
        ),
    ]
