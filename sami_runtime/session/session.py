"""A session steps one policy: it checks inputs and runs the graph, which contains all arithmetic of the policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact, read_artifact
from sami_runtime.model.contract import ACTION, CONTEXT, Contract
from sami_runtime.session.inference import build, is_failure, require_shapes, runner
from sami_runtime.session.memory import Age, Array, EpisodeMemory, ExtraAnswers, SessionState, StepInputs, TensorBlock
from sami_runtime.signals import all_finite, fill, finite_check, require_finite, row_mask

_BLAME = "The policy produced it; the state was not advanced. Check the observation's units and ranges."
_NO_EXTRA: Mapping[str, NDArray[np.float32]] = {}
_new = tuple.__new__


class Step(NamedTuple):
    """The policy's outputs for one observation."""

    action: Array
    """(A,) in the units of the contract's action; (N, A) for a batch of N."""
    context: Array
    """(C,) the context that the encoder inferred from the episode; (N, C) for a batch. C is 0 without an encoder."""
    inference_s: float
    """Time that onnxruntime took [s]."""
    extra: Mapping[str, Array] = _NO_EXTRA
    """Outputs that the contract's `extra_outputs` declare, by the graph's name, each (size,) or (N, size)."""

    @property
    def answers(self) -> dict[str, Array]:
        """All outputs by the graph's names: action, context and extra ones."""
        return {ACTION: self.action, CONTEXT: self.context, **self.extra}


class Session:
    """Steps a policy and carries its recurrent state.

    A step that raises changes neither the state nor the previous action. onnxruntime works on memory that is allocated
    once; methods return copies, which the caller may keep and modify. A step allocates only its outputs and a few small
    Python objects, so memory use does not grow. A session starts no threads, and only one thread may use it at a time.

    Args:
        artifact: A model file that was read and checked.
        batch: N, how many episodes are stepped together; a robot uses 1.
        provider: Execution provider that runs the graph: `"cpu"`, `"cuda"`, or another one of onnxruntime.

    Raises:
        SamiError: `batch` is less than 1.
        ArtifactError: onnxruntime cannot build or run the graph.
        UnknownName: The provider is not part of the installed onnxruntime.
        ProviderError: The provider does not run the graph, or onnxruntime is not installed.
    """

    def __init__(self, artifact: Artifact, batch: int = 1, provider: str = "cpu") -> None:
        if batch < 1:
            raise SamiError(f"batch is {batch}; a session steps at least 1 episode. Pass batch=1 for a robot.")
        self.artifact = artifact
        self.contract: Contract = artifact.contract
        self.batch = batch
        self.tick = 0
        """Number of steps since the last reset of all rows, which is the index of the next step."""
        self._onnx = build(artifact, provider)
        # The observation's memory lies between the two episode memories. The inputs and outputs of a step are therefore
        # one contiguous range, which a single pass checks for NaN and infinity.
        outputs, observation = EpisodeMemory.shapes(self.contract, batch), StepInputs.shapes(self.contract, batch)
        numbers, (first, between, second) = TensorBlock.adjacent(outputs, observation, outputs)
        self._inputs = StepInputs(self.contract, batch, between)
        inputs = self._inputs.inputs
        self._looks_ahead = self.contract.lookahead is not None
        self._all_rows = np.ones(batch, np.bool_)  # never written into
        self._applied = np.zeros((batch, self.contract.action.size), np.float32)
        # A step reads one memory and writes the other. One assignment to `_now` makes the written memory the current
        # one, so that neither an error nor an interruption leaves half a step.
        self._memories = (EpisodeMemory(self.contract, batch, first), EpisodeMemory(self.contract, batch, second))
        self._now = 0
        self._undoable = False  # whether the other memory still holds the state before the last step
        self._runs = tuple(
            runner(self._onnx, inputs | source.inputs, target.outputs)
            for source, target in (self._memories, self._memories[::-1])
        )
        size = len(first.numbers)
        self._all_finite = finite_check(numbers[size:]), finite_check(numbers[:-size])
        require_shapes(self._onnx, artifact, batch, inputs | self._memories[0].inputs)
        # `prewarm` runs on copies, so that it cannot change a live step.
        copies = {name: value.copy() for name, value in (inputs | self._memories[0].inputs).items()}
        self._rehearsed = EpisodeMemory(self.contract, batch)
        self._rehearse = runner(self._onnx, copies, self._rehearsed.outputs)
        self.prewarm()

    @classmethod
    def load(cls, path: str | Path, batch: int = 1, provider: str = "cpu") -> Session:
        """Read and check a model file and build its session; raises here if the file is invalid, unsafe or unusable."""
        return cls(read_artifact(path), batch, provider)

    @property
    def active_providers(self) -> tuple[str, ...]:
        """The execution providers that run the graph, best first."""
        return tuple(self._onnx.get_providers())

    def prewarm(self) -> None:
        """Make a step on copies, to warm up the caches; the session's state does not change.

        A core that slept until its next tick wakes up with cold caches and a low clock frequency. Call this about half
        a millisecond before the deadline, so that the real step does not pay for them.

        Raises:
            SamiError: onnxruntime failed.
        """
        try:
            self._inputs.observe(self._inputs.zeros, self.tick)
            self._rehearse()
            self._all_finite[self._now]()
            self._answer(self._rehearsed, 0.0)
        except Exception as error:
            raise SamiError(f"{self._where} inference failed while warming up: {error}. Stop the robot.") from error

    def reset(self, rows: ArrayLike | None = None) -> None:
        """Begin a new episode: state and previous action take their initial values.

        Args:
            rows: Which episodes of the batch: indices or a mask (N,). All if None.

        Raises:
            SignalError: A row is not in the batch.
        """
        mask = self._all_rows if rows is None else row_mask(rows, self.batch)
        memory, spare = self._memories[self._now], self._memories[1 - self._now]
        self._undoable = False
        spare.take(memory)
        spare.begin(mask)
        self._now = 1 - self._now
        if rows is None:
            self.tick = 0

    def step(self, observation: Mapping[str, ArrayLike], age: Age = 0.0) -> Step:
        """Run the policy on one observation, and advance the state.

        Args:
            observation: By signal name, each (size,) or, for a batch, (N, size), in the signal's unit.
            age: Observation age plus command delay [periods of the policy]: one number or (N,), or such a value for
                each signal by its name. A model without lookahead ignores it and treats observations as current.

        Returns:
            The outputs. The session takes the action as executed unless `executed` is called with another one.

        Raises:
            NonFiniteError: An observation or an output contains NaN or infinity.
            SignalError: A signal is missing, unknown or misshapen, or an age is out of the range that was fitted.
            SamiError: onnxruntime failed.
        """
        self._inputs.observe(observation, self.tick)
        if self._looks_ahead:
            self._inputs.observe_age(age, self.tick)
        self._undoable = False  # from here on the state before the last step is overwritten
        start = time.perf_counter()
        try:
            self._runs[self._now]()
        except Exception as error:
            if not is_failure(error):  # raised by the handler of an OS signal that arrived while the graph ran
                raise
            self._inputs.require_finite(self.tick)
            raise SamiError(
                f"{self._where} inference failed: {error}. The state was not advanced; stop, or hold and try again."
            ) from error
        inference_s = time.perf_counter() - start
        answer = self._memories[1 - self._now]
        if not self._all_finite[self._now]():
            self._inputs.require_finite(self.tick)
            answers = self.contract.answers
            for name, value in answer.outputs.items():
                elements = answers[name].elements if name in answers else ()
                require_finite(value, name, elements, f"{self._where} output", _BLAME)
        answer.acted = self._all_rows
        self._now = 1 - self._now
        self.tick += 1
        self._undoable = True
        return self._answer(answer, inference_s)

    def undo(self) -> None:
        """Take back the last step and any `executed` call since: all state is bit-equal to that before the step.

        Raises:
            SamiError: There is no step that can be taken back.
        """
        if not self._undoable:
            raise SamiError(
                f"undo() at tick {self.tick}: there is no step to take back, or it was followed by undo(), reset(), "
                "restore() or a step that failed. Call it right after the step."
            )
        self._undoable = False
        self._now, self.tick = 1 - self._now, self.tick - 1

    def executed(self, action: ArrayLike) -> None:
        """Report the action that was really executed since the last step, if it is not the policy's own action.

        The next step reads it as the previous action, because the encoder infers the dynamics from executed actions.
        A row that has not acted since its reset keeps the initial previous action, as in training.

        Args:
            action: (A,) or, for a batch, (N, A), in the action's unit.

        Raises:
            SignalError: The action is misshapen or not finite.
        """
        signal, applied = self.contract.action, self._applied
        fill(applied, action, signal, f"{self._where} executed action")
        if not all_finite(applied):
            require_finite(applied, signal.name, signal.elements, self._where, "It was given to executed().")
        memory = self._memories[self._now]
        np.copyto(memory.action, applied, where=memory.acted[:, None])

    def elapse(self, periods: int = 1, rows: ArrayLike | None = None) -> None:
        """Let periods of the policy pass without a step: the last executed action stays in force, the state stays too.

        A model with lookahead reads the actions of the last periods, so held and skipped periods have to enter this
        history; for other models this does nothing. Call it before `executed`; `hold` calls it itself.
        `rows` are as in `reset`.
        """
        self._memories[self._now].elapse(periods, ... if rows is None else row_mask(rows, self.batch))

    def hold(self) -> Step:
        """Hold for one period: return the last executed action again, without advancing the state.

        Raises:
            SamiError: No action was executed since the reset.
        """
        answer = self.last
        self.elapse()
        return answer

    @property
    def last(self) -> Step:
        """The outputs of the last step, with the action as it was executed; raises as `hold`."""
        memory = self._memories[self._now]
        if not memory.acted.all():
            row = int(np.flatnonzero(~memory.acted)[0])
            raise SamiError(
                f"hold() in row {row} before its first step since reset: no action was executed that could be held. "
                "Call step() first, or stop the robot."
            )
        return self._answer(memory, 0.0)

    @property
    def digest(self) -> str:
        """Short hash of everything but the observation that the next step depends on; equal only for equal bits."""
        return self._memories[self._now].digest()

    @property
    def state(self) -> SessionState:
        """A copy of the session's state, for `restore`."""
        return self._memories[self._now].snapshot(self.artifact.graph_sha256, self.tick)

    def restore(self, state: SessionState) -> None:
        """Continue from a `state` that was taken from a session of the same weights and batch.

        Raises:
            SamiError: The state belongs to other weights, or has other shapes.
            NonFiniteError: The state contains NaN or infinity.
        """
        weights = self.artifact.graph_sha256
        if state.weights_sha256 != weights:
            raise SamiError(
                f"the state belongs to weights {state.weights_sha256[:12]}, this session runs {weights[:12]}. "
                "A state moves only between files of the same weights; call reset() instead."
            )
        spare = self._memories[1 - self._now]
        values = {name: np.asarray(value, np.float32) for name, value in state.by_name().items()}
        shapes = {name: value.shape for name, value in values.items()}
        expected = {name: value.shape for name, value in self.state.by_name().items()}
        if shapes != expected or np.shape(state.acted) != spare.acted.shape:
            raise SamiError(
                f"the state has shapes {shapes}, expected {expected} for a batch of {self.batch}. "
                "Restore it into a session of the batch that it was taken from."
            )
        for name, value in values.items():
            require_finite(value, name, (), self._where, "It was given to restore().")
        self._undoable = False
        spare.load(state)
        self._now, self.tick = 1 - self._now, state.tick

    def __reduce__(self) -> NoReturn:
        """Raise SamiError: a copy or pickle would share this session's memory, or lose it."""
        raise SamiError(
            "a session cannot be copied or pickled; its state can. Make another session of the same file, "
            "Session(session.artifact, session.batch), and give it the state: other.restore(session.state)."
        )

    def _answer(self, memory: EpisodeMemory, inference_s: float) -> Step:
        extra = ExtraAnswers(memory.extra_numbers.copy(), memory.extra_places) if memory.extra else _NO_EXTRA
        # `tuple.__new__` skips the NamedTuple's own constructor, which takes as long as copying an array.
        return _new(Step, (memory.action_row.copy(), memory.context_row.copy(), inference_s, extra))

    @property
    def _where(self) -> str:
        return f"tick {self.tick}:"
