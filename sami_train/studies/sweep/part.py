"""A part of a measurement, as a job of its own: what it is to measure, and what it keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sami_runtime.gap.profile import GapProfile
from sami_train.envs.catalog import environment
from sami_train.evaluation.evaluate import measure_pieces
from sami_train.evaluation.kept import KeptResults, Piece
from sami_train.evaluation.model_policy import Source
from sami_train.files import read_json, write_json
from sami_train.studies.sweep.cell import OUTCOME, CellOutcome, to_an_outcome

PART = "part.json"
"""What a part is, in its folder; what it has measured lies beside, see `KeptResults`."""


def describe_part(folder: Path, policy: Mapping[str, str], env: str, episodes: int, wanted: Sequence[Piece]) -> None:
    """Write down what a part is to measure.

    Args:
        folder: of the part, which is new.
        policy: `{"model": FILE}` or `{"run": FOLDER}`.
        env: name of the environment.
        episodes: as `evaluate` takes it.
        wanted: the pieces.
    """
    folder.mkdir(parents=True)
    pieces = [
        {
            "gap": None if piece.gap is None else piece.gap.to_dict(),
            "task_set": piece.task_set,
            "task": None if piece.task is None else dict(piece.task),
        }
        for piece in wanted
    ]
    where = {kind: str(Path(path).absolute()) for kind, path in policy.items()}
    write_json(folder / PART, {"policy": where, "env": env, "episodes": episodes, "pieces": pieces})


def run_part(folder: Path) -> CellOutcome:
    """Measure what a part's folder describes, and has not kept yet."""
    part: dict[str, Any] = read_json(folder / PART)
    (folder / OUTCOME).unlink(missing_ok=True)

    def work() -> bool:
        source, spec = source_of(part["policy"]), environment(part["env"])
        wanted = [
            Piece(None if row["gap"] is None else GapProfile.of(row["gap"]), row["task_set"], row["task"])
            for row in part["pieces"]
        ]
        store = KeptResults(folder / PART, source, spec, part["episodes"])
        measure_pieces(source, spec, wanted, part["episodes"], store)
        return True

    return to_an_outcome(work, folder)


def source_of(policy: Mapping[str, str]) -> Source:
    """Return the policy that a part is told of."""
    if "model" in policy:
        return Path(policy["model"])
    import torch

    from sami_train.runs.folder import RunFolder
    from sami_train.runs.train import load_agent

    agent = load_agent(RunFolder.open(Path(policy["run"])))
    torch.set_flush_denormal(False)  # training sets it; measurements go without
    return agent.policy.numpy_weights()
