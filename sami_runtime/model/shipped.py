"""The trained policies that are installed with this package."""

from __future__ import annotations

from pathlib import Path

from sami_runtime.distribution import ROOT, in_checkout


def shipped_models() -> dict[str, Path]:
    """Return the shipped model files by name: `"panda-satesac"`. `Session.load` takes what stands there."""
    folder = ROOT / ("models" if in_checkout() else "sami_models")
    return {path.stem: path for path in sorted(folder.glob("*.onnx"))}
