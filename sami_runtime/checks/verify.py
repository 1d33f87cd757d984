"""Checks that a model file computes what the trained policy did: golden steps, closed loop, resets, batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sami_runtime.errors import CheckFailed, ProviderError, SamiError, UnknownName
from sami_runtime.model import artifact as files
from sami_runtime.model.artifact import Artifact
from sami_runtime.model.contract import ACTION
from sami_runtime.session.admission import Admission, rehearse
from sami_runtime.session.session import Session

Array = NDArray[np.float32]
Answers = Mapping[str, Array]
"""By output of the graph: values (T, size)."""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    passed: bool
    detail: str
    """The measured result, or the message of an error."""


@dataclass(frozen=True)
class Verification:
    """The results of `verify`. Checks that could not run because an earlier one failed are not listed."""

    path: Path
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def require(self) -> None:
        """Do nothing if every check passed.

        Raises:
            CheckFailed: A check failed; the message is the table.
        """
        if not self.passed:
            raise CheckFailed(str(self))

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [
            f"{'ok    ' if check.passed else 'FAILED'}  {check.name:<{width}}  {check.detail}" for check in self.checks
        ]
        failed = sum(not check.passed for check in self.checks)
        verdict = f"{failed} of {len(self.checks)} checks failed" if failed else f"all {len(lines)} checks passed"
        return "\n".join([str(self.path), *lines, verdict])


def verify(
    model: str | Path | Artifact, tolerance: float = 1e-5, provider: str = "cpu", admission: Admission | None = None
) -> Verification:
    """Compare a model file with every one of the golden steps inside it.

    Args:
        model: The path of a model file, or a model in memory.
        tolerance: Largest difference of any element of any output, relative to the element's largest magnitude in the
            golden steps, or to 1 if that is smaller, because rounding grows with the numbers.
        provider: The execution provider of onnxruntime to check; each rounds differently.
        admission: Expected hash, trusted keys and rehearsal, which are checked as well.

    Returns:
        The results. A file that cannot be read is a failed check, not an error.

    Raises:
        UnknownName: The provider is not part of the installed onnxruntime.
        ProviderError: The provider does not run the file, so that the file cannot be checked.
    """
    checks: list[Check] = []

    def run(name: str, check: Callable[[], tuple[bool, str]]) -> bool:
        try:
            success, detail = check()
        except (ProviderError, UnknownName):
            raise
        except SamiError as error:
            success, detail = False, str(error)
        checks.append(Check(name, success, detail))
        return success

    path, data = (model.path, model.model_bytes) if isinstance(model, Artifact) else (Path(model), None)
    admission = admission or Admission(rehearsed=False)
    file = _ModelFile(path, data, admission, tolerance, provider)
    reading = {
        "file": file.read,
        **({"SHA-256": file.expect} if admission.sha256 else {}),
        **({"signature": file.trust} if admission.trusted else {}),
        "operators": file.judge,
        "contract": file.parse,
        "weights": file.compare_hash,
        "inputs and outputs": file.compare_tensors,
        "golden": file.unpack,
        **({"rehearsal": file.rehearse} if admission.rehearsed else {}),
        "session": file.load,
    }
    if all(run(name, check) for name, check in reading.items()):
        run("golden replay", file.golden_replay)
        run("closed loop", file.closed_loop)
        run("reset", file.reset)
        run("batch", file.batch)
    return Verification(path, tuple(checks))


class _ModelFile:
    """The checks of a model file; each stores the data that later checks need."""

    def __init__(self, path: Path, data: bytes | None, admission: Admission, tolerance: float, provider: str) -> None:
        self.path, self.admission, self.tolerance, self.provider = path, admission, tolerance, provider
        self._unwritten = data

    def read(self) -> tuple[bool, str]:
        self.data = files.read_bytes(self.path) if self._unwritten is None else self._unwritten
        self.scan = files.scan_bytes(self.data, self.path)
        return True, f"{len(self.data)} bytes"

    def expect(self) -> tuple[bool, str]:
        return True, f"{self.admission.require_expected(self.path, self.data)[:16]}..., as expected"

    def trust(self) -> tuple[bool, str]:
        return True, f"by {self.admission.require_trusted(self.path, self.data)}"

    def rehearse(self) -> tuple[bool, str]:
        rehearse(self.artifact, self.provider)
        return True, "loaded and stepped in a process of its own, within its time and memory"

    def judge(self) -> tuple[bool, str]:
        files.require_safe(self.scan, self.path)
        return True, f"{len(self.scan.operators)} kinds, all allowed"

    def parse(self) -> tuple[bool, str]:
        self.contract = files.read_contract(self.scan, self.path)
        return True, f"version {self.contract.version}, {self.contract.name!r}"

    def compare_hash(self) -> tuple[bool, str]:
        digest = files.require_unchanged(self.scan, self.contract, self.path)
        self.artifact = Artifact(self.path, self.contract, self.data, digest)
        return True, f"SHA-256 {digest[:16]}..."

    def compare_tensors(self) -> tuple[bool, str]:
        files.require_tensors(self.scan, self.contract, self.path)
        return True, f"{len(self.contract.inputs)} inputs, {len(self.contract.outputs)} outputs"

    def unpack(self) -> tuple[bool, str]:
        golden = self.contract.golden_steps()
        if golden is None:
            return False, "the file carries no golden steps to compare with. Export the model again."
        self.golden = golden
        return True, f"{len(golden)} steps, episodes begin at {', '.join(map(str, golden.resets))}"

    def load(self) -> tuple[bool, str]:
        self.session = Session(self.artifact, provider=self.provider)
        return True, f"active: {', '.join(self.session.active_providers)}"

    def golden_replay(self) -> tuple[bool, str]:
        """Compare the outputs with the golden ones, if the recorded executed actions are fed back."""
        return self._close(self._play(self.session), self.golden.answers)

    def closed_loop(self) -> tuple[bool, str]:
        """Do the same, but feed the session's own actions back at steps whose action was executed unchanged."""
        undisturbed = (self.golden.executed == self.golden.answers[ACTION]).all(axis=1)  # (T,)
        success, detail = self._close(self._play(self.session, undisturbed), self.golden.answers)
        return success, f"{detail}; own action fed back at {int(undisturbed.sum())} of {len(undisturbed)} steps"

    def reset(self) -> tuple[bool, str]:
        """Compare a used session after a reset with a fresh session, bit by bit."""
        bounds = [*self.golden.resets, len(self.golden)]
        for start, end in itertools.pairwise(bounds):
            fresh = Session(self.artifact, provider=self.provider)
            expected = self._play(fresh, start=start, end=end)
            answers = self._play(self.session, start=start, end=end)
            for name, value in answers.items():
                if not np.array_equal(value, expected[name]):
                    step = start + int(np.flatnonzero((value != expected[name]).any(axis=1))[0])
                    return False, f"{name} at step {step} depends on what was before the reset at step {start}"
        return True, f"{len(bounds) - 1} episodes equal those of fresh sessions, bit for bit"

    def batch(self) -> tuple[bool, str]:
        """Compare two episodes in one batch, with resets at different steps, with two sessions of one episode."""
        golden, count = self.golden, len(self.golden)
        backward = np.arange(count)[::-1]
        orders = np.stack([np.arange(count), backward])  # (2, T): the golden steps, and the same ones backward
        resets: tuple[set[int], set[int]] = (set(golden.resets), {0, count // 3})
        pair = Session(self.artifact, batch=2, provider=self.provider)
        single = [Session(self.artifact, provider=self.provider) for _ in orders]
        worst = _Worst()
        sizes = {name: _sizes(answers) for name, answers in golden.answers.items()}
        for step in range(count):
            if rows := [row for row in (0, 1) if step in resets[row]]:
                pair.reset(rows)
                for row in rows:
                    single[row].reset()
            at = orders[:, step]
            for row, session in enumerate(single):
                pair.elapse(self._holds(at[row]), [row])
                session.elapse(self._holds(at[row]))
            answer = pair.step({name: value[at] for name, value in golden.observation.items()}, self._age(at))
            pair.executed(golden.executed[at])
            for row, session in enumerate(single):
                observation = {name: value[at[row]] for name, value in golden.observation.items()}
                reference = session.step(observation, self._age(at[row]))
                session.executed(golden.executed[at[row]])
                for name in golden.answers:
                    worst.see(name, step, answer.answers[name][row], reference.answers[name], sizes[name])
        return worst.error <= self.tolerance, str(worst)

    def _play(
        self, session: Session, undisturbed: NDArray[np.bool_] | None = None, start: int = 0, end: int | None = None
    ) -> Answers:
        """Return the outputs at golden steps [start, end); own actions are fed back where `undisturbed` (T,)."""
        answers: dict[str, list[Array]] = {name: [] for name in self.golden.answers}
        for step in range(start, len(self.golden) if end is None else end):
            if step in self.golden.resets:
                session.reset()
            session.elapse(self._holds(step))
            observation = {name: value[step] for name, value in self.golden.observation.items()}
            answer = session.step(observation, self._age(step))
            if undisturbed is None or not undisturbed[step]:
                session.executed(self.golden.executed[step])
            for name, values in answers.items():
                values.append(answer.answers[name])
        return {name: np.array(values) for name, values in answers.items()}

    def _age(self, step: int | NDArray[np.int_]) -> Array | float:
        """Return the age [periods] of each signal at a step, or at several steps."""
        return 0.0 if self.golden.age is None else self.golden.age[step]

    def _holds(self, step: int) -> int:
        """Return how many periods without a step precede this step."""
        return 0 if self.golden.holds is None else int(self.golden.holds[step, 0])

    def _close(self, answers: Answers, expected: Answers) -> tuple[bool, str]:
        worst = {name: _Worst() for name in expected}
        for name, reference in expected.items():
            for step, (value, other) in enumerate(zip(answers[name], reference, strict=True)):
                worst[name].see(name, step, value, other, _sizes(reference))
        success = all(difference.error <= self.tolerance for difference in worst.values())
        detail = "; ".join(map(str, worst.values()))
        return (
            success,
            detail if success else f"{detail}; tolerance {self.tolerance:.1e}, times the element's size above 1",
        )


def _sizes(answers: Array) -> Array:
    """Return the largest magnitude (size,) of each element of outputs (T, size), at least 1."""
    return np.maximum(np.abs(answers).max(axis=0), np.float32(1))


class _Worst:
    """The largest difference so far, relative to the element's size, and where it occurred."""

    def __init__(self) -> None:
        self.error = -1.0
        self.where = ""

    def see(self, name: str, step: int, value: Array, expected: Array, sizes: Array) -> None:
        errors = np.abs(value.astype(np.float64) - expected) / sizes
        element = int(errors.argmax())
        if errors[element] > self.error:
            self.error = float(errors[element])
            self.where = f"{name}[{element}] at step {step} ({value[element]:.6g}, expected {expected[element]:.6g})"

    def __str__(self) -> str:
        return f"largest error {self.error:.1e} in {self.where}" if self.where else "nothing to compare"
