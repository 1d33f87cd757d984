"""Checks that the graph of a policy and its recipe agree, and returns the sizes of inputs, outputs and states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sami_runtime.adoption.recipe import Recipe
from sami_runtime.errors import ArtifactError, ContractError, UnknownName
from sami_runtime.files import printable
from sami_runtime.model.graph_scan import FLOAT, TensorType

_FLOAT_NAMES = {10: "float16", 11: "float64", 16: "bfloat16"}


@dataclass(frozen=True)
class StateLayout:
    """The shape of a recurrent tensor."""

    shape: tuple[int, ...]
    """The shape without the batch axis."""
    batch_axis: int


@dataclass(frozen=True)
class PolicyLayout:
    """Sizes in a policy's graph."""

    inputs: dict[str, tuple[int, ...]]
    """By input, its shape without the batch axis: (size,), or (steps, size) if stacked frames have their own axis."""
    actions: int
    states: dict[str, StateLayout]
    """By the state's name in the recipe."""


def layout_of(
    recipe: Recipe, inputs: Collection[TensorType], outputs: Collection[TensorType], where: str
) -> PolicyLayout:
    """Compare a recipe with the outputs of the graph and the inputs that no initializer fills; return the sizes.

    Raises:
        UnknownName: The recipe names a tensor that the graph lacks.
        ContractError: The recipe disagrees with the graph.
        ArtifactError: A tensor is not float32, or its sizes are not fixed.
    """
    pairs = recipe.state
    input_types = _tensors("input", [*recipe.inputs, *(pair.input for pair in pairs)], inputs, where)
    output_types = _tensors("output", [recipe.output, *(pair.output for pair in pairs)], outputs, where)
    if unfilled := [tensor.name for tensor in inputs if tensor.name not in input_types]:
        raise _disagreement(
            where,
            f"nothing fills the input {', '.join(map(repr, unfilled))}; a recurrent one is a [[state]] with its "
            "output, any other one is the `input` of a signal",
        )
    sizes = {name: _size(input_types[name], recipe, where) for name in recipe.inputs}
    for name, terms in recipe.inputs.items():
        at = 0
        for term_name, term in terms:
            start, stop = term.slice
            if start != at:
                fault = "overlaps the one before it" if start < at else "leaves a gap"
                raise _disagreement(where, f"slice [{start}, {stop}] of {term_name} {fault}; expected a start at {at}")
            at = stop
        steps = recipe.history.steps if recipe.history and name == recipe.input else 1
        total = sizes[name][0] if len(sizes[name]) == 1 else sizes[name][0] * sizes[name][1]
        if at * steps != total:
            times = f" times {steps} steps" if steps > 1 else ""
            raise _disagreement(where, f"the slices of {name!r} end at {at}{times}, the input at {total}")
    output = output_types[recipe.output]
    if len(output.shape) == 2 and isinstance(output.shape[1], str):
        # Torch's older exporter names the size if the batch is dynamic; `adopt` compares it with that of each step.
        output = output._replace(shape=(output.shape[0], len(recipe.action.elements)))
    actions = _last_size(output, where)
    if len(recipe.action.elements) != actions:
        raise _disagreement(where, f"action has {len(recipe.action.elements)} elements, the graph answers {actions}")
    states = {pair.name: _state(input_types[pair.input], output_types[pair.output], where) for pair in pairs}
    return PolicyLayout(sizes, actions, states)


def _tensors(kind: str, names: list[str], declared: Collection[TensorType], where: str) -> dict[str, TensorType]:
    tensors = {tensor.name: tensor for tensor in declared}
    for name in names:
        if name not in tensors:
            raise UnknownName(f"{kind} of {where}", name, tensors, "Correct the recipe.")
        if (dtype := tensors[name].dtype) != FLOAT:
            text = _FLOAT_NAMES.get(dtype, f"ONNX element type {dtype}")
            raise ArtifactError(f"{where}: {kind} {name!r} is {text}; only float32 is adopted. Export it in float32.")
    return {name: tensors[name] for name in names}


def _size(tensor: TensorType, recipe: Recipe, where: str) -> tuple[int, ...]:
    if len(tensor.shape) != 3 or tensor.name != recipe.input:
        return (_last_size(tensor, where),)
    _, steps, size = tensor.shape
    expected = recipe.history.steps if recipe.history else 1
    if not isinstance(steps, int) or not isinstance(size, int) or size < 1:
        raise _not_fixed(tensor, "[batch, steps, size]", where)
    if steps != expected:
        raise _disagreement(where, f"input {tensor.name!r} has {steps} frames, the recipe's history {expected}")
    return steps, size


def _last_size(tensor: TensorType, where: str) -> int:
    batch, *sizes = tensor.shape or ("",)
    if len(sizes) != 1 or not isinstance(sizes[0], int) or sizes[0] < 1 or (isinstance(batch, int) and batch != 1):
        raise _not_fixed(tensor, "[batch, size]", where)
    return sizes[0]


def _state(tensor: TensorType, output: TensorType, where: str) -> StateLayout:
    """Return the layout of a state; its batch axis is the dynamic axis, else the usual one, which must have size 1."""
    shape = tensor.shape
    dynamic = [axis for axis, size in enumerate(shape) if isinstance(size, str)]
    usual = {2: 0, 3: 1}.get(len(shape), -1)
    axis = dynamic[0] if len(dynamic) == 1 else usual
    batch = shape[axis] if 0 <= axis < len(shape) else 0
    sizes = tuple(size for at, size in enumerate(shape) if at != axis and isinstance(size, int) and size > 0)
    if len(shape) not in (2, 3) or len(sizes) != len(shape) - 1 or not (batch == 1 or isinstance(batch, str)):
        raise _not_fixed(tensor, "[batch, size] or [layers, batch, size]", where)
    fixed = [size for size in output.shape if isinstance(size, int)]
    if len(output.shape) != len(shape) or any(size not in (*sizes, 1) for size in fixed):
        raise _disagreement(where, f"state {tensor.name!r} has shape {list(shape)}, its output {list(output.shape)}")
    return StateLayout(sizes, axis)


def _not_fixed(tensor: TensorType, expected: str, where: str) -> ArtifactError:
    return ArtifactError(
        f"{where}: {tensor.name!r} has shape {list(tensor.shape)}; expected {expected} with a batch of 1 or a dynamic "
        "one, and fixed sizes. Export it so."
    )


def _disagreement(where: str, fact: str) -> ContractError:
    return ContractError(f"the recipe does not fit {where}: {printable(fact)}. Correct the recipe.")
