"""Signatures of model files by Ed25519, which show who signed a file. Only this module imports cryptography.

NAME.onnx.sig    JSON beside the model file: public key, SHA-256 of the file, and the signature
NAME.key         a private key, PEM, readable by its owner alone
NAME.pub         its public key: 64 hexadecimal digits, and its owner's name
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sami_runtime.distribution import install_hint
from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.files import read_bounded

SIGNATURE_VERSION = 1
SUFFIX = ".sig"
"""Suffix of a signature's file, after the model file's whole name."""
MAX_BYTES = 1 << 20
"""Largest file of keys or signature that is read [bytes]."""
PURPOSE = b"sami model file, signature version 1\n"
"""Beginning of the signed bytes, so that a signature that was made for another purpose is not valid for a model."""
_KEY, _SIGNATURE = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{128}")


def signature_of(model: Path) -> Path:
    """Return the path of a model file's signature."""
    return model.with_name(model.name + SUFFIX)


def trusted_keys(path: Path) -> dict[str, str]:
    """Read a file of public keys, one a line with its owner; lines that begin with # are comments.

    Returns the owner's name by key. Raises SamiError if the file cannot be read, has no key, or a line is no key.
    """
    keys = {}
    text = read_bounded(path, MAX_BYTES, "Give a file of keys.").decode("utf-8", "replace")
    for number, line in enumerate(text.splitlines(), 1):
        key, _, owner = line.strip().partition(" ")
        if not key or key.startswith("#"):
            continue
        if not _KEY.fullmatch(key):
            raise SamiError(
                f"{path}, line {number}, is no public key; write 64 hexadecimal digits and the owner, as in the .pub "
                "file that sami sign --new-key makes."
            )
        keys[key] = owner.strip()
    if not keys:
        raise SamiError(f"{path} holds no key, so no file could be trusted. Put a .pub file's line into it.")
    return keys


def require_signed(model: Path, data: bytes, keys: dict[str, str]) -> str:
    """Return the name of a model file's signer, or the beginning of the key if it has no owner's name.

    Args:
        model: The file's path; its signature is in the same folder.
        data: The file's bytes.
        keys: Owners' names by trusted public key.

    Raises:
        ArtifactError: The file is not signed, was changed, or its signer's key is not trusted.
        SamiError: The package cryptography is not installed, or the signature cannot be read.
    """
    crypto = cryptography_parts()
    file = signature_of(model)
    if not file.is_file():
        raise ArtifactError(
            f"{model} is not signed: there is no {file}, and only files with a trusted signature are accepted. Ask its "
            "maker to sign it with sami sign, and copy both files."
        )
    try:
        document: Any = json.loads(read_bounded(file, MAX_BYTES, "Sign the model again."))
        key, signature = document["key"], document["signature"]
        if document["version"] != SIGNATURE_VERSION or not (_KEY.fullmatch(key) and _SIGNATURE.fullmatch(signature)):
            raise ValueError("it has another version, or its key or signature is malformed")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{file} is no signature of version {SIGNATURE_VERSION}: {error}. Sign again.") from None
    if key not in keys:
        owners = ", ".join(sorted(owner or public_key[:12] for public_key, owner in keys.items()))
        raise ArtifactError(f"{model} is signed by key {key[:12]}..., which is not trusted; trusted are: {owners}.")
    try:
        signed = PURPOSE + hashlib.sha256(data).hexdigest().encode()
        crypto.ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), signed)
    except (crypto.exceptions.InvalidSignature, ValueError):
        raise ArtifactError(
            f"{model} is not the file that {keys[key] or key[:12]} signed: it, or {file.name}, was changed since. Copy "
            "both files again."
        ) from None
    return keys[key] or key[:12]


def cryptography_parts() -> Any:
    """Import and return the needed parts of cryptography, without which the rest of the runtime works."""
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise SamiError(f"signatures need the package cryptography: {install_hint('sign')}") from None
    return SimpleNamespace(exceptions=exceptions, serialization=serialization, ed25519=ed25519)
