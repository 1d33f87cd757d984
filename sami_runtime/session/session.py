"""A session: one policy, stepped. It checks and feeds; all arithmetic of the policy is inside the graph."""

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

_UNCHANGED = "The policy produced it; the state was not advanced. Check the observation's units and ranges."
_NO_EXTRA: Mapping[str, NDArray[np.float32]] = {}
_new = tuple.__new__


class Step(NamedTuple):
    """What the policy answers to one observation."""

    action: Array
    """(A,) in the units of the contract's action; (N, A) for a batch of N."""
    context: Array
    """(C,) inferred skill context; (N, C) for a batch. C is 0 for a memoryless policy."""
    inference_s: float
    """Time that onnxruntime took [s]."""
    extra: Mapping[str, Array] = _NO_EXTRA
    """By the graph's output, each (size,) or (N, size): what the contract's `extra_outputs` declare."""

    @property
    def answers(self) -> dict[str, Array]:
        """All that the policy answered, by the graph's output."""
        return {ACTION: self.action, CONTEXT: self.context, **self.extra}


class Session:
    """Steps a policy and carries its recurrent state.

    A step that raises leaves the session as it was: neither the state nor the previous action move. onnxruntime works
    on memory that is allocated here once; whatever a method returns is a copy that the caller may keep and write into.
    A step therefore allocates its answer and some small objects of Python, and frees the latter: nothing grows.
    A session belongs to one thread at a time, and starts none.

    Args:
        artifact: A model file that was read and checked.
        batch: N, how many episodes are stepped together; a robot uses 1.
        provider: What runs the graph: `"cpu"`, `"cuda"`, or another of onnxruntime's execution providers.

    Raises:
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
        """Number of steps since the last reset of all rows; the number of the step that comes next."""
        self._onnx = build(artifact, provider)
        # The observation lies between the two memories, so that one look finds what is not finite in it and in the
        # memory that a step wrote.
        outputs, observation = EpisodeMemory.shapes(self.contract, batch), StepInputs.shapes(self.contract, batch)
        numbers, (first, between, second) = TensorBlock.adjacent(outputs, observation, outputs)
        self._inputs = StepInputs(self.contract, batch, between)
        inputs = self._inputs.inputs
        self._looks_ahead = self.contract.lookahead is not None
        self._all_rows = np.ones(batch, np.bool_)  # never written into
        self._applied = np.zeros((batch, self.contract.action.size), np.float32)
        # A step reads one memory and writes the other. Which of them counts changes in one assignment, so that neither
        # an error nor an interruption leaves half a step.
        self._memories = (EpisodeMemory(self.contract, batch, first), EpisodeMemory(self.contract, batch, second))
        self._now = 0
        self._undoable = False  # whether the memory that does not count is the one before the last step
        self._runs = tuple(
            runner(self._onnx, inputs | read.inputs, written.outputs)
            for read, written in (self._memories, self._memories[::-1])
        )
        size = len(first.numbers)
        self._all_finite = finite_check(numbers[size:]), finite_check(numbers[:-size])
        require_shapes(self._onnx, artifact, batch, inputs | self._memories[0].inputs)
        # On copies, so that nothing leaks into a live step.
        copies = {name: value.copy() for name, value in (inputs | self._memories[0].inputs).items()}
        self._rehearsed = EpisodeMemory(self.contract, batch)
        self._rehearse = runner(self._onnx, copies, self._rehearsed.outputs)
        self.prewarm()

    @classmethod
    def load(cls, path: str | Path, batch: int = 1, provider: str = "cpu") -> Session:
        """Read a model file and makes a session of it. Everything that can be refused, is refused here."""
        return cls(read_artifact(path), batch, provider)

    @property
    def active_providers(self) -> tuple[str, ...]:
        """The execution providers that run the graph, best first."""
        return tuple(self._onnx.get_providers())

    def prewarm(self) -> None:
        """Make a step on copies, which changes nothing that a real one depends on.

        A core that slept until its next tick comes back with cold caches and a low clock. Called about half a
        millisecond before the deadline, this takes their cost out of the step.

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
        """Begins a new episode: state and previous action take their initial values.

        Args:
            rows: Which episodes of the batch: indices or a mask (N,). All if None.

        Raises:
            SamiError: A row is not in the batch.
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
        """Asks the policy for its action, and advances the state.

        Args:
            observation: By signal name, each (size,) or, for a batch, (N, size), in the signal's unit.
            age: How old it is [periods of the policy], with what an action takes to have its effect: one number, or by
                signal, each a number or (N,). Files that do not look ahead take all for the present.

        Returns:
            The action and the context. The action counts as executed unless `executed` says otherwise.

        Raises:
            SignalError: A signal is missing, unknown, misshapen, not finite or too old, or the policy's answer is not
                finite.
            SamiError: onnxruntime failed.
        """
        self._inputs.observe(observation, self.tick)
        if self._looks_ahead:
            self._inputs.observe_age(age, self.tick)
        self._undoable = False  # from here on the memory before the last step is written over
        start = time.perf_counter()
        try:
            self._runs[self._now]()
        except Exception as error:
            if not is_failure(error):  # a signal's handler raised it, which came while the graph ran
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
                require_finite(value, name, elements, f"{self._where} output", _UNCHANGED)
        answer.acted = self._all_rows
        self._now = 1 - self._now
        self.tick += 1
        self._undoable = True
        return self._answer(answer, inference_s)

    def undo(self) -> None:
        """Take back the last step, and what `executed` told since: as if it had never been made, to the last bit.

        Raises:
            SamiError: There is none that could be taken back.
        """
        if not self._undoable:
            raise SamiError(
                f"undo() at tick {self.tick}: there is no step to take back, or it was followed by undo(), reset(), "
                "restore() or a step that failed. Call it right after the step."
            )
        self._undoable = False
        self._now, self.tick = 1 - self._now, self.tick - 1

    def executed(self, action: ArrayLike) -> None:
        """Tells what was really executed since the last step, where that is not the action of the step.

        The encoder infers the dynamics from what was done, so the next step reads this as previous action.
        A row that was reset and has not acted since keeps the initial previous action, as in training.

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
        """Let periods of the policy pass without a step: what was executed last stood, and the state is not advanced.

        A file that looks ahead keeps the actions of the last periods, whether it was asked at them or not; to others
        this makes no difference. Call it where a tick is held or skipped, before `executed`; `hold` does.

        Args:
            periods: How many.
            rows: As in `reset`.
        """
        self._memories[self._now].elapse(periods, ... if rows is None else row_mask(rows, self.batch))

    def hold(self) -> Step:
        """Make a held tick: the action executed last stands for one more period, and the state is not advanced.

        Raises:
            SamiError: No action was executed since the reset, so there is none that could stand.
        """
        answer = self.last
        self.elapse()
        return answer

    @property
    def last(self) -> Step:
        """The answer of the last step, its action as it was executed; it raises as `hold`."""
        memory = self._memories[self._now]
        if not memory.acted.all():
            row = int(np.flatnonzero(~memory.acted)[0])
            raise SamiError(
                f"hold() in row {row} before its first step since reset: no action was executed that could stand. "
                "Call step() first, or stop the robot."
            )
        return self._answer(memory, 0.0)

    @property
    def digest(self) -> str:
        """A short hash of all that the next step depends on besides its observation: equal where every bit is."""
        return self._memories[self._now].digest()

    @property
    def state(self) -> SessionState:
        """A copy of all that the session remembers."""
        return self._memories[self._now].snapshot(self.artifact.graph_sha256, self.tick)

    def restore(self, state: SessionState) -> None:
        """Goes on from a state that a session of the same weights and batch had.

        Raises:
            SamiError: The state belongs to other weights, or has other shapes.
            SignalError: It holds a number that is not finite.
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
        """Refuse to be copied or pickled: a copy would write into the memory of this session, or lose it."""
        raise SamiError(
            "a session cannot be copied or pickled; its state can. Make another session of the same file, "
            "Session(session.artifact, session.batch), and give it the state: other.restore(session.state)."
        )

    def _answer(self, memory: EpisodeMemory, inference_s: float) -> Step:
        extra = ExtraAnswers(memory.extra_numbers.copy(), memory.extra_places) if memory.extra else _NO_EXTRA
        # Without the method that a NamedTuple puts in front, which takes as long as a copy.
        return _new(Step, (memory.action_row.copy(), memory.context_row.copy(), inference_s, extra))

    @property
    def _where(self) -> str:
        return f"tick {self.tick}:"
