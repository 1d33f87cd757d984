"""Exports a run folder: writes the model file, its weights and its model card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
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
from sami_train.export.card import card_files
from sami_train.export.export import compose_model
from sami_train.export.model_file import recompose
from sami_train.export.training_ranges import known_tasks, measure_ranges
from sami_train.files import read_json, unfinished
from sami_train.runs.folder import RunFolder
from sami_train.runs.record import RunRecord
from sami_train.runs.train import load_agent

ATLAS_EPISODES = 20
"""Default episodes of each training task for an atlas, unless it needs more."""

Addition = Callable[[Artifact], Artifact]
"""Adds a part to a model file in memory: a forward model, a readout."""
Progress = Callable[[int, int], None]
"""Called with the number of episodes done since its last call, and the number of all episodes."""


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    contract: Contract
    """The model file's contract."""
    weights: Path
    card: tuple[Path, ...]
    """The files of the model card; empty without a card."""


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
    """Write a run as one model file, its weights and its model card.

    All parts of the file are measured and composed in memory, and the complete file is written once.

    Args:
        run: the trained run.
        out: the model file, NAME.onnx; the weights are NAME.safetensors, the card NAME.md and NAME.png.
        atlas_episodes: episodes of each training task for the atlas (the in-distribution reference); if None, 20 or as
            many as it needs; 0 makes none, as does a policy without a context.
        seen_episodes: episodes in all training tasks together for the training ranges; 0 measures none.
        additions: applied to the file in this order, before it is written.
        card: whether to write the model card.
        untrained: whether to export a policy even if it made no update.
        on_round: reports the progress of atlas and training ranges.

    Raises:
        SamiError, CheckFailed: the run has no agent or no update, its evaluation cannot be read, or there are too few
            episodes for an atlas; see also `compose_model`. Nothing is written in these cases.
    """
    agent = load_agent(run)
    facts = training_facts(run, agent)
    if not facts["updates"] and not untrained:
        raise SamiError(
            f"the policy of {run.path} is untrained: {facts['steps']:,} steps, 0 updates; it acts at random. "
            "Train it for longer, or export it anyway with --force."
        )
    evaluation = evaluation_of(run, agent)
    spec = environment(run.config().env)
    tasks = len(known_tasks(facts, spec))
    if atlas_episodes is None:
        atlas_episodes = max(ATLAS_EPISODES, least_episodes(tasks))
    total = atlas_episodes * tasks * bool(agent.policy.context_size) + seen_episodes

    def count(rounds: int) -> None:
        if on_round is not None:
            on_round(rounds, total)

    count(0)
    if atlas_episodes and agent.policy.context_size:
        require_enough(atlas_episodes, tasks)
    artifact = compose_model(agent, out, facts, evaluation, spec)
    artifact = with_measured(artifact, spec, atlas_episodes, seen_episodes, count)
    for add in additions:
        artifact = add(artifact)
    weights = out.with_suffix(".safetensors")
    pages = card_files(RunRecord.of_folder(run.path), artifact.contract, out) if card else {}
    # All get their names once they are complete, the model last: an interruption leaves no model without the others.
    with unfinished(out) as file, unfinished(weights) as temporary, ExitStack() as stack:
        file.write_bytes(artifact.model_bytes)
        write_weights(temporary, agent.weights(artifact.contract.weights_sha256, targets=False))
        for path, content in pages.items():
            stack.enter_context(unfinished(path)).write_bytes(content)
    return Exported(artifact.contract, weights, tuple(pages))


def with_measured(
    artifact: Artifact,
    spec: EnvironmentSpec,
    atlas_episodes: int = 0,
    seen_episodes: int = 0,
    on_round: OnRound | None = None,
) -> Artifact:
    """Return a model file with an atlas (if it has a context) and training ranges; arguments as `export_run`."""
    if atlas_episodes and artifact.contract.context is not None:  # the model file itself acts in these episodes
        artifact = recompose(artifact, {"atlas": measure(artifact, spec, atlas_episodes, on_round=on_round)})
    if seen_episodes:
        ranges = measure_ranges(artifact, spec, seen_episodes, on_round=on_round)
        artifact = recompose(artifact, {"training_ranges": ranges})
    return artifact


def training_facts(run: RunFolder, agent: ContextSAC) -> dict[str, Any]:
    """Return the contract's entry `training`."""
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
    """Return a run's evaluation of this agent, or None; SamiError if its file cannot be read."""
    if not run.evaluation.is_file():
        return None
    try:
        stored = read_json(run.evaluation)
        evaluation = Evaluation.from_dict(stored).to_dict()
    except SamiError as error:
        raise SamiError(f"{run.evaluation}: {error}") from error
    # An evaluation after fewer steps is of an earlier agent of this run.
    return evaluation if stored.get("agent_steps") == agent.num_timesteps else None
