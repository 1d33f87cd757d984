"""Reads a policy that NVIDIA's LEAPP exported: `NAME.yaml` beside one ONNX file.

LEAPP computes the observation and the joints' targets in the graph. So the inputs in the YAML are raw signals of the
robot, each an input of the graph, and the last action is a state of the graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sami_runtime.adoption.readers.documents import Document, Draft, contains_bytes
from sami_runtime.adoption.readers.inlined import read_inlined
from sami_runtime.adoption.readers.terms import JOINT_TARGETS
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ArtifactError, ContractError
from sami_runtime.files import printable
from sami_runtime.model.artifact import read_bytes

UNITS = {
    "joint/position": "rad",
    "joint/velocity": "rad/s",
    "joint/effort": "N m",
    "joint/torques": "N m",
    "body/angular_velocity": "rad/s",
    "body/linear_velocity": "m/s",
    "body/velocity": "m/s, m/s, rad/s",
    "body/position": "m",
    "body/linear_acceleration": "m/s^2",
    "body/angular_acceleration": "rad/s^2",
}
"""SI unit by LEAPP's kind, without its prefix `state/`, `command/` or `target/`."""
TARGETS = {
    "target/joint/position": (JOINT_TARGETS["name"], JOINT_TARGETS["meaning"]),
    "target/joint/velocity": ("joint_velocity_targets", "velocity targets of the joints"),
    "target/joint/effort": ("joint_efforts", "torques of the joints"),
    "target/joint/torques": ("joint_efforts", "torques of the joints"),
}
KIND = FieldSource(kind="table", where="SI units of LEAPP's kinds")
IN_GRAPH = FieldSource(kind="table", where="LEAPP computes it in the graph")


def recognizes(path: Path) -> bool:
    """Return whether a YAML file, or one in a folder or beside an ONNX file, is LEAPP's."""
    return len(_descriptions(path)) > 0


def _descriptions(path: Path) -> list[Path]:
    folder = path if path.is_dir() else path.parent
    files = [path] if path.suffix in (".yaml", ".yml") else sorted(folder.glob("*.yaml"))[:50]
    return [file for file in files if contains_bytes(file, b"feedback_flow", b"pipeline:", b"models:")]


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy and the recipe's fields in LEAPP's YAML.

    Raises:
        ContractError: The pipeline does not have exactly one model and one target of joints, or a value is invalid.
        ArtifactError: The model is not an ONNX file, or its initial state cannot be read.
    """
    files = _descriptions(path)
    if len(files) != 1:
        raise ContractError(f"{path} has {len(files)} descriptions of LEAPP; give one NAME.yaml.")
    document = Document(files[0])
    models = document.under("models")
    if len(models.table) != 1:
        raise document.refuse("models", "one model: a pipeline of several is not adopted")
    name = str(next(iter(models.table)))
    model = Document(files[0], models.table[name], f"models.{name}.")
    onnx = files[0].parent / model.text("parameters.model_path")
    if onnx.suffix != ".onnx" or not onnx.resolve().is_relative_to(files[0].parent.resolve()):
        raise model.refuse("parameters.model_path", 'an ONNX file in the same folder (export_with="onnx")')
    draft = Draft()
    draft.put("name", name, document.source("models"))
    if document.get("pipeline.configs.frequency") is not None:
        draft.put(
            "rate_hz", document.number("pipeline.configs.frequency", 0), document.source("pipeline.configs.frequency")
        )
    else:
        draft.unknown("rate_hz", f"{files[0].name}: pipeline.configs.frequency is missing")
    inputs, outputs = _tensors(model, "inputs"), _tensors(model, "outputs")
    states = _put_states(draft, document, name, files[0].parent)
    signals = [tensor for tensor in inputs if tensor.get("name") not in states]
    if not signals:
        raise model.refuse("inputs", "a signal beside the states")
    draft.put("input", signals[0].text("name"), signals[0].source("name"))
    for tensor in signals:
        _put_signal(draft, tensor)
    _put_action(draft, [tensor for tensor in outputs if tensor.get("name") not in states.values()])
    return draft.reading(read_inlined(onnx))


def _tensors(model: Document, key: str) -> list[Document]:
    entries = model.get(key)
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, Mapping) for entry in entries):
        raise model.refuse(key, "a list of tensors")
    return [Document(model.path, entry, f"{model.prefix}{key}[{at}].") for at, entry in enumerate(entries)]


def _put_states(draft: Draft, document: Document, name: str, folder: Path) -> dict[str, str]:
    """Put the recurrent tensors into a draft; return their outputs by input."""
    flow = document.get("pipeline.feedback_flow") or {}
    if not isinstance(flow, Mapping) or not all(isinstance(targets, list) for targets in flow.values()):
        raise document.refuse("pipeline.feedback_flow", "a table of lists")
    initial = _initial_values(document, folder)
    source, states = document.source("pipeline.feedback_flow"), {}
    for written_as, targets in flow.items():
        if len(targets) != 1 or not all(str(port).startswith(f"{name}/") for port in (written_as, *targets)):
            raise document.refuse("pipeline.feedback_flow", f"one input of {name} for each of its outputs")
        read_as, output = (str(port)[len(name) + 1 :] for port in (targets[0], written_as))
        states[read_as] = output
        state = re.sub(r"\W", "_", read_as.removesuffix("_in"))
        draft.put(f"state.{state}.input", read_as, source)
        draft.put(f"state.{state}.output", output, source)
        values = {*np.unique(initial.get(f"{name}/{read_as}", np.zeros(1))).tolist()}
        if len(values) != 1:
            raise document.refuse("pipeline.initial_values", f"one number for all of {read_as}")
        draft.put(f"state.{state}.initial", values.pop(), document.source("pipeline.initial_values"))
    return states


def _initial_values(document: Document, folder: Path) -> dict[str, Any]:
    """Return the arrays of a safetensors file, which contains a header's length, the header in JSON, and the data."""
    name = document.get("pipeline.initial_values")
    if not isinstance(name, str):
        return {}
    path = folder / name
    if Path(name).name != name:
        raise document.refuse("pipeline.initial_values", "a file in the same folder")
    data = read_bytes(path)
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        arrays = {}
        for key, entry in header.items():
            if key != "__metadata__":
                start, end = entry["data_offsets"]
                if entry["dtype"] != "F32" or not 0 <= start <= end <= len(data) - 8 - length:
                    raise ValueError(f"{key} has {entry['dtype']} at {start}:{end}")
                arrays[key] = np.frombuffer(data[8 + length + start : 8 + length + end], "<f4")
        return arrays
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"{path} is no safetensors file: {printable(str(error))[:100]}. Export it again.") from None


def _elements(tensor: Document) -> list[str] | None:
    """Return the names of a tensor's elements, which LEAPP lists by axis; None unless exactly one axis has names."""
    names = tensor.get("element_names")
    axes = [axis for axis in names if isinstance(axis, list)] if isinstance(names, list) else []
    if len(axes) != 1 or not all(isinstance(name, str) and name for name in axes[0]) or names != axes:
        return None
    return axes[0]


def _put_signal(draft: Draft, tensor: Document) -> None:
    raw, shape = tensor.text("name"), tensor.numbers("shape")
    name = re.sub(r"\W", "_", raw)
    field, kind = f"signals.{name}", str(tensor.get("kind"))
    if len(shape) != 2 or shape[0] != 1:
        raise tensor.refuse("shape", "[1, size]")
    elements = _elements(tensor)
    if elements is not None and len(elements) != shape[1]:
        raise tensor.refuse("element_names", f"{int(shape[1])} names")
    draft.put(f"{field}.input", raw, tensor.source("name"))
    draft.put(f"{field}.slice", [0, int(shape[1])], tensor.source("shape"))
    draft.put(f"{field}.elements", elements, tensor.source("element_names"))
    if elements is None:
        draft.unknown(f"{field}.elements", f"{tensor.source('element_names').where} is missing")
    draft.put(f"{field}.scale", 1.0, IN_GRAPH)
    draft.put(f"{field}.offset", 0.0, IN_GRAPH)
    unit = UNITS.get(kind.partition("/")[2])
    if kind == "state/vector3d" and raw.endswith("projected_gravity_b"):
        unit = "1"
    draft.put(f"{field}.unit", unit, KIND)
    if unit is None:
        draft.unknown(f"{field}.unit", f"{tensor.source('kind').where} is {printable(kind)}")
    if kind.startswith("command/"):
        draft.put(f"{field}.command", True, tensor.source("kind"))
    connection = str(tensor.get("isaaclab_connection"))
    frame = {"_b": "body", "_w": "world"}.get(connection[-2:])
    if frame:
        draft.put(f"{field}.frame", frame, tensor.source("isaaclab_connection"))


def _put_action(draft: Draft, outputs: list[Document]) -> None:
    targets = [tensor for tensor in outputs if str(tensor.get("kind")) not in ("kp", "kd")]
    if len(targets) != 1 or str(targets[0].get("kind")) not in TARGETS:
        listed = ", ".join(printable(str(tensor.get("kind"))) for tensor in targets) or "none"
        raise ContractError(
            f"{outputs[0].path if outputs else 'the model'} has the targets {listed}; expected one of "
            f"{', '.join(TARGETS)}. Adopt the ONNX file with a --contract."
        )
    (target,) = targets
    kind = target.text("kind")
    name, meaning = TARGETS[kind]
    elements = _elements(target)
    draft.put("output", target.text("name"), target.source("name"))
    draft.put("action.name", name, target.source("kind"))
    draft.put("action.meaning", meaning, target.source("kind"))
    draft.put("action.unit", UNITS[kind.partition("/")[2]], KIND)
    draft.put("action.scale", 1.0, IN_GRAPH)
    draft.put("action.default", 0.0, IN_GRAPH)
    draft.put("action.elements", elements, target.source("element_names"))
    if elements is None:
        draft.unknown("action.elements", f"{target.source('element_names').where} is missing")
    for tensor in outputs:
        if str(tensor.get("kind")) in ("kp", "kd"):
            draft.unknown(f"action.{tensor.get('kind')}", f"the graph answers it in {tensor.text('name')}")
