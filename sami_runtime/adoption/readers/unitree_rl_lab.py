"""Reads a run folder of unitree_rl_lab: `params/deploy.yaml` beside `exported/policy.onnx`.

The policy's joint i is motor `joint_ids_map[i]`. Gains in `deploy.yaml` have the motors' order; pose, scales and
offsets have the policy's. Names of the motors are in Isaac Lab's `params/env.yaml`, where that is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sami_runtime.adoption.readers.documents import (
    Document,
    Draft,
    policy_beside,
    put_slices,
    read_network,
    require_known,
)
from sami_runtime.adoption.readers.isaaclab import ACTIONS, OBSERVATIONS
from sami_runtime.adoption.readers.terms import put_term
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ContractError

TERMS = {
    **{term: OBSERVATIONS[term] for term in ("base_ang_vel", "projected_gravity", "velocity_commands", "last_action")},
    **{"joint_pos_rel": "joint_angles", "joint_vel_rel": "joint_velocities", "gait_phase": "gait_phase"},
}
CODE = FieldSource(kind="table", where="unitree_rl_lab's deploy/include/isaaclab")


def recognizes(path: Path) -> bool:
    """Whether a path lies in a run folder with `params/deploy.yaml`."""
    return _folder(path) is not None


def _folder(path: Path) -> Path | None:
    folders = [path, *path.resolve().parents[:2]]
    return next((folder for folder in folders if (folder / "params" / "deploy.yaml").is_file()), None)


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the exported policy and what `deploy.yaml` says.

    Raises:
        ContractError: A key is missing or wrong, or a term is none that unitree_rl_lab deploys.
        ArtifactError: The policy is missing or no ONNX file.
    """
    folder = _folder(path)
    if folder is None:
        raise ContractError(f"{path} is in no folder with params/deploy.yaml. Give unitree_rl_lab's run folder.")
    config = Document(folder / "params" / "deploy.yaml")
    draft = Draft()
    draft.put("name", folder.resolve().name, FieldSource(kind="file", where="the run's folder"))
    data, total, size = read_network(
        draft, path if path.suffix == ".onnx" else policy_beside(folder, "exported/policy.onnx")
    )
    draft.put("rate_hz", round(1 / config.number("step_dt", 0), 6), config.source("step_dt"))
    order = config.order("joint_ids_map", size)
    names, named_by = _joints(folder, config, order, joints)
    _put_action(draft, config, order, names, named_by)
    sizes = {}
    for term in config.under("observations").table:
        entry = config.under(f"observations.{term}")
        require_known("observation", str(term), TERMS, config)
        name = TERMS[str(term)]
        sizes[name] = _put_term(draft, config, entry, name, names, named_by)
    put_slices(draft, sizes, total, config.source("observations"))
    return draft.reading(data)


def _joints(folder: Path, config: Document, order: list[int], joints: Sequence[str]) -> tuple[list[str], FieldSource]:
    """Return the joints' names in the policy's order: of a person, of `env.yaml`, or the motors' numbers."""
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


def _put_action(draft: Draft, config: Document, order: list[int], names: list[str], named_by: FieldSource) -> None:
    terms = config.under("actions")
    if len(terms.table) != 1:
        raise config.refuse("actions", "one term")
    kind = str(next(iter(terms.table)))
    require_known("action", kind, ACTIONS, config)
    term, size = terms.under(kind), len(order)
    name, unit, meaning = ACTIONS[kind]
    for field, value in (("name", name), ("unit", unit), ("meaning", meaning)):
        draft.put(f"action.{field}", value, terms.source(kind))
    draft.put("action.elements", names, named_by)
    draft.put("action.scale", term.numbers("scale", size), term.source("scale"))
    draft.put("action.default", term.numbers("offset", size), term.source("offset"))
    for field, key in (("kp", "stiffness"), ("kd", "damping")):
        motors = config.numbers(key)
        if max(order) >= len(motors):
            raise config.refuse(key, f"a number for each of {max(order) + 1} motors")
        draft.put(f"action.{field}", [motors[motor] for motor in order], config.source(f"{key}[joint_ids_map]"))
    bounds = term.get("clip")
    if bounds is not None:
        if not isinstance(bounds, list) or len(bounds) != size:
            raise term.refuse("clip", f"{size} pairs of bounds")
        pairs = [Document(config.path, {"clip": pair}, term.prefix).numbers("clip", 2) for pair in bounds]
        for side, field in enumerate(("low", "high")):
            draft.put(f"action.{field}", [pair[side] for pair in pairs], term.source("clip"))


def _put_term(
    draft: Draft, config: Document, entry: Document, name: str, names: list[str], named_by: FieldSource
) -> int:
    """Put one observation term; return how many numbers the network reads of it."""
    field = name if name == "last_action" else f"signals.{name}"
    if name == "last_action":
        draft.put("last_action.kind", "raw", CODE)
        size = len(names)
    elif name == "gait_phase":
        size, period = 2, entry.number("params.period", 0)
        for part, value in (("unit", "1"), ("elements", ["sine", "cosine"])):
            draft.put(f"{field}.{part}", value, CODE)
        meaning = f"sine and cosine of the gait's phase, whose period is {period:g} s"
        draft.put(f"{field}.meaning", meaning, entry.source("params.period"))
    else:
        size = put_term(draft, name, names, CODE, named_by)
    draft.put(f"{field}.scale", entry.numbers("scale", size), entry.source("scale"))
    if name == "joint_angles":
        if entry.get("params.asset_cfg.joint_ids") is not None:
            raise entry.refuse("params.asset_cfg.joint_ids", "all joints")
        pose = config.numbers("default_joint_pos", size)
        draft.put(f"{field}.offset", pose, config.source("default_joint_pos"))
    if name == "command" and isinstance(config.get("commands.base_velocity.ranges"), Mapping):
        ranges = config.under("commands.base_velocity.ranges")
        pairs = [ranges.numbers(key, 2) for key in ("lin_vel_x", "lin_vel_y", "ang_vel_z")]
        for side, bound in enumerate(("low", "high")):
            draft.put(f"{field}.{bound}", [pair[side] for pair in pairs], ranges.source("*"))
    if entry.get("clip") is not None:
        if name == "last_action":
            raise entry.refuse("clip", "no clip of the last action")
        draft.put(f"{field}.clip", entry.numbers("clip", 2), entry.source("clip"))
    steps = entry.count("history_length") if entry.get("history_length") else 1
    if steps > 1:
        draft.put(f"{field}.history.steps", steps, entry.source("history_length"))
        draft.put(f"{field}.history.first", "oldest", CODE)
        draft.put(f"{field}.history.start", "repeat", CODE)
    return size * steps
