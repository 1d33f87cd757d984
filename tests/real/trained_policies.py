"""Trains a policy with a framework for a few hundred steps and saves it as that framework does.

    python trained_policies.py KIND FOLDER

It runs in an environment that has the framework, and imports nothing of this project. `FOLDER/walk.npz` gets 500 steps
of the framework's own policy in a closed loop: what the signals were, what it did, and where an episode begins.
"""

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch

STEPS, RESETS = 500, (0, 31, 333)
POSE = np.array([0.1, -0.1, -1.5, -1.5], np.float32)
SCALE = np.array([0.125, 0.125, 0.25, 0.25], np.float32)
SIGNALS = {"angular_velocity": 3, "gravity": 3, "command": 3, "joint_angles": 4, "joint_velocities": 4}


class Reach(gym.Env):
    """Five numbers that a bounded action of two pushes."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = gym.spaces.Box(np.float32([-2, -1]), np.float32([1, 3]))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=5).astype(np.float32)
        return self.state, {}

    def step(self, action):
        noise = self.np_random.normal(size=5)
        self.state = np.asarray(0.9 * self.state + 0.3 * noise + np.resize(action, 5), np.float32)
        return self.state, -float(np.square(self.state).sum()), False, False, {}


def walk(folder, act):
    """Record the framework's policy: `act(state, begins)` returns its action."""
    env = Reach()
    env.reset(seed=0)
    states, actions = [], []
    for step in range(STEPS):
        states.append(env.state)
        actions.append(np.asarray(act(env.state, step in RESETS)).reshape(-1))
        env.step(actions[-1])
    np.savez(folder / "walk.npz", action=np.stack(actions), resets=RESETS, state=np.stack(states))


def stable_baselines3(kind, folder):
    from sb3_contrib import TQC, RecurrentPPO
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    limited = lambda: gym.wrappers.TimeLimit(Reach(), 50)  # noqa: E731
    env = VecNormalize(DummyVecEnv([limited])) if kind == "ppo" else DummyVecEnv([limited])
    if kind in ("sac", "tqc"):
        model = {"sac": SAC, "tqc": TQC}[kind](
            "MlpPolicy", env, learning_starts=50, batch_size=32, seed=0, device="cpu"
        )
    else:
        algorithm, policy = {"ppo": (PPO, "MlpPolicy"), "recurrent_ppo": (RecurrentPPO, "MlpLstmPolicy")}[kind]
        model = algorithm(policy, env, n_steps=64, batch_size=32, n_epochs=2, seed=0, device="cpu")
    model.learn(300)
    model.save(folder / "policy.zip")
    if kind == "ppo":
        env.save(folder / "vecnormalize.pkl")
    memory = None

    def act(state, is_first):
        nonlocal memory
        observation = env.normalize_obs(state) if kind == "ppo" else state
        action, memory = model.predict(observation, memory, np.array([is_first]), deterministic=True)
        return action

    walk(folder, act)


def skrl(kind, folder):
    import yaml
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.utils.runner.torch import Runner

    network = [{"name": "net", "input": "OBSERVATIONS", "layers": [32, 16], "activations": "elu"}]
    config = {
        "seed": 1,
        "models": {
            "separate": kind == "skrl_separate",
            "policy": {"class": "GaussianMixin", "clip_actions": False, "network": network, "output": "ACTIONS"},
            "value": {"class": "DeterministicMixin", "clip_actions": False, "network": network, "output": "ONE"},
        },
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {
            "class": "PPO",
            "rollouts": 32,
            "learning_epochs": 2,
            "mini_batches": 2,
            "observation_preprocessor": "RunningStandardScaler",
            "observation_preprocessor_kwargs": None,
            "experiment": {"directory": str(folder), "experiment_name": "run", "checkpoint_interval": 100},
        },
        "trainer": {
            "class": "SequentialTrainer",
            "timesteps": 200,
            "headless": True,
            "close_environment_at_exit": False,
        },
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    vector = gym.vector.SyncVectorEnv([lambda: gym.wrappers.TimeLimit(Reach(), 50)] * 2)
    runner = Runner(wrap_env(vector), config)
    runner.run("train")
    agent = runner.agent
    agent.load(str(folder / "run" / "checkpoints" / "agent_200.pt"))
    (folder / "run" / "checkpoints" / "agent_200.pt").rename(folder / "policy.pt")

    def act(state, is_first):
        with torch.no_grad():
            outputs = agent.act(torch.as_tensor(state)[None], None, timestep=0, timesteps=0)[-1]
        return outputs["mean_actions"].numpy()

    walk(folder, act)


class Quadruped:
    """Four joints that follow their targets, seen as Isaac Lab's terms compute the observation; as rsl_rl's VecEnv."""

    num_actions, max_episode_length, device, cfg = 4, 200, "cpu", {}

    def __init__(self, num_envs=8):
        self.num_envs = num_envs
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.random = np.random.default_rng(0)
        self.last = np.zeros((num_envs, 4), np.float32)
        self.signals = {}
        self.draw()

    def draw(self):
        self.signals = {
            name: self.random.normal(size=(self.num_envs, size)).astype(np.float32) for name, size in SIGNALS.items()
        }
        self.signals["joint_angles"] = np.asarray(POSE + SCALE * self.last + 0.1 * self.signals["joint_angles"])

    def get_observations(self):
        from tensordict import TensorDict

        s = self.signals
        terms = [np.clip(s["angular_velocity"], -1, 1) * 0.25, s["gravity"], s["command"]]
        terms += [s["joint_angles"] - POSE, s["joint_velocities"] * 0.05, self.last]
        observation = torch.as_tensor(np.concatenate(terms, 1).astype(np.float32))
        return TensorDict({"policy": observation}, batch_size=[self.num_envs])

    def step(self, actions):
        self.last = np.clip(actions.detach().numpy(), -3, 3)  # as the wrapper clips by agent.yaml's clip_actions
        self.draw()
        self.episode_length_buf += 1
        done = self.episode_length_buf >= self.max_episode_length
        self.episode_length_buf[done] = 0
        reward = -torch.as_tensor(np.square(self.last - self.signals["command"][:, :1]).sum(1))
        return self.get_observations(), reward, done.long(), {"time_outs": done}


def rsl_rl(kind, folder):
    from rsl_rl.runners import OnPolicyRunner

    torch.manual_seed(0)
    recurrent = {"rnn_type": kind, "rnn_hidden_dim": 16, "rnn_num_layers": 2} if kind != "mlp" else {}
    model = {
        "class_name": "RNNModel" if recurrent else "MLPModel",
        "hidden_dims": [32, 16],
        "activation": "elu",
        "obs_normalization": True,
        **recurrent,
    }
    config = {
        "num_steps_per_env": 24,
        "save_interval": 1000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": model | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": dict(model),
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": 2,
            "num_mini_batches": 2,
            "learning_rate": 1e-3,
            "schedule": "fixed",
        },
    }
    runner = OnPolicyRunner(Quadruped(), config, log_dir=None, device="cpu")
    runner.learn(15)
    runner.export_policy_to_onnx(str(folder / "exported"))
    policy, env = runner.get_inference_policy("cpu"), Quadruped(1)
    rows, actions = {name: [] for name in SIGNALS}, []
    for step in range(STEPS):
        if step in RESETS:
            env.last[:] = 0
            env.draw()
            policy.reset()
        for name, values in rows.items():
            values.append(env.signals[name][0])
        with torch.no_grad():
            env.step(policy(env.get_observations()))
        actions.append(POSE + SCALE * env.last[0])
    np.savez(folder / "walk.npz", action=np.stack(actions), resets=RESETS, **{n: np.stack(v) for n, v in rows.items()})


def leapp(kind, folder):
    import leapp as package
    from leapp import GraphConfigs, InputKindEnum, OutputKindEnum, TensorSemantics, annotate

    torch.manual_seed(0)
    first, second = torch.nn.Linear(11, 16), torch.nn.Linear(16, 4)
    names = ["FL_hip", "FR_hip", "FL_calf", "FR_calf"]

    def policy(angles, rotation, last):
        raw = second(torch.tanh(first(torch.cat([angles - torch.as_tensor(POSE), rotation * 0.25, last], -1))))
        return raw, raw * torch.as_tensor(SCALE) + torch.as_tensor(POSE)

    package.start(name="Reach", save_path=str(folder))
    with torch.no_grad():
        angles, rotation = annotate.input_tensors(
            "Reach",
            [
                TensorSemantics("joint_pos", torch.zeros(1, 4), InputKindEnum.JOINT_POSITION, names),
                TensorSemantics("ang_vel", torch.zeros(1, 3), InputKindEnum.BODY_ANGULAR_VELOCITY, ["x", "y", "z"]),
            ],
        )
        last = annotate.state_tensors("Reach", {"raw_actions": torch.zeros(1, 4)})
        raw, targets = policy(angles, rotation, last)
        annotate.update_state("Reach", {"raw_actions": raw})
        target = TensorSemantics("joint_target", targets, OutputKindEnum.JOINT_POSITION, names)
        annotate.output_tensors("Reach", [target], export_with="onnx-torchscript")
    package.stop()
    package.compile_graph(visualize=False, graph_configs=GraphConfigs(frequency=50.0))
    random = np.random.default_rng(0)
    rows, actions, last = {"joint_pos": [], "ang_vel": []}, [], torch.zeros(1, 4)
    for step in range(STEPS):
        last = torch.zeros(1, 4) if step in RESETS else last
        for name, size in (("joint_pos", 4), ("ang_vel", 3)):
            rows[name].append(random.normal(size=size).astype(np.float32))
        with torch.no_grad():
            inputs = [torch.as_tensor(values[-1])[None] for values in rows.values()]
            last, targets = policy(*inputs, last)
        actions.append(targets[0].numpy())
    np.savez(folder / "walk.npz", action=np.stack(actions), resets=RESETS, **{n: np.stack(v) for n, v in rows.items()})


KINDS = {
    **dict.fromkeys(("ppo", "sac", "tqc", "recurrent_ppo"), stable_baselines3),
    **dict.fromkeys(("skrl", "skrl_separate"), skrl),
    **dict.fromkeys(("mlp", "lstm", "gru"), rsl_rl),
    "leapp": leapp,
}

if __name__ == "__main__":
    torch.set_num_threads(1)
    KINDS[sys.argv[1]](sys.argv[1], Path(sys.argv[2]))
