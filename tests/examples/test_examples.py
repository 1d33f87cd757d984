"""The examples that users copy do what they say, with the model that is shipped."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sami_runtime.adapters.panda import PANDA_ACTION, PANDA_OBSERVATION
from sami_runtime.gap.profile import GapProfile
from sami_runtime.model.artifact import read_artifact
from sami_runtime.safety.limits import Limits

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "panda-satesac.onnx"

MOVEMENT = ("moves", "rests")


def call(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, **options)


def test_the_host_loop_acts_at_the_rate_of_the_policy(tmp_path):
    done = call(sys.executable, ROOT / "examples" / "host_loop.py", MODEL, "--steps", "10", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    said = re.fullmatch(r"10 steps in ([\d.]+) s, 0 held, \d+ skipped; context \[.+\]\n", done.stdout)
    assert said, done.stdout
    assert float(said[1]) >= 9 / 25


def test_the_host_loop_holds_where_a_sensor_fails(tmp_path):
    text = (ROOT / "examples" / "host_loop.py").read_text(encoding="utf-8")
    wave = "np.sin(now + np.arange(s.size))"
    broken = text.replace(wave, f"({wave} * (np.nan if now < 1e-6 or abs(now - 3 / 25) < 1e-6 else 1))")
    assert broken != text
    (tmp_path / "broken.py").write_text(broken, encoding="utf-8")
    done = call(sys.executable, tmp_path / "broken.py", MODEL, "--steps", "5", cwd=tmp_path)
    assert "5 steps in " in done.stdout, done.stderr
    assert ", 2 held, " in done.stdout


def test_the_host_loop_skips_ticks_that_passed_and_stops_on_every_way_out(tmp_path):
    text = (ROOT / "examples" / "host_loop.py").read_text(encoding="utf-8")
    slow = text.replace("    return np.clip(", "    print(f'{time.perf_counter():.4f}')\n    WORK\n    return np.clip(")
    slow = slow.replace('Reached from every way out of the loop."""\n', '"""\n    print(\'stopped\')\n')
    assert slow.count("WORK") == slow.count("stopped") == 1
    (tmp_path / "slow.py").write_text(slow.replace("WORK", "time.sleep(0.3 * (action[0] != 0))"), encoding="utf-8")
    done = call(sys.executable, tmp_path / "slow.py", MODEL, "--steps", "3", cwd=tmp_path)
    assert re.search(r"stopped\n3 steps in .*, 0 held, 1[2-5] skipped", done.stdout), done.stderr + done.stdout
    (tmp_path / "bad.py").write_text(slow.replace("WORK", "raise OSError('bus')"), encoding="utf-8")
    done = call(sys.executable, tmp_path / "bad.py", MODEL, "--steps", "3", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "stopped")


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
    words = ("--model", MODEL, "--tasks", "training", "--episodes", 20, "--json", "--limits", limits)
    done = call(sys.executable, "-c", main, "run", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(row["success"] for row in rows) >= 16
    assert sum(row["limited"].get("rate dx", 0) for row in rows) > 0


@pytest.fixture
def udp_robot():
    """Starts the robot of the example for so many seconds, and waits until it listens."""
    started = []

    def start(seconds):
        command = [sys.executable, str(ROOT / "examples" / "udp_robot.py"), str(seconds)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[0].stdout.readline().startswith("listening")
        return started[0]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def sami(*words):
    main = "import sys; sys.path[0] = '.'; from sami_cli.app import main; main()"
    return call(sys.executable, "-c", main, *words, cwd=ROOT / "examples")


def drive(folder, *options, **changes):
    """Call `sami drive` with the example's file, but for these keys; a busy machine gets a watchdog that waits."""
    examples = ROOT / "examples"
    robot = tomllib.loads((examples / "udp_robot.toml").read_text(encoding="utf-8"))
    robot |= {"model": str(MODEL), "limits": str(examples / "limits.toml"), "watchdog_s": 0.5, **changes}
    (folder / "robot.json").write_text(json.dumps(robot))
    return sami("drive", folder / "robot.json", *options)


def test_a_robot_behind_a_network_keeps_the_laws_and_is_driven(udp_robot, tmp_path):
    udp_robot(240)
    done = sami("check-adapter", "udp_robot:make", "--model", MODEL, "--excite", "--limits", "limits.toml")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "0 of 15 laws broken" in done.stdout
    done = sami("drive", "udp_robot.toml", "--check")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "WRONG" not in done.stdout
    done = drive(tmp_path, "--set", "steps=10")
    assert (done.returncode, done.stderr) == (0, "")
    assert "10 acted, 0 held, 0 late, 0 refused" in done.stdout


def test_a_robot_that_goes_silent_is_held_and_then_stopped(udp_robot, tmp_path):
    udp_robot(8)  # long enough for a busy machine to begin
    done = drive(tmp_path, "--set", "steps=1000")
    assert done.returncode == 3
    assert re.search(r"ticks in a row \(stop_after\), lastly: age: .*The robot is stopped", done.stderr)
    assert "not acted: age " in done.stdout


def said_by(robot):
    """What the robot of the example says until it ends: when it moves and when it rests."""
    return [json.loads(line) for line in robot.stdout.read().splitlines()]


def test_the_robot_of_the_example_stops_by_itself_when_the_host_is_silent(udp_robot, free_ports):
    robot = udp_robot(3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
        host.sendto(b'{"action": [1, 0, 0, 0]}', ("127.0.0.1", free_ports))
    moves, rests = said_by(robot)
    assert (moves["moves"], rests["rests"]) == ("action", "deadman")
    assert 0.25 < rests["time"] - moves["time"] < 0.5


def test_the_robot_of_the_example_moves_no_more_after_an_emergency_stop_until_it_is_reset(udp_robot, free_ports):
    robot = udp_robot(3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
        for message in ('{"action": [1, 0, 0, 0]}', '{"emergency_stop": true}', '{"action": [1, 0, 0, 0]}'):
            host.sendto(message.encode(), ("127.0.0.1", free_ports))
        time.sleep(0.3)
        for message in ('{"reset": 0}', '{"action": [1, 0, 0, 0]}', '{"stop": true}'):
            host.sendto(message.encode(), ("127.0.0.1", free_ports))
    events = [(what, each[what], each["ignored"]) for each in said_by(robot) for what in each if what in MOVEMENT]
    assert events == [
        ("moves", "action", 0), ("rests", "emergency stop", 0), ("moves", "action", 1), ("rests", "stop", 1)
    ]  # fmt: skip


def test_a_watched_run_ends_as_any_other_and_refuses_what_cannot_stop_the_robot(udp_robot, tmp_path):
    udp_robot(60)
    done = drive(tmp_path, "--set", "steps=10")
    assert (done.returncode, done.stderr) == (0, "")
    assert "10 acted, 0 held, 0 late, 0 refused" in done.stdout
    done = drive(tmp_path, emergency_stop="udp_robot:brake")
    assert (done.returncode, done.stdout) == (1, "")
    assert "could not stop the robot, so nothing was moved: unknown factory 'brake'" in done.stderr


@pytest.mark.parametrize("kind", ["killed", "stopped", "write", "gil", "segfault"])
def test_a_robot_whose_loop_fails_is_stopped_in_time(kind, free_ports):
    """On a machine that does other things as well; `make test-real` and the benchmark itself are stricter."""
    command = ("benchmarks/watchdog_kills.py", "--kinds", kind, "--kills", 1, "--json", "--port", free_ports)
    done = call(sys.executable, *command, cwd=ROOT)
    (kill,) = json.loads(done.stdout)["kills"]
    assert (kill["by"], kill["faults"]) == ("emergency stop", [])
    assert 0.0 < kill["late_s"] < 0.5


def test_a_robot_that_was_never_there_is_told_of(tmp_path):
    done = drive(tmp_path)
    assert (done.returncode, done.stdout.count("acted")) == (1, 0)
    assert "sent nothing for a second. Is it running?" in done.stderr


# --- C++


@pytest.fixture
def replay(cpp_build):
    return cpp_build / "replay"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "golden.csv"
    done = inspect("--golden", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def golden(written, tmp_path):
    """The golden steps as `sami inspect` writes them, in a file that a test may change."""
    return Path(shutil.copy(written, tmp_path))


def inspect(*options):
    return call(sys.executable, "-c", "from sami_cli.app import main; main()", "inspect", MODEL, *options)


def changed(golden, column, row, text):
    lines = [line.split(",") for line in golden.read_text().splitlines()]
    lines[row + 1][lines[0].index(column)] = text
    golden.write_text("\n".join(map(",".join, lines)) + "\n")


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
    done = inspect("--golden", golden)
    said = f"sami: {golden} exists; choose another name, or replace it with --force.\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_cpp_reproduces_the_golden_steps(replay, golden):
    done = call(replay, MODEL, golden)
    assert done.returncode == 0, done.stderr
    assert re.match(r"panda-satesac: 64 steps, largest difference \d\.\de-0[67] at step \d+, within 1e-05", done.stdout)


def test_cpp_tells_what_a_file_answers_besides(replay, tmp_path):
    """The present, as the policy estimates it; a probe's outputs are such, too."""
    onnx_file, table = Path(MODEL).with_name("panda-satesac-camera.onnx"), tmp_path / "camera.csv"
    code = "from sami_cli.app import main; main()"
    assert call(sys.executable, "-c", code, "inspect", onnx_file, "--golden", table).returncode == 0
    done = call(replay, onnx_file, table)
    assert done.returncode == 0, done.stdout + done.stderr
    changed(table, "present_cube_position.z", 7, "0.5")
    done = call(replay, onnx_file, table)
    assert done.returncode == 4
    assert "at step 7, MORE THAN 1e-05" in done.stdout


def test_cpp_finds_a_difference_at_its_step(replay, golden):
    changed(golden, "action.dy", 40, "0.123")
    done = call(replay, MODEL, golden)
    assert done.returncode == 4
    assert "at step 40, MORE THAN 1e-05" in done.stdout


def test_cpp_needs_the_executed_action_and_the_reset(replay, golden):
    """Both change what follows: a program that left one out would not agree."""
    original = golden.read_text()
    changed(golden, "executed.dx", 5, "0.9")
    assert call(replay, MODEL, golden).returncode == 4
    golden.write_text(original)
    changed(golden, "reset", 31, "0")
    assert call(replay, MODEL, golden).returncode == 4


def test_cpp_looks_ahead_as_the_golden_steps_say(replay, tmp_path):
    """Ages and held periods among them: a program that left one out would not agree."""
    onnx_file, table = looking_ahead(tmp_path / "ahead.onnx"), tmp_path / "ahead.csv"
    code = "from sami_cli.app import main; main()"
    assert call(sys.executable, "-c", code, "inspect", onnx_file, "--golden", table).returncode == 0
    done = call(replay, onnx_file, table)
    assert done.returncode == 0, done.stdout + done.stderr
    original = table.read_text()
    for column, row, text in (("age.ee_position", 4, "0"), ("held", 3, "0")):
        table.write_text(original)
        changed(table, column, row, text)
        assert call(replay, onnx_file, table).returncode == 4


def looking_ahead(path):
    """The shipped model with a forward model of no world in front."""
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.model.lookahead import SignalErrors
    from sami_train.studies.lookahead.forward_model import Fit, ForwardModel, attach_lookahead

    rng, error = np.random.default_rng(0), SignalErrors(predicted=(0.1, 0.2), standing=(1.0, 1.0))
    weights = tuple(rng.normal(0, 0.2, shape).astype(np.float32) for shape in ((39, 8), (8, 8), (8, 25)))
    biases = tuple(np.zeros(weight.shape[1], np.float32) for weight in weights)
    errors = {signal.name: error for signal in read_artifact(MODEL).contract.observation}
    attach_lookahead(Path(MODEL), path, 2, Fit(ForwardModel(weights, biases), 1, 1, errors), "nothing")
    return path


def test_cpp_refuses_what_is_not_finite(replay, golden):
    changed(golden, "observation.gripper_width.width", 3, "nan")
    done = call(replay, MODEL, golden)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "replay: observation is not finite; nothing was advanced\n"


def test_cpp_refuses_a_file_without_a_contract(replay, golden, tmp_path):
    import onnx

    model = onnx.load(MODEL)
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    done = call(replay, tmp_path / "bare.onnx", golden)
    assert done.returncode == 1
    assert "carries no sami.contract; use a file that sami export wrote" in done.stderr
