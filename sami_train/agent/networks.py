"""Features, actor and critics (paper appendix, "Implementation details")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)

from sami_train.config.schema import NetworkConfig
from sami_train.envs.measure import Goal
from sami_train.episodes.numpy_policy import LOG_STD_MAX, LOG_STD_MIN

CLIP = 5.0
"""Features are clipped to this many standard deviations."""
GOAL_SCALE = 10.0
"""Goal features are multiplied by this: 10 cm become 1."""


@dataclass(frozen=True)
class FeatureLayout:
    """A linear map from the flat observation (D,) to features (F,); the encoder's columns come first."""

    projection: np.ndarray
    """(D, F) float32."""
    scale: np.ndarray
    """(F,) float32: initial factor of each column; replaced where the column is normalised."""
    normalized: list[int]
    """Columns that running statistics normalise."""
    encoder_columns: int
    """How many of the first columns the encoder reads."""


def feature_layout(size: int, goal: Goal | None, network: NetworkConfig) -> FeatureLayout:
    """Return the feature layout of a flat observation of `size` numbers, as `network` configures it.

    By default the encoder reads neither the desired nor the achieved goal: the dynamics do not depend on them, and its
    context stays valid for every hindsight goal. A relative goal is (desired - achieved, desired), times 10.
    """
    identity = np.eye(size, dtype=np.float32)
    if goal is None:
        plain, goals = identity, np.zeros((size, 0), np.float32)
    else:
        in_goal = np.zeros(size, bool)
        in_goal[goal.achieved] = in_goal[goal.desired] = True
        plain = identity[:, ~in_goal]
        achieved, desired = identity[:, goal.achieved], identity[:, goal.desired]
        goals = np.concatenate([desired - achieved, desired] if network.relative_goal else [achieved, desired], axis=1)
    projection = np.concatenate([plain, goals], axis=1)
    plain_columns, all_columns = plain.shape[1], projection.shape[1]
    scale = np.ones(all_columns, np.float32)
    if network.relative_goal:
        scale[plain_columns:] = GOAL_SCALE
    columns = range(plain_columns if network.relative_goal else all_columns)
    return FeatureLayout(
        projection=projection,
        scale=scale,
        normalized=list(columns) if network.normalize else [],
        encoder_columns=all_columns if network.encoder_reads_goal else plain_columns,
    )


class Features(nn.Module):
    """Affine, clipped features of the flat observation: `clip((o P - mean) * scale, -5, 5)`, P the projection."""

    projection: Tensor
    mean: Tensor
    scale: Tensor
    running_mean: Tensor
    running_m2: Tensor
    count: Tensor

    def __init__(self, layout: FeatureLayout) -> None:
        super().__init__()
        size = layout.projection.shape[1]
        self.layout = layout
        self.register_buffer("projection", torch.as_tensor(layout.projection))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.as_tensor(layout.scale))
        self.register_buffer("running_mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("running_m2", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @property
    def size(self) -> int:
        """Number of features F."""
        return int(self.projection.shape[1])

    def forward(self, observation: Tensor) -> Tensor:
        """Map flat observations (..., D) to features (..., F)."""
        return ((observation @ self.projection - self.mean) * self.scale).clamp(-CLIP, CLIP)

    @torch.no_grad()
    def update(self, observations: np.ndarray) -> None:
        """Update the running mean and deviation with flat observations (n, D) (Chan's parallel update)."""
        batch = torch.as_tensor(observations, device=self.mean.device).double() @ self.projection.double()
        n = len(batch)
        delta = batch.mean(0) - self.running_mean
        total = self.count + n
        self.running_m2 += ((batch - batch.mean(0)) ** 2).sum(0) + delta**2 * self.count * n / total
        self.running_mean += delta * n / total
        self.count.copy_(total)
        columns = self.layout.normalized
        deviation = (self.running_m2 / total).sqrt().clamp(min=1e-2)
        self.mean[columns] = self.running_mean[columns].float()
        self.scale[columns] = (1.0 / deviation[columns]).float()


class EstimateLoss(NamedTuple):
    """Mean squared errors against the true present, in squared standard deviations of each number."""

    loss: Tensor
    uncorrected: Tensor
    """The error of the observation as it arrived, without gradient: the estimate is useful if `loss` is smaller."""


class Present(nn.Module):
    """Applies an encoder's corrections to the observation that arrived, to estimate the present one.

    A correction is in running standard deviations of its number, so that all numbers weigh alike in the loss.
    `signals` are the estimated columns of the flat observation, by signal.
    """

    numbers: Tensor
    columns: Tensor
    place: Tensor

    def __init__(self, features: Features, signals: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.signals = tuple(list(numbers) for numbers in signals)
        numbers = torch.tensor([number for signal in self.signals for number in signal])
        projection = features.projection
        # Not saved: they follow from the layout.
        self.register_buffer("numbers", numbers, persistent=False)
        self.register_buffer("columns", projection[numbers].abs().argmax(1), persistent=False)
        self.register_buffer("place", torch.eye(len(projection))[numbers], persistent=False)

    @property
    def size(self) -> int:
        """Number E of estimated columns."""
        return len(self.numbers)

    def unit(self, features: Features) -> Tensor:
        """Return the size of a correction of 1, (E,), in the signals' units."""
        return 1.0 / features.scale[self.columns]

    def loss(
        self, features: Features, corrections: Tensor, arrived: Tensor, true: Tensor, first_steps: Tensor, last: Tensor
    ) -> EstimateLoss:
        """Return the loss of corrections (B, L + 1, E) over windows (B, L + 1, D), from first to last steps (B,)."""
        steps = torch.arange(arrived.shape[1], device=arrived.device)
        within = (steps >= first_steps[:, None]) & (steps <= last[:, None])
        # The true correction, clipped as features are.
        needed = ((true - arrived)[..., self.numbers] / self.unit(features)).clamp(-CLIP, CLIP)[within]
        return EstimateLoss(F.mse_loss(corrections[within], needed), (needed**2).mean())

    def estimate(self, features: Features, arrived: Tensor, corrections: Tensor) -> tuple[Tensor, ...]:
        """Return the present estimate of each signal, (..., size): arrived (..., D) plus corrections (..., E)."""
        now = arrived[..., self.numbers] + corrections * self.unit(features)
        return torch.split(now, [len(signal) for signal in self.signals], -1)

    def forward(self, arrived: Tensor, estimated: Sequence[Tensor]) -> Tensor:
        """Return the arrived observation (..., D) with the estimated signals (..., size) in their columns."""
        return arrived * (1.0 - self.place.sum(0)) + torch.cat(list(estimated), -1) @ self.place


class TaskReadout(nn.Module):
    """Linear readout of the task from the context; its loss, in training alone, makes the context identify the task.

    `task_inputs` (K, M) are the K training tasks as numbers, see `envs.task_numbers.standardised`.
    """

    def __init__(self, context_size: int, task_inputs: Tensor) -> None:
        super().__init__()
        self.register_buffer("told", task_inputs)  # its name in checkpoints
        self.readout = nn.Linear(context_size, task_inputs.shape[1])

    @property
    def task_inputs(self) -> Tensor:
        """The training tasks as standardised numbers, (K, M)."""
        return self.get_buffer("told")

    def loss(self, contexts: Tensor, tasks: Tensor, first_steps: Tensor, lengths: Tensor) -> Tensor:
        """Return the mean squared error over contexts (B, L + 1, C): 1 is that of a constant readout of the mean task.

        `tasks`, `first_steps` and `lengths` are (B,); windows of other than training tasks (recordings) do not count.
        """
        steps = torch.arange(contexts.shape[1], device=contexts.device)
        in_training = ((tasks >= 0) & (tasks < len(self.task_inputs)))[:, None]
        counts = (steps >= first_steps[:, None]) & (steps <= lengths[:, None]) & in_training  # (B, L + 1)
        truth = self.task_inputs[tasks.clamp(0, len(self.task_inputs) - 1)][:, None]  # (B, 1, M)
        errors = ((self.readout(contexts) - truth) ** 2).mean(-1)
        return (errors * counts).sum() / counts.sum().clamp(min=1)


def mlp(sizes: Sequence[int], layer_norm: bool = False) -> nn.Sequential:
    """Return linear layers with (an optional LayerNorm and) a ReLU between each two, and nothing after the last."""
    layers: list[nn.Module] = []
    for i, (before, after) in enumerate(pairwise(sizes)):
        layers.append(nn.Linear(before, after))
        if i < len(sizes) - 2:
            if layer_norm:
                layers.append(nn.LayerNorm(after))
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Actor(nn.Module):
    """Squashed Gaussian policy pi(a | s, c) (SAC).

    The mean stays 0 for the `resting` motors, which are crippled in every training task: a learned mean would follow
    the critics' errors to its limits, and on a robot whose motor does work, so would the motor.
    """

    def __init__(self, input_size: int, action_size: int, hidden: Sequence[int], resting: Sequence[int] = ()) -> None:
        super().__init__()
        self.body = nn.Sequential(mlp([input_size, *hidden]), nn.ReLU())
        self.mean = nn.Linear(hidden[-1], action_size)
        _keep_at_zero(self.mean, list(resting))
        self.log_std = nn.Linear(hidden[-1], action_size)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs (..., F + C) to the Gaussian's mean and log standard deviation, (..., A) each."""
        h = self.body(x)
        return self.mean(h).float(), self.log_std(h).float().clamp(LOG_STD_MIN, LOG_STD_MAX)

    def sample(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sample actions (..., A) in (-1, 1) and their log-probabilities (...,)."""
        mean, log_std = self(x)
        noise = torch.empty_like(mean).normal_(generator=generator)
        raw = mean + log_std.exp() * noise
        # log N(raw) minus log|d tanh / d raw|, the latter in the form that does not overflow.
        log_prob = -0.5 * noise**2 - log_std - 0.5 * float(np.log(2 * np.pi))
        log_prob = log_prob - 2.0 * (float(np.log(2.0)) - raw - F.softplus(-2.0 * raw))
        return torch.tanh(raw), log_prob.sum(-1)


def _keep_at_zero(layer: nn.Linear, rows: list[int]) -> None:
    """Keep these outputs of a layer at 0, through gradient steps and loaded weights."""

    @torch.no_grad()
    def clear(*_: object) -> None:
        for parameter in layer.parameters():
            parameter[rows] = 0.0

    def without(gradient: Tensor) -> Tensor:
        return gradient.index_fill(0, torch.tensor(rows, device=gradient.device), 0.0)

    if rows:
        clear()
        layer.register_load_state_dict_post_hook(clear)
        for parameter in layer.parameters():
            parameter.register_hook(without)


class TwinCritic(nn.Module):
    """Two Q functions Q(s, c, a)."""

    def __init__(self, input_size: int, hidden: Sequence[int], layer_norm: bool) -> None:
        super().__init__()
        self.q1 = mlp([input_size, *hidden, 1], layer_norm)
        self.q2 = mlp([input_size, *hidden, 1], layer_norm)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs (N, F + C + A) to two values, (N,) each."""
        return _value(self.q1, x), _value(self.q2, x)


def _value(q: nn.Sequential, x: Tensor) -> Tensor:
    """Return Q (N,); the last layer runs in float32, because near 500 bfloat16 has steps of 2."""
    hidden = q[:-1](x).float()
    with torch.autocast(x.device.type, enabled=False):
        value: Tensor = q[-1](hidden).squeeze(-1)
    return value


def descend(
    optimizer: torch.optim.Optimizer, loss: Tensor, clipped: Sequence[Tensor] = (), largest_norm: float = 0.0
) -> None:
    """Take one optimiser step on a loss; the gradient norm of `clipped` is limited to `largest_norm`, if above 0."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if largest_norm > 0:
        nn.utils.clip_grad_norm_(clipped, largest_norm)
    optimizer.step()


@torch.no_grad()
def soft_update(target: nn.Module, source: nn.Module, rate: float) -> None:
    """Move target <- rate * source + (1 - rate) * target (appendix, "Encoder architecture", the momentum update)."""
    parameters: list[Tensor] = list(target.parameters())
    if parameters:  # a baseline's encoder has none
        torch._foreach_lerp_(parameters, list(source.parameters()), rate)
