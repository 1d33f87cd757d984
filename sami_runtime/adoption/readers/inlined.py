"""Reads ONNX files whose weights are in a file beside them, as torch's newer exporter, and so rsl_rl, writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sami_runtime.adoption.graph import import_onnx, read_model
from sami_runtime.errors import ArtifactError
from sami_runtime.files import printable
from sami_runtime.model.artifact import read_bytes, scan_bytes


def read_inlined(path: Path) -> bytes:
    """Return the bytes of an ONNX file, with its weights inside.

    Weights are read only from files in the same folder, at the ranges of bytes that the model gives.

    Raises:
        ArtifactError: A file is missing, damaged or outside of the folder.
    """
    data = read_bytes(path)
    if not scan_bytes(data, path).external:
        return data
    onnx, model = import_onnx(), read_model(data, str(path), inlined=False)
    files: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _inline(onnx, tensor, path, files)
    return bytes(model.SerializeToString())


def _inline(onnx: Any, tensor: Any, path: Path, files: dict[str, bytes]) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    name = entries.get("location", "")
    file = path.parent / name
    if Path(name).name != name or file.is_symlink():
        raise ArtifactError(
            f"{path} reads its weights from {printable(name)!r}; only a file in the same folder is read. "
            "Export it with its weights inside."
        )
    if not file.is_file():
        raise ArtifactError(
            f"{path} has tensors with external data ({tensor.name!r}) in {printable(name)}, which is not beside it. "
            "Copy both files."
        )
    if name not in files:
        files[name] = read_bytes(file)
    try:
        start = int(entries.get("offset", "0"))
        length = int(entries["length"]) if "length" in entries else len(files[name]) - start
    except ValueError:
        start = length = -1
    if min(start, length) < 0 or start + length > len(files[name]):
        raise ArtifactError(
            f"{path}: the weights {printable(tensor.name)!r} lie outside of {file.name}, which has {len(files[name])} "
            "bytes. Copy both files again."
        )
    tensor.raw_data = files[name][start : start + length]
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
