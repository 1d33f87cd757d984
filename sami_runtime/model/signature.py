"""Signed model files: whose a file is, told by Ed25519 and the package cryptography, which is imported only here.

NAME.onnx.sig    JSON beside the model file: public key, SHA-256 of the file, and the signature
NAME.key         a private key, PEM, readable by its owner alone
NAME.pub         its public key: 64 hexadecimal digits, and who it belongs to
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sami_runtime.distribution import install_hint
from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.files import output, unfinished

SIGNATURE_VERSION = 1
SUFFIX = ".sig"
"""What a signature's file ends with, after the model file's whole name."""
MAX_BYTES = 1 << 20
"""Largest file of keys, and largest signature, that is read."""
_PURPOSE = b"sami model file, signature version 1\n"
"""What is signed begins with this, so that a signature made for something else is none of a model."""
_KEY, _SIGNATURE = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{128}")


def new_key(path: Path, owner: str) -> Path:
    """Make a key pair, and return the file of the public one: NAME.pub beside NAME.key.

    Args:
        path: Where the private key goes.
        owner: Whose it is, as those will read it who trust it.

    Raises:
        SamiError: A file is there already, or cannot be written; or cryptography is not installed.
    """
    crypto = _cryptography()
    public_path = path.with_suffix(".pub")
    if not owner.isprintable():
        raise SamiError(f"the owner of a key is {owner!r}; write it in one line of printable characters.")
    key = crypto.ed25519.Ed25519PrivateKey.generate()
    formats = crypto.serialization
    pem = key.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    line = f"{key.public_key().public_bytes_raw().hex()} {owner}".rstrip() + "\n"
    for file in (path, public_path):
        if os.path.lexists(file):
            raise SamiError(f"{file} exists, and a key is never replaced. Choose another name.")
    for file, content, mode in ((path, pem, 0o600), (public_path, line.encode(), 0o644)):
        with output(file) as beside:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)  # nobody else reads it meanwhile
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(content)
    return public_path


def sign(model: Path, data: bytes, key: Path) -> Path:
    """Sign a model file, and return the file of the signature.

    Args:
        model: Its path.
        data: Its bytes.
        key: The private key.

    Raises:
        SamiError: The key cannot be read, or the signature not be written; or cryptography is not installed.
    """
    crypto = _cryptography()
    try:
        private = crypto.serialization.load_pem_private_key(_read(key, "a private key"), None)
    except (ValueError, TypeError, crypto.exceptions.UnsupportedAlgorithm) as error:
        raise SamiError(f"{key} is no private key: {error}. Make one with sami sign --new-key FILE.") from None
    if not isinstance(private, crypto.ed25519.Ed25519PrivateKey):
        raise SamiError(f"{key} is a key of another kind than Ed25519. Make one with sami sign --new-key FILE.")
    digest = hashlib.sha256(data).hexdigest()
    document = {
        "version": SIGNATURE_VERSION,
        "key": private.public_key().public_bytes_raw().hex(),
        "sha256": digest,
        "signature": private.sign(_PURPOSE + digest.encode()).hex(),
    }
    target = signature_of(model)
    with unfinished(target) as beside:  # a newer signature replaces an older one: it can be made again
        beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return target


def signature_of(model: Path) -> Path:
    """Return where the signature of a model file lies."""
    return model.with_name(model.name + SUFFIX)


def trusted_keys(path: Path) -> dict[str, str]:
    """Return the public keys of a file, each with its owner: a key a line, and lines that begin with #.

    Raises:
        SamiError: It cannot be read, or a line is no key.
    """
    keys = {}
    for number, line in enumerate(_read(path, "a file of keys").decode("utf-8", "replace").splitlines(), 1):
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
    """Return whose a model file is.

    Args:
        model: Its path, beside which its signature lies.
        data: Its bytes.
        keys: Public keys that are trusted, each with its owner.

    Raises:
        ArtifactError: It is not signed, was changed, or is signed by nobody who is trusted.
        SamiError: cryptography is not installed.
    """
    crypto = _cryptography()
    file = signature_of(model)
    if not file.is_file():
        raise ArtifactError(
            f"{model} is not signed: there is no {file}, and only files of trusted people are let in. Have its maker "
            "sign it with sami sign, and copy both files."
        )
    try:
        document: Any = json.loads(_read(file, "a signature"))
        key, signature = document["key"], document["signature"]
        if document["version"] != SIGNATURE_VERSION or not (_KEY.fullmatch(key) and _SIGNATURE.fullmatch(signature)):
            raise ValueError("it has another version, or its key or signature is none")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ArtifactError(f"{file} is no signature of version {SIGNATURE_VERSION}: {error}. Sign again.") from None
    if key not in keys:
        owners = ", ".join(sorted(owner or public_key[:12] for public_key, owner in keys.items()))
        raise ArtifactError(f"{model} is signed by key {key[:12]}..., which is not trusted; trusted are: {owners}.")
    try:
        signed = _PURPOSE + hashlib.sha256(data).hexdigest().encode()
        crypto.ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), signed)
    except (crypto.exceptions.InvalidSignature, ValueError):
        raise ArtifactError(
            f"{model} is not what was signed by {keys[key] or key[:12]}: it, or {file.name}, was changed since. Copy "
            "both files again."
        ) from None
    return keys[key] or key[:12]


def _read(path: Path, what: str) -> bytes:
    try:
        if not path.is_file():
            raise SamiError(f"{path} is no file; expected {what}.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SamiError(f"{path} cannot be read: {error.strerror}; expected {what}.") from None
    if len(data) > MAX_BYTES:
        raise SamiError(f"{path} is larger than {MAX_BYTES} bytes; expected {what}.")
    return data


def _cryptography() -> Any:
    """Return the parts of cryptography that are used. Imported here, because the runtime works without it."""
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise SamiError(f"signatures need the package cryptography: {install_hint('sign')}") from None
    return SimpleNamespace(exceptions=exceptions, serialization=serialization, ed25519=ed25519)
