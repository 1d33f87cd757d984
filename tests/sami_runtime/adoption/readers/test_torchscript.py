"""TorchScript policies of the exporters of legged_gym, Isaac Lab and rsl_rl act as torch runs them."""

import contextlib
import copy
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sami_runtime import adopt  # noqa: E402
from sami_runtime.adoption.readers.torchscript import torchscript_as_onnx  # noqa: E402
from sami_runtime.adoption.recipe import Recipe  # noqa: E402
from sami_runtime.errors import ArtifactError  # noqa: E402
from sami_runtime.session.session import Session  # noqa: E402
from tests.making import frameworks  # noqa: E402


def sequential(size, activation=None, actions=4):
    activation = torch.nn.ELU() if activation is None else activation
    return torch.nn.Sequential(torch.nn.Linear(size, 6), activation, torch.nn.Linear(6, actions))


class PolicyExporterLSTM(torch.nn.Module):
    """As legged_gym exports a recurrent policy."""

    def __init__(self, size):
        super().__init__()
        self.memory = torch.nn.LSTM(size, 5, 2)
        self.actor = sequential(5)
        self.register_buffer("hidden_state", torch.zeros(2, 1, 5))
        self.register_buffer("cell_state", torch.zeros(2, 1, 5))

    def forward(self, x):
        out, (h, c) = self.memory(x.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return self.actor(out.squeeze(0))

    @torch.jit.export
    def reset_memory(self):
        self.hidden_state[:] = 0.0
        self.cell_state[:] = 0.0


class _TorchPolicyExporter(torch.nn.Module):
    """As Isaac Lab exports a policy without memory."""

    def __init__(self, size, normalizer=None, activation=None):
        super().__init__()
        self.actor = sequential(size, activation)
        self.normalizer = torch.nn.Identity() if normalizer is None else normalizer

    def forward(self, x):
        return self.actor(self.normalizer(x))


class MLP(torch.nn.Sequential):
    """As rsl_rl stores linear layers."""

    __module__ = "rsl_rl.modules.mlp"

    def forward(self, x):
        for layer in self:
            x = layer(x)
        return x


class _IdentityDeterministicOutput(torch.nn.Module):
    __module__ = "rsl_rl.modules.distribution"

    def forward(self, x):
        return x


class _TorchGRUModel(torch.nn.Module):
    """As rsl_rl exports a recurrent policy."""

    def __init__(self, size):
        super().__init__()
        self.obs_normalizer, self.rnn = torch.nn.Identity(), torch.nn.GRU(size, 5)
        self.mlp, self.deterministic_output = MLP(*sequential(5)), _IdentityDeterministicOutput()
        self.register_buffer("hidden_state", torch.zeros(1, 1, 5))

    def forward(self, x):
        x, h = self.rnn(self.obs_normalizer(x).unsqueeze(0), self.hidden_state)
        self.hidden_state[:] = h
        return self.deterministic_output(self.mlp(x.squeeze(0)))


class PolicyExporterHIM(torch.nn.Module):
    """As HIMLoco exports a policy, with an estimator."""

    def __init__(self, size):
        super().__init__()
        self.actor, self.estimator = sequential(size + 3), sequential(size, actions=3)

    def forward(self, x):
        return self.actor(torch.cat([x, self.estimator(x)], 1))


def save(path, module):
    torch.manual_seed(0)
    for weight in module.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    torch.jit.script(copy.deepcopy(module)).save(str(path))
    return path


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("exporter", [PolicyExporterLSTM, _TorchPolicyExporter, _TorchGRUModel])
def test_a_robots_folder_with_a_torchscript_policy_acts_as_torch_does(tmp_path, exporter):
    folder = frameworks.unitree_gym(tmp_path, frameworks.UNITREE_GYM_REAL)
    (folder / "policy.onnx").unlink()
    path = save(folder / "motion.pt", exporter(23))
    artifact = adopt(folder, None, tmp_path / "out.onnx")
    original, session = torch.jit.load(str(path)), Session(artifact)
    random, last = np.random.default_rng(0), np.zeros(4, np.float32)
    pose = np.array([-0.1, 0.0, 0.3, -0.2], np.float32)
    assert Recipe.of(artifact).rate_hz == 50.0
    for _ in range(100):
        values = {s.name: random.normal(size=s.size).astype(np.float32) for s in artifact.contract.observation}
        terms = [values["angular_velocity"] * 0.25, values["gravity"], values["command"] * [2, 2, 0.25]]
        terms += [values["joint_angles"] - pose, values["joint_velocities"] * 0.05, last, values["gait_phase"]]
        with torch.no_grad():
            last = original(torch.as_tensor(np.concatenate(terms), dtype=torch.float32)[None])[0].numpy()
        np.testing.assert_allclose(session.step(values).action, pose + 0.25 * last, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("module", "message"),
    [
        (PolicyExporterHIM(5), "PolicyExporterHIM"),
        (_TorchPolicyExporter(5, torch.nn.BatchNorm1d(5)), "begins with BatchNorm1d"),
        (_TorchPolicyExporter(5, activation=torch.nn.ELU(0.5)), "alpha 0.5"),
        (_TorchPolicyExporter(5, activation=torch.nn.Mish()), "activation function Mish"),
    ],
)
def test_torchscript_that_is_not_known_is_refused_in_one_line(tmp_path, module, message):
    with pytest.raises(ArtifactError, match=message) as refused:
        torchscript_as_onnx(save(tmp_path / "policy.pt", module))
    assert "\n" not in str(refused.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_no_damage_to_torchscript_escapes_as_another_error(tmp_path):
    path = save(tmp_path / "policy.pt", _TorchPolicyExporter(5))
    whole = zipfile.ZipFile(path)
    files = {name: whole.read(name) for name in whole.namelist()}
    (pickled,) = [name for name in files if name.endswith("/data.pkl")]
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(files[pickled])
        for _ in range(random.integers(1, 4)):
            damaged[random.integers(len(damaged))] = random.integers(256)
        with zipfile.ZipFile(tmp_path / "damaged.pt", "w") as file:
            for name, content in files.items():
                file.writestr(name, bytes(damaged) if name == pickled else content)
        with contextlib.suppress(ArtifactError):
            torchscript_as_onnx(tmp_path / "damaged.pt")
