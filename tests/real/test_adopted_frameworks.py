"""Policies that other frameworks train and save here are adopted, and act as these frameworks themselves do.

Their packages go into an environment of their own, which borrows torch and stable-baselines3 from this one: none of
their dependencies is installed, so that no other torch comes. Where they cannot be had, the tests skip.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sami_runtime import adopt, verify
from sami_runtime.session.session import Session
from tests.making import frameworks

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed: pip install 'sami-rl[train]'")

PACKAGES = (
    *("rsl-rl-lib==5.5.1", "tensordict==0.15.3", "pyvers==0.2.3", "orjson==3.13.0", "importlib_metadata==10.2.0"),
    *("gitpython==3.2.1", "gitdb==4.0.12", "smmap==5.0.3", "onnxscript==0.7.2", "onnx-ir==1.1.0"),
    *("sb3-contrib==2.9.2", "skrl==2.1.1", "leapp==0.7.2"),
)
SCRIPT = Path(__file__).with_name("trained_policies.py")
STATE = {"name": "state", "unit": "m", "elements": list("abcde"), "slice": [0, 5], "scale": 1.0}
PUSH = {"name": "push", "unit": "m/s", "elements": ["x", "y"], "meaning": "velocity", "scale": 1.0, "default": 0.0}
UNSAVED = {"rate_hz": 20.0, "signals": [STATE], "action": PUSH}
"""What stable-baselines3 and skrl do not save."""


@pytest.fixture(scope="session")
def python(request):
    """The Python of the environment with the frameworks, made once and kept in pytest's cache."""
    folder = request.config.cache.mkdir(f"frameworks-{sys.version_info.major}.{sys.version_info.minor}")
    binary, ready = folder / "bin" / "python", folder / "ready"
    if not ready.is_file() or ready.read_text() != "\n".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        paths = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = subprocess.run([binary, "-c", paths], capture_output=True, text=True, check=True).stdout.strip()
        Path(packages, "borrowed.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))
        pip = [binary, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *PACKAGES]
        process = subprocess.run(pip, capture_output=True, text=True, timeout=900)
        if process.returncode:
            pytest.skip(f"the frameworks cannot be installed: {process.stderr.strip().splitlines()[-1:]}")
        ready.write_text("\n".join(PACKAGES))
    return binary


@pytest.fixture
def run_folder(python, tmp_path):
    """Trains one kind of policy in a folder."""

    def train(kind):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.run(
            [python, SCRIPT, kind, tmp_path], env=environment, capture_output=True, text=True, timeout=600
        )
        assert process.returncode == 0, process.stderr[-3000:]
        return tmp_path

    return train


def check_walk(artifact, walk, tolerance=2e-5):
    """Step the file beside the framework's closed loop of 500 steps; the largest difference of an action."""
    session = Session(artifact)
    walk = dict(np.load(walk))
    actions, resets = walk.pop("action"), walk.pop("resets")
    worst = 0.0
    for step, action in enumerate(actions):
        if step in resets:
            session.reset()
        worst = max(worst, float(np.abs(session.step({n: v[step] for n, v in walk.items()}).action - action).max()))
    print(f"largest difference in {len(actions)} steps: {worst:.2g}")
    assert worst < tolerance
    assert np.ptp(actions, axis=0).min() > 1e-3, "the policy does nothing, so this shows nothing"
    verify(artifact).require()


@pytest.mark.parametrize("kind", ["mlp", "lstm", "gru"])
def test_a_policy_of_rsl_rl_in_isaac_labs_run_folder_acts_as_rsl_rl_does(run_folder, kind):
    folder = run_folder(kind)
    described = {"params/env.yaml": frameworks.ENV, "params/agent.yaml": frameworks.AGENT}
    frameworks.write_files(folder, described | {"params/IO_descriptors.yaml": frameworks.DESCRIPTORS})
    check_walk(adopt(folder, None, folder / "adopted.onnx"), folder / "walk.npz")


@pytest.mark.parametrize("kind", ["ppo", "sac", "tqc", "recurrent_ppo", "skrl", "skrl_separate"])
def test_a_checkpoint_acts_as_its_framework_does(run_folder, kind):
    folder = run_folder(kind)
    (folder / "my.json").write_text(json.dumps(UNSAVED))
    policy = folder / ("policy.pt" if "skrl" in kind else "policy.zip")
    check_walk(adopt(policy, folder / "my.json", folder / "adopted.onnx"), folder / "walk.npz")


def test_a_policy_of_leapp_acts_as_its_torch_code_does(run_folder):
    folder = run_folder("leapp")
    check_walk(adopt(folder / "Reach", None, folder / "adopted.onnx"), folder / "walk.npz")
