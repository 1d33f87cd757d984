"""The examples that users copy do what they say, with the model that is shipped."""

import json
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sami_runtime import ManualClock
from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import read_artifact
from sami_runtime.safety.limits import Limits
from tests.making.golden import golden_steps

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "panda-satesac.onnx"


def call(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **options)


def test_the_host_loop_acts_at_the_rate_of_the_policy(tmp_path):
    result = call(sys.executable, ROOT / "examples" / "host_loop.py", MODEL, "--steps", "10", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    match = re.fullmatch(r"10 steps in ([\d.]+) s, 0 held, \d+ skipped; context \[.+\]\n", result.stdout)
    assert match, result.stdout
    assert float(match[1]) >= 9 / 25


def test_the_host_loop_holds_where_a_sensor_fails(tmp_path):
    text = (ROOT / "examples" / "host_loop.py").read_text(encoding="utf-8")
    wave = "np.sin(now + np.arange(s.size))"
    broken = text.replace(wave, f"({wave} * (np.nan if now < 1e-6 or abs(now - 3 / 25) < 1e-6 else 1))")
    assert broken != text
    (tmp_path / "broken.py").write_text(broken, encoding="utf-8")
    result = call(sys.executable, tmp_path / "broken.py", MODEL, "--steps", "5", cwd=tmp_path)
    assert "5 steps in " in result.stdout, result.stderr
    assert ", 2 held, " in result.stdout


def test_the_host_loop_ends_where_a_sensor_stays_dead(tmp_path):
    """A repeated displacement would move the arm on for ever."""
    text = (ROOT / "examples" / "host_loop.py").read_text(encoding="utf-8")
    wave = "np.sin(now + np.arange(s.size))"
    dead = text.replace(wave, f"({wave} * (1 if now < 3.5 / 25 else np.nan))")
    dead = dead.replace("    return np.clip", "    print(1)\n    return np.clip")
    (tmp_path / "dead.py").write_text(dead, encoding="utf-8")
    result = call(sys.executable, tmp_path / "dead.py", MODEL, "--steps", "50", cwd=tmp_path)
    assert (result.returncode, result.stdout.split()) == (1, ["1"] * 14), "four actions, repeated ten times"
    assert result.stderr == "the observations of 11 ticks in a row were not valid\n"


def test_the_host_loop_skips_ticks_that_passed_and_stops_on_every_way_out(tmp_path):
    text = (ROOT / "examples" / "host_loop.py").read_text(encoding="utf-8")
    slow = text.replace("    return np.clip(", "    print(f'{time.perf_counter():.4f}')\n    WORK\n    return np.clip(")
    slow = slow.replace('Reached from every way out of the loop."""\n', '"""\n    print(\'stopped\')\n')
    assert slow.count("WORK") == slow.count("stopped") == 1
    (tmp_path / "slow.py").write_text(slow.replace("WORK", "time.sleep(0.3 * (action[0] != 0))"), encoding="utf-8")
    result = call(sys.executable, tmp_path / "slow.py", MODEL, "--steps", "3", cwd=tmp_path)
    assert re.search(r"stopped\n3 steps in .*, 0 held, 1[2-5] skipped", result.stdout), result.stderr + result.stdout
    (tmp_path / "bad.py").write_text(slow.replace("WORK", "raise OSError('bus')"), encoding="utf-8")
    result = call(sys.executable, tmp_path / "bad.py", MODEL, "--steps", "3", cwd=tmp_path)
    assert (result.returncode, result.stdout.splitlines()[-1]) == (1, "stopped")
    interrupted = slow.replace("    print('stopped')\n", "    signal.raise_signal(15)\n    print('stopped')\n")
    # Not SIGINT and SIGHUP, which are ignored where the tests run in the background.
    for code, work in ((143, "signal.raise_signal(15)"), (1, "raise OSError('bus')")):
        (tmp_path / "ended.py").write_text(interrupted.replace("WORK", work), encoding="utf-8")
        result = call(sys.executable, tmp_path / "ended.py", MODEL, "--steps", "3", cwd=tmp_path)
        assert (result.returncode, result.stdout.splitlines()[-1]) == (code, "stopped"), result.stderr


def test_the_udp_robot_is_not_steered_by_messages_of_another_sender(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as robot, socket.socket(type=socket.SOCK_DGRAM) as stranger:
        robot.bind(("127.0.0.1", 0))
        monkeypatch.setenv("UDP_ROBOT_PORT", str(robot.getsockname()[1]))
        example = runpy.run_path(str(ROOT / "examples" / "udp_robot.py"))
        adapter = example["make"](ManualClock())
        try:
            adapter.reset()
            values = {signal.name: [0.25] * signal.size for signal in PANDA_OBSERVATION}
            forged = {"time": 1e9, "values": {name: [0.9] * len(value) for name, value in values.items()}}
            robot.sendto(json.dumps({"time": 7.0, "values": values}).encode(), example["LOOP"])
            for message in (json.dumps(forged).encode(), b"\0"):
                stranger.sendto(message, example["LOOP"])
            observation = adapter.read()
            assert observation.time == 0.0
            assert {name: value.tolist() for name, value in observation.values.items()} == values
        finally:
            adapter.close()
            adapter.emergency_stop.__closure__[0].cell_contents.close()  # its own socket


def test_the_gap_shows_every_key_and_fits_the_arm():
    camera = GapProfile.load(ROOT / "examples" / "camera.toml")
    camera.require_fit(PANDA_OBSERVATION, PANDA_ACTION.elements)
    assert GapProfile.loads(camera.dumps()) == camera
    path = ROOT / "examples" / "gap.toml"
    GapProfile.load(path).require_fit(PANDA_OBSERVATION, PANDA_ACTION.elements)
    keys = {line.partition("=")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()}
    assert set(GapProfile.model_fields) <= keys


def test_the_example_of_limits_shows_every_key_and_each_fits(tmp_path):
    text = (ROOT / "examples" / "limits.toml").read_text()
    switched_on = tmp_path / "limits.toml"
    switched_on.write_text(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))
    limits = Limits.load(switched_on)
    assert limits.model_fields_set == set(Limits.model_fields)
    limits.require_fit(read_artifact(ROOT / "models" / "panda-satesac.onnx").contract)


def test_the_limits_fit_the_arm_and_cost_it_no_success(tmp_path):
    limits = ROOT / "examples" / "limits.toml"
    Limits.load(limits).require_fit(read_artifact(MODEL).contract)
    main = "from sami_cli.app import main; main()"
    words = ("--model", MODEL, "--tasks", "training", "--episodes", 20, "--json", "--set", f"limits={limits}")
    result = call(sys.executable, "-c", main, "run", *words, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sum(row["success"] for row in rows) >= 16
    assert sum(row["limited"].get("rate dx", 0) for row in rows) > 0


# --- golden steps as a table


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "golden.csv"
    result = golden_steps(path)
    assert result.returncode == 0, result.stderr
    return path


def test_golden_steps_are_written_to_the_last_bit(golden):
    from sami_runtime.model.artifact import read_artifact

    contract = read_artifact(MODEL).contract
    steps = contract.golden_steps()
    names = golden.read_text().splitlines()[0].split(",")
    table = np.loadtxt(golden, delimiter=",", skiprows=1, dtype=np.float32)
    assert table.shape == (64, len(names))
    assert tuple(np.flatnonzero(table[:, 0])) == steps.resets
    first = names.index("observation.cube_position.x")
    np.testing.assert_array_equal(table[:, first : first + 3], steps.observation["cube_position"])
    for kind, values in {"executed": steps.executed, **steps.answers}.items():
        columns = [i for i, name in enumerate(names) if name.startswith(kind + ".")]
        np.testing.assert_array_equal(table[:, columns], values)


def test_golden_steps_overwrite_nothing(golden):
    result = golden_steps(golden)
    text = f"sami: {golden} exists; choose another name, or replace it with --force.\n"
    assert (result.returncode, result.stderr) == (1, text)
