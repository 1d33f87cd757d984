"""Keys, and signatures of model files; `signature` says what is in their files and checks them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_runtime.files import output, read_bounded, unfinished
from sami_runtime.model.signature import MAX_BYTES, PURPOSE, SIGNATURE_VERSION, cryptography_parts, signature_of


def new_key(path: Path, owner: str) -> Path:
    """Make a key pair, and return the file of the public one: NAME.pub beside NAME.key.

    Args:
        path: Where the private key goes.
        owner: Whose it is, as those will read it who trust it.

    Raises:
        SamiError: A file is there already, or cannot be written; or cryptography is not installed.
    """
    crypto = cryptography_parts()
    public_path = path.with_suffix(".pub")
    if not owner.isprintable():
        raise SamiError(f"the owner of a key is {owner!r}; write it in one line of printable characters.")
    key = crypto.ed25519.Ed25519PrivateKey.generate()
    formats = crypto.serialization
    pem = key.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    line = f"{key.public_key().public_bytes_raw().hex()} {owner}".rstrip() + "\n"
    if path == public_path:
        raise SamiError(f"{path} would be the file of the public key; name the private key otherwise: {path.stem}.key")
    for file in (path, public_path):
        if os.path.lexists(file):
            raise SamiError(f"{file} exists, and a key is never replaced. Choose another name.")
    for file, content, mode in ((path, pem, 0o600), (public_path, line.encode(), 0o644)):
        with output(file) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)  # so that nobody else reads it
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
    return public_path


def private_key(key: Path) -> Any:
    """Return the private key of a file; raises a `SamiError` where it has none, or cryptography is not installed."""
    crypto = cryptography_parts()
    data = read_bounded(key, MAX_BYTES, "Give a key of sami sign --new-key.")
    try:
        private = crypto.serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError, crypto.exceptions.UnsupportedAlgorithm) as error:
        if key.suffix == ".pub":
            raise SamiError(f"{key} is a public key. Give the private one: {key.with_suffix('.key')}.") from None
        raise SamiError(f"{key} is no private key: {error}. Make one with sami sign --new-key FILE.") from None
    if not isinstance(private, crypto.ed25519.Ed25519PrivateKey):
        raise SamiError(f"{key} is a key of another kind than Ed25519. Make one with sami sign --new-key FILE.")
    return private


def sign(model: Path, data: bytes, private: Any) -> Path:
    """Sign a file by a key of `private_key`; return the signature's file; SamiError if it cannot be written."""
    digest = hashlib.sha256(data).hexdigest()
    document = {
        "version": SIGNATURE_VERSION,
        "key": private.public_key().public_bytes_raw().hex(),
        "sha256": digest,
        "signature": private.sign(PURPOSE + digest.encode()).hex(),
    }
    target = signature_of(model)
    with unfinished(target) as temporary:  # a newer signature replaces an older one: it can be made again
        temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return target
