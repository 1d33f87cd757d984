"""Export: one ONNX file that holds encoder, policy and normalisation, its contract, and golden steps.

The file is written only after it agreed with torch, step by step with its state fed back and a reset in the middle,
and in closed loop in the environment.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from sami_runtime.checks.verify import verify
from sami_runtime.errors import CheckFailed
from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.contract import Context, Contract, Golden, StateTensor
from sami_runtime.session.session import Session
from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.policy import ContextPolicy
from sami_train.contexts.make_atlas import attach, known_tasks, measure, require_enough
from sami_train.envs.catalog import EnvironmentSpec, environment, flatten
from sami_train.evaluation.play import OnRound

OPSET = 17
TOLERANCE = 1e-5
"""Largest difference from torch that is accepted, in any output at any step."""
GOLDEN_STEPS = 64
GOLDEN_RESET = 31
"""Step of the golden steps at which a new episode begins."""
CLOSED_LOOP_STEPS = 300


class Exportable(nn.Module):
    """One deterministic step with the contract's signals as inputs.

    Args:
        policy: trained.
        spec: layout of the environment's flat observation.
    """

    permutation: Tensor

    def __init__(self, policy: ContextPolicy, spec: EnvironmentSpec) -> None:
        super().__init__()
        self.policy = policy
        order = np.argsort([index for item in spec.signals for index in item.indices])
        self.register_buffer("permutation", torch.as_tensor(order))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Signals (B, size) in the contract's order, previous action (B, A), then the encoder's state (B, ...)."""
        split = len(inputs) - len(self.policy.encoder.state)
        *signals, previous_action = inputs[:split]
        flat = torch.cat(signals, -1)[:, self.permutation]
        return self.policy.step(flat, previous_action, *inputs[split:])


@dataclass(frozen=True)
class Steps:
    """Recorded steps with torch's answers: what goldens and parity are made of."""

    observations: np.ndarray
    """(T, D) flat."""
    executed: np.ndarray
    """(T, A)"""
    actions: np.ndarray
    """(T, A)"""
    contexts: np.ndarray
    """(T, C)"""


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
    graph = _graph(Exportable(policy, spec), spec, path.stem)
    contract = _contract(path.stem, policy, spec, golden, training, evaluation, graph_sha256(graph.SerializeToString()))
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


def _graph(module: Exportable, spec: EnvironmentSpec, name: str) -> onnx.ModelProto:
    policy = module.policy
    inputs = [torch.zeros(2, item.signal.size) for item in spec.signals]
    state = policy.encoder.state
    inputs += [torch.zeros(2, policy.action_size)] + [torch.zeros(2, *shape) for shape in state.values()]
    input_names = [f"observation.{item.signal.name}" for item in spec.signals]
    input_names += ["previous_action", *(f"state.{name}.in" for name in state)]
    output_names = ["action", "context", *(f"state.{name}.out" for name in state)]
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The tracing exporter keeps the LSTM as one node and the file as one file; torch warns that it is the older
        # one, and that an LSTM's batch must be dynamic in its state too, which it is here.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(inputs),
            buffer,  # type: ignore[arg-type] # any binary file works
            input_names=input_names,
            output_names=output_names,
            dynamic_axes={name: {0: "batch"} for name in input_names + output_names},
            opset_version=OPSET,
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    _fix_shapes(model, policy)
    model.graph.name = name
    model.producer_name = "sami"
    onnx.checker.check_model(model, full_check=True)
    return model


def _fix_shapes(model: onnx.ModelProto, policy: ContextPolicy) -> None:
    """Declare the outputs' shapes: tracing leaves some of their static dimensions unnamed."""
    sizes = {
        "action": (policy.action_size,),
        "context": (policy.context_size,),
        **{f"state.{name}.out": shape for name, shape in policy.encoder.state.items()},
    }
    for output in model.graph.output:
        shape = output.type.tensor_type.shape
        for axis, size in enumerate(sizes[output.name], start=1):
            shape.dim[axis].dim_value = size


def _contract(
    name: str,
    policy: ContextPolicy,
    spec: EnvironmentSpec,
    golden: Steps,
    training: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    sha256: str,
) -> Contract:
    return Contract(
        name=name,
        rate_hz=spec.rate_hz,
        observation=tuple(item.signal for item in spec.signals),
        action=spec.action,
        state=tuple(StateTensor(name=name, shape=shape) for name, shape in policy.encoder.state.items()),
        context=Context(size=policy.context_size),
        episode_steps=spec.episode_steps,
        training=dict(training),
        evaluation=None if evaluation is None else dict(evaluation),
        golden=Golden.encode(
            observation={item.signal.name: golden.observations[:, item.indices] for item in spec.signals},
            executed=golden.executed,
            action=golden.actions,
            context=golden.contexts,
            resets=(0, GOLDEN_RESET),
        ),
        weights_sha256=sha256,
    )


class TorchSession:
    """The trained policy in torch, stepped as a session is: the reference that files are compared with."""

    def __init__(self, policy: ContextPolicy) -> None:
        self.policy = policy
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self.state = tuple(torch.zeros(1, *shape) for shape in self.policy.encoder.state.values())
        self.previous_action = np.zeros(self.policy.action_size, np.float32)

    @torch.no_grad()
    def step(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Action (A,) and context (C,) for a flat observation (D,); set `previous_action` to what was executed."""
        action, context, *state = self.policy.step(
            torch.as_tensor(observation)[None], torch.as_tensor(self.previous_action)[None], *self.state
        )
        self.state = tuple(state)
        self.previous_action = action[0].numpy()
        return action[0].numpy(), context[0].numpy()


def record(policy: ContextPolicy, spec: EnvironmentSpec, seed: int = 0) -> Steps:
    """Record golden steps in the environment: two beginnings of episodes, acting at random every other step.

    Random actions keep the episodes from ending early, and make executed and proposed actions differ.
    """
    env = spec.make()
    rng = np.random.default_rng(seed)
    lengths = (GOLDEN_RESET, GOLDEN_STEPS - GOLDEN_RESET)
    rows: list[tuple[np.ndarray, ...]] = []
    episode = 0
    for length in lengths:
        begun: list[tuple[np.ndarray, ...]] = []
        while len(begun) < length:
            episode += 1
            begun = _steps(env, TorchSession(policy), length, rng, seed + episode)
        rows += begun
    env.close()
    return Steps(*(np.stack(column).astype(np.float32) for column in zip(*rows, strict=True)))


def _steps(
    env: Any, session: TorchSession, length: int, rng: np.random.Generator, seed: int
) -> list[tuple[np.ndarray, ...]]:
    observation, _ = env.reset(seed=seed)
    rows: list[tuple[np.ndarray, ...]] = []
    while len(rows) < length:
        flat = flatten(observation)
        action, context = session.step(flat)
        executed = action if rng.random() < 0.5 else rng.uniform(-1, 1, len(action)).astype(np.float32)
        session.previous_action = executed
        rows.append((flat, executed, action, context))
        observation, _, terminated, truncated, _ = env.step(executed)
        if terminated or truncated:
            break
    return rows


def closed_loop_error(session: Session, policy: ContextPolicy, spec: EnvironmentSpec) -> float:
    """Largest difference in action or context: the file drives episodes, torch follows on its own state."""
    env = spec.make()
    reference = TorchSession(policy)
    worst, over, seed = 0.0, True, 0
    for _ in range(CLOSED_LOOP_STEPS):
        if over:
            observation, _ = env.reset(seed=seed)
            session.reset()
            reference.reset()
            seed += 1
        flat = flatten(observation)
        step = session.step({item.signal.name: flat[item.indices] for item in spec.signals})
        action, context = reference.step(flat)
        difference = max(np.abs(step.action - action).max(), np.abs(step.context - context).max())
        worst = max(worst, float(difference)) if np.isfinite(difference) else float("inf")
        reference.previous_action = step.action
        observation, _, terminated, truncated, _ = env.step(step.action)
        over = terminated or truncated
    env.close()
    return worst
