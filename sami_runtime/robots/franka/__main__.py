"""What a person does beside a run: `python -m sami_runtime.robots.franka state|recover SETTINGS.toml`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sami_runtime.errors import SafetyStop, SamiError
from sami_runtime.files import read_document
from sami_runtime.robots.franka import require_libraries
from sami_runtime.robots.franka.settings import FrankaSettings


def state(settings: FrankaSettings, recover: bool) -> str:
    """Return the robot's mode, errors and joints [rad] as text; with `recover`, leave a reflex first.

    Raises:
        SafetyStop: The robot does not recover.
    """
    import pylibfranka

    robot = pylibfranka.Robot(settings.robot, pylibfranka.RealtimeConfig.kIgnore)
    state_now = robot.read_once()
    joints = [round(angle, 3) for angle in state_now.q]
    text = f"mode {state_now.robot_mode.name}, last errors {state_now.last_motion_errors}, joints {joints}"
    if recover and state_now.robot_mode == pylibfranka.RobotMode.Reflex:
        try:
            robot.automatic_error_recovery()
        except Exception as error:
            raise SafetyStop(f"the robot does not recover: {error}. {text}") from error
        text += f"\nrecovered: mode {robot.read_once().robot_mode.name}"
    elif recover:
        text += "\nnothing to recover from"
    return text


def main() -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sami_runtime.robots.franka", description=__doc__)
    parser.add_argument(
        "what", choices=("state", "recover"), help="recover: leave a reflex, once you have seen its cause"
    )
    parser.add_argument("settings", type=Path, help="the file that settings names in robot.toml")
    arguments = parser.parse_args()
    try:
        require_libraries()
        settings = FrankaSettings.of(read_document(arguments.settings, "settings"))
        print(state(settings, arguments.what == "recover"))
    except SamiError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except Exception as error:
        print(f"the robot cannot be reached: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
