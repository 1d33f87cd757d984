"""Checkpoints of stable-baselines3 and skrl become files that act as `predict` does, without being unpickled."""

import json
import pickle
import shutil
import zipfile

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("stable_baselines3")
gymnasium = pytest.importorskip("gymnasium")
torch = pytest.importorskip("torch")

from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3  # noqa: E402
from stable_baselines3.common.policies import ActorCriticPolicy  # noqa: E402
from stable_baselines3.common.torch_layers import FlattenExtractor  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize  # noqa: E402

from sami_runtime import adopt  # noqa: E402
from sami_runtime.adoption.adopt import read_policy  # noqa: E402
from sami_runtime.adoption.readers import READERS  # noqa: E402
from sami_runtime.adoption.recipe import Recipe  # noqa: E402
from sami_runtime.errors import SamiError  # noqa: E402
from sami_runtime.session.session import Session  # noqa: E402
from tests.making import frameworks  # noqa: E402

LOW, HIGH = np.array([-2.0, -1.0], np.float32), np.array([1.0, 3.0], np.float32)


class Reach(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = gymnasium.spaces.Box(LOW, HIGH)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=5).astype(np.float32)
        return self.state, {}

    def step(self, action):
        noise = self.np_random.normal(size=5)
        self.state = np.asarray(0.9 * self.state + 0.3 * noise + 2 * np.resize(action, 5), np.float32)
        return self.state, 0.0, False, False, {}


def contract(folder, size=5, actions=2, **fields):
    """What these frameworks do not save."""
    signal = {"name": "state", "unit": "m", "elements": list("abcde"), "slice": [0, size], "scale": 1.0}
    action = {"name": "push", "unit": "m/s", "elements": list("xy"), "meaning": "velocity", "scale": 1, "default": 0}
    path = folder / "contract.json"
    path.write_text(json.dumps({"rate_hz": 20.0, "signals": [signal], "action": action, **fields}))
    return path


def difference(artifact, predict, steps=500):
    """Largest difference between the file's actions and the framework's in a closed loop."""
    session, env = Session(artifact), Reach()
    state, _ = env.reset(seed=0)
    worst = 0.0
    for _ in range(steps):
        action = session.step({"state": state}).action
        worst = max(worst, float(np.abs(action - predict(state)).max()))
        state = env.step(action)[0]
    return worst


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        (PPO, {}),
        (A2C, {"policy_kwargs": {"activation_fn": torch.nn.ELU, "net_arch": [8]}}),
        (PPO, {"policy_kwargs": {"net_arch": []}}),
        (PPO, {"use_sde": True, "policy_kwargs": {"squash_output": True}}),
        (SAC, {"policy_kwargs": {"net_arch": [16, 8]}}),
        (SAC, {"policy_kwargs": {"net_arch": [16, 8], "clip_mean": 0.5}, "use_sde": True}),
        (TD3, {"policy_kwargs": {"net_arch": [16, 8], "activation_fn": torch.nn.ELU}}),
        (DDPG, {"policy_kwargs": {"net_arch": []}}),
    ],
)
def test_a_policy_of_stable_baselines3_acts_as_predict_does(tmp_path, algorithm, settings):
    model = algorithm("MlpPolicy", Reach(), seed=0, device="cpu", **settings)
    with torch.no_grad():
        for weight in model.policy.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    model.save(tmp_path / "policy.zip")
    artifact = adopt(tmp_path / "policy.zip", contract(tmp_path), tmp_path / "out.onnx")
    assert difference(artifact, lambda state: model.predict(state, deterministic=True)[0]) < 1e-5
    assert Recipe.of(artifact).action.low == tuple(LOW)


def test_statistics_of_vec_normalize_are_in_the_graph(tmp_path):
    env = VecNormalize(DummyVecEnv([Reach]), clip_obs=2.0)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu").learn(64)
    env.training = False
    model.save(tmp_path / "policy.zip")
    env.save(tmp_path / "vecnormalize.pkl")
    artifact = adopt(tmp_path / "policy.zip", contract(tmp_path), tmp_path / "out.onnx")

    def predict(state):
        return model.predict(env.normalize_obs(state), deterministic=True)[0]

    assert difference(artifact, predict) < 1e-5


@pytest.mark.parametrize(
    ("name", "statistics"),
    [
        ("policy.zip", "policy_vecnormalize.pkl"),  # of Isaac Lab
        ("rl_model_64_steps.zip", "rl_model_vecnormalize_64_steps.pkl"),  # of CheckpointCallback
    ],
)
def test_a_policy_that_was_trained_with_vec_normalize_is_not_adopted_without_its_statistics(tmp_path, name, statistics):
    env = VecNormalize(DummyVecEnv([Reach]))
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8)
    model.save(tmp_path / name)
    with pytest.raises(SamiError, match=f"was trained with VecNormalize, .* not beside it.*{statistics}"):
        read_policy(tmp_path / name)
    env.save(tmp_path / statistics)
    normalised = env.normalize_obs(np.ones((1, 5), np.float32))
    np.testing.assert_allclose(
        raw_output(tmp_path / name, np.ones(5)), model.predict(normalised, deterministic=True)[0], atol=1e-6
    )


def test_a_policy_with_a_replay_buffer_is_adopted_without_statistics_which_its_zip_cannot_ask_for(tmp_path):
    model = SAC("MlpPolicy", Reach(), learning_starts=4, batch_size=4, buffer_size=50, device="cpu").learn(8)
    model.save(tmp_path / "policy.zip")
    expected = model.predict(np.ones((1, 5), np.float32), deterministic=True)[0]
    np.testing.assert_allclose(raw_output(tmp_path / "policy.zip", np.ones(5)), expected, atol=1e-6)


def test_statistics_of_another_policy_in_the_folder_are_not_applied(tmp_path):
    env = VecNormalize(DummyVecEnv([Reach]))
    env.obs_rms.mean = np.full(5, 3.0)
    env.save(tmp_path / "vecnormalize.pkl")
    model = PPO("MlpPolicy", Reach(), n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8)
    model.save(tmp_path / "policy.zip")
    expected = model.predict(np.ones((1, 5), np.float32), deterministic=True)[0]
    np.testing.assert_allclose(raw_output(tmp_path / "policy.zip", np.ones(5)), expected, atol=1e-6)


def test_statistics_of_frames_are_applied_to_the_flat_input(tmp_path):
    class Frames(Reach):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4, 5), np.float32)

    env = VecNormalize(DummyVecEnv([Frames]))
    env.obs_rms.mean, env.obs_rms.var = np.arange(20.0).reshape(4, 5), np.arange(1.0, 21.0).reshape(4, 5)
    model = PPO("MlpPolicy", env, device="cpu")
    model.save(tmp_path / "policy.zip")
    env.save(tmp_path / "vecnormalize.pkl")
    frames = np.linspace(-3, 3, 20, dtype=np.float32).reshape(1, 4, 5)
    expected = model.predict(env.normalize_obs(frames), deterministic=True)[0]
    np.testing.assert_allclose(raw_output(tmp_path / "policy.zip", frames), expected, atol=1e-6)


def raw_output(path, observation):
    """What the network of a checkpoint answers, (1, A), without the recipe."""
    session = onnxruntime.InferenceSession(read_policy(path).policy)
    return session.run(None, {"obs": np.float32(observation).reshape(1, -1)})[0]


def test_statistics_of_another_size_are_refused_with_what_to_do(tmp_path):
    env = VecNormalize(DummyVecEnv([Reach]))
    env.save(tmp_path / "vecnormalize.pkl")
    PPO("MlpPolicy", VecFrameStack(env, 3), device="cpu").save(tmp_path / "policy.zip")
    with pytest.raises(SamiError, match=r"have 5 numbers, the policy reads 15\..*VecFrameStack.*norm_obs = False"):
        read_policy(tmp_path / "policy.zip")
    env.norm_obs = False
    env.save(tmp_path / "vecnormalize.pkl")
    assert raw_output(tmp_path / "policy.zip", np.zeros(15)).shape == (1, 2)


def test_what_stable_baselines3_does_not_save_is_asked_for(tmp_path):
    PPO("MlpPolicy", Reach(), device="cpu").save(tmp_path / "policy.zip")
    with pytest.raises(SamiError, match=r"rate_hz .*signals .*action\.elements"):
        adopt(tmp_path / "policy.zip", None, tmp_path / "out.onnx")
    sources = read_policy(tmp_path / "policy.zip").sources
    assert sources["activation"].kind == "default"
    assert "Tanh" in sources["activation"].where


def test_a_checkpoint_that_runs_code_when_unpickled_is_adopted_and_runs_nothing(tmp_path):
    class Harmful:
        def __reduce__(self):
            return open, (str(tmp_path / "made"), "w")

    model = PPO("MlpPolicy", Reach(), device="cpu")
    model.save(tmp_path / "policy.zip")
    with open(tmp_path / "vecnormalize.pkl", "wb") as file:
        pickle.dump(Harmful(), file)
    with pytest.raises(SamiError, match="no statistics of VecNormalize"):
        adopt(tmp_path / "policy.zip", contract(tmp_path), tmp_path / "out.onnx")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DQN("MlpPolicy", gymnasium.make("CartPole-v1"), device="cpu", buffer_size=10),
            "action_space is Discrete",
        ),
        (
            lambda: PPO("MultiInputPolicy", DictReach(), device="cpu"),
            "observation_space is Dict",
        ),
        (lambda: PPO("MlpPolicy", ImageReach(), device="cpu"), "observation_space is an image"),
        (lambda: PPO(OwnPolicy, Reach(), device="cpu"), "a policy_class of its own"),
        (
            lambda: PPO("MlpPolicy", Reach(), policy_kwargs={"features_extractor_class": Halved}, device="cpu"),
            "a features_extractor_class of its own",
        ),
    ],
)
def test_a_policy_of_another_kind_is_refused_in_one_line(tmp_path, make, message):
    make().save(tmp_path / "policy.zip")
    with pytest.raises(SamiError, match=message) as refused:
        adopt(tmp_path / "policy.zip", contract(tmp_path), tmp_path / "out.onnx")
    assert "\n" not in str(refused.value)


class OwnPolicy(ActorCriticPolicy):
    """A policy whose layers are named as those of stable-baselines3, but with another activation function."""

    def _build_mlp_extractor(self):
        super()._build_mlp_extractor()
        self.mlp_extractor.policy_net[1] = torch.nn.ReLU()


class Halved(FlattenExtractor):
    def forward(self, observations):
        return super().forward(observations) / 2


class ImageReach(Reach):
    """Whose numbers stable-baselines3 divides by 255."""

    observation_space = gymnasium.spaces.Box(0, 255, (2, 4, 3), np.uint8)


class DictReach(Reach):
    observation_space = gymnasium.spaces.Dict({"state": Reach.observation_space})


def test_no_damage_to_a_zip_escapes_as_another_error(tmp_path):
    PPO("MlpPolicy", Reach(), device="cpu", policy_kwargs={"net_arch": [4]}).save(tmp_path / "policy.zip")
    whole = zipfile.ZipFile(tmp_path / "policy.zip")
    files = {name: whole.read(name) for name in whole.namelist()}
    random = np.random.default_rng(0)
    for trial in range(150):
        damaged = dict(files)
        name = ("data", "policy.pth")[trial % 2]
        content = bytearray(files[name])
        for _ in range(random.integers(1, 20)):
            content[random.integers(len(content))] = random.integers(256)
        damaged[name] = bytes(content)
        with zipfile.ZipFile(tmp_path / "damaged.zip", "w") as file:
            for other, part in damaged.items():
                file.writestr(other, part)
        try:
            read_policy(tmp_path / "damaged.zip")
        except SamiError:
            continue


SKRL = """\
seed: 42
models:
  separate: SEPARATE
  policy:
    class: GaussianMixin
    clip_actions: false
    network:
      - name: net
        input: OBSERVATIONS
        layers: [8, 6]
        activations: elu
    output: ACTIONS
agent:
  class: PPO
  observation_preprocessor: RunningStandardScaler
  observation_preprocessor_kwargs: null
"""


def skrl_checkpoint(folder, separate=False, config=SKRL, size=5, actions=2):
    """A checkpoint and configuration as skrl 2 writes them; returns its path and the policy's own answer."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(size, 8), torch.nn.ELU(), torch.nn.Linear(8, 6), torch.nn.ELU()]
    head = torch.nn.Linear(6, actions)
    net = torch.nn.Sequential(*layers, *([head] if separate else []))
    policy = {f"net_container.{name}": weight for name, weight in net.state_dict().items()}
    if not separate:
        policy |= {f"policy_layer.{name}": weight for name, weight in head.state_dict().items()}
        policy |= {"value_layer.weight": torch.zeros(1, 6), "value_layer.bias": torch.zeros(1)}
    mean, variance = torch.arange(size, dtype=torch.float64), torch.full((size,), 0.04, dtype=torch.float64)
    scaler = {"running_mean": mean, "running_variance": variance, "current_count": torch.tensor(9.0)}
    folder.mkdir(exist_ok=True)
    torch.save(
        {"policy": policy | {"log_std_parameter": torch.zeros(2)}, "observation_preprocessor": scaler},
        folder / "agent_9.pt",
    )
    (folder / "agent.yaml").write_text(config.replace("SEPARATE", str(separate)))

    def predict(state):
        scaled = (torch.as_tensor(state) - mean.float()) / (variance.float().sqrt() + 1e-8)
        with torch.no_grad():
            answer = net(torch.clamp(scaled, -5, 5))
            return (answer if separate else head(answer)).numpy()

    return folder / "agent_9.pt", predict


@pytest.mark.parametrize(("separate", "activations"), [(False, "elu"), (True, "elu"), (True, "[ELU]")])
def test_a_checkpoint_of_skrl_acts_as_its_mean_action(tmp_path, separate, activations):
    path, predict = skrl_checkpoint(tmp_path, separate, SKRL.replace("elu", activations))
    artifact = adopt(path, contract(tmp_path), tmp_path / "out.onnx")
    assert difference(artifact, predict) < 1e-5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("activations: elu", "activations: mish", "activations"),
        ("activations: elu", "activations: [{elu: 1}, elu]", "activations"),
        ("class: GaussianMixin", "class: CategoricalMixin", "only continuous actions are adopted"),
        ("output: ACTIONS", "output: 3 * ACTIONS", "output"),
        ("clip_actions: false", "clip_actions: true", "clip_actions"),
        ("layers: [8, 6]", "layers: [8]", "shape"),
        ("layers: [8, 6]", "layers: [8, 6, 4]", r"net_container\.4\.weight is missing"),
        ("RunningStandardScaler\n", "MyScaler\n", "MyScaler"),
    ],
)
def test_a_configuration_of_skrl_that_does_not_fit_is_refused(tmp_path, old, new, message):
    path, _ = skrl_checkpoint(tmp_path, config=SKRL.replace(old, new))
    with pytest.raises(SamiError, match=message):
        adopt(path, contract(tmp_path), tmp_path / "out.onnx")


def test_a_checkpoint_of_skrl_without_its_configuration_is_asked_for_it(tmp_path):
    path, _ = skrl_checkpoint(tmp_path / "run")
    shutil.move(path, tmp_path / "agent.pt")
    with pytest.raises(SamiError, match=r"agent\.yaml"):
        adopt(tmp_path / "agent.pt", contract(tmp_path), tmp_path / "out.onnx")


@pytest.mark.parametrize("name", ["ppo.cleanrl_model", "last.ckpt", "model.safetensors"])
def test_a_checkpoint_of_a_framework_without_a_reader_is_no_damaged_onnx_file(tmp_path, name):
    torch.save({"actor_mean.0.weight": torch.zeros(2, 5)}, tmp_path / name)
    with pytest.raises(SamiError, match=r"is no ONNX file, and no reader recognizes it .*Export the policy to ONNX"):
        read_policy(tmp_path / name)


def test_a_checkpoint_of_skrl_in_a_run_folder_of_isaac_lab_takes_its_task_from_there(tmp_path):
    folder = frameworks.isaaclab(tmp_path / "run", described=True)
    path, predict = skrl_checkpoint(folder / "checkpoints", size=frameworks.ISAAC_SIZE, actions=4)
    (folder / "checkpoints" / "agent.yaml").rename(folder / "params" / "agent.yaml")
    artifact = adopt(path, None, tmp_path / "out.onnx")
    session = Session(artifact)
    zeros = {signal.name: np.zeros(signal.size, np.float32) for signal in artifact.contract.observation}
    pose = np.array([0.1, -0.1, -1.5, -1.5], np.float32)
    observation = np.concatenate([np.zeros(9), -pose, np.zeros(8)]).astype(np.float32)
    targets = pose + predict(observation) * [0.125, 0.125, 0.25, 0.25]
    np.testing.assert_allclose(session.step(zeros).action, targets, atol=1e-5)
    assert Recipe.of(artifact).rate_hz == 50.0


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_what_is_not_its_frameworks_in_one_line(tmp_path, reader):
    (tmp_path / "policy.onnx").write_bytes(frameworks.policy(5))
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "empty").mkdir()
    for name in ("policy.onnx", "notes.txt", "empty", "missing", "policy.zip", "a/b/policy.pt"):
        with pytest.raises(SamiError) as refused:
            read_policy(tmp_path / name, None, reader)
        assert "\n" not in str(refused.value)
