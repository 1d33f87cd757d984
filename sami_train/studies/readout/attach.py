"""Adds a probe to a model file, or replaces it, with golden steps that cover it; the policy's nodes do not change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from sami_runtime.checks.verify import verify
from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact, artifact_of
from sami_runtime.model.contract import CONTEXT
from sami_runtime.model.probe import NODES, PROBE, ProbedFeature, is_probe
from sami_train import seeds
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound
from sami_train.export.atlas import usual_window
from sami_train.export.model_file import compose_verified, declare, without_part
from sami_train.export.training_ranges import collect_contexts, known_gap
from sami_train.studies.readout.fit import (
    FittedReadout,
    Readout,
    answers,
    bounds,
    columns_of,
    fit,
    unseen_tasks,
    varying,
    widths,
)

SEED = seeds.READOUT


def measure_probe(
    model: Path | Artifact, spec: EnvironmentSpec, episodes: int, on_round: OnRound | None = None
) -> FittedReadout:
    """Fit a probe to the contexts of a model file in episodes in its training environment, each in a newly drawn task.

    Its policy acts in these episodes. The model may be one in memory that is not written yet.

    Raises:
        SamiError: the file infers no context, tasks do not differ, or too few episodes count.
    """
    artifact = artifact_of(model)
    if not artifact.contract.context_size:
        raise SamiError(
            f"{artifact.path} infers no context, so there is nothing to read the physics from. Policies of the methods "
            "sac and sac-history never have one."
        )
    features = varying(spec.tasks)
    tasks = unseen_tasks(spec.tasks, episodes, SEED)
    collected = collect_contexts(artifact, spec, tasks, 1, SEED, on_round, known_gap(artifact.contract.training))
    contexts = [contexts_of_task for (contexts_of_task,) in collected]
    atlas = artifact.contract.atlas
    return fit(contexts, tasks, features, 2 * usual_window(contexts) - 1 if atlas is None else atlas.step)


def with_probe(artifact: Artifact, out: Path, estimate: FittedReadout) -> Artifact:
    """Return a model file with a probe, which replaces an earlier one; only features that it identifies have outputs.

    Args:
        artifact: the model file, possibly not written yet.
        out: path of the new file.
        estimate: the fitted probe.

    Raises:
        CheckFailed: the old or the new file does not reproduce its golden steps.
        SamiError: the file has no golden steps, or one of the files is not valid.
    """
    verify(artifact).require()
    carried = tuple(feature for feature in estimate.probe.features if feature.carried)
    columns: list[int] = []
    for feature, part in zip(estimate.probe.features, columns_of(estimate.probe.features), strict=True):
        columns += range(part.start, part.stop) if feature.carried else []
    readout = estimate.readout.columns(columns)
    without_probe = tuple(signal for signal in artifact.contract.extra_outputs if not is_probe(signal))
    changes = {"extra_outputs": without_probe + estimate.probe.signals, "probe": estimate.probe}
    contract = artifact.contract.model_copy(update=changes)
    model = onnx.load_from_string(artifact.model_bytes)
    old = artifact.contract.golden_steps()
    if old is None:
        raise SamiError(f"{artifact.path} carries no golden steps to compare with. Export the model again.")
    if carried or len(without_probe) < len(artifact.contract.extra_outputs):  # else the graph does not change
        model = without_part(model, NODES)
        if carried:
            model.graph.node.extend(_nodes(carried))
            arrays = _weights(readout, carried).items()
            model.graph.initializer.extend(numpy_helper.from_array(value, NODES + name) for name, value in arrays)
        declare(model.graph, contract)
        onnx.checker.check_model(model, full_check=True)
    outputs = {name: value for name, value in old.answers.items() if not name.startswith(PROBE)}
    outputs |= answers(readout, carried, outputs[CONTEXT]) if carried else {}
    steps = type(old)(**{**vars(old), "answers": {name: outputs[name] for name in contract.answers}})
    return compose_verified(out, model, contract, steps)


def _weights(readout: Readout, carried: tuple[ProbedFeature, ...]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"sizes": np.array(widths(carried))}
    for k in range(2):
        arrays |= {f"weight_{k}": readout.weights[k], f"bias_{k}": readout.biases[k]}
    for feature in carried:
        low, high = bounds(feature)
        arrays |= {f"{feature.name}.low": np.array(low, np.float32), f"{feature.name}.high": np.array(high, np.float32)}
        arrays[f"{feature.name}.margin"] = np.array([0.0, -feature.margin, feature.margin], np.float32)
    return arrays


def _nodes(carried: tuple[ProbedFeature, ...]) -> Iterator[NodeProto]:
    """Yield the nodes in topological order."""
    yield _node("Gemm", [CONTEXT, NODES + "weight_0", NODES + "bias_0"], NODES + "linear")
    yield _node("Tanh", [NODES + "linear"], NODES + "hidden")
    yield _node("Gemm", [NODES + "hidden", NODES + "weight_1", NODES + "bias_1"], NODES + "places")
    yield _node("Split", [NODES + "places", NODES + "sizes"], *(NODES + feature.name for feature in carried), axis=1)
    for feature in carried:
        place, output = NODES + feature.name, PROBE + feature.name
        if not feature.parts:
            yield _node("Add", [place, f"{place}.margin"], f"{place}.interval")
            place = f"{place}.interval"
        clipped = f"{NODES}{feature.name}.clipped" if feature.logarithmic else output
        yield _node("Clip", [place, f"{NODES}{feature.name}.low", f"{NODES}{feature.name}.high"], clipped)
        if feature.logarithmic:
            yield _node("Exp", [clipped], output)


def _node(kind: str, inputs: list[str], *outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs, list(outputs), name=f"{NODES}{kind}_{outputs[0]}", **attributes)
