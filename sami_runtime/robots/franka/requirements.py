"""Checks before anything moves: whether the policy's contract, the settings and the robot's state match."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION, PANDA_SHEET
from sami_runtime.model.contract import Contract
from sami_runtime.robots.franka.generator import HIGH, LOW
from sami_runtime.robots.franka.settings import FrankaSettings

NEEDED = ("arm_base", "home_joints", "home_gripper_width", "reached_displacement", "flange_to_ee")
"""Required entries of the model's data sheet."""
OFF_M = 0.01
"""Largest difference of `flange_to_ee` from this robot's [m]."""
HAND_M = 0.07
"""Least opening of a hand after its homing [m]."""
NEAR_RAD = 0.05
"""Largest distance of a joint from home if the arm may not move there (`move_home = false`) [rad]."""
RECOVER = "python -m sami_runtime.robots.franka recover SETTINGS.toml"
"""Command by which a person lets the robot recover, once the cause of its stop is known."""


def faults_of_contract(contract: Contract, settings: FrankaSettings) -> list[str]:
    """Return one sentence for each point in which a policy does not fit this arm or its settings."""
    faults = []
    provided = {signal.name: signal for signal in PANDA_OBSERVATION}
    for signal in contract.observation:
        if signal.name not in provided:
            faults.append(f"the model reads {signal.name}, and this robot has {', '.join(provided)}")
        elif (signal.unit, signal.elements) != (provided[signal.name].unit, provided[signal.name].elements):
            faults.append(f"the model reads {signal.name} in {signal.unit} {signal.elements}, the robot has another")
    if (contract.action.name, contract.action.elements) != (PANDA_ACTION.name, PANDA_ACTION.elements):
        faults.append(f"the model writes {contract.action.name}, and this robot takes {PANDA_ACTION.name}")
    period = 1.0 / contract.rate_hz
    if settings.stale_s < 1.5 * period:
        faults.append(
            f"the model acts every {period:g} s, and stale_s is {settings.stale_s:g} s: the arm would stop between two "
            f"actions. Give it {3.0 * period:g} s, or a model of a higher rate"
        )
    sheet = contract.sheet.numbers if contract.sheet else {}
    missing = [name for name in NEEDED if name not in sheet]
    if missing:
        return [*faults, f"the model's data sheet lacks {', '.join(missing)}; see sami inspect"]
    home = np.array(sheet["home_joints"].values)
    outside = (
        [f"joint{at + 1}" for at in np.flatnonzero((home < LOW) | (home > HIGH))] if home.shape == (7,) else ["all"]
    )
    if outside:
        faults.append(f"the model's home pose is beyond the ends of {', '.join(outside)} of an FR3")
    length = PANDA_SHEET.numbers["flange_to_ee"].values[0]
    if abs(sheet["flange_to_ee"].values[0] - length) > OFF_M:
        faults.append(
            f"the model's hand ends {sheet['flange_to_ee'].values[0]:g} m from the flange, this one {length:g} m"
        )
    return faults


def faults_of_robot(settings: FrankaSettings, arm: dict[str, Any], hand: dict[str, Any], home: ArrayLike) -> list[str]:
    """Return one sentence for each fact of `ArmProcess.connect` and `HandProcess.connect` that prevents driving.

    Episodes begin at the joint positions `home`, (7,) [rad].
    """
    faults = []
    if arm["mode"] != "Idle":
        faults.append(
            f"the robot is in the mode {arm['mode']}, and its last errors are {arm['errors']}: see why, then unlock it "
            f"in Desk, or have it recover with: {RECOVER}"
        )
    positions = np.array(arm["positions"])
    if beyond := [f"joint{at + 1}" for at in np.flatnonzero((positions < LOW) | (positions > HIGH))]:
        faults.append(f"{', '.join(beyond)} is beyond its end; move the arm by hand")
    if not settings.move_home:
        faults += faults_of_home(positions, home)
    if hand["max_width"] < HAND_M:
        faults.append(f"the hand opens to {hand['max_width']:g} m, it needs {HAND_M:g} m: have it home in Desk")
    return faults


def faults_of_home(positions: ArrayLike, home: ArrayLike) -> list[str]:
    """Return a sentence if a joint of an arm that may not move home, (7,) [rad], is not there; else nothing."""
    off = abs(np.asarray(positions) - np.asarray(home))
    if off.max() <= NEAR_RAD:
        return []
    return [
        f"joint{int(off.argmax()) + 1} is {off.max():.3g} rad from home, and the arm may not move there (move_home = "
        f"false). Bring it there by hand, to {np.round(np.asarray(home), 3).tolist()} rad, or set move_home"
    ]
