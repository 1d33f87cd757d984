"""Export: composes one ONNX file with encoder, policy and normalisation, its contract, and golden steps.

The file in memory is compared with torch: step by step, with its state fed back and a reset in the middle, and in
closed loop in the environment. `export_run` adds measurements and writes the file.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sami_runtime.errors import CheckFailed, SamiError
from sami_runtime.model.artifact import Artifact
from sami_runtime.model.contract import PRESENT, Context, Contract, StateTensor
from sami_runtime.session.session import Session
from sami_runtime.signals import Signal
from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.policy import ContextPolicy
from sami_train.envs.layout import flat_size
from sami_train.envs.spec import EnvironmentSpec
from sami_train.export.graph import Exportable, closed_loop_errors, record, trace_graph
from sami_train.export.model_file import compose_verified

TOLERANCE = 1e-5
"""Largest accepted difference from torch, in any output at any step."""
ROUNDINGS = 3.0
"""In closed loop a difference of this many times torch's own rounding error is accepted, if that is more."""
NO_GRAPH = "0" * 64
"""Placeholder for the hash of the weights in a contract without a graph."""


def compose_model(
    agent: ContextSAC,
    path: Path,
    training: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    spec: EnvironmentSpec | None = None,
) -> Artifact:
    """Return the model file of a trained agent; nothing is written.

    Args:
        agent: the trained agent, which stays unchanged.
        path: the path of the future file; its stem becomes the model's name.
        training: facts about the training, for the contract.
        evaluation: results by task set, for the contract; None if there are none.
        spec: the training environment; required if it is not in the catalogue.

    Raises:
        SamiError: the policy is an oracle, there is no spec, or its sizes do not fit the agent.
        CheckFailed: the file differs from torch by more than 1e-5, and by more than rounding explains.
    """
    if agent.policy.task_input is not None:
        names = ", ".join(feature.name for feature in agent.policy.task_input.features)
        raise SamiError(
            f"a policy of the method {agent.method.name} reads the task ({names}), which a robot does not know, so it "
            "cannot be exported. Evaluate its run with sami eval --run RUN; export a policy of a method that infers "
            "the task, e.g. satesac."
        )
    spec = _fitting(agent, spec)
    policy = copy.deepcopy(agent.policy).to("cpu").eval()
    contract = fill_contract(path.stem, policy, spec, training, evaluation)
    golden = record(policy, spec, contract)
    graph = trace_graph(Exportable(policy, spec), contract)
    artifact = compose_verified(path, graph, contract, golden, TOLERANCE)
    error, rounding = closed_loop_errors(Session(artifact), policy, spec)
    if not error <= (accepted := max(TOLERANCE, ROUNDINGS * rounding)):
        raise CheckFailed(
            f"in closed loop the exported file differs from torch by {error:.2e}; "
            f"at most {accepted:.2g} is accepted. {path} was not written."
        )
    return artifact


def _fitting(agent: ContextSAC, spec: EnvironmentSpec | None) -> EnvironmentSpec:
    """Return the specification of the agent's environment; raise SamiError if there is none, or its sizes differ."""
    spec = spec or agent.environment
    if spec is None:
        raise SamiError(
            "the agent was trained in an environment that is not in the catalogue, so the names, units and rate of its "
            "signals are not known. Give compose_model() their EnvironmentSpec: spec=..."
        )
    sizes = flat_size(agent.observation_space), agent.policy.action_size
    if (expected := (spec.layout.size, spec.action.size)) != sizes:
        raise SamiError(
            f"the agent observes {sizes[0]} numbers and acts with {sizes[1]}; environment {spec.name!r} has "
            f"{expected[0]} and {expected[1]}. Give the EnvironmentSpec of its training environment."
        )
    return spec


def fill_contract(
    name: str,
    policy: ContextPolicy,
    spec: EnvironmentSpec,
    training: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
) -> Contract:
    """Return the contract of a policy without a graph: it has no golden steps, and `NO_GRAPH` as hash."""
    return Contract(
        name=name,
        rate_hz=spec.rate_hz,
        observation=spec.signals,
        action=spec.action,
        state=tuple(StateTensor(name=name, shape=shape) for name, shape in policy.encoder.state.items()),
        context=Context(size=policy.context_size) if policy.context_size else None,
        extra_outputs=() if policy.present is None else tuple(map(present_signal, spec.estimated)),
        episode_steps=spec.episode_steps,
        training={**training, "env": spec.name},
        evaluation=None if evaluation is None else dict(evaluation),
        sheet=spec.sheet,
        weights_sha256=NO_GRAPH,
    )


def present_signal(signal: Signal) -> Signal:
    """Return the output signal for a policy's estimate of a signal's present value."""
    free = (None,) * signal.size
    changes = {"name": f"{PRESENT}{signal.name}", "low": free, "high": free, "moves": None}
    return signal.model_copy(update={**changes, "meaning": f"what {signal.name} is estimated to be now"})
