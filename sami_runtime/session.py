"""A session: one policy, stepped. It checks and feeds; all arithmetic of the policy is inside the graph."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.artifact import Artifact, read_artifact
from sami_runtime.contract import ACTION, PREVIOUS_ACTION, Contract, observation_input, state_input
from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.inference import build
from sami_runtime.values import all_finite, fill, require_finite, row_mask, wrong_names

Array = NDArray[np.float32]

_FLOAT32 = np.dtype(np.float32)

_UNCHANGED = "The policy produced it; the state was not advanced. Check the observation's units and ranges."


class Step(NamedTuple):
    """What the policy answers to one observation."""

    action: Array
    """(A,) in the units of the contract's action; (N, A) for a batch of N."""
    context: Array
    """(C,) inferred skill context; (N, C) for a batch. C is 0 for a memoryless policy."""
    inference_s: float
    """Time that onnxruntime took [s]."""


@dataclass(frozen=True)
class SessionState:
    """All that a session remembers of an episode; it can be restored into a session of the same weights."""

    weights_sha256: str
    """Which weights it belongs to: a state means nothing to other ones."""
    previous_action: Array
    """(N, A): the action executed last."""
    tensors: Mapping[str, Array]
    """By the state's name in the contract, each (N, ...)."""
    context: Array
    """(N, C): the context inferred last."""
    acted: NDArray[np.bool_]
    """(N,): which rows made a step since their reset."""


class Session:
    """Steps a policy and carries its recurrent state.

    A step that raises leaves the session as it was: neither the state nor the previous action move.

    Args:
        artifact: A model file that was read and checked.
        batch: N, how many episodes are stepped together; a robot uses 1.
        providers: onnxruntime's execution providers, best first. The CPU if None.

    Raises:
        ArtifactError: onnxruntime cannot build or run the graph.
        UnknownName: A provider is not part of the installed onnxruntime.
        SamiError: A provider was asked for and did not start.
    """

    def __init__(self, artifact: Artifact, batch: int = 1, providers: Sequence[str] | None = None) -> None:
        if batch < 1:
            raise SamiError(f"batch is {batch}; a session steps at least 1 episode. Pass batch=1 for a robot.")
        self.artifact = artifact
        self.contract: Contract = artifact.contract
        self.batch = batch
        self.tick = 0
        """Number of steps since the last reset of all rows; the number of the step that comes next."""
        self._onnx = build(artifact, providers)
        self._output_names = list(self.contract.outputs)
        self._state_inputs = [state_input(tensor.name) for tensor in self.contract.state]
        sizes = [signal.size for signal in self.contract.observation]
        # One buffer for all signals, so that one pass looks for NaN; each signal's share of it is contiguous.
        self._observed = np.zeros(batch * sum(sizes), np.float32)
        shares = np.split(self._observed, np.cumsum(sizes)[:-1] * batch)
        self._shares = {
            signal.name: share.reshape(batch, signal.size)
            for signal, share in zip(self.contract.observation, shares, strict=True)
        }
        self._fed = {observation_input(name): share for name, share in self._shares.items()}
        self._rowless = batch == 1  # whether callers give and get (size,) instead of (N, size)
        # Where each signal goes, in the shape that callers give.
        self._targets = [(n, share[0] if self._rowless else share) for n, share in self._shares.items()]
        # What the graph reads next. It is replaced as a whole, so that no interruption leaves half a step.
        self._memory = self._initial_memory()
        self._context = np.zeros((batch, self.contract.context_size), np.float32)
        self._acted = np.zeros(batch, np.bool_)
        self._everyone = np.ones(batch, np.bool_)  # never written into
        self._warm_up()

    @classmethod
    def load(cls, path: str | Path, batch: int = 1, providers: Sequence[str] | None = None) -> Session:
        """Reads a model file and makes a session of it. Everything that can be refused, is refused here."""
        return cls(read_artifact(path), batch, providers)

    @property
    def active_providers(self) -> tuple[str, ...]:
        """The execution providers that run the graph, best first."""
        return tuple(self._onnx.get_providers())

    def reset(self, rows: ArrayLike | None = None) -> None:
        """Begins a new episode: state and previous action take their initial values.

        Args:
            rows: Which episodes of the batch: indices or a mask (N,). All if None.

        Raises:
            SamiError: A row is not in the batch.
        """
        initial = self._initial_memory()
        if rows is None:
            self._memory, self._acted, self.tick = initial, np.zeros(self.batch, np.bool_), 0
            self._context = np.zeros_like(self._context)
            return
        mask = row_mask(rows, self.batch)
        for name, value in initial.items():
            value[~mask] = self._memory[name][~mask]
        context, acted = self._context.copy(), self._acted.copy()
        context[mask], acted[mask] = 0.0, False
        self._memory, self._context, self._acted = initial, context, acted

    def step(self, observation: Mapping[str, ArrayLike]) -> Step:
        """Asks the policy for its action, and advances the state.

        Args:
            observation: By signal name, each (size,) or, for a batch, (N, size), in the signal's unit.

        Returns:
            The action and the context. The action counts as executed unless `executed` says otherwise.

        Raises:
            SignalError: A signal is missing, unknown, misshapen or not finite, or the policy's answer is not.
            SamiError: onnxruntime failed.
        """
        self._observe(observation)
        start = time.perf_counter()
        try:
            outputs = self._onnx.run(self._output_names, {**self._fed, **self._memory})
        except Exception as error:
            raise SamiError(
                f"tick {self.tick}: inference failed: {error}. The state was not advanced; stop, or hold and try again."
            ) from error
        inference_s = time.perf_counter() - start
        for name, value in zip(self._output_names, outputs, strict=True):
            if not all_finite(value):
                elements = self.contract.action.elements if name == ACTION else ()
                require_finite(value, name, elements, f"{self._where} output", _UNCHANGED)
        action = outputs[0]
        context = outputs[1] if self.contract.context else self._context
        state = outputs[len(outputs) - len(self._state_inputs) :]
        # A copy: the caller owns the returned action and may write into it.
        self._memory = {PREVIOUS_ACTION: action.copy(), **dict(zip(self._state_inputs, state, strict=True))}
        self._context = context
        self._acted = self._everyone
        self.tick += 1
        return self._answer(action, context.copy(), inference_s)

    def executed(self, action: ArrayLike) -> None:
        """Tells what was really executed since the last step, where that is not the action of the step.

        The encoder infers the dynamics from what was done, so the next step reads this as previous action.
        A row that was reset and has not acted since keeps the initial previous action, as in training.

        Args:
            action: (A,) or, for a batch, (N, A), in the action's unit.

        Raises:
            SignalError: The action is misshapen or not finite.
        """
        signal = self.contract.action
        previous = self._memory[PREVIOUS_ACTION]
        told = np.empty_like(previous)
        fill(told, action, signal, f"{self._where} executed action")
        require_finite(told, signal.name, signal.elements, self._where, "It was given to executed().")
        self._memory = {**self._memory, PREVIOUS_ACTION: np.where(self._acted[:, None], told, previous)}

    def hold(self) -> Step:
        """A held tick: the action executed last stands for one more tick, and the state is not advanced.

        Raises:
            SamiError: No action was executed since the reset, so there is none that could stand.
        """
        if not self._acted.all():
            row = int(np.flatnonzero(~self._acted)[0])
            raise SamiError(
                f"hold() in row {row} before its first step since reset: no action was executed that could "
                "stand. "
                "Call step() first, or stop the robot."
            )
        return self._answer(self._memory[PREVIOUS_ACTION].copy(), self._context.copy(), 0.0)

    @property
    def state(self) -> SessionState:
        """A copy of all that the session remembers."""
        return SessionState(
            weights_sha256=self.artifact.graph_sha256,
            previous_action=self._memory[PREVIOUS_ACTION].copy(),
            tensors={tensor.name: self._memory[state_input(tensor.name)].copy() for tensor in self.contract.state},
            context=self._context.copy(),
            acted=self._acted.copy(),
        )

    def restore(self, state: SessionState) -> None:
        """Goes on from a state that a session of the same weights and batch had.

        Raises:
            SamiError: The state belongs to other weights, or has other shapes.
            SignalError: It holds a number that is not finite.
        """
        own = self.artifact.graph_sha256
        if state.weights_sha256 != own:
            raise SamiError(
                f"the state belongs to weights {state.weights_sha256[:12]}, this session runs {own[:12]}. "
                "A state moves only between files of the same weights; call reset() instead."
            )
        memory = {PREVIOUS_ACTION: np.array(state.previous_action, np.float32)}
        memory |= {state_input(name): np.array(value, np.float32) for name, value in state.tensors.items()}
        shapes = {name: value.shape for name, value in memory.items()}
        expected = {name: value.shape for name, value in self._memory.items()}
        context, acted = np.array(state.context, np.float32), np.array(state.acted, np.bool_)
        if shapes != expected or context.shape != self._context.shape or acted.shape != self._acted.shape:
            raise SamiError(
                f"the state has shapes {shapes}, expected {expected} for a batch of {self.batch}. "
                "Restore it into a session of the batch that it was taken from."
            )
        for name, value in memory.items():
            require_finite(value, name, (), self._where, "It was given to restore().")
        self._memory, self._context, self._acted = memory, context, acted

    def _answer(self, action: Array, context: Array, inference_s: float) -> Step:
        if self._rowless:
            return Step(action[0], context[0], inference_s)
        return Step(action, context, inference_s)

    @property
    def _where(self) -> str:
        return f"tick {self.tick}:"

    def _initial_memory(self) -> dict[str, Array]:
        memory = {PREVIOUS_ACTION: np.zeros((self.batch, self.contract.action.size), np.float32)}
        for tensor in self.contract.state:
            memory[state_input(tensor.name)] = np.full((self.batch, *tensor.shape), tensor.initial, np.float32)
        return memory

    def _warm_up(self) -> None:
        """Runs the graph on copies: the first live step then allocates nothing, and nothing leaks into it."""
        feeds = {name: value.copy() for name, value in (self._fed | self._memory).items()}
        try:
            for _ in range(2):
                outputs = self._onnx.run(self._output_names, feeds)
        except Exception as error:
            raise ArtifactError(
                f"{self.artifact.path} cannot be run with a batch of {self.batch}: {error}. Export the model again."
            ) from error
        for (name, shape), value in zip(self.contract.outputs.items(), outputs, strict=True):
            if value.shape != (self.batch, *shape):
                raise ArtifactError(
                    f"{self.artifact.path} gives {name!r} of shape {value.shape}, expected "
                    f"{(self.batch, *shape)}. "
                    "Export the model again with a dynamic batch axis."
                )

    def _observe(self, observation: Mapping[str, ArrayLike]) -> None:
        """Copies the observation to where the graph reads it."""
        if len(observation) != len(self._targets):
            raise wrong_names(observation, self._shares, self._where)
        for at, (name, target) in enumerate(self._targets):
            try:
                value = observation[name]
            except KeyError:
                raise wrong_names(observation, self._shares, self._where) from None
            # The common case, without the checks that only other types and shapes need.
            if type(value) is np.ndarray and value.dtype is _FLOAT32 and value.shape == target.shape:
                target[...] = value
            else:
                fill(self._shares[name], value, self.contract.observation[at], f"{self._where} observation")
        if not all_finite(self._observed):
            for signal in self.contract.observation:
                blame = "The adapter's read() produced it."
                share = self._shares[signal.name]
                require_finite(share, signal.name, signal.elements, f"{self._where} observation", blame)
