"""The runtime works where torch, the trainer and the simulators are not installed."""

import subprocess
import sys

import pytest

ABSENT = (
    "torch",
    "stable_baselines3",
    "sami_train",
    "sami_cli",
    "gymnasium",
    "panda_gym",
    "pybullet",
    "onnx",
)

EXTRAS = ("cyclonedds",)
"""What one module may need that nobody imports without asking for its adapter."""

SCRIPT = """
import importlib, pkgutil, sys
for name in {absent!r}:
    sys.modules[name] = None
import sami_runtime
for module in pkgutil.walk_packages(sami_runtime.__path__, "sami_runtime."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name not in {extras!r}:
            raise
print("onnxruntime" in sys.modules)
session = sami_runtime.Session.load(sys.argv[1])
print(session.step({{"position": [0.1, 0.2], "goal": [0.5]}}).action.shape)
"""


@pytest.fixture
def run(make):
    def run(script):
        command = [sys.executable, "-c", script, str(make.write(make.recurrent()))]
        process = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert process.returncode == 0, process.stderr
        return process.stdout.split("\n")[:-1]

    return run


def test_every_module_imports_and_a_policy_steps_without_torch(run):
    assert run(SCRIPT.format(absent=ABSENT, extras=EXTRAS)) == ["False", "(2,)"]


def test_importing_the_runtime_loads_neither_torch_nor_a_simulator_nor_onnxruntime(run):
    script = "import sys; from sami_runtime import *; print(sorted({absent!r} & sys.modules.keys()))"
    assert run(script.format(absent={*ABSENT, "onnxruntime"})) == ["[]"]


def test_the_process_that_watches_over_a_robot_loads_no_more_than_it_needs(run):
    """It must be there before the robot moves, on a slow computer too."""
    script = "import sys, sami_runtime.safety.watchdog_process; print(sorted({large!r} & sys.modules.keys()))"
    assert run(script.format(large={"numpy", "pydantic", "sami_runtime.adapters", "sami_runtime.run"})) == ["[]"]


def test_every_public_name_exists():
    import sami_runtime

    for name in sami_runtime.__all__:
        assert hasattr(sami_runtime, name), name
    public = {name for name, value in vars(sami_runtime).items() if isinstance(value, type)}
    assert public <= set(sami_runtime.__all__)
