"""What has to match before anything moves: the policy's contract, the settings, the robot as it stands there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION, PANDA_SHEET
from sami_runtime.model.contract import Contract
from sami_runtime.robots.franka.generator import HIGH, LOW
from sami_runtime.robots.franka.settings import FrankaSettings

NEEDED = ("arm_base", "home_joints", "home_gripper_width", "reached_displacement", "flange_to_ee")
"""Of the data sheet."""
OFF_M = 0.01
"""How far the hand may be at home from where the data sheet has it [m]."""
HAND_M = 0.07
"""Least opening of a hand that has found its ends [m]."""
NEAR_RAD = 0.05
"""How far a joint may be from home where the arm may not move there [rad]."""
RECOVER = "python -m sami_runtime.robots.franka recover SETTINGS.toml"
"""What has a robot recover, once somebody has seen why it stopped."""


def faults_of_contract(contract: Contract, settings: FrankaSettings) -> list[str]:
    """Return what of a policy does not fit this arm, a sentence each."""
    faults = []
    known = {signal.name: signal for signal in PANDA_OBSERVATION}
    for signal in contract.observation:
        if signal.name not in known:
            faults.append(f"the model reads {signal.name}, and this robot has {', '.join(known)}")
        elif (signal.unit, signal.elements) != (known[signal.name].unit, known[signal.name].elements):
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
        return [*faults, f"the model's data sheet does not tell {', '.join(missing)}; see sami inspect"]
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
    """Return what of a robot, as it stands there, keeps it from being driven, a sentence each.

    Args:
        settings: Of the robot.
        arm: What its process told of it when it connected.
        hand: The same of the hand.
        home: (7,) [rad], where episodes begin.
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
    off = abs(positions - np.asarray(home))
    if not settings.move_home and off.max() > NEAR_RAD:
        faults.append(
            f"joint{int(off.argmax()) + 1} is {off.max():.3g} rad from home, and the arm may not move there (move_home "
            f"= false). Bring it there by hand, to {np.round(np.asarray(home), 3).tolist()} rad, or set move_home"
        )
    if hand["max_width"] < HAND_M:
        faults.append(f"the hand opens to {hand['max_width']:g} m, it needs {HAND_M:g} m: have it home in Desk")
    return faults
