"""What this package is installed as: its distribution, the commands that install more of it, and its models."""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import shutil
import sys
from pathlib import Path

DISTRIBUTION = "sami-rl"
"""Name that pip knows; `sami` on PyPI is somebody else's."""
ROOT = Path(__file__).resolve().parents[1]
"""Folder that the packages lie in: a checkout, or site-packages."""


def installed_version(package: str) -> str | None:
    """Return the installed version of a package, None where it is not installed.

    Args:
        package: As pip knows it, but for `"sami"`, which is this one: what files call it does not change with its name.
    """
    try:
        return importlib.metadata.version(DISTRIBUTION if package == "sami" else package)
    except importlib.metadata.PackageNotFoundError:
        return None


def install_hint(*extras: str) -> str:
    """Return the shell command that installs extras (`"cpu"`, `"panda"`) of this installation, from this folder."""
    suffix = f"[{','.join(extras)}]" if extras else ""
    if in_checkout():
        folder = Path() if ROOT.samefile(".") else ROOT
        constraints = folder / "constraints.txt"  # which a source distribution lacks
        pinned = f"-c {shlex.quote(str(constraints))} " if constraints.is_file() else ""
        return f"{pip()} install {pinned}-e {shlex.quote(f'{folder}{suffix}')}"
    origin = _origin()
    return f"{pip()} install {shlex.quote(f'{DISTRIBUTION}{suffix}' + (f' @ {origin}' if origin else ''))}"


def upgrade_hint() -> str:
    """Return what brings a newer version, as the end of a sentence."""
    if in_checkout():
        return "git pull" if ROOT.samefile(".") else f"git -C {shlex.quote(str(ROOT))} pull"
    if origin := _origin():
        return f"{pip()} install, given a newer {DISTRIBUTION} than {origin}"
    return f"{pip()} install --upgrade {DISTRIBUTION}"


def in_checkout() -> bool:
    """Whether the packages run from their sources: installed with `pip install -e`, or not at all."""
    try:
        return f'name = "{DISTRIBUTION}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return False


def pip() -> str:
    """Return how to call this environment's pip: by its bare name only where the shell would find that one."""
    first = shutil.which("pip")
    if first and Path(first).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable or 'python')} -m pip"


def shipped_models() -> dict[str, Path]:
    """Return the shipped model files by name: `"panda-satesac"`. `Session.load` accepts each value."""
    folder = ROOT / ("models" if in_checkout() else "sami_models")
    return {path.stem: path for path in sorted(folder.glob("*.onnx"))}


def is_shipped(data: bytes) -> bool:
    """Whether the bytes of a file are those of a shipped model; its path may name another file by now."""
    return any(path.stat().st_size == len(data) and path.read_bytes() == data for path in shipped_models().values())


def _origin() -> str:
    """Return the URL that pip installed from (a wheel, a folder, a repository: PEP 610), empty for a package index."""
    try:
        text = importlib.metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return ""
    if not text:
        return ""
    document = json.loads(text)
    source = document.get("vcs_info")
    return f"{source['vcs']}+{document['url']}@{source['commit_id']}" if source else str(document["url"])
