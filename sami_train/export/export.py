"""Export: one ONNX file that holds encoder, policy and normalisation, its contract, and golden steps.

The file is written only after it agreed with torch, step by step with its state fed back and a reset in the middle,
and in closed loop in the environment.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sami_runtime.checks.verify import verify
from sami_runtime.errors import CheckFailed, SamiError
from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.contract import Contract
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.envs.layout import flat_size
from sami_train.envs.spec import EnvironmentSpec
from sami_train.evaluation.play import OnRound
from sami_train.export.fill_contract import fill_contract
from sami_train.export.fit_atlas import require_enough
from sami_train.export.graph import Exportable, trace_graph
from sami_train.export.known import known_tasks
from sami_train.export.make_atlas import measure
from sami_train.export.make_seen import measure_seen
from sami_train.export.model_file import write_model
from sami_train.export.parity import closed_loop_errors, record
from sami_train.files import unfinished

TOLERANCE = 1e-5
"""Largest difference from torch that is accepted, in any output at any step."""
ROUNDINGS = 3.0
"""How many times what torch itself rounds off is accepted in closed loop, where that is more."""


def export(
    agent: ContextSAC,
    path: Path,
    training: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    atlas_episodes: int = 0,
    on_round: OnRound | None = None,
    spec: EnvironmentSpec | None = None,
    seen_episodes: int = 0,
) -> Contract:
    """Write a trained agent as one model file.

    Args:
        agent: trained; its networks are not changed.
        path: the file; it appears only once all checks have passed.
        training: how the agent came about, for the contract.
        evaluation: success by task set, for the contract; None where it was not measured.
        atlas_episodes: of each training task, that the atlas is made of; 0 leaves it out, and so does a policy without
            a context.
        on_round: called now and then with how many of these episodes are done since it was called last.
        spec: the environment that it was trained in; needed where that is not in the catalogue.
        seen_episodes: in all training tasks together, that what training saw is measured over; 0 leaves it out.

    Raises:
        SamiError: the policy is told the task, nobody says what the environment's signals are, they do not fit the
            agent, or there are too few episodes for an atlas.
        CheckFailed: the file would differ from torch by more than 1e-5, and by more than rounding explains.
    """
    if agent.policy.told is not None:
        told = ", ".join(feature.name for feature in agent.policy.told.features)
        raise SamiError(
            f"a policy of the method {agent.method.name} is told the task ({told}), and nobody tells it to a robot: "
            "there is no model file of it. Evaluate its run with sami eval --run RUN; export one of a method that "
            "finds the task out, e.g. satesac."
        )
    spec = _fitting(agent, spec)
    atlas_episodes = atlas_episodes if agent.policy.context_size else 0
    if atlas_episodes:
        require_enough(atlas_episodes, len(known_tasks(training, spec)))
    policy = copy.deepcopy(agent.policy).to("cpu").eval()
    contract = fill_contract(path.stem, policy, spec, training, evaluation)
    golden = contract.pack_golden(record(policy, spec, contract))
    graph = trace_graph(Exportable(policy, spec), contract)
    weights = graph_sha256(graph.SerializeToString())
    contract = contract.model_copy(update={"golden": golden, "weights_sha256": weights})

    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(path) as file:
        write_model(file, graph, contract)
        verify(file, TOLERANCE).require()
        error, rounding = closed_loop_errors(Session.load(file), policy, spec)
        if not error <= (accepted := max(TOLERANCE, ROUNDINGS * rounding)):
            raise CheckFailed(
                f"in closed loop the exported file differs from torch by {error:.2e}; "
                f"at most {accepted:.2g} is accepted. {path} was not written."
            )
        if atlas_episodes:  # which the file itself drives
            atlas = measure(file, spec, atlas_episodes, on_round=on_round)
            contract = write_model(file, graph, contract.model_copy(update={"atlas": atlas}))
        if seen_episodes:
            seen = measure_seen(file, spec, seen_episodes, on_round=on_round)
            contract = write_model(file, graph, contract.model_copy(update={"seen": seen}))
    return contract


def _fitting(agent: ContextSAC, spec: EnvironmentSpec | None) -> EnvironmentSpec:
    """Return what is known of the agent's environment.

    Raises:
        SamiError: nothing is, or it is another environment by its sizes.
    """
    spec = spec or agent.environment
    if spec is None:
        raise SamiError(
            "the agent was trained in an environment that is not in the catalogue, so the names, units and rate of its "
            "signals are not known. Give export() their EnvironmentSpec: spec=..."
        )
    sizes = flat_size(agent.observation_space), agent.policy.action_size
    if (expected := (spec.layout.size, spec.action.size)) != sizes:
        raise SamiError(
            f"the agent observes {sizes[0]} numbers and acts with {sizes[1]}; environment {spec.name!r} has "
            f"{expected[0]} and {expected[1]}. Give the EnvironmentSpec of the environment that it was trained in."
        )
    return spec
