"""What a model file must be before it drives, and its rehearsal in a process of its own."""

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
    def without_hash(self) -> Admission:
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


STEPS = 64
"""How many steps are tried, at least those that the golden steps hold."""
LOAD_CPU_S = 20
"""Longest time [s] of a processor that loading and all steps together may take; a policy of the paper takes 0.1."""
STEP_CPU_S = 1.0
"""Longest time [s] of a processor that a step may take."""
WALL_S = 120.0
"""Longest time [s] of a clock, on a machine that is as busy as it likes."""
MEMORY = 2 << 30
"""Most bytes that a session may take beyond what Python and onnxruntime take. A policy of the paper takes 1 MB."""
MAX_ANSWER = 30_000
"""Most characters that are read of what the process says."""

_REFUSALS = {kind.__name__: kind for kind in (ArtifactError, CheckFailed, ContractError, ProviderError)}


def rehearse(artifact: Artifact, provider: str = "cpu", cpu_s: int = LOAD_CPU_S) -> None:
    """Load a model and make its first steps in another process, which may not take much time or memory.

    The process gets the bytes that were read, not the path: what was tried is what is loaded afterwards. A file that
    turns harmful later than after `STEPS` steps is not found out: a watchdog stops the robot then.

    Args:
        artifact: The checked file.
        provider: What will run the graph.
        cpu_s: Longest time [s] of a processor that loading and all steps together may take.

    Raises:
        ArtifactError: The process was ended by a signal, took too much, or refused the file.
        ProviderError: The provider does not run the file.
        UnknownName: There is no such provider.
    """
    full_name(provider)  # a mistake of the caller, not of the file
    command = python_command("sami_runtime.session.admission", str(artifact.path), provider, cpu_s)
    confined(command, artifact.model_bytes, artifact.path, cpu_s, "use one that sami export wrote")


def confined(command: list[str], data: bytes, path: str | Path, cpu_s: int, advice: str) -> bytes:
    """Run a process that tries a file, given `data`, within `limit_process`, and return what it writes by `reply`.

    Raises:
        SamiError: The process was ended by a signal, took too much, or refused the file.
    """

    def refused(event: str) -> ArtifactError:
        event = f"the process in which it was loaded and stepped {event}"
        return ArtifactError(f"{path} is refused: {event}. Do not run this file; {advice}.")

    try:  # in a session of its own, so that keys that stop or end this process are answered by this one alone
        process = subprocess.run(command, input=data, capture_output=True, timeout=WALL_S, start_new_session=True)
    except subprocess.TimeoutExpired:
        raise refused(f"took longer than {WALL_S:g} s") from None
    code = process.returncode
    if code == -getattr(signal, "SIGXCPU", 24):
        raise refused(f"took more than {cpu_s} s of a processor")
    if code < 0:
        known = [number.name for number in signal.Signals if number == -code]
        name = known[0] if known else f"signal {-code}"
        raise refused(f"was ended by {name}, as the process that drives would have been")
    verdict, _, result = process.stdout.partition(b"\n")
    with suppress(ValueError, KeyError, TypeError):
        document = json.loads(verdict[-MAX_ANSWER:])
        if (kind := document["refused"]) is None and code == 0:
            return result
        raise _REFUSALS.get(kind, ArtifactError)(str(document["why"]))
    last = process.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["nothing"]
    raise refused(f"ended with exit code {code} and said: {last[0][:500]}")


def main(path: str, provider: str, cpu_s: int) -> None:
    """Read a model file from stdin, load and step it within limits, and say on stdout what was wrong with it."""
    data = sys.stdin.buffer.read()

    def rehearsal() -> bytes:
        artifact = judge(data, path)
        limit_process(cpu_s, MEMORY if provider == "cpu" else None)  # other providers map the memory of their device
        _try(artifact, provider)
        return b""

    reply(path, rehearsal, MEMORY)


def reply(path: str, attempt: Callable[[], bytes], memory: int) -> NoReturn:
    """Write to stdout what an attempt returns, or why the file is refused, and end this process; see `confined`."""
    kind, why, result = None, "", b""
    try:
        result = attempt()
    except SamiError as error:
        kind, why = type(error).__name__, str(error)
    except MemoryError:
        kind, why = "ArtifactError", f"{path} is refused: it takes more than {memory} bytes of memory."
    sys.stdout.buffer.write(json.dumps({"refused": kind, "why": why[:4000]}).encode() + b"\n" + result)
    sys.stdout.buffer.flush()
    os._exit(0)  # without what a library might still do


def _try(artifact: Artifact, provider: str) -> None:
    """Step a model: on what it was given when it was exported, and on numbers from all of its signals' ranges."""
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
        with suppress(SamiError):  # such as an answer that is not finite: the loop holds or stops
            session.step(observation)
        if (elapsed := time.process_time() - start_time) > STEP_CPU_S:
            raise ArtifactError(
                f"{artifact.path} is refused: step {step} took {elapsed:.1f} s of a processor, at most "
                f"{STEP_CPU_S:g} s are allowed, and the policy acts at {contract.rate_hz:g} Hz. Use a file that sami "
                "export wrote."
            )


def limit_process(cpu_s: int, memory: int | None) -> None:
    """Let this process take no more than so many seconds of a processor and bytes of memory, and write no file."""
    import_onnxruntime()  # whose memory is not the file's
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
