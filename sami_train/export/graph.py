"""The ONNX graph of one step of a policy, golden steps, and the comparison of a model file with torch."""

from __future__ import annotations

import copy
import io
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from sami_runtime.model.contract import ACTION, Contract, state_output
from sami_runtime.model.golden import GoldenSteps
from sami_runtime.session.session import Session
from sami_train.agent.policy import ContextPolicy
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.envs.spec import EnvironmentSpec
from sami_train.export.model_file import declare

OPSET = 17
GOLDEN_STEPS = 64
GOLDEN_RESET = 31
"""Golden step at which a new episode starts."""
CLOSED_LOOP_STEPS = 300
TRIES = 20
"""Most episodes to try until one is long enough; if none is, several shorter ones replace it."""

Row = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]
"""One step: the flat observation (D,), the executed action (A,), the policy's outputs by name."""


class Exportable(nn.Module):
    """One deterministic step with the contract's signals as inputs."""

    permutation: Tensor

    def __init__(self, policy: ContextPolicy, spec: EnvironmentSpec) -> None:
        super().__init__()
        self.policy = policy
        self.register_buffer("permutation", torch.as_tensor(np.argsort(spec.layout.order)))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Step the policy with signals (B, size) in the contract's order, previous action (B, A), states (B, ...)."""
        split = len(inputs) - len(self.policy.encoder.state)
        *signals, previous_action = inputs[:split]
        flat = torch.cat(signals, -1)[:, self.permutation]
        return self.policy.step(flat, previous_action, *inputs[split:])


def trace_graph(module: Exportable, contract: Contract) -> onnx.ModelProto:
    """Trace a step into a graph with the contract's inputs and outputs, in its order, and a dynamic batch axis."""
    inputs, outputs = contract.inputs, contract.outputs
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The tracing exporter keeps the LSTM as one node and the file as one file; torch warns that it is the older
        # one, and that an LSTM's batch must be dynamic in its state too, which it is here.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(torch.zeros(2, *shape) for shape in inputs.values()),
            buffer,  # type: ignore[arg-type] # any binary file works
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: {0: "batch"} for name in (*inputs, *outputs)},
            opset_version=OPSET,
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    # Tracing drops inputs that nothing reads, such as a memoryless policy's action, and leaves some sizes undefined.
    declare(model.graph, contract)
    model.graph.name = contract.name
    model.producer_name = "sami"
    onnx.checker.check_model(model, full_check=True)
    return model


class TorchSession:
    """The trained policy in torch with the interface of a session: the reference for model files.

    In float64 it has hardly any rounding error, so that a difference shows the file's own.
    """

    def __init__(self, policy: ContextPolicy, contract: Contract) -> None:
        self.policy, self.contract = policy, contract
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        kind = self.policy.log_temperature.dtype
        self.state = tuple(torch.full((1, *tensor.shape), tensor.initial, dtype=kind) for tensor in self.contract.state)
        self.previous_action = np.zeros(self.contract.action.size, np.float32)

    @torch.no_grad()
    def step(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        """Return the policy's outputs for a flat observation (D,), by the contract's names, (size,) each.

        Its action counts as executed; if another action was executed, set `previous_action` to that action.
        """
        kind = self.policy.log_temperature.dtype
        current, before = (torch.as_tensor(array, dtype=kind)[None] for array in (observation, self.previous_action))
        answered = self.policy.step(current, before, *self.state)
        outputs = dict(zip(self.contract.outputs, answered, strict=True))
        self.state = tuple(outputs[state_output(tensor.name)] for tensor in self.contract.state)
        answers = {name: outputs[name][0].numpy() for name in self.contract.answers}
        self.previous_action = answers[ACTION]
        return answers


def record(policy: ContextPolicy, spec: EnvironmentSpec, contract: Contract, seed: int = 0) -> GoldenSteps:
    """Record golden steps: the first steps of two episodes, or more if these end early; half of the actions are random.

    Random actions make executed actions differ from the policy's, and keep some episodes from ending early.
    """
    env = make(spec)
    rng = np.random.default_rng(seed)
    session, seeds = TorchSession(policy, contract), itertools.count(seed + 1)
    rows: list[Row] = []
    resets: list[int] = []
    for length in (GOLDEN_RESET, GOLDEN_STEPS - GOLDEN_RESET):
        for steps in _lasting(env, session, length, rng, seeds):
            resets.append(len(rows))
            rows += steps
    env.close()
    observations, executed, answers = zip(*rows, strict=True)
    return GoldenSteps(
        observation=spec.layout.by_name(np.stack(observations)),
        executed=np.stack(executed).astype(np.float32),
        answers={name: np.stack([row[name] for row in answers]) for name in contract.answers},
        resets=tuple(resets),
    )


def _lasting(
    env: Any, session: TorchSession, length: int, rng: np.random.Generator, seeds: Iterator[int]
) -> list[list[Row]]:
    """Return one episode of `length` steps; or if none lasts as long, the longest ones, cut to `length` in all."""
    shorter: list[list[Row]] = []
    while len(shorter) < TRIES or sum(map(len, shorter)) < length:
        steps = _steps(env, session, length, rng, next(seeds))
        if len(steps) == length:
            return [steps]
        shorter.append(steps)
    pieces: list[list[Row]] = []
    for steps in sorted(shorter, key=len, reverse=True):
        if missing := length - sum(map(len, pieces)):
            pieces.append(steps[:missing])
    return pieces


def _steps(env: Any, session: TorchSession, length: int, rng: np.random.Generator, seed: int) -> list[Row]:
    observation, _ = env.reset(seed=seed)
    session.reset()
    rows: list[Row] = []
    while len(rows) < length:
        flat = flatten(observation)
        answers = session.step(flat)
        action = answers[ACTION]
        executed = action if rng.random() < 0.5 else rng.uniform(-1, 1, len(action)).astype(np.float32)
        session.previous_action = executed
        rows.append((flat, executed, answers))
        observation, _, terminated, truncated, _ = env.step(executed)
        if terminated or truncated:
            break
    return rows


def closed_loop_errors(session: Session, policy: ContextPolicy, spec: EnvironmentSpec) -> tuple[float, float]:
    """Return the largest differences from torch in float64, in any output: of the file, and of torch in float32.

    The file acts in the environment, and both torch sessions step along with their own states. The difference of torch
    in float32 is rounding error, which some policies amplify.
    """
    env = make(spec)
    exact, rounded = (TorchSession(stepper, session.contract) for stepper in (copy.deepcopy(policy).double(), policy))
    worst, over, seed = np.zeros(2), True, 0
    for _ in range(CLOSED_LOOP_STEPS):
        if over:
            observation, _ = env.reset(seed=seed)
            for stepper in (session, exact, rounded):
                stepper.reset()
            seed += 1
        flat = flatten(observation)
        step = session.step(spec.layout.by_name(flat))
        answers = exact.step(flat), step.answers, rounded.step(flat)
        errors = [
            max(np.abs(answer[name] - value).max() for name, value in answers[0].items()) for answer in answers[1:]
        ]
        worst = np.maximum(worst, np.where(np.isfinite(errors), errors, (np.inf, 0.0)))
        exact.previous_action = rounded.previous_action = step.action
        observation, _, terminated, truncated, _ = env.step(step.action)
        over = terminated or truncated
    env.close()
    return float(worst[0]), float(worst[1])
