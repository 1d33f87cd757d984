"""What a contract says of a trained policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sami_runtime.model.contract import Context, Contract, Golden, StateTensor
from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.policy import ContextPolicy
from sami_train.envs.spec import EnvironmentSpec
from sami_train.export.parity import GOLDEN_RESET, Steps
from sami_train.runs.folder import RunFolder


def fill_contract(
    name: str,
    policy: ContextPolicy,
    spec: EnvironmentSpec,
    golden: Steps,
    training: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    sha256: str,
) -> Contract:
    """The contract of a policy; its arguments are `export`'s, and the graph's hash."""
    return Contract(
        name=name,
        rate_hz=spec.rate_hz,
        observation=spec.signals,
        action=spec.action,
        state=tuple(StateTensor(name=name, shape=shape) for name, shape in policy.encoder.state.items()),
        context=Context(size=policy.context_size),
        episode_steps=spec.episode_steps,
        training=dict(training),
        evaluation=None if evaluation is None else dict(evaluation),
        golden=Golden.encode(
            observation=spec.layout.by_name(golden.observations),
            executed=golden.executed,
            action=golden.actions,
            context=golden.contexts,
            resets=(0, GOLDEN_RESET),
        ),
        weights_sha256=sha256,
    )


def training_facts(run: RunFolder, agent: ContextSAC) -> dict[str, Any]:
    """What the contract tells of the training."""
    config, facts = agent.config, run.facts()
    return {
        "method": agent.method.title,
        "env": config.env,
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
