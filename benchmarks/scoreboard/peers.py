"""Trains other libraries' learners on the tasks, with the hyperparameters that they or their users published.

This project tuned none of them; `RARE_UPDATES` and `SMALL` are deliberate changes. If a library publishes no values
for a task, the text below the values names the ones used instead.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.scoreboard.budget import UNBOUNDED, Clock, Metered, train

FRAMES = 10
"""Number of observations that stacked SAC reads, the newest last, in the layout of `VecFrameStack`."""
BUFFER = 500_000
"""Transitions in SAC's buffers, instead of a million, to save memory; no run here fills the buffer."""

SAC_ZOO = {"learning_starts": 10_000, "buffer_size": BUFFER}
"""rl-baselines3-zoo, hyperparams/sac.yml, HalfCheetah-v3, the same for all MuJoCo robots; other values are defaults."""
RARE_UPDATES = {"train_freq": 32, "gradient_steps": 4}
"""This project's ratio of updates to steps, instead of one update per step: equal minutes then allow similar steps."""

_PPO = {"n_steps": 512, "policy_kwargs": {"log_std_init": -2.0, "ortho_init": False, "activation_fn": nn.ReLU}}
_PPO["policy_kwargs"] |= {"net_arch": {"pi": [256, 256], "vf": [256, 256]}}
PPO_ZOO: dict[str, dict[str, Any]] = {
    "gravity-half-cheetah": {
        **_PPO,
        "batch_size": 64,
        "gamma": 0.98,
        "learning_rate": 2.0633e-05,
        "ent_coef": 0.000401762,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.92,
        "max_grad_norm": 0.8,
        "vf_coef": 0.58096,
    },
    "gravity-hopper": {
        **_PPO,
        "batch_size": 32,
        "gamma": 0.999,
        "learning_rate": 9.80828e-05,
        "ent_coef": 0.00229519,
        "clip_range": 0.2,
        "n_epochs": 5,
        "gae_lambda": 0.99,
        "max_grad_norm": 0.7,
        "vf_coef": 0.835671,
    },
    "carl-walker": {
        "n_steps": 512,
        "batch_size": 32,
        "gamma": 0.99,
        "learning_rate": 5.05041e-05,
        "ent_coef": 0.000585045,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.95,
        "max_grad_norm": 1.0,
        "vf_coef": 0.871923,
    },
}
"""rl-baselines3-zoo, hyperparams/ppo_lstm.yml: HalfCheetah-v3, Hopper-v3, and for the walker Walker2d-v3; each with
observations and rewards normalised (`normalize: true`) and one environment."""

SKRL = {"discount_factor": 0.98, "batch_size": 100, "learning_starts": 1000, "learn_entropy": True}
SKRL_SEQUENCE = 20
SKRL_MEMORY = 100_000


class SkrlSizes(NamedTuple):
    """Sizes of skrl's networks and batch."""

    lstm: int = 400
    heads: tuple[int, int] = (400, 300)
    batch: int = 100
    """Number of sequences in a batch."""


PUBLISHED = SkrlSizes()
"""skrl, docs/source/examples/gymnasium/torch_gymnasium_pendulumnovel_sac_lstm.py, the library's only recurrent SAC for
continuous control: networks, initial weights and these values. The example scales actions by 2 for a pendulum, here by
1; its memory has 20,000 steps, here 100,000, more than any run makes."""
SMALL = SkrlSizes(lstm=128, heads=(256, 256), batch=32)
"""Sizes of this project's networks, since an update of the published sizes takes most of a second on one core."""


class StableBaselines:
    """An actor with a model of stable-baselines3 or sb3-contrib.

    Args:
        model: the model.
        normalise: normalises observations (n, D) as in training; None leaves them unchanged.
        frames: number of observations to stack.
    """

    def __init__(self, model: Any, normalise: Any = None, frames: int = 1) -> None:
        self.model, self.normalise, self.frames = model, normalise, frames
        self._state: Any = None
        self._first_steps = np.zeros(0, bool)
        self._stacked: np.ndarray | None = None

    def reset(self, count: int) -> None:
        """Begin n episodes."""
        self._state, self._first_steps, self._stacked = None, np.ones(count, bool), None

    def act(self, observations: np.ndarray) -> np.ndarray:
        """Return actions (n, A) for observations (n, D)."""
        if self.normalise is not None:
            observations = self.normalise(observations)
        if self.frames > 1:
            size = observations.shape[1]
            if self._stacked is None:
                self._stacked = np.zeros((len(observations), self.frames * size), np.float32)
            self._stacked = np.concatenate([self._stacked[:, size:], observations], axis=1)
            observations = self._stacked
        actions, self._state = self.model.predict(observations, self._state, self._first_steps, deterministic=True)
        self._first_steps = np.zeros(len(observations), bool)
        return np.asarray(actions)


def train_sac(clock: Clock, seed: int, frames: int = 1, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Train stable-baselines3's SAC, on stacked frames or not; return its hyperparameters."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack

    env: VecEnv = DummyVecEnv([lambda: Metered(clock.task, clock)])
    if frames > 1:
        env = VecFrameStack(env, frames)
    settings = SAC_ZOO | (changes or {})
    model = SAC("MlpPolicy", env, seed=seed, device="cpu", **settings)
    clock.start(StableBaselines(model, frames=frames))
    train(lambda: model.learn(UNBOUNDED))
    return {**settings, "frames": frames}


def train_recurrent_ppo(clock: Clock, seed: int) -> dict[str, Any]:
    """Train sb3-contrib's RecurrentPPO; return its hyperparameters."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    settings = PPO_ZOO[clock.task.name]
    env = VecNormalize(DummyVecEnv([lambda: Metered(clock.task, clock)]), gamma=settings["gamma"])
    model = RecurrentPPO("MlpLstmPolicy", env, seed=seed, device="cpu", **settings)
    clock.start(StableBaselines(model, env.normalize_obs))
    train(lambda: model.learn(UNBOUNDED))
    return {**{key: value for key, value in settings.items() if key != "policy_kwargs"}, "normalize": True}


def _recurrent(lstm: nn.LSTM, length: int, training: bool, inputs: Any, first: int) -> tuple[torch.Tensor, list]:
    """Run an LSTM as skrl's example does: over sequences in training, otherwise for one step.

    The initial state is that of step `first` of the sequence (1 for target critics); it is reset after an episode.
    """
    observations, (hidden, cell) = inputs["observations"], inputs["rnn"]
    if not training:
        output, (hidden, cell) = lstm(observations.view(-1, 1, observations.shape[-1]), (hidden, cell))
        return output.flatten(0, 1), [hidden, cell]
    sequences = observations.view(-1, length, observations.shape[-1])
    hidden, cell = (
        state.view(lstm.num_layers, -1, length, state.shape[-1])[:, :, first].contiguous() for state in (hidden, cell)
    )
    over = inputs.get("terminated")
    over = None if over is None else (over | inputs["truncated"]).view(-1, length)
    if over is None or not bool(over.any()):
        output, (hidden, cell) = lstm(sequences, (hidden, cell))
        return output.flatten(0, 1), [hidden, cell]
    ends = [0, *(over[:, :-1].any(dim=0).nonzero(as_tuple=True)[0] + 1).tolist(), length]
    outputs = []
    for start, end in itertools.pairwise(ends):
        output, (hidden, cell) = lstm(sequences[:, start:end], (hidden, cell))
        unfinished = (~over[:, end - 1]).to(hidden.dtype)[None, :, None]
        hidden, cell = hidden * unfinished, cell * unfinished
        outputs.append(output)
    return torch.cat(outputs, dim=1).flatten(0, 1), [hidden, cell]


def _skrl_models(env: Any, sizes: SkrlSizes) -> dict[str, Any]:
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": "cpu"}
    memory = {"sequence_length": SKRL_SEQUENCE, "sizes": [(1, 1, sizes.lstm), (1, 1, sizes.lstm)]}
    first, second = sizes.heads

    class Policy(GaussianMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            GaussianMixin.__init__(self, clip_actions=True)
            self.lstm = nn.LSTM(self.num_observations, sizes.lstm, batch_first=True)
            self.head = nn.Sequential(
                *(nn.Linear(sizes.lstm, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU()),
                *(nn.Linear(second, self.num_actions), nn.Tanh()),
            )
            self.log_std = nn.Parameter(torch.zeros(self.num_actions))

        def get_specification(self) -> dict[str, Any]:
            return {"rnn": memory}

        def compute(self, inputs: Any, role: str = "") -> Any:
            output, state = _recurrent(self.lstm, SKRL_SEQUENCE, self.training, inputs, 0)
            return self.head(output), {"log_std": self.log_std, "rnn": state}

    class Critic(DeterministicMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            DeterministicMixin.__init__(self)
            self.lstm = nn.LSTM(self.num_observations, sizes.lstm, batch_first=True)
            self.head = nn.Sequential(
                *(nn.Linear(sizes.lstm + self.num_actions, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU()),
                nn.Linear(second, 1),
            )

        def get_specification(self) -> dict[str, Any]:
            return {"rnn": memory}

        def compute(self, inputs: Any, role: str = "") -> Any:
            begin = 1 if role.startswith("target") else 0
            output, state = _recurrent(self.lstm, SKRL_SEQUENCE, True, inputs, begin)
            return self.head(torch.cat([output, inputs["taken_actions"]], dim=1)), {"rnn": state}

    critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    models: dict[str, Any] = {"policy": Policy(), **{name: Critic() for name in critics}}
    for model in models.values():
        model.init_parameters(method_name="normal_", mean=0.0, std=0.1)
    return models


class Skrl:
    """An actor with the mean action of a recurrent policy of skrl."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self._state: list[torch.Tensor] = []

    def reset(self, count: int) -> None:
        """Begin n episodes."""
        self._state = [torch.zeros(1, count, self.policy.lstm.hidden_size) for _ in range(2)]

    def act(self, observations: np.ndarray) -> np.ndarray:
        """Return actions (n, A) for observations (n, D)."""
        training = self.policy.training
        self.policy.eval()
        with torch.no_grad():
            inputs = {"observations": torch.as_tensor(observations), "rnn": self._state}
            actions, outputs = self.policy.compute(inputs)
        self.policy.train(training)
        self._state = outputs["rnn"]
        return actions.numpy()


def train_skrl(clock: Clock, seed: int, sizes: SkrlSizes = PUBLISHED) -> dict[str, Any]:
    """Train skrl's recurrent SAC with skrl's trainer; return its hyperparameters."""
    from skrl.agents.torch.sac import SAC_RNN
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.trainers.torch import SequentialTrainer
    from skrl.utils import set_seed

    set_seed(seed)
    metered = Metered(clock.task, clock)
    metered.reset(seed=seed)
    env = wrap_env(metered, wrapper="gymnasium")
    memory = RandomMemory(memory_size=SKRL_MEMORY, num_envs=1, device="cpu", replacement=False)
    settings = {**SKRL, "batch_size": sizes.batch, "experiment": {"write_interval": 0, "checkpoint_interval": 0}}
    agent = SAC_RNN(
        models=_skrl_models(env, sizes),
        memory=memory,
        cfg=settings,
        observation_space=env.observation_space,
        action_space=env.action_space,
        device="cpu",
    )
    steps = {"timesteps": UNBOUNDED, "headless": True, "disable_progressbar": True}
    trainer = SequentialTrainer(cfg=steps, env=env, agents=agent)
    clock.start(Skrl(agent.policy))
    train(trainer.train)
    return {**SKRL, "batch_size": sizes.batch, "sizes": sizes._asdict(), "sequence_length": SKRL_SEQUENCE}
