"""Export: one ONNX file that holds encoder, policy and normalisation, its contract, and golden steps.

The file is written only after it agreed with torch, step by step with its state fed back and a reset in the middle,
and in closed loop in the environment.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from sami_runtime.checks.verify import verify
from sami_runtime.errors import CheckFailed
from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.contract import Contract
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.contexts.fit_atlas import require_enough
from sami_train.contexts.make_atlas import known_tasks, measure
from sami_train.envs.catalog import environment
from sami_train.evaluation.play import OnRound
from sami_train.export.fill_contract import fill_contract
from sami_train.export.graph import Exportable, trace_graph
from sami_train.export.model_file import attach
from sami_train.export.parity import closed_loop_error, record

TOLERANCE = 1e-5
"""Largest difference from torch that is accepted, in any output at any step."""


def export(
    agent: ContextSAC,
    path: Path,
    training: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    atlas_episodes: int = 0,
    on_round: OnRound | None = None,
) -> Contract:
    """Write a trained agent as one model file.

    Args:
        agent: trained; its networks are not changed.
        path: the file; it appears only once all checks have passed.
        training: how the agent came about, for the contract.
        evaluation: success by task set, for the contract; None where it was not measured.
        atlas_episodes: of each training task, that the atlas is made of; 0 leaves it out, and so does a policy without
            a context.
        on_round: called now and then with how many episodes of the atlas are done since it was called last.

    Raises:
        SamiError: too few episodes for an atlas.
        CheckFailed: the file would differ from torch by more than 1e-5.
    """
    spec = agent.environment or environment(agent.config.env)
    atlas_episodes = atlas_episodes if agent.policy.context_size else 0
    if atlas_episodes:
        require_enough(atlas_episodes, len(known_tasks(training, spec)))
    policy = copy.deepcopy(agent.policy).to("cpu").eval()
    golden = record(policy, spec)
    graph = trace_graph(Exportable(policy, spec), spec, path.stem)
    contract = fill_contract(
        path.stem, policy, spec, golden, training, evaluation, graph_sha256(graph.SerializeToString())
    )
    onnx.helper.set_model_props(graph, contract.metadata())

    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.write_bytes(graph.SerializeToString())
        verify(unfinished, TOLERANCE).require()
        error = closed_loop_error(Session.load(unfinished), policy, spec)
        if not error <= TOLERANCE:
            raise CheckFailed(
                f"in closed loop the exported file differs from torch by {error:.2e}; "
                f"at most {TOLERANCE:.0e} is accepted. {path} was not written."
            )
        if atlas_episodes:
            contract = attach(unfinished, measure(unfinished, spec, atlas_episodes, on_round=on_round))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return contract
