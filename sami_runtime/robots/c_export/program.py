"""The C++ statements that compute a graph: addresses of all tensors, and an emitter for each group of operators.

Operators that only move numbers (Concat, Slice, Transpose, ...) emit no statements: they rearrange addresses here. A
tensor whose numbers are needed in another order than in memory is copied before its use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import ArtifactError
from sami_runtime.robots.c_export.tensors import GraphNode, StaticGraph

Addresses = NDArray[np.int64]
"""Address of each number of a tensor: index of the buffer times `_STRIDE`, plus the offset in the buffer."""
_STRIDE = 1 << 32
BLOCK = 32
"""Columns of a weight matrix that are stored together: `kBlock` in kernels.hpp."""
LANE = 16
"""Alignment of each part of the scratch memory, in floats."""

UNARY = {
    "Abs": "std::fabs({0})",
    "Ceil": "std::ceil({0})",
    "Cos": "std::cos({0})",
    "Elu": "({0} < 0.0F ? {alpha=1.0} * (std::exp({0}) - 1.0F) : {0})",
    "Erf": "std::erf({0})",
    "Exp": "std::exp({0})",
    "Floor": "std::floor({0})",
    "HardSigmoid": "clamped({alpha=0.2} * {0} + {beta=0.5}, 0.0F, 1.0F)",
    "LeakyRelu": "({0} < 0.0F ? {alpha=0.01} * {0} : {0})",
    "Log": "std::log({0})",
    "Neg": "-{0}",
    "Not": "({0} != 0.0F ? 0.0F : 1.0F)",
    "Reciprocal": "1.0F / {0}",
    "Relu": "({0} < 0.0F ? 0.0F : {0})",
    "Selu": "{gamma=1.0507010221481323} * ({0} < 0.0F ? {alpha=1.6732631921768188} * (std::exp({0}) - 1.0F) : {0})",
    "Sigmoid": "logistic({0})",
    "Sin": "std::sin({0})",
    "Softplus": "({0} > 0.0F ? {0} + std::log1p(std::exp(-{0})) : std::log1p(std::exp({0})))",
    "Softsign": "{0} / (1.0F + std::fabs({0}))",
    "Sqrt": "std::sqrt({0})",
    "Tanh": "hyperbolic_tangent({0})",
}
"""Element-wise operators of one tensor; {name=default} is an attribute of the operator."""
BINARY = {
    "Add": "{0} + {1}",
    "Sub": "{0} - {1}",
    "Mul": "{0} * {1}",
    "Div": "{0} / {1}",
    "Pow": "std::pow({0}, {1})",
    "Min": "({1} < {0} ? {1} : {0})",
    "Max": "({1} > {0} ? {1} : {0})",
    "PRelu": "({0} < 0.0F ? {1} * {0} : {0})",
    "And": "({0} != 0.0F && {1} != 0.0F ? 1.0F : 0.0F)",
    "Or": "({0} != 0.0F || {1} != 0.0F ? 1.0F : 0.0F)",
    "Equal": "({0} == {1} ? 1.0F : 0.0F)",
    "Greater": "({0} > {1} ? 1.0F : 0.0F)",
    "GreaterOrEqual": "({0} >= {1} ? 1.0F : 0.0F)",
    "Less": "({0} < {1} ? 1.0F : 0.0F)",
    "LessOrEqual": "({0} <= {1} ? 1.0F : 0.0F)",
}
"""Element-wise operators of two tensors; Min and Max of more tensors are folded."""
REDUCTIONS = {"ReduceMax": "x > y ? x : y", "ReduceMin": "x < y ? x : y", "ReduceMean": "y + x", "ReduceSum": "y + x"}
SAME_ORDER = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that change the shape, but not the order of the numbers."""
MOVING = (*SAME_ORDER, "Cast", "Concat", "Expand", "Gather", "Slice", "Split", "Tile", "Transpose")


@dataclass
class Program:
    """The body of the C++ function `infer`.

    Args:
        graph: With a batch of 1.
        inputs: By tensor, the parameter of `infer` that contains it, and its offset there.
        where: The model file, for messages.
    """

    graph: StaticGraph
    inputs: dict[str, tuple[str, int]]
    where: str
    statements: list[str] = field(default_factory=list)
    scratch: int = 0
    """Size of the scratch memory, in floats."""
    constants: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    """By name, the numbers (N,) of every constant that the statements use."""
    _buffers: list[str] = field(default_factory=list)
    """Names of the pieces of memory: constants, scratch memory, and parameters of `infer`."""
    _indices: dict[str, int] = field(default_factory=dict)
    _names: dict[bytes, str] = field(default_factory=dict)
    """Names of the constants by their bytes."""
    _addresses: dict[str, Addresses] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for tensor, (name, begin) in self.inputs.items():
            shape = self.graph.shapes[tensor]
            self._addresses[tensor] = self._place(name) + begin + np.arange(math.prod(shape)).reshape(shape)
        for node in self.graph.nodes:
            self._emit(node)

    def store(self, tensor: str, name: str, begin: int) -> None:
        """Add statements that write a tensor to a parameter of `infer`, from the offset `begin` on."""
        self._copy(self._addresses_of(tensor).reshape(-1), name, begin)

    def _emit(self, node: GraphNode) -> None:
        for name in (*node.inputs, *node.outputs):
            kind = self.graph.kinds.get(name)
            if kind is not None and name not in self.graph.constants and kind not in (np.float32, np.bool_):
                raise self._refusal(node, f"computes {kind} from the inputs, and the C++ runtime has float32 alone")
        operator = node.operator
        if operator in MOVING:
            self._move(node)
        elif operator in UNARY or operator in BINARY or operator in ("Clip", "Sum", "Mean", "Where"):
            self._map(node)
        elif operator in REDUCTIONS:
            self._reduce(node)
        elif emitter := getattr(self, f"_emit_{operator.lower()}", None):
            emitter(node)
        else:
            raise self._refusal(node, f"is none of: {', '.join(supported())}")

    def _refusal(self, node: GraphNode, reason: str) -> ArtifactError:
        name = f" ({node.name})" if node.name else ""
        return ArtifactError(
            f"{self.where} cannot be written as C++: its operator {node.operator}{name} {reason}. Run this file with "
            "ONNX Runtime, or train a policy of other layers."
        )

    # Memory.

    def _place(self, name: str) -> int:
        """Return the address at which a buffer begins; a new name creates a buffer."""
        if name not in self._indices:
            self._indices[name] = len(self._buffers)
            self._buffers.append(name)
        return self._indices[name] * _STRIDE

    def _constant(self, values: NDArray[Any]) -> str:
        """Return the name of the buffer with these numbers; equal constants share a buffer."""
        numbers = np.ascontiguousarray(values, np.float32).reshape(-1)
        name = self._names.setdefault(numbers.tobytes(), f"k{len(self._names)}")
        self.constants.setdefault(name, numbers)
        return name

    def _room(self, size: int) -> str:
        """Allocate scratch memory of so many floats, and return its name."""
        name = f"t{self.scratch}"
        self.statements.append(f"float* const {name} = scratch + {self.scratch};")
        self.scratch += -(-size // LANE) * LANE
        return name

    def _result(self, tensor: str) -> str:
        """Allocate scratch memory for the result of an operator, and return its name."""
        shape = self.graph.shapes[tensor]
        name = self._room(math.prod(shape))
        self._addresses[tensor] = self._place(name) + np.arange(math.prod(shape)).reshape(shape)
        return name

    def _addresses_of(self, tensor: str) -> Addresses:
        if tensor in self._addresses:
            return self._addresses[tensor]
        values = self.graph.constants[tensor]
        return self._place(self._constant(values)) + np.arange(values.size).reshape(values.shape)

    def _pointer(self, addresses: Addresses) -> str:
        """Return a pointer expression to contiguous numbers; copy the numbers if they are not contiguous."""
        flat = addresses.reshape(-1)
        if (np.diff(flat) == 1).all():
            place, begin = divmod(int(flat[0]), _STRIDE)
            name = self._buffers[place]
            return f"({name} + {begin})" if begin else name
        name = self._room(len(flat))
        self._copy(flat, name, 0)
        return name

    def _copy(self, flat: Addresses, name: str, begin: int) -> None:
        """Add statements that copy numbers, in contiguous runs, to a buffer from the offset `begin` on."""
        ends = [*(np.flatnonzero(np.diff(flat) != 1) + 1).tolist(), len(flat)]
        for first, end in zip([0, *ends], ends, strict=False):
            place, offset = divmod(int(flat[first]), _STRIDE)
            source = f"{self._buffers[place]}[{offset}"
            target = f"{name}[{begin + first}"
            self.statements.append(
                f"{target}] = {source}];"
                if end - first == 1
                else f"std::memcpy(&{target}], &{source}], {end - first} * sizeof(float));"
            )

    # Operators.

    def _constant_of(self, node: GraphNode, at: int, default: Any = None) -> Any:
        """Return the value of input number `at`, which must be constant; `default` if it is left out."""
        if len(node.inputs) <= at or not node.inputs[at]:
            return default
        if node.inputs[at] not in self.graph.constants:
            raise self._refusal(node, f"computes its input {node.inputs[at]!r}, which must be a constant")
        return self.graph.constants[node.inputs[at]]

    def _move(self, node: GraphNode) -> None:
        operator, shapes = node.operator, [self.graph.shapes[name] for name in node.outputs]
        source = self._addresses_of(node.inputs[0])
        if operator == "Cast":
            # A bool is stored as 0 or 1, so that only the cast of a number to a bool would compute something.
            if self.graph.kinds[node.outputs[0]] == np.bool_ != self.graph.kinds[node.inputs[0]]:
                raise self._refusal(node, "makes truth values of numbers")
            arrays = [source]
        elif operator in SAME_ORDER:
            arrays = [source.reshape(shapes[0])]
        elif operator == "Concat":
            arrays = [np.concatenate([self._addresses_of(name) for name in node.inputs], node.attributes["axis"])]
        elif operator == "Expand":
            arrays = [np.broadcast_to(source, shapes[0])]
        elif operator == "Tile":
            arrays = [np.tile(source, self._constant_of(node, 1))]
        elif operator == "Gather":
            arrays = [np.take(source, self._constant_of(node, 1), node.attributes.get("axis", 0))]
        elif operator == "Transpose":
            arrays = [np.transpose(source, node.attributes.get("perm"))]
        elif operator == "Split":
            axis = node.attributes.get("axis", 0)
            arrays = np.split(source, np.cumsum([shape[axis] for shape in shapes])[:-1], axis)
        else:
            arrays = [self._sliced(node, source)]
        self._addresses |= dict(zip(node.outputs, arrays, strict=True))

    def _sliced(self, node: GraphNode, source: Addresses) -> Addresses:
        starts, ends = self._constant_of(node, 1), self._constant_of(node, 2)
        if starts is None:
            raise self._refusal(node, "has an old form")
        axes = self._constant_of(node, 3, range(len(starts)))
        steps = self._constant_of(node, 4, [1] * len(starts))
        whole: list[Any] = [slice(None)] * source.ndim
        for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
            begin, end, step = (int(bound) for bound in bounds)
            whole[int(axis)] = slice(begin, None if step < 0 and end < -source.shape[int(axis)] else end, step)
        return source[tuple(whole)]

    def _operand(self, tensor: str, shape: tuple[int, ...]) -> str:
        """Return the expression of element i of a tensor that is broadcast to a shape."""
        if tensor in self.graph.constants:
            values = np.asarray(self.graph.constants[tensor], np.float32)
            if values.size and (values == values.flat[0]).all():
                return literal(values.flat[0])
            return f"{self._constant(np.broadcast_to(values, shape))}[i]"
        addresses = np.broadcast_to(self._addresses[tensor], shape)
        if math.prod(shape) > 1 and (addresses == addresses.flat[0]).all():
            return f"{self._pointer(addresses.reshape(-1)[:1])}[0]"
        return f"{self._pointer(addresses)}[i]"

    def _map(self, node: GraphNode) -> None:
        """Emit a loop for an element-wise operator."""
        output, operator = node.outputs[0], node.operator
        shape = self.graph.shapes[output]
        operands = [self._operand(name, shape) if name else "" for name in node.inputs]
        if operator == "Clip":
            low, high = node.attributes.get("min"), node.attributes.get("max")
            ends = [literal(value) if value is not None else "" for value in (low, high)]
            low, high = (*operands[1:], *["", ""])[:2] if len(operands) > 1 else ends
            value = f"clamped({operands[0]}, {low or '-HUGE_VALF'}, {high or 'HUGE_VALF'})"
        elif operator == "Where":
            value = f"({operands[0]} != 0.0F ? {operands[1]} : {operands[2]})"
        elif operator in ("Sum", "Mean"):
            value = " + ".join(operands)
            value = f"({value}) / {literal(len(operands))}" if operator == "Mean" else value
        elif operator in UNARY:
            value = _filled(UNARY[operator], operands, node.attributes)
        elif operator == "Pow" and operands[1] == "2.0F":
            value = "{0} * {0}".format(*operands)
        else:
            value = operands[0]
            for operand in operands[1:]:
                value = BINARY[operator].format(value, operand)
        name = self._result(output)
        self.statements.append(f"for (int i = 0; i < {math.prod(shape)}; ++i) {name}[i] = {value};")

    def _reduce(self, node: GraphNode) -> None:
        source, output = self._addresses_of(node.inputs[0]), node.outputs[0]
        axes = node.attributes.get("axes")
        axes = self._constant_of(node, 1) if axes is None else axes
        reduced = sorted(int(axis) % source.ndim for axis in (range(source.ndim) if axes is None else axes))
        outer = [axis for axis in range(source.ndim) if axis not in reduced]
        count = math.prod(source.shape[axis] for axis in reduced)
        pointer, name = self._pointer(source.transpose(*outer, *reduced)), self._result(output)
        mean = f" / {literal(count)}" if node.operator == "ReduceMean" else ""
        self.statements.append(
            f"for (int i = 0; i < {source.size // count}; ++i) {{\n"
            f"    float y = {pointer}[i * {count}];\n"
            f"    for (int j = 1; j < {count}; ++j) {{\n"
            f"      const float x = {pointer}[i * {count} + j];\n"
            f"      y = {REDUCTIONS[node.operator]};\n"
            f"    }}\n"
            f"    {name}[i] = y{mean};\n"
            f"  }}"
        )

    def _dense(self, x: str, weights: NDArray[Any], bias: NDArray[Any], y: str, rows: int = 1) -> None:
        """Emit y = bias + x W for each row of x; W is (inputs, outputs)."""
        inputs, outputs = weights.shape
        packed, shift = self._constant(blocks(weights)), self._constant(np.broadcast_to(bias, (outputs,)))
        for row in range(rows):
            begin = (f"{x} + {row * inputs}", f"{y} + {row * outputs}") if row else (x, y)
            self.statements.append(f"dense<{inputs}, {outputs}>({begin[0]}, {packed}, {shift}, {begin[1]});")

    def _emit_gemm(self, node: GraphNode) -> None:
        alpha, beta = node.attributes.get("alpha", 1.0), node.attributes.get("beta", 1.0)
        x = self._addresses_of(node.inputs[0])
        x = x.T if node.attributes.get("transA", 0) else x
        weights = self._constant_of(node, 1)
        weights = weights.T if node.attributes.get("transB", 0) else weights
        bias = np.asarray(self._constant_of(node, 2, np.zeros(1, np.float32)))
        if bias.ndim > 1 and bias.shape[0] > 1:
            raise self._refusal(node, "adds another bias to each row")
        pointer, name = self._pointer(x), self._result(node.outputs[0])
        self._dense(pointer, weights * np.float32(alpha), bias.reshape(-1) * np.float32(beta), name, len(x))

    def _emit_matmul(self, node: GraphNode) -> None:
        left, right = (self.graph.shapes[name] for name in node.inputs[:2])
        if node.inputs[1] in self.graph.constants and len(right) == 2:
            pointer, name = self._pointer(self._addresses_of(node.inputs[0])), self._result(node.outputs[0])
            weights = self.graph.constants[node.inputs[1]]
            self._dense(pointer, weights, np.zeros(1, np.float32), name, math.prod(left[:-1]))
            return
        if math.prod(left[:-2]) != 1 or math.prod(right[:-2]) != 1 or min(len(left), len(right)) < 2:
            raise self._refusal(node, f"multiplies a stack of matrices, {left} and {right}")
        pointers = [self._pointer(self._addresses_of(name)) for name in node.inputs[:2]]
        name = self._result(node.outputs[0])
        self.statements.append(f"product<{left[-2]}, {left[-1]}, {right[-1]}>({', '.join(pointers)}, {name});")

    def _recurrent(self, node: GraphNode, gates: int) -> tuple[Any, Any, Any, Addresses, list[Addresses]]:
        """Return weights (I, G H), recurrent weights (H, G H), biases (2, G H), inputs (T, I), initial states (H,)."""
        usual = {"direction": b"forward", "input_forget": 0}
        usual["activations"] = [b"Sigmoid", b"Tanh", *([b"Tanh"] if gates == 4 else [])]
        for name, value in node.attributes.items():
            if name not in ("hidden_size", "layout", "linear_before_reset") and usual.get(name) != value:
                raise self._refusal(node, f"has {name} = {value!r}")
        if node.attributes.get("layout", 0) or any(node.inputs[4:5]) or any(node.inputs[7:8]):
            raise self._refusal(node, "has batches first, lengths of sequences or peepholes")
        weights, recurrent = (self._constant_of(node, at)[0].T for at in (1, 2))
        hidden = len(recurrent)
        bias = self._constant_of(node, 3, np.zeros((1, 2 * gates * hidden), np.float32))[0].reshape(2, -1)
        states = []
        for at in (5, 6)[: gates - 2]:
            name = node.inputs[at] if len(node.inputs) > at else ""
            zeros = np.zeros(hidden, np.float32)
            states.append(
                self._addresses_of(name).reshape(-1) if name else self._place(self._constant(zeros)) + np.arange(hidden)
            )
        return weights, recurrent, bias, self._addresses_of(node.inputs[0])[:, 0], states

    def _recurrent_outputs(self, node: GraphNode, hiddens: list[str], states: list[str], size: int) -> None:
        rows = np.stack([self._place(name) + np.arange(size) for name in hiddens])
        last = [self._place(name) + np.arange(size) for name in states]
        for tensor, addresses in zip(node.outputs, [rows, *last], strict=False):
            if tensor:
                self._addresses[tensor] = addresses.reshape(self.graph.shapes[tensor])

    def _emit_lstm(self, node: GraphNode) -> None:
        weights, recurrent, bias, rows, (hidden, cell) = self._recurrent(node, 4)
        size, count = len(hidden), rows.shape[1]
        matrices = [self._constant(values) for values in (blocks(weights), blocks(recurrent), bias[0] + bias[1])]
        hidden_name, cell_name, gates, hiddens = self._pointer(hidden), self._pointer(cell), self._room(4 * size), []
        for row in rows:
            before = self._pointer(row), hidden_name, cell_name
            hidden_name, cell_name = self._room(size), self._room(size)
            parameters = ", ".join([*before, *matrices, gates, hidden_name, cell_name])
            self.statements.append(f"lstm<{count}, {size}>({parameters});")
            hiddens.append(hidden_name)
        self._recurrent_outputs(node, hiddens, [hiddens[-1], cell_name], size)

    def _emit_gru(self, node: GraphNode) -> None:
        weights, recurrent, bias, rows, (hidden,) = self._recurrent(node, 3)
        size, count = len(hidden), rows.shape[1]
        after = not node.attributes.get("linear_before_reset", 0)  # the reset gate acts on the state, not the product
        parts = (recurrent[:, : 2 * size], recurrent[:, 2 * size :]) if after else (recurrent,)
        matrices = [self._constant(values) for values in (blocks(weights), bias[0], *map(blocks, parts), bias[1])]
        gates, more, previous, hiddens = self._room(3 * size), self._room(3 * size), self._pointer(hidden), []
        for row in rows:
            parameters = [self._pointer(row), previous, *matrices, gates, more, previous := self._room(size)]
            kernel = "gru_reset_first" if after else "gru"
            self.statements.append(f"{kernel}<{count}, {size}>({', '.join(parameters)});")
            hiddens.append(previous)
        self._recurrent_outputs(node, hiddens, hiddens[-1:], size)

    def _emit_conv(self, node: GraphNode) -> None:
        """Emit a convolution: gather the inputs of each output position, and compute its channels as a dense layer."""
        weights, x = self._constant_of(node, 1), self._addresses_of(node.inputs[0])[0]
        channels, _, *kernel = weights.shape
        axes, groups = len(kernel), node.attributes.get("group", 1)
        bias = self._constant_of(node, 2, np.zeros(channels, np.float32))
        strides, dilations = (node.attributes.get(name, [1] * axes) for name in ("strides", "dilations"))
        zero = self._place(self._constant(np.zeros(1)))
        x = np.pad(x, [(0, 0), *self._padding(node, axes)], constant_values=zero)
        spans = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, kernel, strict=True)]
        patches = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(1, axes + 1)))
        every = (*(slice(None, None, step) for step in strides), *(slice(None, None, step) for step in dilations))
        patches = patches[(slice(None), *every)]  # (C, places, kernel)
        places = patches.shape[1 : axes + 1]
        inputs, outputs = len(x) // groups, channels // groups
        patches = np.moveaxis(patches.reshape(groups, inputs, math.prod(places), -1), 2, 0)
        parts = weights.reshape(groups, outputs, -1)
        name = self._room(patches.shape[0] * channels)
        for place, patch in enumerate(patches):
            for group, numbers in enumerate(patch):
                begin = group * outputs
                shift = bias[begin : begin + outputs]
                self._dense(self._pointer(numbers), parts[group].T, shift, f"{name} + {place * channels + begin}")
        shape = self.graph.shapes[node.outputs[0]]
        addresses = self._place(name) + np.arange(math.prod(shape)).reshape(*places, channels)
        self._addresses[node.outputs[0]] = np.moveaxis(addresses, -1, 0).reshape(shape)

    def _padding(self, node: GraphNode, axes: int) -> list[tuple[int, int]]:
        """Return the number of zeros to pad before and after each axis."""
        if node.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
            raise self._refusal(node, f"has auto_pad = {node.attributes['auto_pad']!r}")
        ends = node.attributes.get("pads", [0] * (2 * axes))
        return list(zip(ends[:axes], ends[axes:], strict=True))

    def _emit_layernormalization(self, node: GraphNode) -> None:
        shape, axis = self.graph.shapes[node.inputs[0]], node.attributes.get("axis", -1)
        size = math.prod(shape[axis % len(shape) :])
        scale = self._constant(self._constant_of(node, 1))
        shift = self._constant(self._constant_of(node, 2, np.zeros(size, np.float32)))
        epsilon = literal(node.attributes.get("epsilon", 1e-5))
        pointer, name = self._pointer(self._addresses_of(node.inputs[0])), self._result(node.outputs[0])
        rows = math.prod(shape) // size
        self.statements.append(f"layer_norm<{rows}, {size}>({pointer}, {scale}, {shift}, {epsilon}, {name});")

    def _emit_softmax(self, node: GraphNode) -> None:
        shape = self.graph.shapes[node.inputs[0]]
        if node.attributes.get("axis", -1) % len(shape) != len(shape) - 1:
            raise self._refusal(node, "is over another axis than the last")
        pointer, name = self._pointer(self._addresses_of(node.inputs[0])), self._result(node.outputs[0])
        self.statements.append(f"softmax<{math.prod(shape[:-1])}, {shape[-1]}>({pointer}, {name});")


def supported() -> list[str]:
    """Return the operators that can be written as C++."""
    layers = ("Conv", "Gemm", "MatMul", "LSTM", "GRU", "LayerNormalization", "Softmax", "Clip", "Sum", "Mean", "Where")
    return sorted({*UNARY, *BINARY, *REDUCTIONS, *MOVING, *layers, "Constant", "Shape", "Size"})


def blocks(weights: NDArray[Any]) -> NDArray[np.float32]:
    """Return a matrix (K, N) in the order that `dense` reads: blocks of columns, each in row-major order.

    >>> blocks(np.arange(66).reshape(2, 33))[[0, 31, 32, 63, 64, 65]].tolist()
    [0.0, 31.0, 33.0, 64.0, 32.0, 65.0]
    """
    parts = [weights[:, begin : begin + BLOCK].reshape(-1) for begin in range(0, weights.shape[1], BLOCK)]
    return np.concatenate(parts).astype(np.float32)


def literal(value: Any) -> str:
    """Return a float32 as C++ source, with nine digits, which restore it exactly.

    >>> literal(0.1), literal(2), literal(-np.inf)
    ('0.100000001F', '2.0F', '-HUGE_VALF')
    """
    number = value if type(value) is float else float(np.float32(value))
    if math.isinf(number):
        return "HUGE_VALF" if number > 0 else "-HUGE_VALF"
    text = f"{number:.9g}"
    return f"{text}F" if "." in text or "e" in text else f"{text}.0F"


def _filled(template: str, operands: list[str], attributes: dict[str, Any]) -> str:
    """Insert operands and attributes into a template; `{alpha=1.0}` is an attribute with its default."""
    parts = template.split("{")
    text = parts[0]
    for part in parts[1:]:
        inner, _, rest = part.partition("}")
        name, _, default = inner.partition("=")
        text += (literal(attributes.get(name, float(default))) if default else operands[int(name)]) + rest
    return text
