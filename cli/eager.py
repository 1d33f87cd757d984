"""The policy of a model file in torch, for comparison, where torch is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sami_runtime.checks.bench import Candidate
    from sami_runtime.model.contract import Contract

EAGER, PREDICT = "torch, eager", "stable-baselines3 predict"


def candidates(contract: Contract, run: Path | None) -> tuple[list[Candidate], str]:
    """Ways to step the policy in torch, and a sentence on what policy that is, or why there is none.

    Args:
        contract: Of the model file.
        run: The run folder that the file was exported from. Without it, a policy of the configuration in the contract
            is made, with new weights.
    """
    try:
        import numpy as np
        import torch

        from sami_runtime.checks.bench import OBSERVATIONS, Candidate, observations
        from sami_runtime.errors import SamiError
        from sami_runtime.model.contract import ACTION
        from sami_train.export.graph import TorchSession
        from sami_train.studies.lookahead.compose import alone

        try:
            agent, what = _agent(contract, run)
        except SamiError as error:
            if run is not None:
                raise
            return [], f"torch and predict are left out: {error}"
    except ModuleNotFoundError as error:
        return [], f"torch and predict are left out: {error.name} is not installed."
    torch.set_num_threads(1)
    spec = agent.environment
    flat = np.zeros((OBSERVATIONS, spec.layout.size), np.float32)
    for name, value in observations(contract).items():
        flat[:, spec.layout.columns(name)] = value
    eager = TorchSession(agent.policy, alone(contract))
    state: Any = None

    def reset() -> None:
        nonlocal state
        state = None

    def predict(i: int) -> Any:
        nonlocal state
        action, state = agent.predict(flat[i], state, deterministic=True)
        return action

    return [
        Candidate(EAGER, eager.reset, lambda i: eager.step(flat[i])[ACTION]),
        Candidate(PREDICT, reset, predict),
    ], what


def _agent(contract: Contract, run: Path | None) -> tuple[Any, str]:
    from sami_runtime.errors import SamiError
    from sami_train.agent.context_sac import ContextSAC
    from sami_train.config.resolve import from_dict
    from sami_train.runs.folder import RunFolder
    from sami_train.runs.train import load_agent, make_env

    if run is not None:
        return load_agent(RunFolder.open(run)), f"torch and predict step the policy of {run}."
    settings = contract.training.get("config")
    if not isinstance(settings, dict):
        raise SamiError("the contract carries no training configuration to make a policy of the same shape by.")
    config = from_dict(settings)
    agent = ContextSAC("ContextPolicy", make_env(config), config, device="cpu")
    return agent, (
        "torch and predict step a policy of the same shape, made from the contract's configuration with new weights "
        "(--run RUN steps the trained one); what a step costs does not depend on them."
    )
