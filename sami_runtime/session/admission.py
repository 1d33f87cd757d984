"""Decides whether a model file may drive: by its hash, its signature, and a rehearsal in a separate process."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from sami_runtime.child import python_command
from sami_runtime.distribution import is_shipped
from sami_runtime.errors import ArtifactError, CheckFailed, ContractError, ProviderError, SamiError
from sami_runtime.model.artifact import Artifact, judge, read_bytes
from sami_runtime.model.signature import require_signed, trusted_keys
from sami_runtime.session.inference import full_name, import_onnxruntime
from sami_runtime.session.session import Session


@dataclass(frozen=True)
class Admission:
    """Accepts a model file if it has the expected hash and a trusted signature, and passes a rehearsal.

        session = Admission(trusted=Path("keys.pub")).load("policy.onnx")

    Raises:
        SamiError: `sha256` is not a SHA-256.
    """

    sha256: str | None = None
    """Expected SHA-256 of the whole file, as sha256sum prints it; None accepts any."""
    trusted: Path | None = None
    """File of trusted public keys, see `signature.trusted_keys`; None also accepts unsigned files."""
    rehearsed: bool = True
    """Whether to try a file in a separate process before loading it in this one. Shipped models are not tried."""

    def __post_init__(self) -> None:
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", self.sha256):
            raise SamiError(
                f"the expected SHA-256 is {self.sha256!r}; give the 64 digits that sha256sum prints, no file name."
            )

    @property
    def without_hash(self) -> Admission:
        """The same admission without the expected hash, for a second file."""
        return replace(self, sha256=None)

    def load(self, path: str | Path, provider: str = "cpu") -> Session:
        """Read a model file, check that it may drive, and return a session of it with a batch of 1.

        Raises:
            ArtifactError, ContractError, ProviderError: The file is refused, with the reason.
            SamiError: The keys cannot be read, or the package cryptography is not installed.
        """
        return Session(self.admit(path, provider), provider=provider)

    def admit(self, path: str | Path, provider: str = "cpu") -> Artifact:
        """Read a model file and return it if it may drive; errors as of `load`."""
        path = Path(path)
        data = read_bytes(path)
        self.require_expected(path, data)
        self.require_trusted(path, data)
        artifact = judge(data, path)
        if self.rehearsed and not is_shipped(data):
            rehearse(artifact, provider)
        return artifact

    def require_expected(self, path: Path, data: bytes) -> str:
        """Return the SHA-256 of a file's bytes in hexadecimal.

        Raises:
            ArtifactError: It differs from the expected SHA-256.
        """
        digest = hashlib.sha256(data).hexdigest()
        if self.sha256 is not None and digest != self.sha256.lower():
            raise ArtifactError(
                f"{path} has SHA-256 {digest}, expected {self.sha256.lower()}. This is not the expected file: copy or "
                "download it again."
            )
        return digest

    def require_trusted(self, path: Path, data: bytes) -> str:
        """Return the signer's name; an empty text if `trusted` is None.

        Raises:
            ArtifactError: The file has no signature of a trusted key.
            SamiError: The keys cannot be read, or the package cryptography is not installed.
        """
        return "" if self.trusted is None else require_signed(path, data, trusted_keys(self.trusted))


STEPS = 64
"""Number of rehearsed steps; more if the file has more golden steps."""
LOAD_CPU_S = 20
"""Most CPU time [s] for loading and all steps together; a policy of the paper takes 0.1."""
STEP_CPU_S = 1.0
"""Most CPU time [s] for one step."""
WALL_S = 120.0
"""Most wall-clock time [s]; long, because the machine may be busy with other work."""
MEMORY = 2 << 30
"""Most memory [bytes] of a session, besides that of Python and onnxruntime. A policy of the paper takes 1 MB."""
MAX_ANSWER = 30_000
"""Most bytes that are read of the process's verdict, a line of JSON."""

_REFUSALS = {kind.__name__: kind for kind in (ArtifactError, CheckFailed, ContractError, ProviderError)}


def rehearse(artifact: Artifact, provider: str = "cpu", cpu_s: int = LOAD_CPU_S) -> None:
    """Load a model and make its first steps in another process, whose time and memory are limited.

    The process gets the bytes that were read, not the path, so that exactly these bytes are loaded afterwards. It
    cannot detect a file that turns harmful after more than `STEPS` steps; then a watchdog has to stop the robot.

    Args:
        artifact: The checked file.
        provider: Execution provider that will run the graph.
        cpu_s: Most CPU time [s] for loading and all steps together.

    Raises:
        ArtifactError: The process died of a signal, exceeded its time or memory, or refused the file.
        ProviderError: The provider does not run the file.
        UnknownName: The provider is not part of the installed onnxruntime.
    """
    full_name(provider)  # raises: a wrong name is the caller's mistake, not the file's
    command = python_command("sami_runtime.session.admission", str(artifact.path), provider, cpu_s)
    confined(command, artifact.model_bytes, artifact.path, cpu_s, "use one that sami export wrote")


def confined(command: list[str], data: bytes, path: str | Path, cpu_s: int, advice: str) -> bytes:
    """Run a process that tries a file: it gets `data` on stdin, calls `limit_process`, and answers by `reply`.

    Returns the result that the process passed to `reply`. Raises ArtifactError, or the error that the process reported,
    if it died of a signal, exceeded its time or memory, or refused the file; `advice` ends the message.
    """

    def refused(event: str) -> ArtifactError:
        event = f"the process in which it was loaded and stepped {event}"
        return ArtifactError(f"{path} is refused: {event}. Do not run this file; {advice}.")

    try:  # in a new process group, so that Ctrl-C and Ctrl-Z in the terminal reach only this process
        process = subprocess.run(command, input=data, capture_output=True, timeout=WALL_S, start_new_session=True)
    except subprocess.TimeoutExpired:
        raise refused(f"took longer than {WALL_S:g} s") from None
    code = process.returncode
    if code == -getattr(signal, "SIGXCPU", 24):
        raise refused(f"took more than {cpu_s} s of CPU time")
    if code < 0:
        signals = [number.name for number in signal.Signals if number == -code]
        name = signals[0] if signals else f"signal {-code}"
        raise refused(f"was ended by {name}, and so would the process that drives")
    verdict, _, result = process.stdout.partition(b"\n")
    with suppress(ValueError, KeyError, TypeError):
        document = json.loads(verdict[-MAX_ANSWER:])
        if (kind := document["refused"]) is None and code == 0:
            return result
        raise _REFUSALS.get(kind, ArtifactError)(str(document["why"]))
    last = process.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["nothing"]
    raise refused(f"ended with exit code {code} and printed: {last[0][:500]}")


def main(path: str, provider: str, cpu_s: int) -> None:
    """Rehearse the model file on stdin in this process, within limits, and write the verdict to stdout by `reply`."""
    data = sys.stdin.buffer.read()

    def rehearsal() -> bytes:
        artifact = judge(data, path)
        limit_process(cpu_s, MEMORY if provider == "cpu" else None)  # other providers map device memory
        _try(artifact, provider)
        return b""

    reply(path, rehearsal, MEMORY)


def reply(path: str, attempt: Callable[[], bytes], memory: int) -> NoReturn:
    """Call `attempt`, write its result or the reason of a refusal to stdout, and end this process; see `confined`."""
    kind, reason, result = None, "", b""
    try:
        result = attempt()
    except SamiError as error:
        kind, reason = type(error).__name__, str(error)
    except MemoryError:
        kind, reason = "ArtifactError", f"{path} is refused: it takes more than {memory} bytes of memory."
    sys.stdout.buffer.write(json.dumps({"refused": kind, "why": reason[:4000]}).encode() + b"\n" + result)
    sys.stdout.buffer.flush()
    os._exit(0)  # runs no exit handlers of libraries


def _try(artifact: Artifact, provider: str) -> None:
    """Step a model on its golden observations, then on random ones from the bounds of its signals."""
    session = Session(artifact, provider=provider)
    contract, draw = artifact.contract, np.random.default_rng(0)
    golden = contract.golden_steps()
    for step in range(max(STEPS, 0 if golden is None else len(golden))):
        if golden is not None and step < len(golden):
            observation = {name: values[step] for name, values in golden.observation.items()}
        else:
            observation = {}
            for signal_ in contract.observation:
                low = [-1e3 if low is None else max(low, -1e30) for low in signal_.low]
                high = [1e3 if high is None else min(high, 1e30) for high in signal_.high]
                observation[signal_.name] = draw.uniform(low, np.maximum(low, high))
        start_time = time.process_time()
        with suppress(SamiError):  # such as an output that is not finite, which a loop handles by holding or stopping
            session.step(observation)
        if (elapsed := time.process_time() - start_time) > STEP_CPU_S:
            raise ArtifactError(
                f"{artifact.path} is refused: step {step} took {elapsed:.1f} s of CPU time, at most "
                f"{STEP_CPU_S:g} s are allowed, and the policy acts at {contract.rate_hz:g} Hz. Use a file that sami "
                "export wrote."
            )


def limit_process(cpu_s: int, memory: int | None) -> None:
    """Limit this process to `cpu_s` more CPU time [s] and `memory` more bytes (None: any); forbid it to write files."""
    import_onnxruntime()  # first, so that its memory does not count as the file's
    with suppress(ImportError, OSError, ValueError):
        import resource

        _lower(resource.RLIMIT_CPU, int(time.process_time()) + 1 + cpu_s)
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_FSIZE, 0)
        if memory is not None:
            with open("/proc/self/statm", "rb") as file:
                mapped = int(file.read().split()[0]) * resource.getpagesize()
            _lower(resource.RLIMIT_AS, mapped + memory)


def _lower(kind: int, most: int) -> None:
    import resource

    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, hard))
