"""Reads a deployment's YAML of unitree_rl_gym, with its ONNX or TorchScript file: beside it, or at its `policy_path`.

The observation is computed as in `deploy_mujoco.py` and `deploy_real.py`. The configuration for MuJoCo does not name
the joints; that for the robot gives the motor of each joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sami_runtime.adoption.readers.documents import Document, Draft, contains_bytes, policy_in, put_slices, read_network
from sami_runtime.adoption.readers.terms import JOINT_TARGETS, put_term
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ContractError

CODE = FieldSource(kind="table", where="unitree_rl_gym's deploy scripts")
CHECKOUT = "{LEGGED_GYM_ROOT_DIR}/"
"""Prefix of `policy_path`: the checkout, which contains the YAML."""


def recognizes(path: Path) -> bool:
    """Return whether a folder, or the folder of a file, contains a deployment's YAML of unitree_rl_gym."""
    return len(_configurations(path)) > 0


def _configurations(path: Path) -> list[Path]:
    folder = path if path.is_dir() else path.parent
    files = [path] if path.suffix in (".yaml", ".yml") else sorted(folder.glob("*.y*ml"))[:50]
    keys = (b"policy_path", b"action_scale", b"dof_vel_scale", b"num_obs")
    return [file for file in files if contains_bytes(file, *keys)]


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy and the recipe's fields in the deployment's YAML.

    Raises:
        ContractError: A key is missing or invalid, or there is not exactly one such YAML.
        ArtifactError: The policy is missing, or cannot be read.
    """
    files = _configurations(path)
    if len(files) != 1:
        listed = ", ".join(file.name for file in files) or "none"
        raise ContractError(f"{path} has {len(files)} deployment files ({listed}). Give one, beside the ONNX file.")
    config = Document(files[0])
    draft = Draft()
    draft.put("name", files[0].stem, FieldSource(kind="file", where=files[0].name))
    data, total, actions = read_network(draft, path if path.suffix in (".onnx", ".pt") else _policy(config))
    if config.count("num_actions") != actions or config.count("num_obs") != total:
        raise config.refuse("num_obs", f"{total}, and num_actions {actions}, as the network has")
    _put_rate(draft, config)
    names, named_by = _joints(config, actions, joints)
    order = ("angular_velocity", "gravity", "command", "joint_angles", "joint_velocities")
    sizes = {name: put_term(draft, name, names, CODE, named_by) for name in order}
    sizes["last_action"] = actions
    draft.put("signals.angular_velocity.scale", *_cell(config, "ang_vel_scale"))
    draft.put("signals.gravity.scale", 1.0, CODE)
    draft.put("signals.command.scale", config.numbers("cmd_scale", 3), config.source("cmd_scale"))
    if config.get("max_cmd"):
        most = config.numbers("max_cmd", 3)
        draft.put_bounds("signals.command", [(-value, value) for value in most], config.source("max_cmd"))
    pose = config.numbers("default_angles", actions)
    draft.put("signals.joint_angles.offset", pose, config.source("default_angles"))
    draft.put("signals.joint_angles.scale", *_cell(config, "dof_pos_scale"))
    draft.put("signals.joint_velocities.scale", *_cell(config, "dof_vel_scale"))
    draft.put("last_action.kind", "raw", CODE)
    if total == sum(sizes.values()) + 2:
        sizes["gait_phase"] = 2
        meaning = "sine and cosine of the gait's phase, whose period is 0.8 s"
        phase = {"unit": "1", "elements": ["sine", "cosine"], "scale": 1.0, "meaning": meaning}
        draft.put_all("signals.gait_phase", phase, CODE)
    put_slices(draft, sizes, total, CODE)
    draft.put_all("action", JOINT_TARGETS, CODE)
    for field, value, source in (
        ("scale", *_cell(config, "action_scale")),
        ("default", pose, config.source("default_angles")),
        ("kp", config.numbers("kps", actions), config.source("kps")),
        ("kd", config.numbers("kds", actions), config.source("kds")),
    ):
        draft.put(f"action.{field}", value, source)
    draft.put("action.elements", names if all(names) else None, named_by)
    return draft.reading(data)


def _policy(config: Document) -> Path:
    """Return the policy's file: the one at `policy_path` in the checkout around the YAML, else the one beside it."""
    setting = config.get("policy_path")
    if isinstance(setting, str) and setting.startswith(CHECKOUT) and ".." not in Path(setting).parts:
        folders = config.path.resolve().parents[:4]
        inside = [folder / setting.removeprefix(CHECKOUT) for folder in folders]
        for file in inside:
            if file.suffix in (".onnx", ".pt") and file.is_file():
                return file
    return policy_in(config.path.parent)


def _cell(config: Document, key: str) -> tuple[float, FieldSource]:
    return config.number(key), config.source(key)


def _put_rate(draft: Draft, config: Document) -> None:
    if config.get("control_dt") is not None:
        draft.put("rate_hz", round(1 / config.number("control_dt", 0), 6), config.source("control_dt"))
        return
    draft.put_rate(config, "simulation_dt", "control_decimation")


def _joints(config: Document, size: int, joints: Sequence[str]) -> tuple[list[str], FieldSource]:
    """Return the joints' names in the policy's order, with their source; empty texts if they are unknown."""
    if len(joints) == size:
        return list(joints), FieldSource(kind="file", where="the contract")
    if config.get("leg_joint2motor_idx") is not None:
        order = config.order("leg_joint2motor_idx", size)
        return [f"motor_{motor}" for motor in order], config.source("leg_joint2motor_idx")
    reason = "the order of the joints is that of the robot's MJCF (xml_path); give action.elements"
    return [""] * size, FieldSource(kind="unknown", where=reason)
