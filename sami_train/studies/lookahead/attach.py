"""Gives a model file a forward model, or another one, and golden steps that cover it.

What the file answers is compared with what it is made of: the forward model in numpy, and the policy as it was, which
its own golden steps compare with torch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from sami_runtime.checks.verify import verify
from sami_runtime.errors import SamiError
from sami_runtime.model.artifact import Artifact, read_artifact
from sami_runtime.model.contract import ACTION, Contract
from sami_runtime.model.golden import GoldenSteps
from sami_runtime.model.lookahead import MOST_STEPS, Lookahead
from sami_runtime.session.session import Session
from sami_train.export.model_file import compose_verified, write
from sami_train.studies.lookahead.compose import in_front, with_room, without
from sami_train.studies.lookahead.fit import Fit
from sami_train.studies.lookahead.forward_model import ForwardModel

SEED = 5


def require_steps(steps: int) -> None:
    """Refuse a lookahead that no file may have.

    Raises:
        SamiError: it is not from 1 to the most.
    """
    if not 1 <= steps <= MOST_STEPS:
        raise SamiError(f"--lookahead is {steps}; a file looks 1 to {MOST_STEPS} periods ahead.")


def attach_lookahead(model: Path, out: Path, steps: int, forward: Fit, fitted: str) -> Contract:
    """Write a model file with a forward model in front of its policy, see `with_lookahead`."""
    return write(with_lookahead(read_artifact(model), out, steps, forward, fitted))


def with_lookahead(artifact: Artifact, out: Path, steps: int, forward: Fit, fitted: str) -> Artifact:
    """Return a model file with a forward model in front of its policy, which replaces the one that it has.

    Args:
        artifact: the file, which may not be written yet.
        out: where the new file will be.
        steps: K.
        forward: the fitted forward model.
        fitted: what it was fitted to, for people.

    Raises:
        CheckFailed: the file that is read, or the one that would be written, does not do what it says.
        ArtifactError, ContractError: as above.
    """
    require_steps(steps)
    verify(artifact).require()
    graph, contract = onnx.load_from_string(artifact.model_bytes), artifact.contract
    lookahead = Lookahead(
        steps=steps, fitted=fitted, transitions=forward.transitions, held_out=forward.held_out, errors=forward.errors
    )
    contract = with_room(contract, steps).model_copy(update={"lookahead": lookahead})
    graph = in_front(without(graph, contract), contract, forward.model)
    return compose_verified(out, graph, contract, golden_steps(Session(artifact), contract, forward.model))


def golden_steps(session: Session, contract: Contract, forward: ForwardModel) -> GoldenSteps:
    """Return golden steps of a policy that looks ahead: those that it has, as if they had arrived late.

    A third of the steps is not late, a third as a whole, a third by signal; before every fourth, periods pass.

    Args:
        session: the policy as it was.
        contract: of the policy that looks ahead.
        forward: the forward model.

    Raises:
        SamiError: the policy has no golden steps.
    """
    old = session.contract.golden_steps()
    if old is None or contract.lookahead is None:
        raise SamiError(f"{session.artifact.path} carries no golden steps to compare with. Export the model again.")
    rng, count, steps = np.random.default_rng(SEED), len(old), contract.lookahead.steps
    signals = contract.observation
    age = rng.uniform(0.0, steps, (count, len(signals)))
    age[1::3] = age[1::3, :1]
    age[::3] = 0.0
    held = np.where(np.arange(count) % 4 == 3, rng.integers(1, 3, count), 0)
    own_action = (old.executed == old.answers[ACTION]).all(axis=1)  # (T,): steps whose own action was executed
    executed, reference = old.executed.copy(), Reference(session, contract, forward)
    answers: dict[str, list[np.ndarray]] = {name: [] for name in contract.answers}
    for step in range(count):
        if step in old.resets:
            reference.reset()
        reference.elapse(int(held[step]))
        observation = {name: value[step] for name, value in old.observation.items()}
        for name, value in reference.step(observation, age[step]).items():
            answers[name].append(value)
        if own_action[step]:
            executed[step] = answers[ACTION][-1]
        reference.executed(executed[step])
    return GoldenSteps(
        observation=old.observation,
        executed=executed,
        answers={name: np.stack(values) for name, values in answers.items()},
        resets=old.resets,
        age=age.astype(np.float32),
        held=held[:, None].astype(np.float32),
    )


class Reference:
    """A policy that looks ahead, made of its parts: the forward model in numpy, and the policy alone.

    Args:
        session: the policy; where its file looks ahead, it is told that nothing is late.
        contract: of the policy that looks ahead.
        forward: the forward model.
    """

    def __init__(self, session: Session, contract: Contract, forward: ForwardModel) -> None:
        assert contract.lookahead is not None
        self.session, self.contract, self.forward = session, contract, forward
        self.steps = contract.lookahead.steps
        self.sizes = [signal.size for signal in contract.observation]
        self.reset()

    def reset(self) -> None:
        """Begin an episode."""
        self.session.reset()
        self.past = [np.zeros((1, self.contract.action.size), np.float32) for _ in range(self.steps + 1)]
        self.context = np.zeros((1, self.contract.context_size), np.float32)
        self.acted = False

    def elapse(self, periods: int) -> None:
        """Let periods pass in which the action executed last stands."""
        for _ in range(periods):
            self.past = [self.past[0], *self.past[:-1]]

    def step(self, observation: dict[str, np.ndarray], age: np.ndarray) -> dict[str, np.ndarray]:
        """Return the answers, by the contract's outputs, to an observation whose signals have these ages (S,)."""
        flat = np.concatenate([observation[signal.name] for signal in self.contract.observation])[None]
        ages = np.repeat(age, self.sizes)[None]
        ahead = self.forward.ahead(flat, ages, self.past, self.context)[0]
        parts = np.split(ahead, np.cumsum(self.sizes)[:-1])
        answer = self.session.step(dict(zip((s.name for s in self.contract.observation), parts, strict=True)))
        self.context, self.acted = answer.context[None], True
        self.past = [answer.action[None], *self.past[:-1]]
        return {name: answer.answers[name] for name in self.contract.answers}

    def executed(self, action: np.ndarray) -> None:
        """Tell what was really executed since the last step."""
        self.session.executed(action)
        self.past[0] = np.asarray(action, np.float32)[None]
