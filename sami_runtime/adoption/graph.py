"""Writes the graph of an adopted policy: the recipe, the network, the meaning of its output."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from sami_runtime.adoption.layout import PolicyLayout
from sami_runtime.adoption.recipe import FLAG, LAST_ACTION, History, Recipe, SignalTerm, row
from sami_runtime.distribution import install_hint
from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.files import printable
from sami_runtime.model.contract import (
    ACTION,
    PREVIOUS_ACTION,
    Contract,
    StateTensor,
    observation_input,
    state_input,
    state_output,
)
from sami_runtime.model.graph_scan import FLOAT

FRAME = "frame"
"""Name, for `history_state`, of the history of whole frames."""
PREFIX = "policy."
"""Prefix of the network's names. The recipe's begin with `recipe.` and are numbered, so that all names are unique."""
OLDEST_OPSET = 11
"""The first opset in which `Slice`, `Clip` and broadcasting work as they do now."""


def import_onnx() -> ModuleType:
    """Return the package onnx; SamiError if it is not installed."""
    try:
        import onnx
        import onnx.compose
        import onnx.inliner
    except ModuleNotFoundError:
        raise SamiError(f"adopting a policy needs the package onnx. Install it with: {install_hint('adopt')}") from None
    module: ModuleType = onnx
    return module


def read_model(data: bytes, where: str, inlined: bool = True) -> Any:
    """Return an ONNX model, with functions inlined, as torch's newer exporter writes them.

    Raises:
        ArtifactError: It cannot be read.
        SamiError: The package onnx is not installed.
    """
    onnx = import_onnx()
    try:
        model = onnx.load_from_string(data)
        return onnx.inliner.inline_local_functions(model) if inlined and model.functions else model
    except Exception as error:  # protobuf's own classes of errors differ by version
        line = printable(" ".join(str(error).split()))[:300]
        raise ArtifactError(f"{where} cannot be read: {line}. Export it again.") from None


def with_free_batch(data: bytes) -> bytes:
    """Return the model with recurrent layers that accept any batch size.

    Torch's newer exporter adds a `Transpose` and a `Reshape` to [1, 1, size] after each LSTM or GRU: one step, a batch
    of 1. The second number becomes -1. Before the LSTM of sb3-contrib's RecurrentPPO the older exporter writes a
    `Reshape` to [1, -1, size]: one sequence of any length. It becomes [-1, 1, size]. The results for a batch of 1 are
    the same. Nothing else changes.
    """
    onnx = import_onnx()
    model = onnx.load_from_string(data)
    graph = model.graph
    makers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {name: a.t for name, node in makers.items() for a in node.attribute if node.op_type == "Constant"}
    for node in graph.node:
        turned = makers.get(node.input[0]) if node.op_type in ("LSTM", "GRU", "Reshape") else None
        source = makers.get(turned.input[0]) if turned is not None and turned.op_type == "Transpose" else None
        if turned is None or source is None:
            continue
        match node.op_type, source.op_type, [n for a in turned.attribute for n in a.ints]:
            case "Reshape", "LSTM" | "GRU", [0, 2, 1, 3]:  # ONNX's [step, direction, batch, size] to torch's order
                reshape, fixed, free = node, [1, 1], [1, -1]
            case "LSTM" | "GRU", "Reshape", [1, 0, 2]:
                reshape, fixed, free = source, [1, -1], [-1, 1]
            case _:
                continue
        constant = constants.get(reshape.input[1])
        shape = onnx.numpy_helper.to_array(constant) if constant is not None and [*constant.dims] == [3] else []
        if [*shape[:2]] == fixed:
            reshape.input[1] = f"{reshape.output[0]}.any_batch"
            freed = np.array([*free, shape[2]], np.int64)
            graph.initializer.append(onnx.numpy_helper.from_array(freed, reshape.input[1]))
    return bytes(model.SerializeToString())


def history_state(name: str) -> str:
    """Return the name of the state that stores the past of a signal, the last action or the whole frame."""
    return f"history_{name}"


def states_of(recipe: Recipe, layout: PolicyLayout) -> tuple[StateTensor, ...]:
    """Return the states of the adopted file: the network's, and those that the recipe adds."""
    states = [StateTensor(name=p.name, shape=layout.states[p.name].shape, initial=p.initial) for p in recipe.state]
    last = recipe.last_action
    if last and last.kind == "raw":
        states.append(StateTensor(name=LAST_ACTION, shape=(layout.actions,)))
    histories: list[tuple[History, str, int]] = []
    for terms in recipe.inputs.values():
        for name, term in terms:
            if term.history:
                histories.append((term.history, name, (term.slice[1] - term.slice[0]) // term.history.steps))
    if recipe.history:
        histories.append((recipe.history, FRAME, recipe.inputs[recipe.input][-1][1].slice[1]))
    states += [StateTensor(name=history_state(name), shape=(size * (h.steps - 1),)) for h, name, size in histories]
    if (last and last.kind == "applied") or any(history.start == "repeat" for history, _, _ in histories):
        states.append(StateTensor(name=FLAG, shape=(1,)))
    return tuple(states)


def wrapped_model(data: bytes, recipe: Recipe, layout: PolicyLayout, contract: Contract, where: str) -> Any:
    """Return a policy's ONNX model with the inputs and outputs of the contract; its metadata is empty.

    Raises:
        ArtifactError: The graph cannot be extended.
    """
    onnx = import_onnx()

    def declared(shapes: Mapping[str, tuple[int, ...]]) -> list[Any]:
        make = onnx.helper.make_tensor_value_info
        return [make(name, FLOAT, ["batch", *shape]) for name, shape in shapes.items()]

    try:
        network = onnx.compose.add_prefix(read_model(data, where), PREFIX)
        recipe_nodes = _RecipeNodes(recipe, layout, onnx.helper.make_node)
        before, after = recipe_nodes.before(), recipe_nodes.after()
        computed = {name for node in before for name in node.output}
        constants = [onnx.numpy_helper.from_array(v, name) for name, v in recipe_nodes.constants.items()]
        graph = onnx.helper.make_graph(
            [*before, *network.graph.node, *after],
            "adopted",
            declared(contract.inputs),
            declared(contract.outputs),
            [*(tensor for tensor in network.graph.initializer if tensor.name not in computed), *constants],
        )
        return onnx.helper.make_model(graph, opset_imports=network.opset_import, ir_version=network.ir_version)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        line = printable(" ".join(str(error).split()))[:300]
        raise ArtifactError(f"{where} cannot be adopted: {line}. Export it again.") from None


class _RecipeNodes:
    """Makes the nodes around the network."""

    def __init__(self, recipe: Recipe, layout: PolicyLayout, make_node: Any) -> None:
        self.recipe, self.layout, self._make_node = recipe, layout, make_node
        self.constants: dict[str, Any] = {}
        self._nodes: list[Any] = []
        self._in_episode = ""

    def before(self) -> list[Any]:
        """Return the nodes that compute the network's inputs."""
        recipe = self.recipe
        names = [state.name for state in states_of(recipe, self.layout)]
        if FLAG in names:
            self._in_episode = self._with("Greater", state_input(FLAG), np.full(1, 0.5, np.float32))
            self._with("Max", state_input(FLAG), np.ones(1, np.float32), state_output(FLAG))
        for name, terms in recipe.inputs.items():
            parts = [self._term(term_name, term) for term_name, term in terms]
            value = self._node("Concat", parts, axis=1)
            if recipe.clip:
                value = self._clipped(value, -recipe.clip, recipe.clip)
            if recipe.history and name == recipe.input:
                value = self._stacked(FRAME, value, terms[-1][1].slice[1], recipe.history)
            shape = np.array([0, *self.layout.inputs[name]], np.int64)  # 0 is the batch's size
            self._with("Reshape", value, shape, PREFIX + name)
        for pair in recipe.state:
            self._node_of_state(pair.name, state_input(pair.name), PREFIX + pair.input, into=True)
        return list(self._nodes)

    def after(self) -> list[Any]:
        """Return the nodes that compute the action and the next state."""
        first = len(self._nodes)
        target, size = self.recipe.action, self.layout.actions
        raw = PREFIX + self.recipe.output
        if target.clip:
            raw = self._clipped(raw, -target.clip, target.clip)
        if self.recipe.last_action and self.recipe.last_action.kind == "raw":
            self._node("Identity", [raw], state_output(LAST_ACTION))
        scaled = self._with("Mul", raw, row(target.scale, size))
        self._with("Add", scaled, row(target.default, size), ACTION)
        for pair in self.recipe.state:
            self._node_of_state(pair.name, PREFIX + pair.output, state_output(pair.name), into=False)
        return self._nodes[first:]

    def _term(self, name: str, term: Any) -> str:
        target, actions = self.recipe.action, self.layout.actions
        size = (term.slice[1] - term.slice[0]) // (term.history.steps if term.history else 1)
        if isinstance(term, SignalTerm):
            value = self._with("Sub", observation_input(name), row(term.offset, size))
            if term.clip:
                value = self._clipped(value, *term.clip)
        elif term.kind == "raw":
            value = state_input(LAST_ACTION)
        else:
            value = self._with("Sub", PREVIOUS_ACTION, row(target.default, actions))
            value = self._with("Div", value, row(target.scale, actions))
            at_first = self._constant(np.zeros((1, actions), np.float32))
            value = self._node("Where", [self._in_episode, value, at_first])
        value = self._with("Mul", value, row(term.scale, size))
        return self._stacked(name, value, size, term.history) if term.history else value

    def _stacked(self, name: str, value: str, size: int, history: History) -> str:
        """Return a value stacked with its past; all but the oldest value become the next state."""
        state = history_state(name)
        past, count = state_input(state), history.steps - 1
        if history.start == "repeat":
            repeated = self._node("Concat", [value] * count, axis=1)
            past = self._node("Where", [self._in_episode, past, repeated])
        oldest_first = history.first == "oldest"
        stacked = self._node("Concat", [past, value] if oldest_first else [value, past], axis=1)
        start = size if oldest_first else 0
        ends = [self._constant(np.full(1, number, np.int64)) for number in (start, start + size * count, 1)]
        self._node("Slice", [stacked, *ends], state_output(state))
        return stacked

    def _node_of_state(self, name: str, source: str, result: str, into: bool) -> None:
        """Move the batch axis from the first place to the network's place (`into`), or back."""
        layout = self.layout.states[name]
        axes = list(range(len(layout.shape) + 1))
        order = axes[1:]
        order.insert(layout.batch_axis, 0)
        if order == axes:
            self._node("Identity", [source], result)
        else:
            self._node("Transpose", [source], result, perm=order if into else np.argsort(order).tolist())

    def _clipped(self, value: str, low: float, high: float) -> str:
        floor = self._with("Max", value, np.full(1, low, np.float32))
        return self._with("Min", floor, np.full(1, high, np.float32))

    def _with(self, operator: str, value: str, constant: Any, result: str = "") -> str:
        return self._node(operator, [value, self._constant(constant)], result)

    def _constant(self, value: Any) -> str:
        name = f"recipe.constant{len(self.constants)}"
        self.constants[name] = value
        return name

    def _node(self, operator: str, inputs: list[str], result: str = "", **attributes: Any) -> str:
        result = result or f"recipe.{operator.lower()}{len(self._nodes)}"
        self._nodes.append(self._make_node(operator, inputs, [result], **attributes))
        return result
