"""What a contract says of a trained policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sami_runtime.model.contract import PRESENT, Context, Contract, StateTensor
from sami_runtime.signals import Signal
from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.policy import ContextPolicy
from sami_train.envs.spec import EnvironmentSpec
from sami_train.runs.folder import RunFolder

NO_GRAPH = "0" * 64
"""The hash of the weights in a contract that has no graph yet."""


def fill_contract(
    name: str,
    policy: ContextPolicy,
    spec: EnvironmentSpec,
    training: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
) -> Contract:
    """Return the contract of a policy that has no graph yet: without golden steps, and its hash stands for none.

    Args:
        name: of the model.
        policy: trained.
        spec: the environment that it acts in, which is what the contract says of it.
        training: as in `export`.
        evaluation: as in `export`.
    """
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
    """Return the output that tells what a policy estimates a signal to be now, beside what arrived of it."""
    free = (None,) * signal.size
    changes = {"name": f"{PRESENT}{signal.name}", "low": free, "high": free, "moves": None}
    return signal.model_copy(update={**changes, "meaning": f"what {signal.name} is estimated to be now"})


def training_facts(run: RunFolder, agent: ContextSAC) -> dict[str, Any]:
    """Return what the contract tells of the training."""
    config, facts = agent.config, run.facts()
    return {
        "method": agent.method.title,
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
