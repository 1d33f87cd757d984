"""Readers: each extracts the recipe of a policy from the files of one framework."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sami_runtime.adoption.readers import (
    isaaclab,
    leapp,
    rl_sar,
    skrl,
    stable_baselines3,
    unitree_rl_gym,
    unitree_rl_lab,
)
from sami_runtime.adoption.readers.inlined import read_inlined
from sami_runtime.adoption.readers.onnx_metadata import holosoma, mjlab
from sami_runtime.adoption.sources import FieldSource, PolicyReading
from sami_runtime.errors import SamiError, UnknownName, excerpt
from sami_runtime.model.artifact import scan_bytes


class PolicyReader(Protocol):
    """A module that reads the files of one framework."""

    def recognizes(self, path: Path) -> bool:
        """Whether a file or folder is of this framework, judged by its content."""

    def read(self, path: Path, joints: Sequence[str] = ()) -> PolicyReading:
        """Return the policy and the recipe's fields in the files, each with its source.

        Args:
            path: The file or folder.
            joints: Names of the action's elements in order, if a person's contract gives them; some frameworks refer to
                joints by patterns of names.
        """


READERS: Mapping[str, PolicyReader] = {
    "unitree_rl_lab": unitree_rl_lab,  # before Isaac Lab, whose files are in its folders, too
    "isaaclab": isaaclab,
    "rl_sar": rl_sar,
    "unitree_rl_gym": unitree_rl_gym,
    "leapp": leapp,
    "stable_baselines3": stable_baselines3,
    "skrl": skrl,
    "mjlab": mjlab,
    "holosoma": holosoma,
}
"""By the name for `--reader`; the first one that recognizes a path reads it."""


def read_with(path: Path, reader: str | None, joints: Sequence[str] = ()) -> PolicyReading:
    """Read a file or folder by a reader; if none recognizes an ONNX file, return what the file alone contains.

    Args:
        path: The policy's file or folder.
        reader: Name of the reader; chosen by the content if None.
        joints: Names of the action's elements, if a person gives them.

    Raises:
        UnknownName: There is no such reader.
        SamiError: No reader recognizes a folder or checkpoint.
    """
    if reader is not None:
        if reader not in READERS:
            raise UnknownName("reader", reader, READERS)
        return READERS[reader].read(path, joints)
    for candidate in READERS.values():
        if candidate.recognizes(path):
            return candidate.read(path, joints)
    if path.is_dir():
        raise SamiError(
            f"{path} is a folder that no reader recognizes ({', '.join(READERS)}). Give the ONNX file, with --contract."
        )
    if path.suffix in (".pt", ".pth", ".zip", ".pkl", ".safetensors") or zipfile.is_zipfile(path):
        raise SamiError(
            f"{path} is no ONNX file, and no reader recognizes it ({', '.join(READERS)}). Export the policy to ONNX; a "
            "checkpoint of skrl needs the runner's agent.yaml beside it."
        )
    return bare_reading(path)


def bare_reading(path: Path) -> PolicyReading:
    """Return what an ONNX file alone contains: the name of its input if it has one, likewise that of its output."""
    data = read_inlined(path)
    scan = scan_bytes(data, path)
    tensors = {"input": scan.inputs, "output": scan.outputs}
    values = {key: declared[0].name for key, declared in tensors.items() if len(declared) == 1}
    sources = {key: FieldSource(kind="file", where=f"{path}") for key in values}
    for key in sorted(tensors.keys() - values.keys()):
        sources[key] = FieldSource(kind="unknown", where=f"{key}s: {excerpt([t.name for t in tensors[key]])}")
    return PolicyReading(data, values, sources)
