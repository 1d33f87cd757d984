"""Puts a forward model in front of a policy's graph, and finds it there again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from sami_runtime.model.contract import CONTEXT, PREVIOUS_ACTION, Contract, StateTensor, state_input, state_output
from sami_runtime.model.lookahead import AGE, FRONT, LAST_CONTEXT, PAST_ACTIONS
from sami_train.studies.lookahead.forward_model import LAYERS, ForwardModel


def alone(contract: Contract) -> Contract:
    """Return the contract of a policy without what is in front of it."""
    state = tuple(tensor for tensor in contract.state if tensor.name not in (PAST_ACTIONS, LAST_CONTEXT))
    return contract.model_copy(update={"state": state, "lookahead": None})


def with_room(contract: Contract, steps: int) -> Contract:
    """Return the contract of a policy that looks K periods ahead, without saying how well: what it carries along."""
    state = list(alone(contract).state)
    state.append(StateTensor(name=PAST_ACTIONS, shape=(steps, contract.action.size)))
    if contract.context_size:
        state.append(StateTensor(name=LAST_CONTEXT, shape=(contract.context_size,)))
    return contract.model_copy(update={"state": tuple(state)})


def without(model: onnx.ModelProto, contract: Contract) -> onnx.ModelProto:
    """Return a copy of a policy's graph as it was before a forward model was put in front."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    graph = plain.graph
    names = {FRONT + name: name for name in contract.signal_inputs}
    _keep(graph.node, [node for node in graph.node if not node.name.startswith(FRONT)])
    _keep(graph.initializer, [weight for weight in graph.initializer if not weight.name.startswith(FRONT)])
    for node in graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = names.get(name, name)
    ours = {AGE, *(make(name) for name in (PAST_ACTIONS, LAST_CONTEXT) for make in (state_input, state_output))}
    for values in (graph.input, graph.output):
        _keep(values, [value for value in values if value.name not in ours])
    return plain


def forward_of(model: onnx.ModelProto) -> ForwardModel | None:
    """Return the forward model that a file has in front of its policy; None where it has none."""
    arrays = {tensor.name: tensor for tensor in model.graph.initializer}
    if f"{FRONT}weight_0" not in arrays:
        return None
    weights, biases = (
        tuple(numpy_helper.to_array(arrays[f"{FRONT}{part}_{k}"]) for k in range(LAYERS)) for part in ("weight", "bias")
    )
    return ForwardModel(weights, biases)


def in_front(model: onnx.ModelProto, contract: Contract, forward: ForwardModel) -> onnx.ModelProto:
    """Return a policy's graph with a forward model in front; the policy's own nodes stay as they are.

    Args:
        model: of the policy alone.
        contract: of the policy that looks ahead.
        forward: the forward model.
    """
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    graph = whole.graph
    for node in graph.node:
        for at, name in enumerate(node.input):
            if name in contract.signal_inputs:
                node.input[at] = FRONT + name
    nodes = list(_Front(contract, forward).nodes())
    _keep(graph.node, [*nodes, *graph.node, *_after(contract)])
    graph.initializer.extend(
        numpy_helper.from_array(value, name) for name, value in _weights(contract, forward).items()
    )
    for values, shapes in ((graph.input, contract.inputs), (graph.output, contract.outputs)):
        _keep(values, [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", *s]) for n, s in shapes.items()])
    onnx.checker.check_model(whole, full_check=True)
    return whole


def _weights(contract: Contract, forward: ForwardModel) -> dict[str, np.ndarray]:
    signals = contract.observation
    arrays = {f"weight_{k}": weight for k, weight in enumerate(forward.weights)}
    arrays |= {f"bias_{k}": bias for k, bias in enumerate(forward.biases)}
    arrays["signal"] = np.repeat(np.arange(len(signals)), [signal.size for signal in signals])
    arrays["sizes"] = np.array([signal.size for signal in signals])
    arrays |= {"zero": np.zeros((), np.float32), "one": np.ones((), np.float32)}
    steps = dict(contract.inputs)[state_input(PAST_ACTIONS)][0]
    arrays |= {f"ago_{k}": np.array(k, np.float32) for k in range(1, steps)}
    arrays |= {"axis": np.array([1]), "begin": np.array([0]), "end": np.array([-1])}
    return {FRONT + name: value for name, value in arrays.items()}


class _Front:
    """The nodes before the policy."""

    def __init__(self, contract: Contract, forward: ForwardModel) -> None:
        self.contract = contract
        self.steps = contract.inputs[state_input(PAST_ACTIONS)][0]
        self.signals = list(contract.signal_inputs)

    def nodes(self) -> Iterator[NodeProto]:
        """In the order in which they compute."""
        past = state_input(PAST_ACTIONS)
        yield _node("Concat", self.signals, "seen_0", axis=1)
        yield _node("Gather", [AGE, FRONT + "signal"], "age", axis=1)  # (B, D)
        yield _node("Split", [past], *(f"row_{k}" for k in range(self.steps)), axis=1)
        for k in range(self.steps):
            yield _node("Squeeze", [f"{FRONT}row_{k}", FRONT + "axis"], f"past_{k}")
        place = "seen_0"
        for k in range(self.steps, 0, -1):
            yield from self._step(k, place)
            place = f"seen_{k}"
        yield _node("Split", [FRONT + place, FRONT + "sizes"], *self.signals, axis=1)

    def _step(self, k: int, place: str) -> Iterator[NodeProto]:
        """Roll forward from k periods ago to k - 1 periods ago."""
        action = PREVIOUS_ACTION if k == 1 else f"{FRONT}past_{k - 2}"
        inputs = [FRONT + place, action, f"{FRONT}past_{k - 1}"]
        context = [state_input(LAST_CONTEXT)] if self.contract.context_size else []
        yield _node("Concat", [*inputs, *context], f"hidden_{k}_0", axis=1)
        for layer in range(LAYERS):
            last = layer == LAYERS - 1
            to = f"change_{k}" if last else f"linear_{k}_{layer}"
            inputs = [f"{FRONT}hidden_{k}_{layer}", f"{FRONT}weight_{layer}", f"{FRONT}bias_{layer}"]
            yield _node("Gemm", inputs, to)
            if not last:
                yield _node("Tanh", [FRONT + to], f"hidden_{k}_{layer + 1}")
        older = "age"
        if k > 1:
            older = f"older_{k}"
            yield _node("Sub", [FRONT + "age", f"{FRONT}ago_{k - 1}"], older)
        yield _node("Clip", [FRONT + older, FRONT + "zero", FRONT + "one"], f"share_{k}")
        yield _node("Mul", [f"{FRONT}share_{k}", f"{FRONT}change_{k}"], f"moved_{k}")
        yield _node("Add", [FRONT + place, f"{FRONT}moved_{k}"], f"seen_{k}")


def _after(contract: Contract) -> Iterator[NodeProto]:
    """Yield the nodes that carry actions and context to the next step."""
    past = state_input(PAST_ACTIONS)
    yield _node("Unsqueeze", [PREVIOUS_ACTION, FRONT + "axis"], "newest")
    yield _node("Slice", [past, FRONT + "begin", FRONT + "end", FRONT + "axis"], "newer")
    yield _to(state_output(PAST_ACTIONS), "Concat", [FRONT + "newest", FRONT + "newer"], axis=1)
    if contract.context_size:
        yield _to(state_output(LAST_CONTEXT), "Identity", [CONTEXT])


def _node(kind: str, inputs: list[str], *outputs: str, **attributes: Any) -> NodeProto:
    named = [FRONT + output for output in outputs]
    return helper.make_node(kind, inputs, named, name=f"{FRONT}{kind}_{outputs[0]}", **attributes)


def _to(output: str, kind: str, inputs: list[str], **attributes: Any) -> NodeProto:
    """Return a node that gives an output of the graph."""
    return helper.make_node(kind, inputs, [output], name=f"{FRONT}{kind}_{output}", **attributes)


def _keep(field: Any, values: Iterable[Any]) -> None:
    """Give a repeated field of a message other values."""
    copies = list(values)
    del field[:]
    field.extend(copies)
