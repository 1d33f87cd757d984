"""Distributes an evaluation over jobs on this machine, Slurm or Ray, and gathers their results in one file.

NAME.parts/AAA-NNN/    part NNN of attempt AAA, beside NAME.json: its description, log, results and outcome

These folders stay until the evaluation is complete, so that a repeated command continues from their results.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sami_train import seeds
from sami_train.envs.catalog import environment
from sami_train.evaluation.evaluate import pieces
from sami_train.evaluation.model_policy import Source
from sami_train.evaluation.play import Gaps
from sami_train.evaluation.result_store import KeptResults, Piece
from sami_train.evaluation.results import OnTask
from sami_train.studies.sweep.engines import Engine, Job, SweepError, ending
from sami_train.studies.sweep.job import PART, describe_part

POLL = 0.5
"""Shortest time between two queries of the jobs' states [s]."""
TRIES = 5
"""Most jobs for one part: the part fails if all of them are lost or stopped."""
PATIENCE = 30.0
"""Longest time to wait for stopped jobs to end [s]."""


def spread(
    engine: Engine,
    policy: Mapping[str, str],
    source: Source,
    env: str,
    task_sets: Sequence[str],
    gaps: Gaps,
    episodes: int,
    keep: Path,
    on_task: OnTask,
    seed: int = seeds.EVALUATION,
) -> None:
    """Run the episodes of `evaluate_gaps` on an engine and store the results, which `evaluate_gaps` then reads.

    Args:
        engine: runs the jobs; the measurement has at most as many parts as the engine runs jobs at once.
        policy: where the jobs find the policy: `{"model": FILE}` or `{"run": FOLDER}`.
        source: the same policy.
        env: name of the environment.
        task_sets: names of task sets.
        gaps: sim-to-real profiles to evaluate with; None stands for no profile.
        episodes: number of episodes in each task or in each set, see `evaluate_gaps`.
        keep: the file to which the caller will write the results; call within `keeping(keep)`.
        on_task: called with each task's result as it arrives.
        seed: seed of the starts.

    Raises:
        SweepError, OSError: a part failed, or its job cannot be started; the results of other parts are kept.
    """
    spec = environment(env)
    store = KeptResults(keep, source, spec, episodes)
    folder = keep.with_name(f"{keep.stem}.parts")
    all_pieces = pieces(spec, task_sets, gaps, seed)

    def unmeasured() -> list[Piece]:
        return [piece for piece in all_pieces if store.results_of(piece) is None]

    def gather() -> None:
        for part in sorted(folder.glob("*-*")):
            for result in store.gather(part / PART):
                on_task(result)

    for piece in all_pieces:
        for result in store.results_of(piece) or ():
            on_task(result)
    gather()
    rest = unmeasured()
    attempt = 1 + max((int(part.name.split("-")[0]) for part in folder.glob("*-*")), default=0)
    parts = [folder / f"{attempt:03d}-{number:03d}" for number in range(min(engine.jobs, len(rest)))]
    for number, part in enumerate(parts):
        describe_part(part, policy, env, episodes, rest[number :: len(parts)])
    jobs: dict[Path, Job] = {}
    tries = dict.fromkeys(parts, 1)
    failed: dict[Path, str] = {}
    try:
        for part in parts:
            jobs[part] = engine.submit(part)
        while jobs:
            for part, job in list(jobs.items()):
                look = job.look()
                if not look.over:
                    continue
                del jobs[part]
                outcome = ending(part, job, look)
                if outcome.state == "stopped" and look.state != "cancelled":
                    tries[part] += 1
                    if tries[part] > TRIES:
                        failed[part] = f"its job was lost or stopped {TRIES} times"
                    else:
                        jobs[part] = engine.submit(part)
                elif outcome.state != "done":
                    failed[part] = outcome.reason
            gather()
            if jobs:
                time.sleep(POLL)
    finally:
        _stop(jobs)
        gather()
    if failed:
        part, reason = next(iter(failed.items()))
        raise SweepError(
            f"{len(failed)} of {len(parts)} parts failed, {part.name} because {reason}; its log is in {part}. What is "
            "measured is kept: the same command goes on."
        )
    if rest := unmeasured():
        raise SweepError(f"all parts ended, and {len(rest)} of {len(all_pieces)} pieces are missing; see {folder}.")
    shutil.rmtree(folder, ignore_errors=True)


def _stop(jobs: Mapping[Path, Job]) -> None:
    for job in jobs.values():
        job.stop()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and not all(job.look().over for job in jobs.values()):
        time.sleep(POLL)
