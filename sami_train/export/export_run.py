"""From a run folder to what is shipped of it: the model file, its weights and its card, in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact
from sami_runtime.model.contract import Contract
from sami_train.agent.context_sac import ContextSAC
from sami_train.config.weights import write_weights
from sami_train.envs.catalog import environment
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound
from sami_train.evaluation.results import Evaluation
from sami_train.export.atlas import least_episodes, measure, require_enough
from sami_train.export.card import write_card
from sami_train.export.export import compose_model
from sami_train.export.model_file import recompose, write
from sami_train.export.seen import known_tasks, measure_seen
from sami_train.files import read_json, unfinished
from sami_train.runs.folder import RunFolder
from sami_train.runs.record import RunRecord
from sami_train.runs.train import load_agent

ATLAS_EPISODES = 20
"""Of each training task, where they are not too few for an atlas."""

Addition = Callable[[Artifact], Artifact]
"""Adds something to a model file that is not written yet: a forward model, a readout."""
Progress = Callable[[int, int], None]
"""Called now and then with how many episodes are done since it was called last, and how many there are in all."""


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    contract: Contract
    """Of the model file."""
    weights: Path
    card: tuple[Path, ...]
    """The files of the card; none if it was left out."""


def export_run(
    run: RunFolder,
    out: Path,
    *,
    atlas_episodes: int | None = None,
    seen_episodes: int = 0,
    additions: Sequence[Addition] = (),
    card: bool = True,
    untrained: bool = False,
    on_round: Progress | None = None,
) -> Exported:
    """Write a run as one model file, its weights and its card.

    Everything that the file carries is measured and composed in memory; the file is written once, when it is whole.

    Args:
        run: trained.
        out: the model file, NAME.onnx; the weights are NAME.safetensors, the card NAME.md and NAME.png.
        atlas_episodes: of each training task, for the atlas; 20, or as many as it needs, if None; 0 leaves it out, and
            so does a policy without a context.
        seen_episodes: in all training tasks together, for the training ranges; 0 leaves them out.
        additions: applied to the file in this order, before it is written.
        card: whether to write the card.
        untrained: whether to export a policy that has not learned.
        on_round: shows the progress of atlas and training ranges.

    Raises:
        SamiError, CheckFailed: the run has no agent, its policy has not learned, its evaluation cannot be read, or
            there are too few episodes for an atlas; see also `compose_model`. Nothing is written then.
    """
    agent = load_agent(run)
    facts = training_facts(run, agent)
    if not facts["updates"] and not untrained:
        raise SamiError(
            f"the policy of {run.path} has not learned: {facts['steps']:,} steps, 0 updates; it acts at random. "
            "Train it for longer, or export it all the same with --force."
        )
    evaluation = evaluation_of(run, agent)
    spec = environment(run.config().env)
    tasks = len(known_tasks(facts, spec))
    if atlas_episodes is None:
        atlas_episodes = max(ATLAS_EPISODES, least_episodes(tasks))
    total = atlas_episodes * tasks + seen_episodes

    def count(done: int) -> None:
        if on_round is not None:
            on_round(done, total)

    count(0)
    if atlas_episodes and agent.policy.context_size:
        require_enough(atlas_episodes, tasks)
    artifact = compose_model(agent, out, facts, evaluation, spec)
    artifact = with_measured(artifact, spec, atlas_episodes, seen_episodes, count)
    for add in additions:
        artifact = add(artifact)
    weights = out.with_suffix(".safetensors")
    # The weights are made before the model appears: an error leaves neither without the other.
    with unfinished(weights) as beside:
        write_weights(beside, agent.weights(artifact.contract.weights_sha256, targets=False))
        contract = write(artifact)
    pages = write_card(RunRecord.of_folder(run.path), contract, out) if card else ()
    return Exported(contract, weights, tuple(pages))


def with_measured(
    artifact: Artifact,
    spec: EnvironmentSpec,
    atlas_episodes: int = 0,
    seen_episodes: int = 0,
    on_round: OnRound | None = None,
) -> Artifact:
    """Return a model file with an atlas of its contexts, if it has any, and with training ranges; see `export_run`."""
    if atlas_episodes and artifact.contract.context is not None:  # the model itself drives these episodes
        artifact = recompose(artifact, {"atlas": measure(artifact, spec, atlas_episodes, on_round=on_round)})
    if seen_episodes:
        artifact = recompose(artifact, {"seen": measure_seen(artifact, spec, seen_episodes, on_round=on_round)})
    return artifact


def training_facts(run: RunFolder, agent: ContextSAC) -> dict[str, Any]:
    """Return what the contract tells of the training."""
    config, facts = agent.config, run.facts()
    return {
        "method": facts.get("title", agent.method.title),
        "env": config.env,
        **({"engine": facts["engine"]} if "engine" in facts else {}),
        "preset": config.preset,
        "steps": agent.num_timesteps,
        "updates": agent._n_updates,
        "seed": config.seed,
        "minutes": round(float(facts["seconds"]) / 60, 1),
        "cpus": facts["machine"]["cpus"],
        "commit": facts["git"].get("commit", "unknown"),
        "dirty": facts["git"].get("dirty"),
        "versions": facts["versions"],
        "tasks": [dict(task) for task in config.training_tasks()] if agent.environment else [],
        "config": config.to_dict(),
    }


def evaluation_of(run: RunFolder, agent: ContextSAC) -> dict[str, Any] | None:
    """Return a run's evaluation; None if there is none of this agent."""
    if not run.evaluation.is_file():
        return None
    try:
        stored = read_json(run.evaluation)
        evaluation = Evaluation.from_dict(stored).to_dict()
    except SamiError as error:
        raise SamiError(f"{run.evaluation}: {error}") from error
    # An evaluation of fewer steps measured an earlier agent of this run.
    return evaluation if stored.get("agent_steps") == agent.num_timesteps else None
