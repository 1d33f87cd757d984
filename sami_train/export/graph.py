"""The graph of a policy: one step, from observation and state to action, context and state."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from sami_runtime.model.contract import Contract
from sami_train.agent.policy import ContextPolicy
from sami_train.envs.spec import EnvironmentSpec

OPSET = 17


class Exportable(nn.Module):
    """One deterministic step with the contract's signals as inputs.

    Args:
        policy: trained.
        spec: layout of the environment's flat observation.
    """

    permutation: Tensor

    def __init__(self, policy: ContextPolicy, spec: EnvironmentSpec) -> None:
        super().__init__()
        self.policy = policy
        self.register_buffer("permutation", torch.as_tensor(np.argsort(spec.layout.order)))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Signals (B, size) in the contract's order, previous action (B, A), then the encoder's state (B, ...)."""
        split = len(inputs) - len(self.policy.encoder.state)
        *signals, previous_action = inputs[:split]
        flat = torch.cat(signals, -1)[:, self.permutation]
        return self.policy.step(flat, previous_action, *inputs[split:])


def trace_graph(module: Exportable, contract: Contract) -> onnx.ModelProto:
    """Trace a step into a graph with the contract's inputs and outputs, in its order, and a dynamic batch axis."""
    inputs, outputs = contract.inputs, contract.outputs
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The tracing exporter keeps the LSTM as one node and the file as one file; torch warns that it is the older
        # one, and that an LSTM's batch must be dynamic in its state too, which it is here.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(torch.zeros(2, *shape) for shape in inputs.values()),
            buffer,  # type: ignore[arg-type] # any binary file works
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: {0: "batch"} for name in (*inputs, *outputs)},
            opset_version=OPSET,
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    _declare_inputs(model, inputs)
    _fix_shapes(model, outputs)
    model.graph.name = contract.name
    model.producer_name = "sami"
    onnx.checker.check_model(model, full_check=True)
    return model


def _declare_inputs(model: onnx.ModelProto, inputs: Mapping[str, tuple[int, ...]]) -> None:
    """Declare every input in its order: tracing leaves out one that nothing reads, as a memoryless policy's action."""
    traced = {value.name: value for value in model.graph.input}
    for name, shape in inputs.items():
        if name not in traced:
            traced[name] = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *shape])
    del model.graph.input[:]
    model.graph.input.extend(traced[name] for name in inputs)


def _fix_shapes(model: onnx.ModelProto, outputs: Mapping[str, tuple[int, ...]]) -> None:
    """Declare the outputs' shapes: tracing leaves some of their static dimensions unnamed."""
    for output in model.graph.output:
        shape = output.type.tensor_type.shape
        for axis, size in enumerate(outputs[output.name], start=1):
            shape.dim[axis].dim_value = size
