"""The adapter checks as a pytest class: our own adapters pass, and a wrong one fails by the name of the check."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from sami_runtime import FakeAdapter, Gapped, GapProfile, Limits, ManualClock, PandaAdapter
from sami_runtime.distribution import shipped_models
from sami_runtime.model.contract import Contract
from sami_runtime.testing import AdapterChecks

PANDA = shipped_models()["panda-satesac"]


def contract_of(robot):
    return Contract(
        name="tiny",
        rate_hz=1 / robot.period,
        observation=robot.observation,
        action=robot.action,
        episode_steps=10,
        training={},
        weights_sha256="0" * 64,
    )


class InStep(AdapterChecks):
    """Checks in a world whose time stands still unless it is stepped."""

    limits, ticks = Limits(rest=0.0), 5

    def make_clock(self):
        return ManualClock()


class TestFake(InStep):
    model = contract_of(FakeAdapter())

    def make(self, clock):
        return FakeAdapter(clock=clock)


class TestGapped(InStep):
    model = contract_of(FakeAdapter())

    def make(self, clock):
        profile = GapProfile.of({"noise": 0.001, "latency_s": 0.04, "actuator_lag_s": 0.05})
        return Gapped(FakeAdapter(clock=clock), profile, 25.0)


class TestFakeInRealTime(AdapterChecks):
    model, limits, ticks = contract_of(FakeAdapter()), Limits(rest=0.0), 5

    def make(self, clock):
        return FakeAdapter(clock=clock)


class TestPanda(InStep):
    """Moved a little."""

    model, limits, ticks, excite = PANDA, Limits(rest=0.0), 10, True

    def make(self, clock):
        gymnasium = pytest.importorskip("gymnasium")
        pytest.importorskip("sami_train.envs")
        return PandaAdapter(gymnasium.make("sami/PandaSkill-v0"), clock)


class TestGymnasium(InStep):
    """Also the one for any environment, on a robot whose action is a torque."""

    model = shipped_models()["half-cheetah-satesac"]

    def make(self, clock):
        pytest.importorskip("mujoco")
        catalog = pytest.importorskip("sami_train.envs.catalog")
        make = pytest.importorskip("sami_train.envs.make")
        spec = catalog.environment("half-cheetah")
        adapter = pytest.importorskip("sami_train.envs.adapter")
        return adapter.make_adapter(spec, make.make(spec), clock)


def results(folder, text):
    """How pytest ends on a file, and what it says."""
    Path(folder, "test_arm.py").write_text(dedent(text), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rfs", "-p", "no:cacheprovider", "test_arm.py"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    return process.returncode, process.stdout


ARM = """
    from sami_runtime import FakeAdapter, Limits, ManualClock, Observation
    from sami_runtime.testing import AdapterLaws
    from tests.sami_runtime.test_testing import contract_of

    class Arm(FakeAdapter):
        def read(self):
            seen = super().read()
            READ

    class TestArm(AdapterLaws):  # by the former name
        model, limits, ticks = contract_of(FakeAdapter()), Limits(rest=0.0), 5
        SET

        def make(self, clock):
            return Arm(clock=clock)

        def make_clock(self):
            return ManualClock()
"""


def test_a_wrong_adapter_fails_by_the_name_of_the_check_and_with_the_fault(tmp_path, monkeypatch):
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", root)
    code, message = results(tmp_path, ARM.replace("READ", "return Observation(seen.values, 0.0)").replace("SET", ""))
    assert code == 1
    assert "it is broken that an adapter measures anew: stamps never go back" in message
    assert "all 5 observations are stamped 0 s" in message
    assert "SKIPPED [1]" in message
    assert "nothing is moved: excite = False" in message
    assert "the model file has no training ranges: sami describe adds them" in message
    code, message = results(tmp_path, ARM.replace("READ", "return seen").replace("SET", "write = False"))
    assert "nothing is written: write = False" in message


def test_checks_that_build_on_a_failed_one_are_not_passed_by_silence(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    code, message = results(tmp_path, ARM.replace("READ", "raise OSError('bus')").replace("SET", ""))
    assert code == 1
    assert "begins an episode, and is read and written tick by tick. OSError: bus" in message
    assert message.count("it was not reached: a check that it builds on failed") >= 8


def test_a_class_without_an_adapter_says_what_to_define():
    with pytest.raises(NotImplementedError, match=r"define make\(self, clock\) in AdapterChecks"):
        AdapterChecks().make(ManualClock())
