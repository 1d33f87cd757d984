"""Context encoders: they map the episode's observations and actions so far to the context c_t = psi(tau_0:t).

At each step, every encoder reads features of the observation and the previous executed action. It carries named state
tensors from step to step, zero at the start of an episode. None reads the reward: a robot has no reward.

The last three have no weights. Baselines use them to give the policy something other than a context: nothing, the last
steps unchanged, or the task itself.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name that torch's users know)
from torch.nn.utils import skip_init

from sami_runtime.errors import SamiError
from sami_train.agent.networks import mlp
from sami_train.episodes.numpy_policy import SMALLEST_VARIANCE, EncoderKind

State = tuple[Tensor, ...]
"""One tensor (B, ...) for each entry of an encoder's `state`, in that order."""


class Inference(NamedTuple):
    """What an encoder infers over windows, for the critics and the losses."""

    contexts: Tensor
    """(B, T, C)"""
    divergence: Tensor | None
    """KL divergence from the prior, (B, T) [nats]; None if the encoder is deterministic."""
    corrections: Tensor | None = None
    """Estimated present minus the arrived observation, (B, T, E), in `Present.unit`; None without an estimate."""

    def detached(self) -> Inference:
        """Return contexts and corrections without gradient, and no divergence."""
        corrections = None if self.corrections is None else self.corrections.detach()
        return Inference(self.contexts.detach(), None, corrections)


class _Encoder(nn.Module):
    """Base class of the encoders."""

    kind: ClassVar[EncoderKind]
    infers: ClassVar[bool] = True
    """Whether its output is a context, which a model file then outputs, and telemetry shows."""
    state: dict[str, tuple[int, ...]]
    """Shapes of its state tensors without the batch axis, by name."""
    size: int
    """Size C of its output, which the policy reads beside the observation's features."""

    def infer(self, x: Tensor, state: State | None, generator: torch.Generator) -> Inference:
        """Return what the encoder infers over windows (B, T, features + A); deterministic here."""
        contexts, corrections, _ = self.heads(x, state)
        return Inference(contexts, None, corrections)

    def heads(self, x: Tensor, state: State | None = None) -> tuple[Tensor, Tensor | None, State]:
        """Return contexts, corrections (B, T, E) or None without an estimate, and the state; see `forward`."""
        contexts, state = self(x, state)
        return contexts, None, state

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights that its numpy version in `numpy_policy` needs, by name."""
        return {}


class LSTMEncoder(_Encoder):
    """LSTM with a linear head (paper, appendix "Encoder architecture"); a second head may estimate the present.

    The input has `features` columns of features, then `actions` of the previous action. The paper has 128 LSTM units
    and contexts of 6 numbers. `corrections` is E, how many numbers of the present observation it estimates.
    """

    kind: ClassVar[EncoderKind] = "lstm"

    def __init__(self, features: int, actions: int, hidden_size: int, context_size: int, corrections: int = 0) -> None:
        super().__init__()
        self.state, self.size = {"hidden": (1, hidden_size), "cell": (1, hidden_size)}, context_size
        self.lstm = nn.LSTM(features + actions, hidden_size, batch_first=True)
        self.head = nn.Linear(hidden_size, context_size)
        # Without random numbers, so that all other weights start as they do without this head.
        self.correction = skip_init(nn.Linear, hidden_size, corrections) if corrections else None
        if self.correction is not None:  # the first estimate is the observation as it arrived
            nn.init.zeros_(self.correction.weight)
            nn.init.zeros_(self.correction.bias)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return the contexts (B, T, C) of sequences, and the state after the last step.

        Args:
            x: (B, T, features + A), features at t with the action executed at t - 1.
            state: from the step before; None at the start of an episode.
        """
        contexts, _, state = self.heads(x, state)
        return contexts, state

    def heads(self, x: Tensor, state: State | None = None) -> tuple[Tensor, Tensor | None, State]:
        """Return as `forward`, with the corrections (B, T, E) in second place."""
        before = None if state is None else (state[0].transpose(0, 1), state[1].transpose(0, 1))
        hidden, (h, c) = self.lstm(x, before)
        corrections = None if self.correction is None else self.correction(hidden)
        return self.head(torch.relu(hidden)), corrections, (h.transpose(0, 1), c.transpose(0, 1))

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights that `numpy_policy._LSTM` needs."""
        arrays: dict[str, Tensor] = {name.removesuffix("_l0"): weight for name, weight in self.lstm.named_parameters()}
        for name, head in (("head", self.head), ("correction", self.correction)):
            if head is not None:
                arrays |= {f"{name}.weight": head.weight, f"{name}.bias": head.bias}
        return arrays


class GaussianEncoder(_Encoder):
    """PEARL's encoder: a product of Gaussian factors, one for each transition (Rakelly et al. 2019, equation 2).

    q(z | tau_0:t) is proportional to N(z; 0, 1) times N(z; mu(s, a, s'), sigma(s, a, s')^2) of every transition so
    far: the order of transitions does not matter, and before the first one the posterior is the prior. The policy acts
    on the posterior's mean; critics learn from samples. `units` are the hidden layers of the MLP of mu and sigma.
    """

    kind: ClassVar[EncoderKind] = "gaussians"

    def __init__(self, features: int, actions: int, context_size: int, units: tuple[int, ...]) -> None:
        super().__init__()
        self.features, self.size = features, context_size
        self.state = {
            "precision": (context_size,),
            "weighted_mean": (context_size,),
            "previous_features": (features,),
            "begun": (1,),
        }
        self.factor = mlp([2 * features + actions, *units, 2 * context_size])

    def posterior(self, x: Tensor, state: State | None = None) -> tuple[Tensor, Tensor, State]:
        """Return mean and variance (B, T, C) after each step, and the state after the last; arguments as `forward`."""
        if state is None:
            state = tuple(x.new_zeros(len(x), *shape) for shape in self.state.values())
        precision, weighted, previous, has_past = state
        features = x[..., : self.features]
        before = torch.cat([previous.unsqueeze(1), features[:, :-1]], 1)
        # Not `chunk`, which exports an integer division: the runtime rejects graphs with one.
        moments, size = self.factor(torch.cat([before, x], -1)), self.size
        mean, spread = moments[..., :size], moments[..., size:]
        # The first observation of an episode has no transition before it.
        present = torch.cat([has_past.unsqueeze(1), torch.ones_like(x[:, 1:, :1])], 1)
        factor_precision = present / (F.softplus(spread) + SMALLEST_VARIANCE)
        precision = precision.unsqueeze(1) + _running_sum(factor_precision)
        weighted = weighted.unsqueeze(1) + _running_sum(factor_precision * mean)
        variance = 1.0 / (1.0 + precision)  # 1: the prior's precision
        after = (precision[:, -1], weighted[:, -1], features[:, -1], torch.ones_like(has_past))
        return weighted * variance, variance, after

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return the posterior's mean after each step; as `LSTMEncoder.forward`."""
        mean, _, state = self.posterior(x, state)
        return mean, state

    def infer(self, x: Tensor, state: State | None, generator: torch.Generator) -> Inference:
        """Return samples of the posterior, with one noise vector for each window, and its KL divergence."""
        mean, variance, _ = self.posterior(x, state)
        noise = torch.empty_like(mean[:, :1]).normal_(generator=generator)
        divergence = 0.5 * (variance + mean**2 - 1.0 - variance.log()).sum(-1)
        return Inference(mean + variance.sqrt() * noise, divergence)

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights that `numpy_policy._Gaussians` needs."""
        linears = [module for module in self.factor if isinstance(module, nn.Linear)]
        arrays = {f"factor.weight_{i}": linear.weight for i, linear in enumerate(linears)}
        return arrays | {f"factor.bias_{i}": linear.bias for i, linear in enumerate(linears)}


class NoEncoder(_Encoder):
    """No context: the policy of memoryless SAC reads the observation alone."""

    kind: ClassVar[EncoderKind] = "none"
    infers: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.state, self.size = {}, 0

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return contexts without numbers, (B, T, 0); arguments as those of `LSTMEncoder.forward`."""
        return x[..., :0], ()


class HistoryEncoder(_Encoder):
    """The last k >= 2 steps, concatenated, the newest last; zeros before the episode's first (Mnih et al. 2015).

    A step is the features of an observation and the previous executed action.
    """

    kind: ClassVar[EncoderKind] = "history"
    infers: ClassVar[bool] = False

    def __init__(self, features: int, actions: int, steps: int) -> None:
        super().__init__()
        self.steps, self.size = steps, steps * (features + actions)
        self.state = {"history": (steps - 1, features + actions)}

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return the last k steps at each step, (B, T, k (features + A)); otherwise as `LSTMEncoder.forward`."""
        before = x.new_zeros(len(x), *self.state["history"]) if state is None else state[0]
        steps = torch.cat([before, x], 1)  # (B, k - 1 + T, features + A)
        if x.shape[1] == 1:  # a single step exports to fewer operators this way
            return steps.flatten(1).unsqueeze(1), (steps[:, 1:],)
        return steps.unfold(1, self.steps, 1).transpose(2, 3).flatten(2), (steps[:, x.shape[1] :],)


class ToldEncoder(_Encoder):
    """The oracle's encoder: its output is the task in `TaskCode`'s numbers, which the state holds all episode."""

    kind: ClassVar[EncoderKind] = "told"

    def __init__(self, size: int) -> None:
        super().__init__()
        self.state, self.size = {"task": (size,)}, size

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Return the task at every step, (B, T, C); SamiError without a `state`, which holds the task."""
        if state is None:
            raise SamiError("an oracle reads the task from the encoder's state, but got none; pass state.")
        return state[0].unsqueeze(1).expand(-1, x.shape[1], -1), state


def _running_sum(parts: Tensor) -> Tensor:
    # A single step needs no sum, and exports to fewer operators without one.
    return parts if parts.shape[1] == 1 else parts.cumsum(1)
