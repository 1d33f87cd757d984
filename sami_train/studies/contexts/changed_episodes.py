"""Runs a model file in episodes whose dynamics change in the middle; the policy may be given another context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.shape_inference
from onnx.utils import Extractor

from sami_runtime.adapters.base import require_compatible
from sami_runtime.errors import CheckFailed, SamiError, require_known
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import Artifact, read_artifact
from sami_runtime.model.atlas import text_of
from sami_runtime.model.contract import ACTION, CONTEXT
from sami_runtime.model.lookahead import FRONT
from sami_runtime.model.probe import is_probe
from sami_runtime.session.inference import build
from sami_runtime.session.session import Session
from sami_train.envs.layout import flatten
from sami_train.envs.make import GappedEnv, make
from sami_train.envs.spec import EnvironmentSpec
from sami_train.envs.tasks import Crippled, Task, TaskError, TaskSpace, parse_value

CHANGEABLE = ("latency_s", "jitter_s", "dropout", "action_latency_s", "actuator_lag_s")
"""Keys of a sim-to-real profile that may change within an episode, see `Gap.change`."""
EXAMPLE = "mass=1:10,friction=0.1@5"
GRAMMAR = (
    f"write FEATURE=FROM:TO and FEATURE=VALUE, separated by commas, then @STEP, e.g. {EXAMPLE} or crippled=none:3@50"
)


class ChangeError(SamiError):
    """An invalid change of the dynamics."""


@dataclass(frozen=True)
class DynamicsChange:
    """The dynamics of an episode before and after a step."""

    before: Task
    after: Task
    step: int
    """Number of steps with the old dynamics; the next step is the first with the new ones."""
    gaps: tuple[GapProfile, GapProfile] | None = field(default=None, repr=False)
    """Sim-to-real profiles before and after the change; None for no profile."""

    @property
    def along(self) -> DynamicsChange:
        """The control without a change that has the new dynamics all along."""
        return DynamicsChange(self.after, self.after, self.step, self.gaps and (self.gaps[1], self.gaps[1]))

    @classmethod
    def parse(cls, text: str, space: TaskSpace, episode_steps: int) -> DynamicsChange:
        """Parse a change.

        >>> from sami_train.envs.panda.tasks import PANDA_TASKS
        >>> DynamicsChange.parse("mass=1:10,friction=0.1@5", PANDA_TASKS, 50)
        DynamicsChange(before={'mass': 1.0, 'friction': 0.1}, after={'mass': 10.0, 'friction': 0.1}, step=5)

        Args:
            text: each feature as `NAME=VALUE` or `NAME=OLD:NEW`, then the step. A plus joins crippled parts:
                `crippled=none:0+3@100`. A change to the same value is a control without a change.
            space: the environment's features.
            episode_steps: length of an episode [steps].

        Raises:
            ChangeError: the text is not a change, or the step is not within an episode.
            TaskError, UnknownName: a feature is unknown, missing or out of range.
            SamiError: a value of the sim-to-real profile is not valid.
        """
        features, at, step = text.rpartition("@")
        parts = [part.partition("=") for part in features.split(",")]
        if not at or not step.strip().isdecimal() or not all(equals for _, equals, _ in parts):
            raise ChangeError(f"{text!r} is no change of dynamics; {GRAMMAR}.")
        names = [name.strip() for name, _, _ in parts]
        if len(set(names)) < len(parts):
            raise ChangeError(f"{text!r} names a feature twice; {GRAMMAR}.")
        if not any(":" in values for _, _, values in parts):
            raise ChangeError(f"{text!r} changes nothing; {GRAMMAR}.")
        sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        gaps: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        valid = [*(feature.name for feature in space.features), *CHANGEABLE]
        require_known("feature or delay", [name for name in names if name != Crippled.name], valid)
        for name, (_, _, values) in zip(names, parts, strict=True):
            old, changes, new = values.partition(":")
            to = gaps if name in CHANGEABLE else sides
            to[0][name], to[1][name] = parse_value(name, old), parse_value(name, new if changes else old)
        try:
            before, after = (space.check(side) for side in sides)
        except TaskError as error:
            raise TaskError(f"--change {text}: {error}") from None
        profiles = (GapProfile.of(gaps[0], repr(text)), GapProfile.of(gaps[1], repr(text))) if gaps[0] else None
        if not 1 <= int(step) < episode_steps:
            raise ChangeError(
                f"{text!r} changes at step {int(step)}; an episode has {episode_steps} steps, so give one from 1 to "
                f"{episode_steps - 1}."
            )
        return cls(before, after, int(step), profiles)

    def __str__(self) -> str:
        """Return the change in the form that `parse` reads; a control has the same value twice."""
        before, after = dict(self.before), dict(self.after)
        if self.gaps is not None:
            for key in CHANGEABLE:
                values = [getattr(gap, key) for gap in self.gaps]
                if any(values):
                    before[key], after[key] = values
        names = [name for name in before if after[name] != before[name]] or list(before)[:1]
        parts = [
            f"{name}={text_of(old)}" + (f":{text_of(after[name])}" if name in names else "")
            for name, old in before.items()
        ]
        return ",".join(parts) + f"@{self.step}"


TOLERANCE = 1e-5
"""Largest accepted difference from the whole model's action at any golden step."""


class PolicyHead:
    """The part of a model's graph that maps observations and a context to the action, with the file's weights.

    The graph is cut at its tensor `context` and at its extra outputs, such as an estimate of the present state. The
    file does not change. The constructor checks that the cut graph reproduces the actions of the file's golden steps
    (recorded inputs and outputs of the model) from their contexts.

    Raises:
        SamiError: the model infers no context.
        CheckFailed: the actions of the cut graph differ from those of the whole graph.
    """

    def __init__(self, artifact: Artifact) -> None:
        contract = artifact.contract
        if contract.context is None:
            raise SamiError(f"model {contract.name!r} infers no context: there is nothing to freeze or exchange.")
        front = FRONT if contract.lookahead else ""  # observations of the present, after lookahead
        self._inputs = {front + name: signal for name, signal in contract.signal_inputs.items()}
        self._extra = [signal.name for signal in contract.extra_outputs if not is_probe(signal)]
        model = onnx.load_from_string(artifact.model_bytes)
        if contract.lookahead:
            model = onnx.shape_inference.infer_shapes(model)  # the inner tensors at which it is cut
        head = Extractor(model).extract_model([*self._inputs, CONTEXT, *self._extra], [ACTION])
        self._onnx = build(replace(artifact, model_bytes=head.SerializeToString()))
        if golden := contract.golden_steps():
            now = slice(None) if golden.age is None else ~golden.age.any(axis=1)
            observation = {name: value[now] for name, value in golden.observation.items()}
            answers = {name: value[now] for name, value in golden.answers.items()}
            error = float(np.abs(self(observation, answers[CONTEXT], answers) - answers[ACTION]).max())
            if not error <= TOLERANCE:
                raise CheckFailed(
                    f"the policy cut from {artifact.path} differs from the whole file by {error:.2e} at its golden "
                    f"steps; at most {TOLERANCE:.0e} is accepted. Its action does not depend on the context alone."
                )

    def __call__(
        self, observation: Mapping[str, np.ndarray], context: np.ndarray, extra: Mapping[str, np.ndarray] | None = None
    ) -> np.ndarray:
        """Return actions (n, A) for observations by signal, (n, size) each, contexts (n, C), and the extra outputs."""
        feed = {name: observation[signal.name] for name, signal in self._inputs.items()}
        feed |= {CONTEXT: context, **{name: (extra or {})[name] for name in self._extra}}
        (action,) = self._onnx.run([ACTION], {name: np.asarray(value, np.float32) for name, value in feed.items()})
        return np.asarray(action)


class Variant(str, Enum):
    """The context that the policy is given from the change on."""

    LIVE = "live"
    """The context that the encoder infers, as deployed."""
    FROZEN = "frozen"
    """The context at the step of the change, inferred before the change has an effect."""
    RESET = "reset"
    """The context that the encoder infers after a reset at the change."""
    START = "from the start"
    """The context at the same step of an episode from the same start with the new dynamics all along; once that episode
    is over, its last context."""
    CONSTANT = "constant"
    """The mean of the training tasks' contexts, which carries no information; only for files with an atlas."""
    UNCHANGED = "unchanged"
    """The live context, while the old dynamics stay: a control that shows the cost of a change, and false alarms."""


class ChangedEpisode(NamedTuple):
    """One episode of T steps."""

    contexts: np.ndarray
    """The contexts that the encoder inferred, (T, C)."""
    given_context: np.ndarray
    """The contexts that the policy was given, (T, C)."""
    actions: np.ndarray
    """(T, A)"""
    rewards: np.ndarray
    """(T,)"""
    success: bool

    @property
    def ret(self) -> float:
        """The return: the sum of rewards."""
        return float(sum(self.rewards.tolist()))

    def context(self, t: int) -> np.ndarray:
        """Return the context (C,) that the encoder inferred at a step, or the last one if the episode is over."""
        return np.asarray(self.contexts[min(t, len(self.contexts) - 1)])


class ChangedEpisodes:
    """Runs a model file in episodes whose dynamics change, n = `rows` of them together, at least 2.

    Raises:
        SamiError: the environment's dynamics cannot change within an episode, the model infers no context, or the file
            is not valid.
        AdapterError: the model's signals differ from the environment's.
    """

    def __init__(self, model: Path, spec: EnvironmentSpec, rows: int) -> None:
        spec.require_changes()
        self.rows = rows
        artifact = read_artifact(model)
        self.contract = artifact.contract
        require_compatible(self.contract, spec.signals, spec.action, f"environment {spec.name!r}")
        self._head, self._session = PolicyHead(artifact), Session(artifact, batch=rows)
        self._layout, self._names = spec.layout, [signal.name for signal in self.contract.observation]
        self._spec = spec
        self._envs: list[Any] = [make(spec) for _ in range(rows)]

    def close(self) -> None:
        """Close the simulators."""
        for env in self._envs:
            env.close()

    def round(
        self,
        seeds: Sequence[int],
        change: DynamicsChange | Sequence[DynamicsChange],
        variant: Variant,
        starts: Sequence[ChangedEpisode] = (),
        on_step: Callable[[int, Sequence[Any], Sequence[int]], None] | None = None,
    ) -> list[ChangedEpisode]:
        """Run one episode in each row, and return the n episodes.

        Args:
            seeds: seeds of the n starts.
            change: one change for every row, or n changes, one for each.
            variant: the context that the policy is given.
            starts: for `Variant.START`, n episodes from these seeds with the new dynamics all along.
            on_step: called before each step with its index, the environments, and the rows whose episode still runs.
        """
        changes = [change] * self.rows if isinstance(change, DynamicsChange) else change
        envs = list(self._envs)
        for n, row in enumerate(changes):
            if row.gaps is not None:
                if self.contract.lookahead and any(getattr(gap, key) for gap in row.gaps for key in CHANGEABLE):
                    raise ChangeError(f"{self.contract.name!r} looks ahead, but gets no ages here: delay nothing.")
                envs[n] = GappedEnv(envs[n], self._spec, row.gaps[0])
        resets = [
            env.reset(seed=seed, options={"task": dict(row.before)})[0]
            for env, row, seed in zip(envs, changes, seeds, strict=True)
        ]
        observation = np.stack([flatten(first) for first in resets])
        self._session.reset()
        rows, replaced = [_ChangingRow() for _ in envs], np.zeros((self.rows, self.contract.context_size), np.float32)
        if variant is Variant.CONSTANT:
            assert self.contract.atlas is not None
            replaced[:] = np.mean(self.contract.atlas.mean, axis=0, dtype=np.float32)
        for t in count():
            running = [n for n, row in enumerate(rows) if not row.over]
            if not running:
                break
            changing = [n for n in running if t == changes[n].step]
            for n in changing if variant is not Variant.UNCHANGED else ():
                after, gaps = changes[n].after, changes[n].gaps
                envs[n].unwrapped.set_dynamics(after)
                if gaps is not None:
                    envs[n].gap.change(gaps[1])
            if changing and variant is Variant.RESET:
                self._session.reset(changing)
            if on_step is not None:
                on_step(t, envs, running)
            signals = self._layout.by_name(observation, self._names)
            step = self._session.step(signals)
            actions, given_context = step.action, step.context
            for n in changing if variant is not Variant.CONSTANT else ():
                replaced[n] = step.context[n]
            late = np.array([[t >= row.step] for row in changes])
            if late.any() and variant in (Variant.FROZEN, Variant.START, Variant.CONSTANT):
                other = np.stack([run.context(t) for run in starts]) if variant is Variant.START else replaced
                given_context = np.where(late, other, step.context)
                actions = self._head(signals, given_context, step.extra)
                self._session.executed(actions)
            for n in running:
                next_observation = rows[n].step(envs[n], actions[n], step.context[n], given_context[n])
                observation[n] = flatten(next_observation)
        return [row.run() for row in rows]


class _ChangingRow:
    """The steps of a running episode so far."""

    def __init__(self) -> None:
        self.steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.rewards: list[float] = []
        self.success, self.over = False, False

    def step(self, env: Any, action: np.ndarray, context: np.ndarray, given_context: np.ndarray) -> Any:
        self.steps.append((context.copy(), given_context.copy(), action.copy()))
        observation, reward, terminated, truncated, info = env.step(action.copy())
        self.rewards.append(float(reward))
        self.success, self.over = bool(info.get("is_success", False)), bool(terminated or truncated)
        return observation

    def run(self) -> ChangedEpisode:
        contexts, given_contexts, actions = (np.stack(column) for column in zip(*self.steps, strict=True))
        return ChangedEpisode(contexts, given_contexts, actions, np.array(self.rewards), self.success)
