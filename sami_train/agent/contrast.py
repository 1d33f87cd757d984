"""The contrastive loss of a method, which draws, embeds and compares trajectories, and a record of its bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)

from sami_train.agent.losses import ContrastiveLoss, contrastive_loss
from sami_train.agent.policy import ContextPolicy
from sami_train.config.methods import Estimator
from sami_train.config.schema import ContrastConfig
from sami_train.episodes.buffer import EpisodeBuffer, SequenceBatch, Windows
from sami_train.episodes.sampling import of_one_age, rank_by

WINDOW = 100
"""Number of losses to average over: the bound of a single batch is noisy."""
NEGLIGIBLE = 0.01
"""Largest mean bound that counts as learning nothing [nats]; a constant encoder reaches 0."""


class Contrast:
    """Compares embeddings of trajectories (paper, figure 5): queries by psi, keys by psi or its momentum copy psi*.

    With keys of psi* (as in the paper) no gradient reaches the negatives. A step moves the queries towards the
    positives, but the negatives, which psi embeds too, move along; on a fixed buffer the loss then improves and
    collapses in turn (docs/results/contrast.md). With keys of psi both sides move apart.
    """

    def __init__(self, policy: ContextPolicy, estimator: Estimator, config: ContrastConfig) -> None:
        self.policy, self.estimator, self.config = policy, estimator, config

    def loss(self, buffer: EpisodeBuffer, rng: np.random.Generator) -> ContrastiveLoss | None:
        """Return the loss on newly drawn trajectories; it has a gradient for the encoder psi alone.

        None if the draw has nothing to compare: for InfoNCE, a single task or one episode of the current task; for
        SaNCE, equal scores, or only one trajectory above the others.
        """
        config = self.config
        window: Windows | None = None

        def score(where: np.ndarray) -> np.ndarray:
            if config.ranking == "value":
                return self._values(sequences(where))
            return rank_by(config.ranking, buffer, where, rng)

        def sequences(where: np.ndarray) -> SequenceBatch:
            if window is None:
                return buffer.sequences(buffer.windows(where, rng))
            return buffer.sequences(Windows(where, *(np.repeat(part, len(where)) for part in window[1:])))

        trajectories = self.estimator.strategy(buffer, config.trajectories, rng, score)
        if trajectories is None:
            return None
        if config.pairing == "one_age":
            if (of_age := of_one_age(trajectories, buffer, rng)) is None:
                return None
            trajectories, window = of_age
        # A query's positive is another good trajectory, not the query's own embedding.
        partners = np.roll(np.arange(len(trajectories.positives)), 1)
        queries = self._embed(self.policy.encoder, sequences(trajectories.positives), rng)
        if config.keys == "momentum":
            with torch.no_grad():
                keys = self.policy.momentum_encoder
                positives = self._embed(keys, sequences(trajectories.positives[partners]), rng)
                negatives = self._embed(keys, sequences(trajectories.negatives), rng)
        else:
            negatives = self._embed(self.policy.encoder, sequences(trajectories.negatives), rng)
            positives = queries[partners]
        return contrastive_loss(
            queries, positives, negatives, config.temperature, soft=self.estimator.soft, hardness=config.hardness
        )

    def _embed(self, encoder: torch.nn.Module, sequences: SequenceBatch, rng: np.random.Generator) -> Tensor:
        contexts, _ = encoder(*self.policy.sequence_input(sequences))
        embeddings = embeddings_of(contexts, sequences, self.config.pairing, rng)
        return F.normalize(embeddings, dim=-1) if self.config.unit_length else embeddings

    @torch.no_grad()
    def _values(self, sequences: SequenceBatch) -> np.ndarray:
        """Return the critics' mean value of what each trajectory did, (B,)."""
        policy = self.policy
        contexts, corrections, _ = policy.momentum_encoder.heads(*policy.sequence_input(sequences))
        arrays = sequences.observations, sequences.true_observations, sequences.recent_actions, sequences.actions
        observations, true, recent, actions = (torch.from_numpy(array).to(policy.device) for array in arrays)
        state = policy.critic_state(policy.features(policy.estimate(observations, corrections)), true, contexts, recent)
        valid = torch.from_numpy(np.arange(actions.shape[1]) < sequences.lengths[:, None]).to(policy.device)  # (B, L)
        q1, q2 = policy.critic_target(torch.cat([state[:, :-1], actions], -1))
        return ((torch.minimum(q1, q2) * valid).sum(1) / valid.sum(1)).cpu().numpy()


def embeddings_of(contexts: Tensor, windows: Windows | SequenceBatch, pairing: str, rng: np.random.Generator) -> Tensor:
    """Return one context of each trajectory as its embedding, (B, C); never one of the burn-in or the padding.

    Args:
        contexts: (B, L + 1, C), of trajectories padded to L steps.
        windows: the B trajectories.
        pairing: "last" and "one_age" take the context after the last step, "prefix" the one after a random number of
            steps, at least 1 beyond the burn-in.
        rng: draws the lengths of the prefixes.
    """
    steps = windows.lengths
    if pairing == "prefix":
        steps = rng.integers(windows.burn_in + 1, steps + 1)
    return contexts[np.arange(len(steps)), torch.from_numpy(steps)]


class ContrastRecord:
    """Running means over the last losses, and the share of the last attempts that had trajectories to compare.

    After `patience` losses in a row that taught nothing, training drops the loss; with patience 0 it never does.
    """

    def __init__(self, patience: int = 0) -> None:
        self.patience = patience
        self.in_vain = 0
        """How many of the latest losses, in a row, had a mean bound over the window of at most `NEGLIGIBLE`."""
        self._bounds: deque[float] = deque(maxlen=WINDOW)
        self._log_k: deque[float] = deque(maxlen=WINDOW)
        self._attempts: deque[bool] = deque(maxlen=WINDOW)

    @property
    def ended(self) -> bool:
        """Whether training has dropped the loss, since `patience` losses in a row taught nothing."""
        return 0 < self.patience <= self.in_vain

    def to_dict(self) -> dict[str, Any]:
        """Return the windows and the counter `in_vain` as values for JSON."""
        windows: dict[str, Iterable[float]] = {"bounds": self._bounds, "log_k": self._log_k, "attempts": self._attempts}
        return {name: list(window) for name, window in windows.items()} | {"in_vain": self.in_vain}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], patience: int = 0) -> ContrastRecord:
        """Return the record that `to_dict` wrote."""
        record = cls(patience)
        record.in_vain = plain.get("in_vain", 0)
        record._bounds.extend(plain["bounds"])
        record._log_k.extend(plain["log_k"])
        record._attempts.extend(map(bool, plain["attempts"]))
        return record

    def add(self, scalars: Mapping[str, Tensor | float]) -> None:
        """Add the scalars of an update that tried the loss; without `contrast_bound` if it had nothing to compare."""
        self._attempts.append("contrast_bound" in scalars)
        if self._attempts[-1]:
            self._bounds.append(float(scalars["contrast_bound"]))
            self._log_k.append(float(scalars["contrast_log_k"]))
            self.in_vain = self.in_vain + 1 if self._teaches_nothing else 0

    @property
    def _teaches_nothing(self) -> bool:
        return len(self._bounds) == WINDOW and float(np.mean(self._bounds)) <= NEGLIGIBLE

    def scalars(self) -> dict[str, float]:
        """Return scalars for the log, means over the last attempts; only `contrast/ended` once the loss is dropped.

        `contrast/bound` is the estimator's mean [nats], `contrast/k` the mean number of samples K in a loss, and
        `contrast/share` the share of attempts that had trajectories to compare.
        """
        if self.ended:
            return {"contrast/ended": 1.0}
        windows = {"bound": list(self._bounds), "k": list(np.exp(self._log_k)), "share": list(self._attempts)}
        return {f"contrast/{name}": float(np.mean(window)) for name, window in windows.items() if window}

    def summary(self) -> str:
        """Return a short text for the progress line; empty before the first attempt."""
        if self.ended:
            return f"contrast ended: {self.patience} losses taught nothing"
        means = self.scalars()
        share = means.get("contrast/share")
        if share is None:
            return ""
        if share == 0.0:
            return "contrast: nothing to compare yet"
        few = f", {1.0 - share:.0%} had nothing to compare" if share < 0.95 else ""
        verdict = " (learns nothing)" if self._teaches_nothing else ""
        return f"contrast {means['contrast/bound']:.2f} nats of {np.log(means['contrast/k']):.2f}{verdict}{few}"
