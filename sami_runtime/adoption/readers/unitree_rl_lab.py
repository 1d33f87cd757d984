"""Reads a run folder of unitree_rl_lab: `params/deploy.yaml` beside `exported/policy.onnx`.

The policy's joint i is motor `joint_ids_map[i]`; an action with `joint_ids` moves only these joints. In `deploy.yaml`,
gains are in the motors' order, but pose, scales and offsets in the policy's. Isaac Lab's `params/env.yaml` contains the
motors' names, if the folder has that file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sami_runtime.adoption.readers.documents import Document, Draft, policy_in, put_slices, read_network
from sami_runtime.adoption.readers.isaaclab import ACTIONS, OBSERVATIONS, run_folder
from sami_runtime.adoption.readers.terms import put_term
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ContractError

TERMS = {
    **{term: OBSERVATIONS[term] for term in ("base_ang_vel", "projected_gravity", "velocity_commands", "last_action")},
    **{"joint_pos_rel": "joint_angles", "joint_vel_rel": "joint_velocities", "gait_phase": "gait_phase"},
    "keyboard_velocity_commands": "command",
}
CODE = FieldSource(kind="table", where="unitree_rl_lab's deploy/include/isaaclab")


def recognizes(path: Path) -> bool:
    """Return whether a path is in a run folder with `params/deploy.yaml`."""
    return run_folder(path, "deploy.yaml") is not None


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the exported policy and the recipe's fields in `deploy.yaml`.

    Raises:
        ContractError: A key is missing or invalid.
        ArtifactError: The policy is missing or invalid.
    """
    folder = run_folder(path, "deploy.yaml")
    if folder is None:
        raise ContractError(f"{path} is in no folder with params/deploy.yaml. Give unitree_rl_lab's run folder.")
    config = Document(folder / "params" / "deploy.yaml")
    draft = Draft()
    draft.put("name", folder.resolve().name, FieldSource(kind="file", where="the run's folder"))
    data, total, size = read_network(
        draft, path if path.suffix == ".onnx" else policy_in(folder, "exported/policy.onnx")
    )
    draft.put("rate_hz", round(1 / config.number("step_dt", 0), 6), config.source("step_dt"))
    motors = config.order("joint_ids_map")
    names, named_by = _joints(folder, config, motors, joints)
    _put_action(draft, config, motors, size, names, named_by)
    sizes: dict[str, int] = {}
    for term in config.under("observations").table:
        entry = config.under(f"observations.{term}")
        name = TERMS.get(str(term), re.sub(r"\W", "_", str(term)))
        if str(term) in TERMS:
            sizes[name] = _put_term(
                draft, config, entry, name, names if name != "last_action" else [""] * size, named_by
            )
        else:
            sizes[name] = _put_unknown_term(draft, entry, name, str(term))
    _put_clip_of_last_action(draft, config)
    put_slices(draft, sizes, total, config.source("observations"))
    return draft.reading(data)


def _joints(folder: Path, config: Document, order: list[int], joints: Sequence[str]) -> tuple[list[str], FieldSource]:
    """Return the joints' names in the policy's order: a person's, those of `env.yaml`, or else `motor_N`."""
    source = config.source("joint_ids_map")
    env = folder / "params" / "env.yaml"
    if len(joints) == len(order):
        return list(joints), FieldSource(kind="file", where="the contract")
    if env.is_file() and (document := Document(env)).get("scene.robot.joint_sdk_names"):
        motors = document.names("scene.robot.joint_sdk_names")
        if max(order) >= len(motors):
            raise config.refuse("joint_ids_map", f"numbers of the {len(motors)} motors in {env}")
        where = f"{source.where}, {document.source('scene.robot.joint_sdk_names').where}"
        return [motors[motor] for motor in order], FieldSource(kind="file", where=where)
    return [f"motor_{motor}" for motor in order], source


def _put_action(
    draft: Draft, config: Document, motors: list[int], size: int, names: list[str], named_by: FieldSource
) -> None:
    terms = config.under("actions")
    kind = str(next(iter(terms.table), "")) if len(terms.table) == 1 else ""
    if kind not in ACTIONS:
        listed = ", ".join(map(str, terms.table)) or "no term"
        reason = f"{terms.path.name}: actions has {listed}; one of {', '.join(ACTIONS)} is read"
        for field in ("name", "unit", "meaning", "elements", "scale", "default"):
            draft.unknown(f"action.{field}", reason)
        return
    term = terms.under(kind)
    name, unit, meaning = ACTIONS[kind]
    draft.put_all("action", {"name": name, "unit": unit, "meaning": meaning}, terms.source(kind))
    all_joints = term.get("joint_ids") in (None, [None, None, None])  # the second is slice(None) in YAML
    joints = list(range(len(motors))) if all_joints else term.order("joint_ids")
    if len(joints) != size or max(joints) >= len(motors):
        expected = f"{size} of the {len(motors)} joints in joint_ids_map, as the network answers {size} numbers"
        raise term.refuse("joint_ids", expected)
    draft.put("action.elements", [names[joint] for joint in joints], named_by)
    draft.put("action.scale", term.numbers("scale", size), term.source("scale"))
    draft.put("action.default", term.numbers("offset", size), term.source("offset"))
    for field, key in (("kp", "stiffness"), ("kd", "damping")):
        gains = config.numbers(key)
        if max(motors) >= len(gains):
            raise config.refuse(key, f"a number for each of {max(motors) + 1} motors")
        source = config.source(f"{key}[joint_ids_map]")
        draft.put(f"action.{field}", [gains[motors[joint]] for joint in joints], source)
    bounds = term.get("clip")
    if bounds is not None:
        if not isinstance(bounds, list) or len(bounds) != size:
            raise term.refuse("clip", f"{size} pairs of bounds")
        pairs = [Document(config.path, {"clip": pair}, term.prefix).numbers("clip", 2) for pair in bounds]
        draft.put_bounds("action", pairs, term.source("clip"))


def _put_clip_of_last_action(draft: Draft, config: Document) -> None:
    """Put the last action's clip as the clip of the whole input; raise ContractError if other terms exceed it."""
    if config.get("observations.last_action.clip") is None:
        return
    largest: dict[str, float] = {}
    for term in config.under("observations").table:
        entry = config.under(f"observations.{term}")
        ends = [math.inf] if entry.get("clip") is None else entry.numbers("clip", 2)
        largest[str(term)] = max(map(abs, ends)) * max(map(abs, entry.numbers("scale")))
    low, high = config.numbers("observations.last_action.clip", 2)
    scales = {*config.numbers("observations.last_action.scale")}
    if low != -high or len(scales) > 1 or max(largest.values()) > largest["last_action"] or not largest["last_action"]:
        raise config.refuse("observations.last_action.clip", "none, or [-n, n] in which all other terms stay")
    draft.put("clip", largest["last_action"], config.source("observations.last_action.clip"))


def _put_unknown_term(draft: Draft, entry: Document, name: str, term: str) -> int:
    """Put a term that is computed by custom code; `deploy.yaml` gives scale and history. Return its input size."""
    scale = entry.numbers("scale")
    for part in ("unit", "elements"):
        draft.unknown(f"signals.{name}.{part}", f"{term} has {len(scale)} numbers of a kind that no table has")
    return _put_shape(draft, entry, name, len(scale))


def _put_term(
    draft: Draft, config: Document, entry: Document, name: str, names: list[str], named_by: FieldSource
) -> int:
    """Put one observation term; return its size in the network's input."""
    field = name if name == "last_action" else f"signals.{name}"
    if name == "last_action":
        draft.put("last_action.kind", "raw", CODE)
        size = len(names)
    elif name == "gait_phase":
        size, period = 2, entry.number("params.period", 0)
        draft.put_all(field, {"unit": "1", "elements": ["sine", "cosine"]}, CODE)
        meaning = f"sine and cosine of the gait's phase, whose period is {period:g} s"
        draft.put(f"{field}.meaning", meaning, entry.source("params.period"))
    else:
        size = put_term(draft, name, names, CODE, named_by)
    if name == "joint_angles":
        if entry.get("params.asset_cfg.joint_ids") not in (None, [None, None, None]):
            raise entry.refuse("params.asset_cfg.joint_ids", "all joints")
        pose = config.numbers("default_joint_pos", size)
        draft.put(f"{field}.offset", pose, config.source("default_joint_pos"))
    if name == "command" and isinstance(config.get("commands.base_velocity.ranges"), Mapping):
        ranges = config.under("commands.base_velocity.ranges")
        pairs = [ranges.numbers(key, 2) for key in ("lin_vel_x", "lin_vel_y", "ang_vel_z")]
        draft.put_bounds(field, pairs, ranges.source("*"))
    return _put_shape(draft, entry, name, size)


def _put_shape(draft: Draft, entry: Document, name: str, size: int) -> int:
    """Put the scale, clip and history of a term; return its size in the network's input."""
    field = name if name == "last_action" else f"signals.{name}"
    draft.put(f"{field}.scale", entry.numbers("scale", size), entry.source("scale"))
    if entry.get("clip") is not None and name != "last_action":
        draft.put(f"{field}.clip", entry.numbers("clip", 2), entry.source("clip"))
    steps = entry.count("history_length") if entry.get("history_length") else 1
    draft.put_history(field, steps, entry.source("history_length"), CODE)
    return size * steps
