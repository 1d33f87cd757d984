"""The largest bound that a contrast reaches alone, trained to convergence on the buffer of a run.

In training, a contrastive loss shares its encoder with the critics, and its buffer grows. Here a new encoder learns
from the contrastive loss alone, on the episodes that the run had collected by some stage: no weighting of losses should
pass the bound that it reaches. Every tenth episode is held out: only a bound on these shows more than memory. Tasks
come in turn, so that the held-out episodes are of some tasks only if the number of tasks is a multiple of 2 or 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sami_runtime.errors import SamiError, in_shell
from sami_train.agent.context_sac import ContextSAC
from sami_train.agent.contrast import NEGLIGIBLE, Contrast
from sami_train.agent.networks import descend, soft_update
from sami_train.agent.policy import ContextPolicy
from sami_train.config.methods import Method, method
from sami_train.config.resolve import from_dict
from sami_train.config.schema import ContrastConfig, TrainConfig
from sami_train.envs.catalog import by_name
from sami_train.episodes.buffer import EpisodeBuffer
from sami_train.evaluation.play import OnRound
from sami_train.files import read_json_lines
from sami_train.runs.folder import RunFolder
from sami_train.runs.train import load_agent, make_env

STAGES = {"early": 0.25, "middle": 0.5, "late": 1.0}
"""Fraction, by stage, of the episodes in the buffer, from the oldest on; a long run's buffer lacks its first ones."""
HELD_OUT_EVERY = 10
RATE = 1e-3
"""Adam's learning rate."""
LOOK_EVERY = 200
"""Number of losses between two checks whether the bound still rises; a bound is a mean over as many."""
PATIENCE = 3
"""Checks without a better bound after which a contrast has converged, once its bound exceeds `NEGLIGIBLE`."""
LEAST_GAIN = 0.01
"""Smallest increase of the bound that counts [nats]."""


@dataclass(frozen=True)
class LargestBound:
    """The largest bound of one method's contrast at one stage of a run."""

    stage: str
    episodes: int
    """Episodes in the buffer at that stage, held-out ones included."""
    method: str
    ranking: str
    """The criterion that ranks trajectories, see `ContrastConfig.ranking`."""
    bound: float | None
    """Highest mean over `LOOK_EVERY` losses [nats]; None if no draw has anything to compare."""
    held_out: float | None
    """Mean over 50 losses on held-out episodes at that time [nats]; None if these have nothing to compare."""
    log_k: float | None
    """Mean of log K, the upper limit of the bound [nats]."""
    losses: int
    """Number of losses until convergence, or the most allowed."""
    realised: float | None
    """The last bound that the run logged by that stage [nats]; None if it has another contrast or logged no bound."""


def largest_bounds(
    run: RunFolder,
    methods: Sequence[str],
    rankings: Sequence[str],
    changes: Mapping[str, Any] | None = None,
    most_losses: int = 4000,
    on_losses: OnRound | None = None,
) -> Iterator[LargestBound]:
    """Yield the largest bound of every method and ranking at every stage of a run.

    Args:
        run: a run whose last checkpoint has a buffer.
        methods: names of methods with a contrastive loss.
        rankings: see `ContrastConfig.ranking`; a method without a ranking is trained once.
        changes: new values of the run's configuration, by key; only keys `contrast.NAME`.
        most_losses: number of losses after which training stops even without convergence.
        on_losses: called with the number of losses since the last call.

    Raises:
        SamiError: no checkpoint with a buffer, too few episodes, no contrastive loss, or no key of the contrast.
    """
    contrasts = [
        (contender, ranking)
        for contender in map(_contrastive, methods)  # one ranking for a method that does not rank
        for ranking in (rankings if contender.estimator and contender.estimator.ranks else rankings[:1])
    ]
    agent, buffer, collected = _with_buffer(run)
    if len(buffer) < HELD_OUT_EVERY:
        command = f"sami train --resume {in_shell(run.path)}{by_name(agent.config.env)} --steps N"
        advice = f"{HELD_OUT_EVERY} are the fewest. Collect more: {command}"
        raise SamiError(f"{run.path} has {len(buffer)} episodes, and {advice}")
    config = _with_changes(run.config(), changes or {})
    for stage, share in STAGES.items():
        end = max(HELD_OUT_EVERY, round(share * len(buffer)))
        by_age, later = np.split(np.argsort(buffer.numbers(np.arange(len(buffer)))), [end])
        held_out = np.arange(end) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        parts = part_of(buffer, by_age[~held_out]), part_of(buffer, by_age[held_out])
        steps = collected - int(buffer.lengths[later].sum())  # a long run's buffer lacks its first episodes
        for contender, ranking in contrasts:
            contrast = config.contrast.model_copy(update={"ranking": ranking})
            reached = _converge(agent, contender, contrast, *parts, most_losses, on_losses)
            same_contrast = (contender.name, contrast) == (agent.config.method, agent.config.contrast)
            yield LargestBound(
                stage, end, contender.name, ranking, *reached, realised=_realised(run, steps) if same_contrast else None
            )


def part_of(buffer: EpisodeBuffer, where: np.ndarray) -> EpisodeBuffer:
    """Return a new buffer with copies of the episodes at these positions (n,), added in this order."""
    arrays = buffer.arrays()
    sizes, profile = (buffer.observations.shape[2], buffer.actions.shape[2]), buffer.with_profile
    true_size = buffer.true_observations.shape[2]
    part = EpisodeBuffer(len(where), buffer.horizon, *sizes, buffer.goal, buffer.plan, profile, true_size)
    for name, copied in part.arrays().items():
        copied[:] = arrays[name][where]
    part.total_count = len(where)
    return part


def _converge(
    agent: ContextSAC,
    contender: Method,
    config: ContrastConfig,
    train: EpisodeBuffer,
    held_out: EpisodeBuffer,
    most_losses: int,
    on_losses: OnRound | None,
) -> tuple[float | None, float | None, float | None, int]:
    """Train a new encoder; return its best bound, that on held-out episodes, mean log K, and the number of losses."""
    torch.manual_seed(0)
    policy, estimator = _fresh_policy(agent, contender), contender.estimator
    assert estimator is not None
    contrast = Contrast(policy, estimator, config)
    optimizer = torch.optim.Adam(policy.encoder.parameters(), lr=RATE)
    rng, since_best, count = np.random.default_rng(0), 0, 0
    best, bounds, log_k = (-np.inf, np.nan), list[float](), list[float]()
    while count < most_losses and (since_best < PATIENCE or best[0] <= NEGLIGIBLE):  # many start to learn late
        bounds.clear()
        for _ in range(LOOK_EVERY):
            loss = contrast.loss(train, rng)
            if loss is None:
                continue
            descend(optimizer, loss.loss)
            soft_update(policy.momentum_encoder, policy.encoder, agent.config.learning.momentum_rate)
            bounds.append(float(loss.bound))
            log_k.append(loss.log_k)
        count += LOOK_EVERY
        if on_losses is not None:
            on_losses(LOOK_EVERY)
        if not bounds:
            return None, None, None, count
        since_best += 1
        if np.mean(bounds) > best[0] + LEAST_GAIN:
            best, since_best = (float(np.mean(bounds)), _mean_bound(contrast, held_out)), 0
    return best[0], None if np.isnan(best[1]) else best[1], float(np.mean(log_k)), count


def _fresh_policy(agent: ContextSAC, contender: Method) -> ContextPolicy:
    """Return an untrained policy of a method, with this agent's normalisation of observations."""
    config = agent.config.model_copy(update={"method": contender.name})
    fresh = ContextSAC("ContextPolicy", agent.env, config, device=agent.device).policy
    fresh.features.load_state_dict(agent.policy.features.state_dict())
    return fresh


@torch.no_grad()
def _mean_bound(contrast: Contrast, buffer: EpisodeBuffer) -> float:
    """Return the mean bound over 50 losses on held-out episodes; NaN if no draw has anything to compare."""
    rng = np.random.default_rng(1)
    bounds = [float(loss.bound) for _ in range(50) if (loss := contrast.loss(buffer, rng)) is not None]
    return float(np.mean(bounds)) if bounds else float("nan")


def _with_buffer(run: RunFolder) -> tuple[ContextSAC, EpisodeBuffer, int]:
    """Return a run's newest agent, the episodes of its newest checkpoint, and the checkpoint's environment steps.

    Stored encoder states are set to zero, because they belong to another encoder than the one to be trained.
    """
    checkpoint = run.newest_checkpoint()
    if checkpoint is None or not (checkpoint / "buffer.npz").is_file():
        raise SamiError(
            f"{run.path} has no checkpoint with a buffer; train it with checkpoint_every at most its steps, "
            "e.g. --set checkpoint_every=100000."
        )
    agent = load_agent(run, make_env(run.config()))
    agent.make_buffer().restore(checkpoint / "buffer.npz")
    buffer = agent.make_buffer()
    for states in buffer.states:
        states[:] = 0.0
    return agent, buffer, int(checkpoint.name)


def _realised(run: RunFolder, steps: int) -> float | None:
    """Return the last bound that the run logged within its first `steps` environment steps; None if there is none."""
    rows = [row for row in read_json_lines(run.metrics) if "contrast/bound" in row and row["step"] <= steps]
    return rows[-1]["contrast/bound"] if rows else None


def _with_changes(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    values = config.to_dict()
    for key, value in changes.items():
        section, _, name = key.partition(".")
        if section != "contrast":
            raise SamiError(f"--set {key}: only the contrast can be changed, e.g. contrast.trajectories=256.")
        values["contrast"][name] = value
    return from_dict(values)


def _contrastive(name: str) -> Method:
    contender = method(name)
    if contender.estimator is None:
        raise SamiError(f"{contender.title} has no contrastive loss; name some of ccm, satesac, saccm.")
    return contender
