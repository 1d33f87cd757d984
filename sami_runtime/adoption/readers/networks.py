"""Writes weights that were read without torch as an ONNX graph: linear layers, LSTM and GRU, scaling and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adoption.graph import import_onnx
from sami_runtime.errors import ArtifactError

OPSET = 17
ACTIVATIONS = {"ELU": "Elu", "ReLU": "Relu", "Tanh": "Tanh", "Sigmoid": "Sigmoid", "LeakyReLU": "LeakyRelu"} | {
    "Identity": "Identity",
    "SELU": "Selu",
    "Softplus": "Softplus",
}
"""ONNX operator by torch's class, with the default settings of that class."""
_DEFAULTS = {"LeakyRelu": {"alpha": 0.01}}
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
"""Index in torch's gates (ifgo; rzn) of each of ONNX's gates (iofc; zrh)."""
INPUT, OUTPUT = "obs", "actions"

Array = NDArray[Any]


class Network:
    """A graph from `obs` to `actions`, to which each method appends; its weights are from the file `source`."""

    def __init__(self, size: int, source: str) -> None:
        onnx = import_onnx()
        self._onnx, self._source = onnx, source
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._inputs = [self._tensor(INPUT, [size])]
        self._outputs: list[Any] = []
        self._last, self.size = INPUT, size

    def _tensor(self, name: str, shape: Sequence[int], before: Sequence[int] = ()) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, 1, [*before, "batch", *shape])

    def _constant(self, value: Array, dtype: Any = np.float32) -> str:
        name = f"weight_{len(self._weights)}"
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ArtifactError(f"{self._source} has weights that are not finite. Save a policy that learnt.")
        self._weights.append(self._onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def apply(self, operator: str, *constants: Array, dtype: Any = np.float32, **attributes: Any) -> None:
        """Apply an operator to the last result and constants."""
        names = [self._constant(np.asarray(constant), dtype) for constant in constants]
        result = f"value_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, [self._last, *names], [result], **attributes))
        self._last = result

    def linear(self, weights: Mapping[str, Array], name: str) -> None:
        """Apply torch's layer `name`: weight (out, in) and, if there is one, bias (out,)."""
        weight = self._weight(weights, f"{name}.weight", (-1, self.size))
        constants = [weight]
        if f"{name}.bias" in weights:
            constants.append(self._weight(weights, f"{name}.bias", (len(weight),)))
        self.apply("Gemm", *constants, transB=1)
        self.size = len(weight)

    def activation(self, name: str) -> None:
        """Apply an activation function by the name of torch's class."""
        if name not in ACTIVATIONS:
            raise ArtifactError(
                f"{self._source}: the activation function {name} is not among {', '.join(sorted(ACTIVATIONS))}. "
                "Export the policy to ONNX instead."
            )
        operator = ACTIVATIONS[name]
        self.apply(operator, **_DEFAULTS.get(operator, {}))

    def recurrent(self, weights: Mapping[str, Array], name: str, kind: str) -> None:
        """Apply torch's LSTM or GRU; layer N gets its own state `h_in_N` and, for an LSTM, `c_in_N`."""
        order = _GATES[kind]
        layer = 0
        while f"{name}.weight_ih_l{layer}" in weights:
            hidden = weights[f"{name}.weight_hh_l{layer}"].shape[1]
            columns = {"weight_ih": (self.size,), "weight_hh": (hidden,), "bias_ih": (), "bias_hh": ()}
            gates = {}
            for part, wide in columns.items():
                weight = self._weight(weights, f"{name}.{part}_l{layer}", (len(order) * hidden, *wide))
                gates[part] = weight.reshape(len(order), hidden, *wide)[[*order]].reshape(weight.shape)
            self._recurrent_layer(kind, layer, hidden, gates)
            self.size = hidden
            layer += 1

    def _recurrent_layer(self, kind: str, layer: int, hidden: int, gates: Mapping[str, Array]) -> None:
        names = ["h", "c"] if kind == "LSTM" else ["h"]
        states = [f"{name}_in_{layer}" for name in names]
        results = [f"{name}_out_{layer}" for name in names]
        self.apply("Unsqueeze", np.array([0]), dtype=np.int64)
        bias = np.concatenate([gates["bias_ih"], gates["bias_hh"]])
        constants = [self._constant(value[None]) for value in (gates["weight_ih"], gates["weight_hh"], bias)]
        attributes = {"linear_before_reset": 1} if kind == "GRU" else {}
        self._nodes.append(
            self._onnx.helper.make_node(
                kind, [self._last, *constants, "", *states], ["", *results], hidden_size=hidden, **attributes
            )
        )
        self._inputs += [self._tensor(name, [hidden], [1]) for name in states]
        self._outputs += [self._tensor(name, [hidden], [1]) for name in results]
        self._last = results[0]
        self.apply("Squeeze", np.array([0]), dtype=np.int64)

    def _weight(self, weights: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
        weight = weights.get(name)
        sizes = weight.shape if isinstance(weight, np.ndarray) else ()
        if len(sizes) != len(shape) or any(dim not in (-1, size) for dim, size in zip(shape, sizes, strict=True)):
            state = "is missing" if weight is None else f"has shape {list(sizes)}"
            raise ArtifactError(
                f"{self._source}: {name} {state}; expected {[n if n > 0 else 'any' for n in shape]}. "
                "Export the policy to ONNX instead."
            )
        return np.asarray(weight, np.float32)

    @property
    def states(self) -> list[tuple[str, str]]:
        """Pairs of names: each recurrent input, with its output."""
        return [(i.name, o.name) for i, o in zip(self._inputs[1:], self._outputs, strict=True)]

    def finish(self) -> bytes:
        """Return the ONNX file; the last result becomes `actions`."""
        helper = self._onnx.helper
        nodes = [*self._nodes, helper.make_node("Identity", [self._last], [OUTPUT])]
        outputs = [self._tensor(OUTPUT, [self.size]), *self._outputs]
        graph = helper.make_graph(nodes, "policy", self._inputs, outputs, self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        return bytes(model.SerializeToString())
