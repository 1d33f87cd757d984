"""Reads a model file once, and checks its safety and its contract before onnxruntime parses it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sami_runtime.errors import ArtifactError
from sami_runtime.files import read_bounded
from sami_runtime.model.contract import HASH_KEY, METADATA_KEY, Contract, text_sha256
from sami_runtime.model.graph_scan import (
    DOMAINS,
    FLOAT,
    MAX_CONV,
    OPERATORS,
    MalformedError,
    ModelScan,
    TensorType,
    odd_convolutions,
    scan_model,
    weights_not_finite,
    whole_divisions,
)

MAX_MODEL_BYTES = 256 * 1024 * 1024
"""Largest file that is read. A policy of the paper has about 1 MB."""
MAX_CONTRACT_CHARACTERS = 8 * 1024 * 1024
"""Longest contract that is read: pydantic takes forty bytes a character. A policy of the paper has 200,000."""
_REFUSED = {
    "Sparse": "{} sparse tensors, where weights must be dense",
    "Function": "{} model-local functions, where operators must be inlined",
    "Subgraph": "{} subgraphs, where control flow is not allowed",
    "Training": "training information, where only inference is allowed",
}
"""Kinds of ONNX messages that a model file must not contain, with the words of the error."""


@dataclass(frozen=True)
class Artifact:
    """A model file that passed every check that needs no inference."""

    path: Path
    contract: Contract
    model_bytes: bytes
    """The file's bytes. The session is built from them, so a change of the file after the checks has no effect."""
    graph_sha256: str
    """SHA-256 of the serialized graph, equal to `contract.weights_sha256`."""


def read_artifact(path: str | Path) -> Artifact:
    """Read a model file and check that it is safe and undamaged, and that its graph matches its contract.

    Raises:
        ArtifactError: The file cannot be read, is unsafe, was changed, or its graph does not match its contract.
        ContractError: The contract is invalid or of another version.
    """
    return judge(read_bytes(path), path)


def artifact_of(model: str | Path | Artifact) -> Artifact:
    """Return an `Artifact` unchanged; read one from a path by `read_artifact`."""
    return model if isinstance(model, Artifact) else read_artifact(model)


def judge(data: bytes, path: str | Path) -> Artifact:
    """Check the bytes `data` that were read from `path`; returns and raises as `read_artifact`."""
    scan = scan_bytes(data, path)
    require_safe(scan, path)
    contract = read_contract(scan, path)
    digest = require_unchanged(scan, contract, path)
    require_tensors(scan, contract, path)
    return Artifact(path=Path(path), contract=contract, model_bytes=data, graph_sha256=digest)


def graph_sha256(model_bytes: bytes) -> str:
    """Return the SHA-256 of the graph inside a serialized model, for the contract's `weights_sha256`.

    The contract is outside the graph. So serialize the model, put this hash into the contract, and serialize the model
    again with the contract in its metadata.

    Raises:
        ArtifactError: The bytes are no ONNX model.
    """
    return hashlib.sha256(scan_bytes(model_bytes, "the model").graph).hexdigest()


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a model file.

    Raises:
        ArtifactError: There is no such file, it is empty, too large or cannot be read.
    """
    advice = "Give the path of a .onnx file; sami export writes one, of a few MB, from a run folder."
    data = read_bounded(Path(path), MAX_MODEL_BYTES, advice, ArtifactError)
    if not data:
        raise ArtifactError(f"{path} is empty (0 bytes). Copy or download the file again.")
    return data


def scan_bytes(data: bytes, source: str | Path) -> ModelScan:
    """Return the scan of a model file; raise ArtifactError if the bytes are damaged or no ONNX model."""
    try:
        return scan_model(data)
    except MalformedError as error:
        raise ArtifactError(
            f"{source} is not a complete ONNX file ({len(data)} bytes): {error}. "
            "Copy or download the file again, or export the model again."
        ) from error


def require_safe(scan: ModelScan, source: str | Path, advice: str = "Use a file that sami export wrote.") -> None:
    """Raise ArtifactError, which names all faults, if a model reads other files or uses forbidden operators."""
    faults = []
    if scan.external:
        names = ", ".join(repr(name) for name in sorted(set(scan.external))[:5])
        faults.append(f"tensors with external data ({names}), where all weights must be inside the file")
    for kind, fault in _REFUSED.items():
        if count := scan.messages[kind]:
            faults.append(fault.format(count))
    domains = {domain for domain, _ in scan.operators}
    if foreign := sorted((scan.opset_domains | domains) - DOMAINS):
        faults.append(f"operator domains {', '.join(foreign)}, where only the default one is allowed")
    unknown = sorted({name for domain, name in scan.operators if domain in DOMAINS} - OPERATORS)
    if unknown:
        faults.append(
            f"operators {', '.join(name or '(unnamed)' for name in unknown)}, which are not among the "
            f"{len(OPERATORS)} allowed (sami_runtime.model.graph_scan.OPERATORS)"
        )
    if not (scan.messages["Subgraph"] or scan.messages["Function"]):
        try:
            divided, wild = whole_divisions(scan.graph), weights_not_finite(scan.graph)
            odd = odd_convolutions(scan.graph)
        except MalformedError as error:
            divided, wild, odd, faults = [], [], [], [*faults, f"a graph that can be read in two ways: {error}"]
        if wild:
            faults.append(f"weights that are not finite ({', '.join(map(repr, wild[:5]))})")
        if odd:
            faults.append(f"{', '.join(odd[:5])}, where 1 (pads: 0) to {MAX_CONV} is allowed")
        if divided:
            faults.append(
                f"divisions of whole numbers ({', '.join(divided[:5])}), which can end the process; only floats are "
                "divided"
            )
    if faults:
        raise ArtifactError(f"{source} is refused; it has {'; '.join(faults)}. {advice}")


def read_contract(scan: ModelScan, source: str | Path) -> Contract:
    """Return the contract in a model's metadata.

    Raises:
        ArtifactError: There is no contract, more than one, or one that does not match its hash.
        ContractError: The contract is invalid or of another version.
    """
    texts = [value for key, value in scan.metadata if key == METADATA_KEY]
    if not texts:
        keys = ", ".join(sorted({key for key, _ in scan.metadata})) or "none"
        raise ArtifactError(
            f'{source} carries no "{METADATA_KEY}" metadata, so it was not written by sami export. Found keys: {keys}.'
        )
    if len(texts) > 1 or len(texts[0]) > MAX_CONTRACT_CHARACTERS:
        raise ArtifactError(
            f'{source} carries {len(texts)} "{METADATA_KEY}" entries, the first of {len(texts[0])} '
            f"characters; expected one of at most {MAX_CONTRACT_CHARACTERS}. Export the model again."
        )
    contract = Contract.parse(texts[0], str(source))
    # Files that were exported before this hash was introduced lack it.
    if (hashes := [value for key, value in scan.metadata if key == HASH_KEY]) and hashes != [text_sha256(texts[0])]:
        raise ArtifactError(
            f"{source} was changed after its export: its contract does not match {HASH_KEY} in its metadata. Copy or "
            "download the file again, or export the model again."
        )
    return contract


def require_unchanged(scan: ModelScan, contract: Contract, source: str | Path) -> str:
    """Return the graph's SHA-256; raise ArtifactError if the contract has another one."""
    digest = hashlib.sha256(scan.graph).hexdigest()
    if digest != contract.weights_sha256:
        raise ArtifactError(
            f"{source} was changed after its export: its graph has SHA-256 {digest}, its contract says "
            f"{contract.weights_sha256}. Copy or download the file again, or export the model again."
        )
    return digest


def require_tensors(scan: ModelScan, contract: Contract, source: str | Path) -> None:
    """Raise ArtifactError, which names every difference, if the graph's inputs or outputs do not match the contract."""
    faults = _differences("input", scan.inputs, contract.inputs)
    faults += _differences("output", scan.outputs, contract.outputs)
    if faults:
        raise ArtifactError(f"{source} does not match its contract: {'; '.join(faults)}. Export the model again.")


def _differences(kind: str, declared: list[TensorType], expected: dict[str, tuple[int, ...]]) -> list[str]:
    """Return a phrase for each fault of the declared tensors."""
    names = [tensor.name for tensor in declared]
    faults = [f"{kind} {name!r} is declared twice" for name in sorted({n for n in names if names.count(n) > 1})]
    faults += [f"{kind} {name!r} is missing" for name in expected if name not in names]
    faults += [f"{kind} {name!r} is not in the contract" for name in names if name not in expected]
    for name, dtype, shape in declared:
        if name not in expected:
            continue
        if dtype != FLOAT:
            faults.append(f"{kind} {name!r} has ONNX element type {dtype}, expected {FLOAT} (float32)")
        if not shape or isinstance(shape[0], int) or shape[1:] != expected[name]:
            faults.append(f"{kind} {name!r} has shape {_axes(shape)}, expected {_axes(('batch', *expected[name]))}")
    return faults


def _axes(shape: tuple[int | str, ...]) -> str:
    return "[" + ", ".join("?" if axis == "" else str(axis) for axis in shape) + "]"
