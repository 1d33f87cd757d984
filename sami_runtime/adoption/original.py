"""The policy as it was exported, with its recipe in numpy: the reference that an adopted file is compared with."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adoption.layout import PolicyLayout
from sami_runtime.adoption.recipe import History, Recipe, SignalTerm, row
from sami_runtime.errors import ArtifactError
from sami_runtime.files import printable
from sami_runtime.session.admission import STEP_CPU_S
from sami_runtime.session.inference import import_onnxruntime

Array = NDArray[np.float32]


class WalkStep(NamedTuple):
    """One step of a walk through random observations."""

    observation: dict[str, Array]
    action: Array
    executed: Array


class OriginalPolicy:
    """Steps the graph as it was exported, and computes in numpy what the framework computed around the graph.

    Raises:
        ArtifactError: onnxruntime refuses the model.
    """

    def __init__(self, data: bytes, recipe: Recipe, layout: PolicyLayout, where: str) -> None:
        self.recipe, self.layout, self.where = recipe, layout, where
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise self._refused("is refused by onnxruntime", error) from None
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        pairs = zip(self.recipe.state, self._sizes()[1:], strict=True)
        self._state = {pair.input: np.full(shape, pair.initial, np.float32) for pair, shape in pairs}
        self._last = np.zeros(self.layout.actions, np.float32)
        self._past: dict[str, list[Array]] = {}

    def entries(self, observation: Mapping[str, Array]) -> dict[str, Array]:
        """Return the network's inputs but its states for an observation, each (1, ...); it advances the histories."""
        recipe = self.recipe
        entries = {}
        for name, terms in recipe.inputs.items():
            parts = []
            for term_name, term in terms:
                if isinstance(term, SignalTerm):
                    value = observation[term_name] - row(term.offset, len(term.elements))
                    value = np.clip(value, np.float32(term.clip[0]), np.float32(term.clip[1])) if term.clip else value
                else:
                    value = self._last
                value = value * row(term.scale, len(value))
                parts.append(self._stacked(term_name, np.asarray(value, np.float32), term.history))
            frame = np.concatenate(parts)
            if recipe.clip:
                frame = np.clip(frame, -np.float32(recipe.clip), np.float32(recipe.clip))
            stacked = self._stacked(f"input {name}", frame, recipe.history if name == recipe.input else None)
            entries[name] = stacked.reshape(1, *self.layout.inputs[name])
        return entries

    def step(self, observation: Mapping[str, Array]) -> Array:
        """Return the action (A,) for an observation, by signal name; call `executed` afterwards."""
        recipe = self.recipe
        names = [recipe.output, *(pair.output for pair in recipe.state)]
        entries, start_time = self.entries(observation), time.thread_time()
        try:
            raw, *states = self._session.run(names, {**entries, **self._state})
        except Exception as error:
            raise self._refused("cannot be run", error) from None
        if (elapsed := time.thread_time() - start_time) > STEP_CPU_S:
            raise ArtifactError(
                f"{self.where} is refused: a step took {elapsed:.1f} s of a processor, at most {STEP_CPU_S:g} s are "
                f"allowed, and the policy acts at {recipe.rate_hz:g} Hz. Export a smaller network."
            )
        for name, value, shape in zip(names, (raw, *states), self._sizes(), strict=True):
            if np.shape(value) != shape:
                fact = f"answers {list(np.shape(value))} for {name!r}; expected {list(shape)}"
                raise ArtifactError(f"{self.where} {printable(fact)}. Correct the recipe, or export it again.")
        self._state = dict(zip(self._state, states, strict=True))
        target = recipe.action
        self._raw = np.clip(raw[0], -target.clip, target.clip).astype(np.float32) if target.clip else raw[0]
        size = len(self._raw)
        return np.asarray(self._raw * row(target.scale, size) + row(target.default, size), np.float32)

    def executed(self, action: Array) -> None:
        """Set the last action from the executed action (A,)."""
        target, size = self.recipe.action, len(action)
        last = self.recipe.last_action
        applied = (action - row(target.default, size)) / row(target.scale, size)
        self._last = np.asarray(applied if last and last.kind == "applied" else self._raw, np.float32)

    def walk(self, steps: int, resets: tuple[int, ...], disturbed: float, seed: int = 0) -> Iterator[WalkStep]:
        """Step through observations that wander at random around values that the network reads as 0.

        An episode begins at each of the `resets`. At a share `disturbed` of the steps, another action than the policy's
        is executed.
        """
        rng = np.random.default_rng(seed)
        wander = {signal.name: np.zeros(len(signal.elements)) for signal in self.recipe.signals}
        for step in range(steps):
            if step in resets:
                self.reset()
            observation: dict[str, Array] = {}
            for signal in self.recipe.signals:
                size = len(signal.elements)
                value = wander[signal.name] = 0.95 * wander[signal.name] + 0.3 * rng.normal(size=size)
                value = value / row(signal.scale, size) + row(signal.offset, size)
                observation[signal.name] = value.astype(np.float32)
            action = self.step(observation)
            noise = 0.1 * row(self.recipe.action.scale, len(action)) * rng.normal(size=len(action))
            executed = (action + noise).astype(np.float32) if rng.random() < disturbed else action
            self.executed(executed)
            yield WalkStep(observation, action, executed)

    def _sizes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the output and of each state, with a batch of 1."""
        layouts = [self.layout.states[pair.name] for pair in self.recipe.state]
        states = [(*state.shape[: state.batch_axis], 1, *state.shape[state.batch_axis :]) for state in layouts]
        return [(1, self.layout.actions), *states]

    def _stacked(self, name: str, value: Array, history: History | None) -> Array:
        """Return a value stacked with its past, and add the value to the past."""
        if history is None:
            return value
        padding = value if history.start == "repeat" else np.zeros_like(value)
        past = self._past.setdefault(name, [padding] * (history.steps - 1))
        values = [*past, value]  # oldest first
        self._past[name] = values[1:]
        return np.concatenate(values if history.first == "oldest" else values[::-1])

    def _refused(self, fact: str, error: Exception) -> ArtifactError:
        line = printable(" ".join(str(error).split()))[:300]
        return ArtifactError(f"{self.where} {fact}: {line}. Export it again.")
