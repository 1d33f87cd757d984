"""The quantities of signals and elements, by the names that training frameworks give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sami_runtime.errors import SamiError
from sami_runtime.signals import Signal

NAMES = {
    "angular_velocity": "gyro base_ang_vel angular_velocity base_angular_velocity ang_vel imu_gyro",
    "gravity": "projected_gravity gravity gravity_orientation gravity_vec proj_gravity",
    "linear_velocity": "base_lin_vel linear_velocity base_linear_velocity base_velocity lin_vel",
    "orientation": "base_quat orientation base_orientation quaternion imu_quat",
    "height": "base_height base_pos_z height",
    "command": "command commands velocity_command velocity_commands cmd base_velocity command_lin_vel command_ang_vel",
    "joint_angles": "joint_angles joint_pos joint_pos_rel joint_positions dof_pos motor_pos",
    "joint_velocities": "joint_velocities joint_vel joint_vel_rel dof_vel motor_vel",
    "sin_phase": "sin_phase phase_sin",
    "cos_phase": "cos_phase phase_cos",
}
"""Names that frameworks use for each quantity; the keys are valid values of [signals] in TOML."""
PHASES = {name for phase in ("sin_phase", "cos_phase") for name in NAMES[phase].split()}
COMMAND = {
    "forward": "forward vx x lin_vel_x",
    "left": "left vy y lin_vel_y",
    "turn": "turn wz yaw z ang_vel_z ang_vel_yaw",
}
"""Names of each element of a velocity command [m/s, m/s, rad/s]."""
JOINT_UNITS = {"rad": "joint_angles", "rad/s": "joint_velocities"}


def command_element(name: str) -> str:
    """Return forward, left or turn for an element of a command; other elements keep their name."""
    return next((element for element, names in COMMAND.items() if name in names.split()), name)


def command_elements(signal: Signal) -> tuple[str, ...]:
    """Return the elements of a command; a single element of an angular signal is `turn`, whatever its name."""
    return ("turn",) if signal.size == 1 and "ang" in signal.name else signal.elements


def matched_joints(
    elements: Sequence[str],
    joints: Iterable[str],
    aliases: Mapping[str, str],
    robot: str = "the MJCF",
    where: str = "in the TOML file that --robot names: [joints]",
) -> list[str]:
    """Return the joint of each element: the declared joint, else that of the same name, with or without `_joint`.

    >>> matched_joints(["hip", "knee"], ["hip_joint", "k"], {"knee": "k"})
    ['hip_joint', 'k']

    Args:
        elements: Of the policy.
        joints: Of the robot.
        aliases: Declared joints by element.
        robot: Owner of the joints, for messages.
        where: Place in which names are declared, for messages.

    Raises:
        SamiError: An element has no joint, two have the same, or an alias is of no element; lists both sides.
    """
    names_left, matched = list(joints), []
    for element in elements:
        alias = aliases.get(element, element)
        names = [alias] if element in aliases else [alias, f"{alias}_joint", alias.removesuffix("_joint")]
        matched += [next((name for name in names if name in names_left), "")]
    missing = [element for element, joint in zip(elements, matched, strict=True) if not joint]
    if missing or len(set(matched)) < len(matched) or aliases.keys() - set(elements):
        strange = sorted(aliases.keys() - set(elements))
        fact = f"no joint for {', '.join(missing)}" if missing else "one joint for two elements"
        fact = f"aliases of {', '.join(strange)}, which the policy does not move" if strange else fact
        raise SamiError(
            f"joints and policy do not match: {fact}. The policy moves {', '.join(elements)}; {robot} has "
            f"{', '.join(names_left)}. Declare the names that differ {where} "
            f'{missing[0] if missing else "FR_hip"} = "NAME"'
        )
    return matched
