"""Reads policies whose settings are in the metadata of the ONNX file, as mjlab and holosoma export them.

mjlab lists joints, gains, pose, terms, scales and histories, rounded to three decimals; the rate is missing. holosoma
lists joints, gains and command ranges; a table here contains terms, scales, pose and rate of its two robots.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sami_runtime.adoption.readers.documents import Document, Draft, put_slices, read_network, require_known
from sami_runtime.adoption.readers.inlined import read_inlined
from sami_runtime.adoption.readers.terms import JOINT_TARGETS, put_term
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ArtifactError, ContractError, SamiError
from sami_runtime.files import printable
from sami_runtime.model.artifact import scan_bytes

MJLAB_TERMS = {
    "base_lin_vel": "linear_velocity",
    "base_ang_vel": "angular_velocity",
    "projected_gravity": "gravity",
    "joint_pos": "joint_angles",
    "joint_vel": "joint_velocities",
    "actions": "last_action",
    "command": "command",
}
"""This package's name of each term in mjlab's velocity task."""
TERM_SETTINGS = ("scale", "history_length", "flatten_history_dim", "clip")
"""Settings that mjlab lists by term, under `observation_terms_...`."""
MJLAB = FieldSource(kind="table", where="mjlab's observation manager and JointPositionAction")
MJLAB_RATE = "mjlab's metadata has no rate: 1 / (timestep x decimation) of the task, mostly 50.0"

G1_LEG, T1_LEG = (-0.312, 0.0, 0.0, 0.669, -0.363, 0.0), (-0.2, 0.0, 0.0, 0.4, -0.25, 0.0)
POSES = {
    "g1": (*G1_LEG, *G1_LEG, 0.0, 0.0, 0.0, 0.2, 0.2, 0.0, 0.6, 0.0, 0.0, 0.0, 0.2, -0.2, 0.0, 0.6, 0.0, 0.0, 0.0),
    "t1": (0.0, 0.0, 0.2, -1.35, 0.0, -0.5, 0.0, 0.0, 0.0, 0.2, 1.35, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, *T1_LEG, *T1_LEG),
}
"""Default poses [rad] in holosoma-inference 0.1.3, in the order of the robot's joints."""
SCALES = {"g1": {"base_ang_vel": 0.25, "dof_vel": 0.05}, "t1": {"base_ang_vel": 1.0, "dof_vel": 0.1}}
"""Scales other than 1 in holosoma's locomotion."""
LOCOMOTION = (
    *("actions", "base_ang_vel", "command_ang_vel", "command_lin_vel", "cos_phase"),
    *("dof_pos", "dof_vel", "projected_gravity", "sin_phase"),
)
"""The terms that holosoma's locomotion reads, sorted by name, as its runtime concatenates them."""
HOLOSOMA_TERMS = {
    "base_ang_vel": "angular_velocity",
    "projected_gravity": "gravity",
    "dof_pos": "joint_angles",
    "dof_vel": "joint_velocities",
}
FEET = ["left", "right"]
COMMANDS: Mapping[str, tuple[str, list[str], str]] = {
    "command_lin_vel": ("m/s", ["forward", "left"], "velocity in the plane"),
    "command_ang_vel": ("rad/s", ["turn"], "velocity about the vertical"),
    "sin_phase": ("1", FEET, "sine of each foot's phase, which grows by 2 pi / 50 a step; pi for both while it stands"),
    "cos_phase": ("1", FEET, "cosine of each foot's phase"),
}
"""Signals that a person or a script provides: unit, elements, meaning."""
HOLOSOMA = FieldSource(kind="table", where="holosoma-inference 0.1.3")
MAX_METADATA = 4_000_000


def metadata_of(path: Path) -> dict[str, str]:
    """Return the metadata of an ONNX file; an empty dictionary for any other file."""
    if path.suffix != ".onnx":
        return {}
    try:
        return dict(scan_bytes(read_inlined(path), path).metadata)
    except SamiError:
        return {}


def _recognizes_mjlab(path: Path) -> bool:
    """Whether an ONNX file has mjlab's metadata."""
    return {"joint_names", "observation_names", "default_joint_pos", "action_scale"} <= metadata_of(path).keys()


def _recognizes_holosoma(path: Path) -> bool:
    """Whether an ONNX file has holosoma's metadata."""
    return {"dof_names", "kp", "kd", "command_ranges"} <= metadata_of(path).keys()


def _read_mjlab(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy and the recipe's fields in its metadata; ContractError or UnknownName if a key is invalid.

    ArtifactError if the network has other inputs or outputs than those that rsl_rl exports.
    """
    table = {key: _listed(text) for key, text in metadata_of(path).items()}
    config = Document(path, table, "metadata ")
    draft = Draft()
    data, total, actions = read_network(draft, path)
    draft.unknown("rate_hz", MJLAB_RATE)
    names = config.names("joint_names")
    if len(names) != actions:
        raise config.refuse("joint_names", f"{actions} joints, one an action")
    source = config.source("joint_names")
    draft.put_all("action", JOINT_TARGETS, MJLAB)
    draft.put("action.elements", names, source)
    for field, key in (
        *(("action.scale", "action_scale"), ("action.default", "default_joint_pos")),
        *(("action.kp", "joint_stiffness"), ("action.kd", "joint_damping")),
    ):
        value = config.numbers(key)
        draft.put(field, value * actions if len(value) == 1 else config.numbers(key, actions), config.source(key))
    terms = config.names("observation_names")
    settings = {key: config.get(f"observation_terms_{key}") for key in TERM_SETTINGS}
    for key, entries in settings.items():
        if not isinstance(entries, list) or len(entries) != len(terms):
            raise config.refuse(f"observation_terms_{key}", f"an entry for each of {len(terms)} terms")
    sizes: dict[str, int] = {}
    for at, term in enumerate(terms):
        require_known("observation", term, MJLAB_TERMS, config)
        row = {key: entries[at] for key, entries in settings.items()}
        sizes[MJLAB_TERMS[term]] = _put_mjlab_term(draft, config, MJLAB_TERMS[term], row, names)
    put_slices(draft, sizes, total, config.source("observation_names"))
    return draft.reading(data)


def _put_mjlab_term(draft: Draft, config: Document, name: str, row: Mapping[str, Any], joints: list[str]) -> int:
    """Put one term; return its size in the network's input."""
    if name == "last_action":
        field, size = name, len(joints)
        draft.put("last_action.kind", "raw", MJLAB)
    else:
        field = f"signals.{name}"
        size = put_term(draft, name, joints, MJLAB, config.source("joint_names"))
    scales = Document(config.path, {"scale": _numbers(row["scale"])}, "metadata observation_terms_").numbers("scale")
    scale = scales[0] if len(scales) == 1 else scales
    draft.put(f"{field}.scale", scale, config.source("observation_terms_scale"))
    if name == "joint_angles":
        draft.put(f"{field}.offset", config.numbers("default_joint_pos", size), config.source("default_joint_pos"))
    clip = _numbers(row["clip"])
    if isinstance(clip, list) and clip != [float("-inf"), float("inf")]:
        if name == "last_action":
            raise config.refuse("observation_terms_clip", "no clip of the last action")
        draft.put(f"{field}.clip", clip, config.source("observation_terms_clip"))
    steps = int(_number(str(row["history_length"])) or 0)
    if steps > 1:
        if row["flatten_history_dim"] not in (1.0, "True"):  # mjlab formats it as a number
            raise config.refuse("observation_terms_flatten_history_dim", "True, or no history")
        draft.put_history(field, steps, config.source("observation_terms_history_length"), MJLAB)
    return size * max(1, steps)


def _listed(text: str) -> list[Any]:
    """Split a list that mjlab wrote with commas; return numbers if all entries are numbers, else texts."""
    entries = text.split(",")
    numbers = [_number(entry) for entry in entries]
    return entries if None in numbers else numbers


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _numbers(entry: Any) -> Any:
    """Return the numbers of an entry, which semicolons separate; None for a part that is not a number."""
    if not isinstance(entry, str):
        return [entry]
    return [_number(part) for part in entry.split(";")]


def _read_holosoma(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy and the recipe's fields in its metadata and in this module; raise ContractError.

    Only the names of the joints identify the robot. A policy that follows a reference motion, or of another robot,
    needs a contract for everything but its joints and gains.
    """
    table = {}
    for key, text in metadata_of(path).items():
        if key in ("dof_names", "kp", "kd", "command_ranges") and len(text) < MAX_METADATA:
            try:
                table[key] = json.loads(text)
            except (ValueError, RecursionError):
                raise ContractError(f"{path}: metadata {key} is no JSON. Export the policy again.") from None
    config = Document(path, table, "metadata ")
    names, draft = config.names("dof_names"), Draft()
    size, source = len(names), config.source("dof_names")
    data = read_inlined(path)
    scan = scan_bytes(data, path)
    draft.put_all("action", JOINT_TARGETS, HOLOSOMA)
    draft.put("action.elements", names, source)
    for key in ("kp", "kd"):
        draft.put(f"action.{key}", config.numbers(key, size), config.source(key))
    robot = {("left_hip_pitch_joint", 29): "g1", ("AAHead_yaw", 29): "t1"}.get((names[0], size))
    moves = len(scan.inputs) == 1 and config.get("command_ranges") is not None
    if robot is None or not moves:
        reason = "this reader knows the locomotion of G1 and T1 only"
        for field in ("rate_hz", "action.scale", "action.default", "input", "output"):
            draft.unknown(field, reason)
        shapes = ", ".join(f"{printable(tensor.name)} {list(tensor.shape)}" for tensor in scan.inputs)
        every = (
            "give [[signals]] and [last_action] with their slices; a dance's motion and time step with command = true"
        )
        draft.unknown("signals", f"the network reads {shapes}: {every}")
        return draft.reading(data)
    draft.put("input", scan.inputs[0].name, FieldSource(kind="file", where=path.name))
    draft.put("output", scan.outputs[0].name, FieldSource(kind="file", where=path.name))
    draft.put("rate_hz", 50.0, HOLOSOMA)
    draft.put_all("action", {"scale": 0.25, "default": list(POSES[robot]), "clip": 100.0}, HOLOSOMA)
    sizes: dict[str, int] = {}
    for term in LOCOMOTION:
        name = "last_action" if term == "actions" else HOLOSOMA_TERMS.get(term, term)
        scale = SCALES[robot].get(term, 1.0)
        if name == "last_action":
            draft.put_all("last_action", {"kind": "raw", "scale": scale}, HOLOSOMA)
            sizes[name] = size
        elif term in COMMANDS:
            unit, elements, meaning = COMMANDS[term]
            signal = {"unit": unit, "elements": elements, "meaning": meaning, "command": True, "scale": scale}
            draft.put_all(f"signals.{name}", signal, HOLOSOMA)
            sizes[name] = len(elements)
        else:
            sizes[name] = put_term(draft, name, names, HOLOSOMA, source)
            draft.put(f"signals.{name}.scale", scale, HOLOSOMA)
    draft.put("signals.joint_angles.offset", list(POSES[robot]), HOLOSOMA)
    for name, keys in (("command_lin_vel", ("lin_vel_x", "lin_vel_y")), ("command_ang_vel", ("ang_vel_yaw",))):
        pairs = [config.numbers(f"command_ranges.{key}", 2) for key in keys]
        draft.put_bounds(f"signals.{name}", pairs, config.source("command_ranges"))
    total = scan.inputs[0].shape[-1]
    if not isinstance(total, int):
        raise ArtifactError(f"{path}: {scan.inputs[0].name!r} has no fixed size. Export it with one.")
    put_slices(draft, sizes, total, HOLOSOMA)
    return draft.reading(data)


mjlab = SimpleNamespace(recognizes=_recognizes_mjlab, read=_read_mjlab)
holosoma = SimpleNamespace(recognizes=_recognizes_holosoma, read=_read_holosoma)
