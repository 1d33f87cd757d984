"""Reads a policy folder of rl_sar: `config.yaml`, and `base.yaml` of the robot in the folder above.

The policy's joint i is motor `joint_mapping[i]`. Lists in `config.yaml` are in the policy's order, `joint_names` of
`base.yaml` in the motors'. The observation is computed as by `RL::ComputeObservation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sami_runtime.adoption.readers.documents import (
    Document,
    Draft,
    contains_bytes,
    policy_in,
    put_slices,
    read_network,
    require_known,
)
from sami_runtime.adoption.readers.terms import JOINT_TARGETS, put_term
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ContractError

TERMS = {
    "lin_vel": ("linear_velocity", "lin_vel_scale"),
    "ang_vel": ("angular_velocity", "ang_vel_scale"),
    "gravity_vec": ("gravity", ""),
    "commands": ("command", "commands_scale"),
    "dof_pos": ("joint_angles", "dof_pos_scale"),
    "dof_vel": ("joint_velocities", "dof_vel_scale"),
    "actions": ("last_action", ""),
}
"""By rl_sar's name of a term: this package's name, and the key of its scale."""
CODE = FieldSource(kind="table", where="rl_sar's ComputeObservation")


def recognizes(path: Path) -> bool:
    """Return whether a folder, or the folder of a file, has a `config.yaml` with rl_sar's keys."""
    return contains_bytes(_folder(path) / "config.yaml", b"observations_history", b"rl_kp")


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy and the recipe's fields in its files; without `base.yaml`, joints are named `motor_N`.

    Raises:
        ContractError: A key is missing or invalid, or the policy drives wheels.
        ArtifactError: The policy cannot be read.
    """
    folder = _folder(path)
    config = _inner(folder / "config.yaml")
    model = config.text("model_name")
    if Path(model).name != model:
        raise config.refuse("model_name", "a file in the same folder")
    policy = path if path.suffix in (".onnx", ".pt") else policy_in(folder, model)
    if config.get("wheel_indices"):
        raise config.refuse("wheel_indices", "no wheels: their actions are velocities, and a recipe has one meaning")
    draft = Draft()
    draft.put("name", config.prefix.rstrip(".").replace("/", "-"), config.source("model_name"))
    data, total, actions = read_network(draft, policy)
    _put_rate(draft, folder, config)
    names, named_by = _joints(folder, config, actions, joints)
    sizes = _put_signals(draft, config, names, named_by)
    _put_history(draft, config, sizes, total)
    draft.put("clip", config.number("clip_obs", 0), config.source("clip_obs"))
    draft.put_all("action", JOINT_TARGETS, CODE)
    draft.put("action.elements", names, named_by)
    for field, key in (
        ("scale", "action_scale"),
        ("default", "default_dof_pos"),
        ("kp", "rl_kp"),
        ("kd", "rl_kd"),
        ("effort", "torque_limits"),
    ):
        draft.put(f"action.{field}", config.numbers(key, actions), config.source(key))
    low, high = config.get("clip_actions_lower"), config.get("clip_actions_upper")
    if low or high:
        bounds = {-value for value in config.numbers("clip_actions_lower", actions)}
        bounds |= {*config.numbers("clip_actions_upper", actions)}
        if len(bounds) != 1:
            raise config.refuse("clip_actions_upper", "one number, and its negative in clip_actions_lower")
        draft.put("action.clip", bounds.pop(), config.source("clip_actions_upper"))
    return draft.reading(data)


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _inner(path: Path) -> Document:
    """Return the only table in a file, whose key is the policy's or robot's name."""
    document = Document(path)
    if len(document.table) != 1:
        raise ContractError(f"{path} has {len(document.table)} tables; expected one, under the policy's name.")
    (name,) = document.table
    if not isinstance(document.table[name], dict):
        raise ContractError(f"{path}: {name} is no table. Give the file as rl_sar has it.")
    return Document(path, document.table[name], f"{name}.")


def _put_rate(draft: Draft, folder: Path, config: Document) -> None:
    base = folder.parent / "base.yaml"
    document = config if config.get("dt") else _inner(base) if base.is_file() else None
    if document is None:
        draft.unknown("rate_hz", f"{base}, which has dt and decimation, is missing")
        return
    draft.put_rate(document, "dt", "decimation")


def _joints(folder: Path, config: Document, size: int, joints: Sequence[str]) -> tuple[list[str], FieldSource]:
    """Return the joints' names in the policy's order: a person's, those of `base.yaml`, or else `motor_N`."""
    order, source = config.order("joint_mapping", size), config.source("joint_mapping")
    base = folder.parent / "base.yaml"
    if len(joints) == size:
        return list(joints), FieldSource(kind="file", where="the contract")
    if not base.is_file():
        return [f"motor_{motor}" for motor in order], source
    document = _inner(base)
    motors = document.names("joint_names")
    if max(order) >= len(motors):
        raise config.refuse("joint_mapping", f"numbers of the {len(motors)} joints of {base}")
    where = f"{source.where}, {document.source('joint_names').where}"
    return [motors[motor] for motor in order], FieldSource(kind="file", where=where)


def _put_signals(draft: Draft, config: Document, names: list[str], named_by: FieldSource) -> dict[str, int]:
    sizes = {}
    for term in config.names("observations"):
        require_known("observation", term, TERMS, config)
        name, key = TERMS[term]
        if name == "last_action":
            draft.put("last_action.kind", "raw", CODE)
            sizes[name] = len(names)
            continue
        sizes[name] = put_term(draft, name, names, CODE, named_by)
        scale = (config.numbers(key, sizes[name]), config.source(key)) if key else (1.0, CODE)
        draft.put(f"signals.{name}.scale", *scale)
        if name == "joint_angles":
            pose = config.numbers("default_dof_pos", len(names))
            draft.put(f"signals.{name}.offset", pose, config.source("default_dof_pos"))
    return sizes


def _put_history(draft: Draft, config: Document, sizes: dict[str, int], total: int) -> None:
    """Put the slices and the history: frame 0 is the newest, and frames before the first one are zeros."""
    past = config.get("observations_history") or []
    steps = len(past) or 1
    put_slices(draft, sizes, total // steps if total % steps == 0 else total, config.source("observations"))
    if steps == 1:
        return
    first = {tuple(range(steps)): "newest", tuple(range(steps))[::-1]: "oldest"}.get(tuple(past))
    if first is None or config.get("observations_history_priority") != "time":
        raise config.refuse("observations_history", "all frames without gaps, with priority time")
    source = config.source("observations_history")
    draft.put("history.steps", steps, source)
    draft.put("history.first", first, source)
    draft.put("history.start", "zero", FieldSource(kind="table", where="rl_sar's ObservationBuffer"))
