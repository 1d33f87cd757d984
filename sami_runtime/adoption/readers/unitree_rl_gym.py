"""Reads a deployment's YAML of unitree_rl_gym, with its ONNX or TorchScript file: beside it, or at its `policy_path`.

The observation is what `deploy_mujoco.py` and `deploy_real.py` compute. The MuJoCo configuration does not name the
joints; the robot's gives the motor of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sami_runtime.adoption.readers.documents import Document, Draft, has_marks, policy_beside, put_slices, read_network
from sami_runtime.adoption.readers.terms import JOINT_TARGETS, put_term
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import ContractError

CODE = FieldSource(kind="table", where="unitree_rl_gym's deploy scripts")
CHECKOUT = "{LEGGED_GYM_ROOT_DIR}/"
"""What `policy_path` begins with: the checkout, which contains the YAML."""


def recognizes(path: Path) -> bool:
    """Whether a folder, or that of a file, has a deployment's YAML of unitree_rl_gym."""
    return len(_configurations(path)) > 0


def _configurations(path: Path) -> list[Path]:
    folder = path if path.is_dir() else path.parent
    files = [path] if path.suffix in (".yaml", ".yml") else sorted(folder.glob("*.y*ml"))[:50]
    keys = (b"policy_path", b"action_scale", b"dof_vel_scale", b"num_obs")
    return [file for file in files if has_marks(file, *keys)]


def read(path: Path, joints: Sequence[str] = ()) -> PolicyReading:
    """Return the policy and what the deployment's YAML says.

    Raises:
        ContractError: A key is missing or wrong, or there is more than one such YAML.
        ArtifactError: There is no policy beside the YAML, or it cannot be read.
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
    """Return the policy's file: as `policy_path` has it in the checkout around the YAML, or else the one beside it."""
    written = config.get("policy_path")
    if isinstance(written, str) and written.startswith(CHECKOUT) and ".." not in Path(written).parts:
        folders = config.path.resolve().parents[:4]
        inside = [folder / written.removeprefix(CHECKOUT) for folder in folders]
        for file in inside:
            if file.suffix in (".onnx", ".pt") and file.is_file():
                return file
    return policy_beside(config.path.parent)


def _cell(config: Document, key: str) -> tuple[float, FieldSource]:
    return config.number(key), config.source(key)


def _put_rate(draft: Draft, config: Document) -> None:
    if config.get("control_dt") is not None:
        draft.put("rate_hz", round(1 / config.number("control_dt", 0), 6), config.source("control_dt"))
        return
    draft.put_rate(config, "simulation_dt", "control_decimation")


def _joints(config: Document, size: int, joints: Sequence[str]) -> tuple[list[str], FieldSource]:
    """Return the joints' names in the policy's order, empty text where nothing says them."""
    if len(joints) == size:
        return list(joints), FieldSource(kind="file", where="the contract")
    if config.get("leg_joint2motor_idx") is not None:
        order = config.order("leg_joint2motor_idx", size)
        return [f"motor_{motor}" for motor in order], config.source("leg_joint2motor_idx")
    why = "the order of the joints is that of the robot's MJCF (xml_path); give action.elements"
    return [""] * size, FieldSource(kind="unknown", where=why)
