"""The trained policies that are installed with this package."""

from __future__ import annotations

from pathlib import Path

from sami_runtime.distribution import ROOT, in_checkout


def shipped_models() -> dict[str, Path]:
    """Return the shipped model files by name: `"panda-satesac"`. `Session.load` takes what stands there."""
    folder = ROOT / ("models" if in_checkout() else "sami_models")
    return {path.stem: path for path in sorted(folder.glob("*.onnx"))}


def is_shipped(data: bytes) -> bool:
    """Whether the bytes of a file are those of a shipped model; its path may name another file by now."""
    return any(path.stat().st_size == len(data) and path.read_bytes() == data for path in shipped_models().values())
