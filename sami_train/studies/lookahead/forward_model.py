"""The forward model, which predicts the change of observations within a period: in numpy, ONNX and a model file.

It is an MLP with two hidden layers of tanh, which bound its predictions everywhere. Normalisation is folded into the
weights. A signal that never changed in the data, such as the goal, has weights of zero and stays bitwise the same.

A file with a forward model has golden steps (recorded inputs and outputs) that cover it. They come from its parts: the
forward model in numpy, and the original policy, whose own golden steps come from torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from sami_runtime.checks.verify import verify
from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact
from sami_runtime.model.contract import (
    ACTION,
    CONTEXT,
    PREVIOUS_ACTION,
    Contract,
    StateTensor,
    state_input,
    state_output,
)
from sami_runtime.model.golden import GoldenSteps
from sami_runtime.model.lookahead import AGE, FRONT, LAST_CONTEXT, MOST_STEPS, PAST_ACTIONS, Lookahead, SignalErrors
from sami_runtime.session.session import Session
from sami_train.export.model_file import compose_verified, declare, refill, without_part

Array = NDArray[np.float32]
Wide = NDArray[np.float64]

LAYERS = 3
SEED = 5
"""Seed of the observation ages in golden steps."""


@dataclass(frozen=True)
class ForwardModel:
    """Predicts o_(t+1) - o_t from o_t, the actions of this period and of the one before, and the context."""

    weights: tuple[Array, ...]
    """(inputs, units), (units, units), (units, D)."""
    biases: tuple[Array, ...]
    """The bias of each layer: (units,), (units,), (D,)."""

    def change(self, observation: Wide, action: Array, before: Array, context: Array) -> Wide:
        """Return the change within a period, (N, D), computed in double precision.

        Args:
            observation: (N, D), the signals concatenated in the contract's order.
            action: (N, A), the applied action of this period.
            before: (N, A), the applied action of the period before.
            context: (N, C).
        """
        x: Wide = np.concatenate([observation, action, before, context], axis=1, dtype=np.float64)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.tanh(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]

    def ahead(self, observation: Array, age: NDArray[Any], actions: Sequence[Array], context: Array) -> Array:
        """Return the predicted present observation, (N, D).

        Step k, from K down to 1, predicts from k to k - 1 periods ago. A number that is younger than k periods takes
        part of the step, or none: half of the second step at an age of 1.5 periods.

        Args:
            observation: (N, D) as it arrived.
            age: (N, D), the age of each number [periods].
            actions: K + 1 arrays (N, A), the last applied action first.
            context: (N, C), the context of the step before.
        """
        x: Wide = observation.astype(np.float64)
        for k in range(len(actions) - 1, 0, -1):
            share: Wide = np.clip(age.astype(np.float64) - (k - 1), 0.0, 1.0)
            x = x + share * self.change(x, actions[k - 1], actions[k], context)
        return x.astype(np.float32)


@dataclass(frozen=True)
class Fit:
    """A fitted model and its errors on held-out data."""

    model: ForwardModel
    transitions: int
    """Number of transitions in the training data."""
    held_out: int
    """Number of held-out transitions."""
    errors: dict[str, SignalErrors]


def require_steps(steps: int) -> None:
    """Check the number of periods of a lookahead.

    Raises:
        SamiError: `steps` is not from 1 to `MOST_STEPS`.
    """
    if not 1 <= steps <= MOST_STEPS:
        raise SamiError(f"--lookahead is {steps}; a file looks 1 to {MOST_STEPS} periods ahead.")


def with_lookahead(artifact: Artifact, out: Path, steps: int, forward: Fit, origin: str) -> Artifact:
    """Return a model file with a forward model in front of its policy, which replaces any earlier forward model.

    Args:
        artifact: the model file, possibly not written yet.
        out: path of the new file.
        steps: K.
        forward: the fitted forward model.
        origin: description, for readers, of the data of the fit.

    Raises:
        CheckFailed: the old or the new file does not reproduce its golden steps.
        SamiError: `steps` is out of range, the file has no golden steps, or one of the files is not valid.
    """
    require_steps(steps)
    verify(artifact).require()
    lookahead = Lookahead(
        steps=steps, fitted=origin, transitions=forward.transitions, held_out=forward.held_out, errors=forward.errors
    )
    contract = without_lookahead(artifact.contract)
    state = [*contract.state, StateTensor(name=PAST_ACTIONS, shape=(steps, contract.action.size))]
    if contract.context_size:
        state.append(StateTensor(name=LAST_CONTEXT, shape=(contract.context_size,)))
    contract = contract.model_copy(update={"state": tuple(state), "lookahead": lookahead})
    graph = in_front(without(onnx.load_from_string(artifact.model_bytes), contract), contract, forward.model)
    return compose_verified(out, graph, contract, golden_steps(Session(artifact), contract, forward.model))


def without_lookahead(contract: Contract) -> Contract:
    """Return the contract of a policy without its forward model."""
    state = tuple(tensor for tensor in contract.state if tensor.name not in (PAST_ACTIONS, LAST_CONTEXT))
    return contract.model_copy(update={"state": state, "lookahead": None})


def golden_steps(session: Session, contract: Contract, forward: ForwardModel) -> GoldenSteps:
    """Return golden steps of a policy with lookahead: the policy's own, with random observation ages.

    A third of the steps has age 0, a third one age for all signals, a third one per signal; a pause precedes every 4th.
    The session is that of the original policy, the contract that of the policy with lookahead.

    Raises:
        SamiError: the policy has no golden steps.
    """
    old = session.contract.golden_steps()
    if old is None or contract.lookahead is None:
        raise SamiError(f"{session.artifact.path} carries no golden steps to compare with. Export the model again.")
    rng, count, steps = np.random.default_rng(SEED), len(old), contract.lookahead.steps
    age = rng.uniform(0.0, steps, (count, len(contract.observation)))
    age[1::3] = age[1::3, :1]
    age[::3] = 0.0
    holds = np.where(np.arange(count) % 4 == 3, rng.integers(1, 3, count), 0)
    own_action = (old.executed == old.answers[ACTION]).all(axis=1)  # (T,): steps whose own action was executed
    executed, reference = old.executed.copy(), Reference(session, contract, forward)
    answers: dict[str, list[np.ndarray]] = {name: [] for name in contract.answers}
    for step in range(count):
        if step in old.resets:
            reference.reset()
        reference.elapse(int(holds[step]))
        observation = {name: value[step] for name, value in old.observation.items()}
        for name, value in reference.step(observation, age[step]).items():
            answers[name].append(value)
        if own_action[step]:
            executed[step] = answers[ACTION][-1]
        reference.executed(executed[step])
    return GoldenSteps(
        observation=old.observation,
        executed=executed,
        answers={name: np.stack(values) for name, values in answers.items()},
        resets=old.resets,
        age=age.astype(np.float32),
        holds=holds[:, None].astype(np.float32),
    )


class Reference:
    """The reference of a policy with lookahead, computed by its parts: the forward model in numpy, and the policy.

    The contract is that of the policy with lookahead. If the session's file has a lookahead, its observation age is
    always 0.
    """

    def __init__(self, session: Session, contract: Contract, forward: ForwardModel) -> None:
        assert contract.lookahead is not None
        self.session, self.contract, self.forward = session, contract, forward
        self.steps = contract.lookahead.steps
        self.sizes = [signal.size for signal in contract.observation]
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self.session.reset()
        self.past = [np.zeros((1, self.contract.action.size), np.float32) for _ in range(self.steps + 1)]
        self.context = np.zeros((1, self.contract.context_size), np.float32)

    def elapse(self, periods: int) -> None:
        """Let periods pass in which the last applied action remains in force."""
        for _ in range(periods):
            self.past = [self.past[0], *self.past[:-1]]

    def step(self, observation: dict[str, np.ndarray], age: np.ndarray) -> dict[str, np.ndarray]:
        """Return the outputs, by name, for an observation whose S signals have these ages [periods], (S,)."""
        flat = np.concatenate([observation[signal.name] for signal in self.contract.observation])[None]
        ahead = self.forward.ahead(flat, np.repeat(age, self.sizes)[None], self.past, self.context)[0]
        parts = np.split(ahead, np.cumsum(self.sizes)[:-1])
        answer = self.session.step(dict(zip((s.name for s in self.contract.observation), parts, strict=True)))
        self.context = answer.context[None]
        self.past = [answer.action[None], *self.past[:-1]]
        return {name: answer.answers[name] for name in self.contract.answers}

    def executed(self, action: np.ndarray) -> None:
        """Record the action (A,) that was applied after the last step."""
        self.session.executed(action)
        self.past[0] = np.asarray(action, np.float32)[None]


def forward_of(model: onnx.ModelProto) -> ForwardModel | None:
    """Return the forward model in front of a file's policy; None if there is none."""
    arrays = {tensor.name: tensor for tensor in model.graph.initializer}
    if f"{FRONT}weight_0" not in arrays:
        return None
    weights, biases = (
        tuple(numpy_helper.to_array(arrays[f"{FRONT}{part}_{k}"]) for k in range(LAYERS)) for part in ("weight", "bias")
    )
    return ForwardModel(weights, biases)


def without(model: onnx.ModelProto, contract: Contract) -> onnx.ModelProto:
    """Return a copy of a policy's graph without its forward model."""
    plain = without_part(model, FRONT)
    _rename_inputs(plain.graph, {FRONT + name: name for name in contract.signal_inputs})
    declare(plain.graph, without_lookahead(contract))
    return plain


def in_front(model: onnx.ModelProto, contract: Contract, forward: ForwardModel) -> onnx.ModelProto:
    """Put a forward model in front of the graph of a policy alone, given the contract of both, and return the graph.

    The policy's own nodes do not change.
    """
    graph = model.graph
    _rename_inputs(graph, {name: FRONT + name for name in contract.signal_inputs})
    refill(graph.node, [*_nodes_before(contract), *graph.node, *_nodes_after(contract)])
    weights = _weights(contract, forward).items()
    graph.initializer.extend(numpy_helper.from_array(value, FRONT + name) for name, value in weights)
    declare(graph, contract)
    onnx.checker.check_model(model, full_check=True)
    return model


def _rename_inputs(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = names.get(name, name)


def _weights(contract: Contract, forward: ForwardModel) -> dict[str, np.ndarray]:
    sizes = [signal.size for signal in contract.observation]
    arrays = {f"weight_{k}": weight for k, weight in enumerate(forward.weights)}
    arrays |= {f"bias_{k}": bias for k, bias in enumerate(forward.biases)}
    arrays |= {"signal": np.repeat(np.arange(len(sizes)), sizes), "sizes": np.array(sizes)}
    arrays |= {"zero": np.zeros((), np.float32), "one": np.ones((), np.float32)}
    steps = contract.inputs[state_input(PAST_ACTIONS)][0]
    arrays |= {f"ago_{k}": np.array(k, np.float32) for k in range(1, steps)}
    return {**arrays, "axis": np.array([1]), "begin": np.array([0]), "end": np.array([-1])}


def _nodes_before(contract: Contract) -> Iterator[NodeProto]:
    """Yield the nodes before the policy, in topological order."""
    past, signals = state_input(PAST_ACTIONS), list(contract.signal_inputs)
    steps = contract.inputs[past][0]
    yield _node("Concat", signals, "seen_0", axis=1)
    yield _node("Gather", [AGE, FRONT + "signal"], "age", axis=1)  # (B, D)
    yield _node("Split", [past], *(f"row_{k}" for k in range(steps)), axis=1)
    for k in range(steps):
        yield _node("Squeeze", [f"{FRONT}row_{k}", FRONT + "axis"], f"past_{k}")
    place = "seen_0"
    for k in range(steps, 0, -1):
        yield from _nodes_of_step(contract, k, FRONT + place)
        place = f"seen_{k}"
    yield _node("Split", [FRONT + place, FRONT + "sizes"], *signals, axis=1)


def _nodes_of_step(contract: Contract, k: int, place: str) -> Iterator[NodeProto]:
    """Yield the nodes that roll forward from k periods ago to k - 1 periods ago."""
    action = PREVIOUS_ACTION if k == 1 else f"{FRONT}past_{k - 2}"
    context = [state_input(LAST_CONTEXT)] if contract.context_size else []
    yield _node("Concat", [place, action, f"{FRONT}past_{k - 1}", *context], f"hidden_{k}_0", axis=1)
    for layer in range(LAYERS):
        last = layer == LAYERS - 1
        output = f"change_{k}" if last else f"linear_{k}_{layer}"
        yield _node(
            "Gemm", [FRONT + part for part in (f"hidden_{k}_{layer}", f"weight_{layer}", f"bias_{layer}")], output
        )
        if not last:
            yield _node("Tanh", [FRONT + output], f"hidden_{k}_{layer + 1}")
    older = "age"
    if k > 1:
        older = f"older_{k}"
        yield _node("Sub", [FRONT + "age", f"{FRONT}ago_{k - 1}"], older)
    yield _node("Clip", [FRONT + older, FRONT + "zero", FRONT + "one"], f"share_{k}")
    yield _node("Mul", [f"{FRONT}share_{k}", f"{FRONT}change_{k}"], f"moved_{k}")
    yield _node("Add", [place, f"{FRONT}moved_{k}"], f"seen_{k}")


def _nodes_after(contract: Contract) -> Iterator[NodeProto]:
    """Yield the nodes that carry actions and context to the next step."""
    past = state_input(PAST_ACTIONS)
    yield _node("Unsqueeze", [PREVIOUS_ACTION, FRONT + "axis"], "newest")
    yield _node("Slice", [past, FRONT + "begin", FRONT + "end", FRONT + "axis"], "newer")
    yield _node("Concat", [FRONT + "newest", FRONT + "newer"], state_output(PAST_ACTIONS), prefix="", axis=1)
    if contract.context_size:
        yield _node("Identity", [CONTEXT], state_output(LAST_CONTEXT), prefix="")


def _node(kind: str, inputs: list[str], *outputs: str, prefix: str = FRONT, **attributes: Any) -> NodeProto:
    """Return a node; use an empty prefix for outputs of the whole graph."""
    names = [prefix + output for output in outputs]
    return helper.make_node(kind, inputs, names, name=f"{FRONT}{kind}_{outputs[0]}", **attributes)
