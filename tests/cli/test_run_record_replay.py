"""`sami run` under limits, recorded, shadowed and dry; `sami replay`."""

import json
import os
import signal
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import numpy_helper
from sami_cli.episode_loop import WatchedModel
from sami_cli.episodes import reading_text
from sami_cli.target import simulator

from sami_runtime import GapProfile, Limits, ManualClock, Run, Session
from sami_runtime.adapters.gymnasium_adapter import GymnasiumAdapter
from sami_runtime.errors import SafetyWarning
from sami_runtime.model.artifact import read_artifact
from sami_runtime.recording.reader import read_recording
from sami_runtime.session.telemetry import Reading
from sami_train.envs import environment


@pytest.fixture
def other(rewritten):
    """A model like the trained one, with every matrix of its weights halved."""

    def change(graph):
        for weights in graph.initializer:
            values = numpy_helper.to_array(weights)
            if values.ndim == 2 and values.dtype == np.float32:
                weights.CopyFrom(numpy_helper.from_array(0.5 * values, weights.name))

    return rewritten(lambda contract: None, change)


@pytest.fixture
def rows(sami, panda):
    """The JSON rows of a run of the trained model."""

    def run(*options):
        result = sami("run", "--model", panda.model, "--episodes", 2, "--json", *options)
        assert (result.code, result.err) == (0, "")
        return [json.loads(line) for line in result.out.splitlines()]

    return run


def test_json_is_a_line_for_each_episode_whose_keys_the_reference_lists(sami, panda, rows):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "loop.md").read_text(encoding="utf-8")
    output = rows("--set", f"shadow={panda.model}", "--set", "steps=3")
    assert [row["episode"] for row in output] == [0, 1]
    assert "one object for each episode" in page
    assert [key for row in output for key in row if f"`{key}`" not in page and key != "friction"] == []
    assert "run and drive print one line per episode" in " ".join(sami("--help").out.replace("│", "").split())


def test_a_recorded_run_is_replayed_to_the_last_bit(sami, panda, rows):
    report = rows("--record", "run.mcap", "--seed", 4)
    recording = read_recording("run.mcap")
    assert recording.closed
    assert len(recording.steps) == sum(row["steps"] for row in report)
    assert (recording.about["env"], recording.about["seed"]) == ("panda", 4)
    assert recording.steps[0].record.info["task"] == {name: report[0][name] for name in ("mass", "friction")}
    outcome = sami("replay", "run.mcap")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [str(recording), f"{len(recording.steps)} steps compared, none differs"]
    result = json.loads(sami("replay", "run.mcap", "--json").out)
    assert (result["closed"], result["differing"], result["first"]) == (True, 0, None)
    assert result["about"] == {name: value for name, value in recording.about.items() if name != "contract"}
    assert {"path", "name", "weights_sha256"} <= result["about"]["model"].keys()


def test_what_the_command_does_a_run_does_in_python(rows, panda):
    Path("gap.toml").write_text("noise = 0.01\nlatency_s = 0.04\nactuator_lag_s = 0.05\n")
    Path("limits.toml").write_text("rest = 0.0\nrate = 10.0\n")
    reported = rows(
        "--record", "run.mcap", "--seed", 4, "--gap", "gap.toml", "--set", "limits=limits.toml", "--set", "steps=12"
    )
    session, clock = Session.load(panda.model), ManualClock()
    options = {"gap": GapProfile.load("gap.toml"), "limits": Limits.load("limits.toml"), "simulator": True}
    facts = {"env": "panda", "seed": 4, "engine": environment("panda").engine}
    with (
        closing(simulator(environment("panda"), "all", {}, None).make(clock, session.contract)) as simulated,
        Run(session, simulated, clock, record="python.mcap", facts=facts, **options) as run,
    ):
        for row in reported:
            report = run.episode(4 + row["episode"], max_steps=12)
            assert row["steps"] == report.steps
            assert row["context"] == [round(float(number), 4) for number in report.contexts[-1]]
            assert row["telemetry"] == run.telemetry.summary()
            assert (row["outcomes"], row["limited"]) == (report.loop.outcomes, report.loop.limited)
    first, second = read_recording("run.mcap"), read_recording("python.mcap")
    assert first.about == second.about
    for step, same in zip(first.steps, second.steps, strict=True):
        assert (step.episode, step.record.state) == (same.episode, same.record.state)
        assert (step.record.limited_by, step.record.info) == (same.record.limited_by, same.record.info)


def test_recording_and_shadowing_change_nothing_of_a_run(rows, other):
    unlike = ("infer_us", "shadow")
    plain, watched = rows(), rows("--record", "run.mcap", "--set", f"shadow={other}")
    assert [{k: v for k, v in row.items() if k not in unlike} for row in watched] == [
        {k: v for k, v in row.items() if k not in unlike} for row in plain
    ]


def test_a_replay_with_another_model_names_the_first_step_that_differs_and_exits_with_4(sami, rows, other):
    rows("--record", "run.mcap")
    outcome = sami("replay", "run.mcap", "--model", other)
    assert (outcome.code, outcome.err) == (4, "")
    assert "note: the recording was made with weights " in outcome.out
    assert "first at episode 0, step 0: " in outcome.out
    result = json.loads(sami("replay", "run.mcap", "--model", other, "--json").out)
    assert result["first"]["episode"] == result["first"]["step"] == 0
    assert result["differing"] == result["steps"] > 0


def test_a_recording_whose_model_is_gone_asks_for_it(sami, panda):
    model = Path("copy.onnx")
    model.write_bytes(panda.model.read_bytes())
    assert sami("run", "--model", model, "--episodes", 1, "--record", "run.mcap").code == 0
    model.unlink()
    result = sami("replay", "run.mcap")
    assert (result.code, result.out) == (1, "")
    assert (
        result.err == "sami: run.mcap was recorded with copy.onnx, which is not there. Give the model with --model.\n"
    )
    assert sami("replay", "run.mcap", "--model", panda.model).code == 0


def test_a_recording_that_was_moved_with_its_model_is_replayed(sami, panda, tmp_path, monkeypatch):
    (tmp_path / "moved").mkdir()
    monkeypatch.chdir(tmp_path / "moved")
    Path("copy.onnx").write_bytes(panda.model.read_bytes())
    assert sami("run", "--model", "copy.onnx", "--episodes", 1, "--record", "run.mcap").code == 0
    monkeypatch.chdir(tmp_path)
    assert sami("replay", "moved/run.mcap").code == 0


def test_a_run_that_was_cut_off_is_replayed_and_said_to_be(sami, rows):
    rows("--record", "run.mcap")
    data = Path("run.mcap").read_bytes()
    Path("cut.mcap").write_bytes(data[: len(data) // 2])
    result = sami("replay", "cut.mcap")
    assert result.code == 0
    assert "note: the recording was cut off; its whole ticks are replayed" in result.out


def test_a_row_tells_of_the_shadow_in_its_own_episode(rows, panda, other):
    report = rows("--set", f"shadow={other}")
    assert [row["shadow"]["steps"] for row in report] == [row["steps"] for row in report]
    assert [row["shadow"]["first"]["episode"] for row in report] == [0, 1]


def test_a_run_that_is_refused_leaves_no_recording_in_the_way(sami, rewritten):
    def mistaken(contract):
        contract["action"]["unit"] = "N"

    result = sami("run", "--model", rewritten(mistaken), "--record", "run.mcap")
    assert result.code == 1
    assert "has unit N, the adapter's has 1" in result.err
    assert not Path("run.mcap").exists()


def test_a_terminal_that_lacks_a_bar_does_not_end_a_run(panda, tmp_path):
    command = [sys.executable, "-c", "from sami_cli.app import main; main()", "run", "--model", str(panda.model)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = subprocess.run(
        [*command, "--episodes", "2"], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "2 episodes" in process.stdout


def test_a_shadow_tells_where_it_would_have_acted_otherwise(sami, panda, rows, other):
    row = rows("--set", f"shadow={panda.model}")[-1]
    assert row["shadow"] == {
        **{"steps": row["shadow"]["steps"], "differing": 0, "failed": 0, "first": None},
        **{"largest": {}, "failures": {}},
    }
    unlike = rows("--set", f"shadow={other}")[-1]["shadow"]
    assert unlike["differing"] > 0
    assert unlike["first"]["name"].startswith("action d")
    assert all(item["size"] > 0 for item in unlike["largest"].values())
    size = max(item["size"] for item in unlike["largest"].values())
    assert rows("--set", f"shadow={other}", "--set", f"shadow_tolerance={size}")[-1]["shadow"]["differing"] == 0
    result = sami("run", "--model", panda.model, "--episodes", 1, "--set", f"shadow={other}")
    assert "ticks differ\nfirst at episode 0, step 0: action d" in result.out


def test_limits_from_a_file_are_kept_and_reported(sami, panda, rows):
    with open("limits.toml", "w") as file:
        file.write("rest = 0.0\n[rate]\ngripper = 1.0\n[high]\ndx = 0.1\n")
    report = rows("--set", "limits=limits.toml", "--record", "run.mcap")
    names = {name for row in report for name in row["limited"]}
    assert names <= {"rate gripper", "bounds dx"}
    assert "rate gripper" in names
    executed = np.array([step.record.executed for step in read_recording("run.mcap").steps if step.episode == 0])
    assert (np.abs(np.diff(executed[:, 3])) <= 0.04 + 1e-6).all()
    assert (executed[:, 0] <= np.float32(0.1)).all()
    assert "limited: " in sami("run", "--model", panda.model, "--episodes", 1, "--set", "limits=limits.toml").out


def test_the_limits_that_the_documentation_shows_fit_the_panda_policy(tmp_path):
    root, path, keys = Path(__file__).parents[2], tmp_path / "shown.toml", set()
    for block in (root / "docs" / "reference" / "safety-gate.md").read_text().split("```toml\n")[1:]:
        path.write_text(block.split("```")[0])
        limits = Limits.load(path)
        limits.require_fit(read_artifact(root / "models" / "panda-satesac.onnx").contract)
        keys |= limits.model_fields_set
    assert keys == set(Limits.model_fields)


def test_a_dry_run_writes_nothing(rows):
    [first, _] = rows("--set", "dry_run=true", "--record", "run.mcap", "--fix", "mass=1")
    assert (first["steps"], first["success"], first["mass"], first["skill"]) == (50, None, None, "none")
    episode = [step.record for step in read_recording("run.mcap").steps if step.episode == 0]
    assert {record.observation.values["cube_position"].tobytes() for record in episode} == {
        episode[0].observation.values["cube_position"].tobytes()
    }


def test_a_safety_stop_exits_with_3_and_tells_what_was_until_then(sami, panda):
    with open("limits.toml", "w") as file:
        file.write("stop_after = 2\n[frozen]\ndesired_goal = 3\n")
    result = sami("run", "--model", panda.model, "--set", "limits=limits.toml", "--record", "run.mcap")
    assert result.code == 3
    assert result.err.startswith(
        "sami: no new action at 2 ticks in a row (stop_after), lastly: frozen: desired_goal had"
    )
    assert "4 ticks: 2 acted, 2 held, 0 late, 0 refused" in result.out
    assert read_recording("run.mcap").steps[-1].record.limited_by == ("stop",)
    result = sami("run", "--model", panda.model, "--set", "limits=limits.toml", "--json")
    [row] = map(json.loads, result.out.splitlines())
    assert (result.code, row["episode"], row["ended"], row["steps"]) == (3, 0, "safety_stop", 4)
    assert row["reason"] == result.err.removeprefix("sami: ").rstrip("\n")
    rewards = [step.record.info["reward"] for step in read_recording("run.mcap").steps[:-1]]
    assert row["return"] == pytest.approx(sum(rewards), abs=1e-3), "the tick of the stop did nothing"


def test_the_end_of_a_run_tells_times_by_section(sami, panda):
    result = sami("run", "--model", panda.model, "--episodes", 2)
    lines = result.out.splitlines()
    at = next(index for index, line in enumerate(lines) if line.split() == ["µs", "p50", "p99", "p99.9", "worst"])
    names = [line.split()[0] for line in lines[at + 1 : at + 7]]
    assert names == ["observe", "infer", "gate", "write", "total", "lag"]
    assert all(float(number) >= 0 for line in lines[at + 1 : at + 7] for number in line.split()[1:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run --model MODEL --set limits=no.toml", "no.toml cannot be read: "),
        ("run --model MODEL --set limits=bad.toml", "rat: unknown key 'rat'. Did you mean 'rate'?"),
        ("run --model MODEL --set limits=unfit.toml", "unknown element of the action 'dw'."),
        ("run --model MODEL --record run.txt", "cannot record to run.txt; a recording is NAME.mcap."),
        ("run --model MODEL --record taken.mcap", "taken.mcap exists; a recording never replaces one."),
        ("run --model MODEL --set dry_run=true --render film.gif", "dry_run=true moves nothing that could be filmed"),
        ("run --model MODEL --set shadow=nothing.onnx", "nothing.onnx cannot be read: No such file"),
        ("replay nothing.mcap", "nothing.mcap cannot be read: No such file"),
        ("replay taken.mcap", "taken.mcap is damaged, or no recording of sami run: "),
    ],
)
def test_what_cannot_work_is_refused_and_leaves_nothing_behind(sami, panda, contents, tmp_path, arguments, message):
    for name, text in {"bad.toml": "rat = 1", "unfit.toml": "rest = 0\n[rate]\ndw = 1", "taken.mcap": "mine"}.items():
        (tmp_path / "here" / name).write_text(text)
    before = contents(tmp_path)
    result = sami(*(panda.model if word == "MODEL" else word for word in arguments.split()))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("sami: ")
    assert message in result.err
    assert contents(tmp_path) == before


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_run_that_is_told_to_terminate_closes_its_recording(panda, tmp_path):
    script = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as in a terminal, wherever the tests run
from sami_cli.app import main
main()
"""
    path = tmp_path / "run.mcap"
    command = [sys.executable, "-c", script, "run", "--model", str(panda.model), "--episodes", "10000"]
    with subprocess.Popen([*command, "--record", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            for _ in range(4):
                process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (128 + signal.SIGTERM, b"")
    assert f"wrote {path}" in " ".join(out.decode().split())
    assert read_recording(path).closed


def test_a_model_file_that_changes_on_disk_drives_the_next_episode(sami, panda, other, monkeypatch):
    """And one that is refused does not."""
    model, reset = Path("copy.onnx"), GymnasiumAdapter.reset
    model.write_bytes(panda.model.read_bytes())
    deployed = iter([None, other.read_bytes(), b"half", None])

    def deploy(adapter, seed=None):
        """Put another file in its place when an episode begins."""
        if data := next(deployed):
            Path("new").write_bytes(data)
            Path("new").rename(model)
        reset(adapter, seed)

    monkeypatch.setattr(GymnasiumAdapter, "reset", deploy)
    result = sami(
        "run",
        "--model",
        model,
        "--episodes",
        4,
        "--set",
        "steps=5",
        "--set",
        "watch_model=true",
        "--record",
        "run.mcap",
    )
    assert result.code == 0
    recording = read_recording("run.mcap")
    assert [(step.episode, step.record.step) for step in recording.steps if step.record.swapped] == [(2, 0)]
    weights = read_artifact(other).graph_sha256
    assert recording.steps[10].record.swapped.weights_sha256 == weights
    assert f"copy.onnx has changed: the next episode is driven by weights {weights[:12]}\n" in result.err
    assert "copy.onnx has changed, but is rejected; the previous model continues: copy.onnx" in result.err
    assert "1 swaps of the model" in result.prose
    model.write_bytes(panda.model.read_bytes())
    again = sami("replay", "run.mcap")
    assert again.code == 4
    assert f"note: the recording was made with weights {weights[:12]}, this model has " in again.prose
    assert "first at episode 2, step 0" in again.prose


def test_a_model_file_that_changed_and_lacks_a_guard_is_taken_with_a_warning(capsys, tmp_path):
    """As at the start: one line of standard error."""
    model = tmp_path / "model.onnx"
    watched = WatchedModel(model)
    model.write_bytes(b"new")

    def swap(path):
        warnings.warn("no training ranges", SafetyWarning, stacklevel=2)
        return SimpleNamespace(weights_sha256="0123456789abcdef")

    assert watched.take_over(SimpleNamespace(swap=swap)).endswith("driven by weights 0123456789ab")
    assert capsys.readouterr().err == "warning: no training ranges\n"


def test_a_line_of_telemetry_imports_nothing_between_two_ticks(monkeypatch):
    """That took longer than `max_pause_s` allows, and a robot's computer has no simulator."""
    monkeypatch.setitem(sys.modules, "sami_train.envs.tasks", None)
    near = {"mass": 1.5, "crippled": [0, 3]}
    reading = Reading(step=3, speed=0.5, phase=None, drift=0.0, nearest=near, distance=1.25, score=1.1, alarm=True)
    telemetry = SimpleNamespace(now=reading, probe=None, size=6)
    line = "context moves  0.50  score 1.10  OUT OF DISTRIBUTION  nearest mass 1.5, crippled 0+3 at 1.2"
    assert reading_text(telemetry) == f"step   3  {line}"
    telemetry.size = 0
    assert "context" not in reading_text(telemetry), "a policy without one"
