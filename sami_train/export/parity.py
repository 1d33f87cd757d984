"""Does the exported graph do what the trained network does? Steps of both, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sami_runtime.session.session import Session
from sami_train.agent.policy import ContextPolicy
from sami_train.envs.layout import flatten
from sami_train.envs.make import make
from sami_train.envs.spec import EnvironmentSpec

GOLDEN_STEPS = 64
GOLDEN_RESET = 31
"""Step of the golden steps at which a new episode begins."""
CLOSED_LOOP_STEPS = 300


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
    env = make(spec)
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
    env = make(spec)
    reference = TorchSession(policy)
    worst, over, seed = 0.0, True, 0
    for _ in range(CLOSED_LOOP_STEPS):
        if over:
            observation, _ = env.reset(seed=seed)
            session.reset()
            reference.reset()
            seed += 1
        flat = flatten(observation)
        step = session.step(spec.layout.by_name(flat))
        action, context = reference.step(flat)
        difference = max(np.abs(step.action - action).max(), np.abs(step.context - context).max())
        worst = max(worst, float(difference)) if np.isfinite(difference) else float("inf")
        reference.previous_action = step.action
        observation, _, terminated, truncated, _ = env.step(step.action)
        over = terminated or truncated
    env.close()
    return worst
