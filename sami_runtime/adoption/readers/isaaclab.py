"""Reads a run folder of Isaac Lab with rsl_rl: `params/env.yaml`, `params/agent.yaml` and `exported/policy.onnx`.

`env.yaml` does not list the joints, whose order is that of the robot's USD file. The names come from the file of IO
descriptors, which training writes with `--export_io_descriptors`, or from a person's contract. Values that Isaac Lab
gives by patterns of names (default pose, scales, gains) are then resolved as in Isaac Lab.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sami_runtime.adoption.readers.documents import Document, Draft, contains_bytes, policy_in, put_slices, read_network
from sami_runtime.adoption.readers.terms import JOINT_TARGETS, put_term
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ContractError

CODE = FieldSource(kind="table", where="Isaac Lab's observation and action terms")
OBSERVATIONS = {
    "base_lin_vel": "linear_velocity",
    "base_ang_vel": "angular_velocity",
    "projected_gravity": "gravity",
    "velocity_commands": "command",
    "joint_pos": "joint_angles",
    "joint_pos_rel": "joint_angles",
    "joint_vel": "joint_velocities",
    "joint_vel_rel": "joint_velocities",
    "last_action": "last_action",
}
"""Kind of signal by the name of Isaac Lab's function for an observation term."""
ACTIONS = {
    "JointPositionAction": tuple(JOINT_TARGETS.values()),
    "JointVelocityAction": ("joint_velocity_targets", "rad/s", "velocity targets of the joints"),
    "JointEffortAction": ("joint_efforts", "N m", "torques of the joints"),
}
GROUP_KEYS = {"concatenate_terms", "concatenate_dim", "enable_corruption", "history_length", "flatten_history_dim"}
DESCRIBE = "train with --export_io_descriptors, or give action.elements in --contract"


def recognizes(path: Path) -> bool:
    """Return whether a path is in a run folder whose `params/env.yaml` is Isaac Lab's."""
    folder = run_folder(path)
    if folder is None or not (path.is_dir() or path.suffix == ".onnx" or path.parent.name == "exported"):
        return False  # a checkpoint of another framework
    env = folder / "params" / "env.yaml"
    return contains_bytes(env, b"isaaclab.") or contains_bytes(env, b"omni.isaac.lab.")


def run_folder(path: Path, file: str = "env.yaml") -> Path | None:
    """Return the run folder that a path is or is in, by a file in its `params`; None if there is none."""
    folders = [path, *path.resolve().parents[:2]]
    return next((folder for folder in folders if (folder / "params" / file).is_file()), None)


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy and the recipe's fields of a run folder, or of an exported file in it.

    Raises:
        ContractError: A file is missing, or a value has another type than Isaac Lab writes.
        ArtifactError: The policy is missing or invalid.
    """
    folder = run_folder(path)
    if folder is None:
        raise ContractError(f"{path} is in no run folder with params/env.yaml. Give Isaac Lab's folder of a training.")
    agent_file = folder / "params" / "agent.yaml"
    agent = Document(agent_file, None if agent_file.is_file() else {})
    draft = Draft()
    name = agent.get("experiment_name")
    has_name = isinstance(name, str) and name
    draft.put("name", name if has_name else folder.resolve().name, agent.source("experiment_name"))
    data, total, actions = read_network(draft, path if path.is_file() else policy_in(folder, "exported/policy.onnx"))
    put_task(draft, folder, (total, actions), joints)
    return draft.reading(data)


def put_task(draft: Draft, folder: Path, sizes: tuple[int, int], joints: Sequence[str]) -> None:
    """Put the signals, action and rate of a run's files into a draft, whichever framework trained the policy.

    The sizes are those of the network's input and output. For `joints`, see `PolicyReader.read`.
    """
    env, agent_file = Document(folder / "params" / "env.yaml"), folder / "params" / "agent.yaml"
    run = _Run(env, Document(agent_file, None if agent_file.is_file() else {}), _descriptors(folder), sizes[1], joints)
    rate = draft.put_rate(env, "sim.dt", "decimation")
    if env.get("episode_length_s") is not None:
        seconds = env.number("episode_length_s", 0)
        draft.put("episode_steps", max(1, round(seconds * rate)), env.source("episode_length_s"))
    run.put_action(draft)
    run.put_observation(draft, sizes[0])


def _descriptors(folder: Path) -> Document | None:
    """Return the IO descriptors of a run; None if it has none. Several files are an error."""
    files = sorted({*folder.glob("*IO_descriptors.yaml"), *folder.glob("*/*IO_descriptors.yaml")})
    if len(files) > 1:
        listed = ", ".join(str(file.relative_to(folder)) for file in files[:5])
        raise ContractError(f"{folder} has {len(files)} files of IO descriptors ({listed}). Keep that of this policy.")
    return Document(files[0]) if files else None


class _Run:
    """One run: its files, and the joints of its action."""

    def __init__(
        self, env: Document, agent: Document, descriptors: Document | None, size: int, joints: Sequence[str]
    ) -> None:
        self.env, self.agent, self.size = env, agent, size
        terms = env.get("actions")
        self.terms = {n: t for n, t in terms.items() if isinstance(t, Mapping)} if isinstance(terms, Mapping) else {}
        self.action = env.under(f"actions.{next(iter(self.terms))}") if len(self.terms) == 1 else None
        self.joints, self.named_by = [""] * size, FieldSource(kind="unknown", where=f"the USD file has it; {DESCRIBE}")
        described = descriptors.get("actions") if descriptors else None
        if len(joints) == size:
            self.joints, self.named_by = list(joints), FieldSource(kind="file", where="the contract")
        elif descriptors and isinstance(described, list) and len(described) == 1 and isinstance(described[0], dict):
            entry = Document(descriptors.path, described[0], "actions[0].")
            self.joints, self.named_by = entry.names("joint_names"), entry.source("joint_names")
            if len(self.joints) != size:
                raise entry.refuse("joint_names", f"{size} joints, as the network answers")

    @property
    def robot(self) -> Document:
        """The articulation that the action moves."""
        asset = self.action.get("asset_name") if self.action else None
        return self.env.under(f"scene.{asset if isinstance(asset, str) else 'robot'}")

    def put_action(self, draft: Draft) -> None:
        """Put the action: one term of joint positions, velocities or efforts."""
        kind = str(self.action.get("class_type")).rpartition(":")[2].rpartition(".")[2] if self.action else ""
        draft.put("action.elements", self.joints if all(self.joints) else None, self.named_by)
        if self.action is None or kind not in ACTIONS:
            listed = ", ".join(f"{n}: {str(t.get('class_type')).rpartition(':')[2]}" for n, t in self.terms.items())
            reason = f"{self.env.path.name}: actions has {listed or 'no term'}; one of {', '.join(ACTIONS)} is read"
            for field in ("name", "unit", "meaning", "scale", "default"):
                draft.unknown(f"action.{field}", reason)
            return
        name, unit, meaning = ACTIONS[kind]
        draft.put_all("action", {"name": name, "unit": unit, "meaning": meaning}, self.action.source("class_type"))
        if isinstance(self.agent.get("clip_actions"), (int, float)):
            draft.put("action.clip", self.agent.number("clip_actions", 0), self.agent.source("clip_actions"))
        self._by_joint(draft, "action.scale", self.action, "scale")
        if kind != "JointEffortAction" and self.action.get("use_default_offset"):
            self._by_joint(draft, "action.default", self.robot, self._pose(kind), 0.0)
        else:
            self._by_joint(draft, "action.default", self.action, "offset")
        self._put_gains(draft)
        if self.action.get("clip") is not None:
            draft.unknown("action.low", f"{self.action.source('clip').where} bounds it; give low and high")

    @staticmethod
    def _pose(kind: str) -> str:
        return "init_state.joint_vel" if kind in ("JointVelocityAction", "joint_vel_rel") else "init_state.joint_pos"

    def _by_joint(self, draft: Draft, field: str, document: Document, key: str, rest: float | None = None) -> None:
        """Put one number for all joints, or one for each; the latter needs the joints' names."""
        value = document.get(key)
        if isinstance(value, Mapping) and not all(self.joints):
            draft.unknown(field, f"{document.source(key).where} gives it by joint; {DESCRIBE}")
        elif isinstance(value, Mapping):
            numbers = document.by_joint(key, self.joints, rest)
            draft.put(field, numbers[0] if len({*numbers}) == 1 else numbers, document.source(key))
        else:
            draft.put(field, document.number(key), document.source(key))

    def _put_gains(self, draft: Draft) -> None:
        """Put stiffness, damping and largest effort, which the actuators give by groups of joints."""
        actuators = self.robot.get("actuators")
        if not all(self.joints) or not isinstance(actuators, Mapping):
            return
        for field, keys in (
            ("kp", ["stiffness"]),
            ("kd", ["damping"]),
            ("effort", ["effort_limit", "effort_limit_sim"]),
        ):
            numbers: dict[str, float] = {}
            for name in actuators:
                group = self.robot.under(f"actuators.{name}")
                members = [
                    joint
                    for joint in self.joints
                    if any(group.matches(p, joint, "joint_names_expr") for p in group.names("joint_names_expr"))
                ]
                key = next((key for key in keys if group.get(key) is not None), None)
                if key:
                    numbers |= dict(zip(members, group.by_joint(key, members), strict=True))
            if numbers.keys() >= {*self.joints}:
                values = [numbers[joint] for joint in self.joints]
                draft.put(f"action.{field}", values, self.robot.source(f"actuators.*.{keys[0]}"))
            else:
                draft.unknown(f"action.{field}", f"{self.robot.source('actuators').where} leaves it to the USD file")

    def put_observation(self, draft: Draft, total: int) -> None:
        """Put the terms of the observation groups that the actor reads, in their order; `total` is the input's size."""
        groups = self.agent.get("obs_groups.actor") or self.agent.get("obs_groups.policy") or ["policy"]
        sizes: dict[str, int] = {}
        sized = True
        for group in groups if isinstance(groups, list) else [groups]:
            if not isinstance(self.env.get(f"observations.{group}"), Mapping):
                draft.unknown("signals", f"{self.env.path.name} has no observations.{group}; give [[signals]]")
                return
            document = self.env.under(f"observations.{group}")
            for term in document.table:
                if term not in GROUP_KEYS and isinstance(document.table[term], Mapping):
                    name, size = self._put_term(draft, document, str(term), sizes)
                    sized = sized and size > 0
                    sizes[name] = size
        if list(self.env.table) == sorted(self.env.table) and len(self.env.table) > 2:
            sized = False  # a file with sorted keys has lost the order of its terms
        source = self.env.source("observations")
        if sized:
            put_slices(draft, sizes, total, source)
            return
        for name in sizes:
            field = name if name == "last_action" else f"signals.{name}"
            draft.unknown(f"{field}.slice", "not every term's size and place is known; the order is that of the file")

    def _put_term(self, draft: Draft, group: Document, term: str, sizes: Mapping[str, int]) -> tuple[str, int]:
        """Put one term; return its name, and its size in the network's input, 0 if that is unknown."""
        entry = group.under(term)
        function = str(entry.get("func"))
        kind = _kind(function, self.env, entry)
        name = kind if kind and kind not in sizes else re.sub(r"\W", "_", term)
        field = name if kind == "last_action" else f"signals.{name}"
        steps = self._steps(group, entry)
        if kind is None or entry.get("modifiers") or (kind == "last_action" and entry.get("clip")):
            for part in ("unit", "elements", "scale") if kind != "last_action" else ("scale",):
                draft.unknown(f"{field}.{part}", f"{entry.source('func').where} is {function}, which no table has")
            return name, 0
        if kind == "last_action":
            draft.put("last_action.kind", "raw", CODE)
            size = self.size
        else:
            size = put_term(draft, name, self.joints, CODE, self.named_by, kind)
            self._put_offset(draft, name, entry, function.rpartition(":")[2].rpartition(".")[2])
            if entry.get("clip") is not None:
                draft.put(f"{field}.clip", entry.numbers("clip", 2), entry.source("clip"))
        scale = entry.get("scale")
        if scale is None:
            draft.put(f"{field}.scale", 1.0, entry.source("scale"))
        else:
            draft.put(f"{field}.scale", entry.numbers("scale", size), entry.source("scale"))
        draft.put_history(field, steps, entry.source("history_length"), CODE)
        return name, size * steps

    def _steps(self, group: Document, entry: Document) -> int:
        length = group.get("history_length")
        length = entry.get("history_length") if length is None else length
        if length is not None and (not isinstance(length, int) or not 0 <= length <= 1000):
            raise entry.refuse("history_length", "a whole number up to 1000")
        return max(1, length or 0)

    def _put_offset(self, draft: Draft, name: str, entry: Document, function: str) -> None:
        """Put the offset of joint signals and the bounds of a command; a choice of joints makes elements unknown."""
        asset = entry.get("params.asset_cfg")
        observed, commanded = _joint_order(asset if isinstance(asset, Mapping) else None), _joint_order(self.action)
        every = (None, [".*"], ".*")
        is_reordered = function.startswith("joint_") and commanded[1] and commanded[0] not in every
        if observed != commanded and (observed[0] not in every or is_reordered):
            where = entry.source("params.asset_cfg").where
            draft.unknown(f"signals.{name}.elements", f"{where} chooses joints otherwise than the action")
        if function in ("joint_pos_rel", "joint_vel_rel"):
            self._by_joint(draft, f"signals.{name}.offset", self.robot, self._pose(function), 0.0)
        command = entry.get("params.command_name")
        ranges = self.env.get(f"commands.{command}.ranges")
        keys = ("lin_vel_x", "lin_vel_y", "ang_vel_z")
        if name == "command" and isinstance(ranges, Mapping) and all(ranges.get(key) for key in keys):
            document = self.env.under(f"commands.{command}.ranges")
            draft.put_bounds(f"signals.{name}", [document.numbers(key, 2) for key in keys], document.source("*"))


def _kind(function: str, env: Document, entry: Document) -> str | None:
    """Return the kind of a term's signal; None if its function is not one of Isaac Lab's that are known here."""
    module, _, name = function.replace(":", ".").rpartition(".")
    if not re.fullmatch(r"(omni\.isaac\.lab|isaaclab)\.envs\.mdp\.observations", module):
        return None
    if name == "generated_commands":
        command = str(env.get(f"commands.{entry.get('params.command_name')}.class_type"))
        return "command" if "VelocityCommand" in command else None
    return OBSERVATIONS.get(name)


def _joint_order(part: Mapping[str, Any] | Document | None) -> tuple[Any, bool]:
    """Return what names the joints of an action or an observation, and whether their order is that of the names."""
    return (part.get("joint_names"), bool(part.get("preserve_order"))) if part else (None, False)
