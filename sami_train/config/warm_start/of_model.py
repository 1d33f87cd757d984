"""Weights out of a model file: all that the graph holds, which is encoder, actor and normalisation, but no critics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import read_artifact
from sami_train.config.warm_start.alike import flat_signals, unlike
from sami_train.config.warm_start.weights import Weights, WeightsHeader
from sami_train.envs.catalog import environment

PREFIX = "policy."
"""What the graph's names of the policy's tensors begin with."""
FOLLOWS = "present."
"""What the names of tensors begin with that follow from the layout of observations, and are not learned."""
GATES = (0, 2, 3, 1)
"""Where ONNX's LSTM, whose gates are i, o, f, c, has those of torch's, which are i, f, c, o."""
Arrays = dict[str, NDArray[Any]]


def weights_of_model(path: Path) -> Weights:
    """Return the weights of an exported policy, as a file of weights has them.

    The graph answers with the mean of the actor's distribution, so its deviation is not in it; nor are critics,
    temperature, and the number of observations behind the normalisation, for which the run's steps are taken.

    Raises:
        ArtifactError, ContractError: it is no valid model file.
        SamiError: it does not tell how it was trained, or its graph is not of this package's making.
    """
    artifact = read_artifact(path)
    contract, training = artifact.contract, artifact.contract.training
    config = training.get("config")
    if not isinstance(config, dict) or not {"env", "method", "network"} <= config.keys():
        raise SamiError(f"{path} does not tell the configuration that it was trained with; give a run by --init.")
    arrays = _arrays(onnx.load_from_string(artifact.model_bytes).graph)
    needed = {f"features.{name}" for name in ("projection", "mean", "scale")} | {"actor.mean.weight"}
    if missing := sorted(needed - arrays.keys()):
        raise SamiError(f"the graph of {path} has no {', '.join(missing)}; only what sami export wrote can be read.")
    steps = int(training.get("steps", 0))
    mean, deviation = (arrays[f"features.{name}"].astype(np.float64) for name in ("mean", "scale"))
    arrays["features.running_mean"], arrays["features.count"] = mean, np.array(float(max(1, steps)))
    arrays["features.running_m2"] = deviation**-2.0 * max(1, steps)
    spec = environment(str(config["env"]))
    observation = {signal.name: signal.size for signal in contract.observation}
    if difference := unlike(observation, contract.action.size, spec):
        raise SamiError(f"{path} has other signals than its environment {spec.name!r} has today: {difference}.")
    header = WeightsHeader(
        env=config["env"],
        method=config["method"],
        observation=flat_signals(spec),
        actions=contract.action.size,
        network=config["network"],
        steps=steps,
        model=artifact.graph_sha256,
    )
    return Weights(header, arrays)


def _arrays(graph: onnx.GraphProto) -> Arrays:
    """Return the policy's tensors by their names there."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    arrays = {name.removeprefix(PREFIX): array for name, array in stored.items() if name.startswith(PREFIX)}
    arrays = {name: array for name, array in arrays.items() if not name.startswith(FOLLOWS)}
    maker = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        if node.op_type == "LSTM":
            arrays |= {f"encoder.lstm.{name}": array for name, array in _lstm(*(stored[n] for n in node.input[1:4]))}
        if node.op_type != "Add":
            continue
        # A linear layer on sequences is a product and a sum; the transposed weight has lost its name.
        for bias, product in (node.input, reversed(node.input)):
            before = maker.get(product)
            if bias.startswith(PREFIX) and before is not None and before.op_type == "MatMul":
                name = bias.removeprefix(PREFIX).removesuffix("bias") + "weight"
                arrays[name] = np.ascontiguousarray(stored[before.input[1]].T)
    return arrays


def _lstm(inputs: NDArray[Any], hidden: NDArray[Any], biases: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield torch's tensors of ONNX's: W (1, 4 H, in), R (1, 4 H, H), both biases (1, 8 H)."""
    of_input, of_hidden = np.split(biases[0], 2)
    for name, array in (
        ("weight_ih", inputs[0]),
        ("weight_hh", hidden[0]),
        ("bias_ih", of_input),
        ("bias_hh", of_hidden),
    ):
        gates = np.split(array, 4)
        yield f"{name}_l0", np.concatenate([gates[gate] for gate in GATES])
