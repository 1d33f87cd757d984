"""What a model file must be before it drives."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.model.artifact import Artifact, judge, read_bytes
from sami_runtime.model.shipped import is_shipped
from sami_runtime.model.signature import require_signed, trusted_keys
from sami_runtime.session.rehearsal import rehearse
from sami_runtime.session.session import Session


@dataclass(frozen=True)
class Admission:
    """Lets model files in: one of a known hash, those of trusted people, those that came through a rehearsal.

        session = Admission(trusted=Path("keys.pub")).load("policy.onnx")

    Raises:
        SamiError: The hash is none.
    """

    sha256: str | None = None
    """SHA-256 of the whole file, as sha256sum prints it; None lets in any."""
    trusted: Path | None = None
    """File of public keys, see `signature.trusted_keys`; None lets in files that nobody signed."""
    rehearsed: bool = True
    """Whether a file is tried in a process of its own before it is loaded in this one. Shipped models are not."""

    def __post_init__(self) -> None:
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", self.sha256):
            raise SamiError(
                f"the expected SHA-256 is {self.sha256!r}; give 64 hexadecimal digits, as sha256sum prints them."
            )

    @property
    def another(self) -> Admission:
        """For another file beside this one: that of any hash, else as this one."""
        return replace(self, sha256=None)

    def load(self, path: str | Path, provider: str = "cpu") -> Session:
        """Read a model file, and make a session of it if it is let in.

        Raises:
            ArtifactError, ContractError, ProviderError: It is not, with the reason.
            SamiError: The keys cannot be read, or cryptography is not installed.
        """
        return Session(self.admit(path, provider), provider=provider)

    def admit(self, path: str | Path, provider: str = "cpu") -> Artifact:
        """Return a model file that is let in; see `load`."""
        path = Path(path)
        data = read_bytes(path)
        self.require_expected(path, data)
        self.require_trusted(path, data)
        artifact = judge(data, path)
        if self.rehearsed and not is_shipped(data):
            rehearse(artifact, provider)
        return artifact

    def require_expected(self, path: Path, data: bytes) -> str:
        """Return the SHA-256 of a file's bytes.

        Raises:
            ArtifactError: It is not the expected one.
        """
        digest = hashlib.sha256(data).hexdigest()
        if self.sha256 is not None and digest != self.sha256.lower():
            raise ArtifactError(
                f"{path} has SHA-256 {digest}, expected {self.sha256.lower()}. It is another file than the one that "
                "was meant: copy or download that one again."
            )
        return digest

    def require_trusted(self, path: Path, data: bytes) -> str:
        """Return who signed a file; nobody where it does not matter.

        Raises:
            ArtifactError: Nobody who is trusted.
            SamiError: The keys cannot be read, or cryptography is not installed.
        """
        return "" if self.trusted is None else require_signed(path, data, trusted_keys(self.trusted))
