"""What a result depends on besides its configuration: versions and commit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

from sami_runtime.distribution import installed_version

PACKAGES = (
    "sami",
    "torch",
    "stable-baselines3",
    "gymnasium",
    "panda-gym",
    "pybullet",
    "mujoco",
    "numpy",
    "onnx",
    "onnxruntime",
)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    installed = {package: version for package in PACKAGES if (version := installed_version(package)) is not None}
    return {"python": platform.python_version(), **installed}


def git_state() -> dict[str, Any]:
    """Commit of the checkout that this package runs from, and whether it has changes; empty outside one."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        result = subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True)
        return result.stdout.strip()

    try:
        # An installed copy may lie inside some other repository; only files that git knows are a checkout.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {}
