"""`sami drive robot.toml`: one file for a robot, what is refused in it, and a check that moves nothing."""

import hashlib
import json
from pathlib import Path

import pytest

from sami_runtime.distribution import shipped_models
from sami_runtime.errors import SamiError
from sami_runtime.recording.reader import read_recording
from sami_runtime.robots.robot_file import RobotFile, SimulatorKeys
from sami_runtime.session.admission import Admission
from tests.making.still_robot import ROBOT

pytestmark = pytest.mark.usefixtures("my_robot")

START = 'version = 1\nmodel = "panda-satesac"\nadapter = "my_robot:make"\n'
STOPPABLE = """

def emergency_stop():
    return lambda: open("emergency.txt", "a").close()
"""
MOVES = """

def careful(clock):
    robot = Still(clock)
    for name in ("reset", "write", "stop"):
        setattr(robot, name, lambda *_, name=name, **__: open("moved.txt", "a").write(name))
    return robot


def shy(clock):
    robot = Still(clock)

    def read():
        raise OSError("nothing was asked for yet")

    robot.read = read
    return robot


def blind(clock):
    robot, near = Still(clock), Still(clock).read

    def read():
        seen = near()
        del seen.values["cube_position"]
        return seen

    robot.read = read
    return robot


def short(clock):
    robot, near = Still(clock), Still(clock).read

    def read():
        seen = near()
        seen.values["cube_position"] = [*seen.values["cube_position"]]  # a list will do
        seen.values["ee_position"] = seen.values["ee_position"][:2]
        return seen

    robot.read = read
    return robot


def leaves(clock):
    robot = Still(clock)
    robot.read = lambda: exit(143)  # the code of SIGTERM, without a signal
    return robot


def interrupted(clock):
    signal.raise_signal(signal.SIGTERM)


def leaks(clock):
    robot = Still(clock)
    robot.close = lambda: 1 / 0
    return robot
"""


def robot_file(text="", start=START, name="robot.toml"):
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(start + text)
    return name


def checks_of(result):
    """State and note of each check that was printed, by its name."""
    lines = result.out.replace("\n" + " " * 7, " ").splitlines()[:-1]
    return {line[7:].partition(": ")[0]: (line[:7].strip(), line[7:].partition(": ")[2]) for line in lines}


def test_a_robot_is_driven_by_one_file_whose_paths_are_relative_to_it(sami):
    Path("arm").mkdir()
    Path("my_robot.py").rename("arm/my_robot.py")
    Path("arm/limits.toml").write_text("rest = 0.0")
    Path("arm/settings.toml").write_text("offset = 0.0")
    text = 'settings = "settings.toml"\nlimits = "limits.toml"\nrecord = "{time}.mcap"\nsteps = 5\nepisodes = 2\n'
    robot_file(text, START.replace(":make", ":settled"), "arm/robot.toml")
    result = sami("drive", "arm/robot.toml", "--set", "steps=3", "--json")
    assert (result.code, result.errors) == (0, "")
    assert [line.split(":")[1] for line in result.err.splitlines()] == [" no watchdog"]
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["steps"] for row in rows] == [3, 3]
    assert len(Path("written.txt").read_text().splitlines()) == 6
    (recorded,) = Path("arm").glob("20*T*Z.mcap")
    assert read_recording(recorded).about["env"] == "my_robot:settled"


def test_a_file_as_json_and_an_option_that_overrides_it(sami):
    values = {"version": 1, "model": "nothing", "adapter": "my_robot:make", "limits": {"rest": 0.0}, "steps": 9}
    values["shadow"] = "panda-satesac"
    Path("robot.json").write_text(json.dumps(values))
    result = sami(
        "drive", "robot.json", "--set", "model=panda-satesac", "--set", "steps=2", "--record", "r.mcap", "--dry-run"
    )
    assert (result.code, result.errors, "2 acted" in result.out, "shadow: " in result.out) == (0, "", True, True)
    assert (Path("r.mcap").exists(), Path("written.txt").exists()) == (True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "robot.toml has no version; this sami reads version 1. Begin it with: version = 1"),
        ("version = 2", "robot.toml has version 2; this sami reads version 1."),
        ("version = true", "robot.toml has version True; this sami reads version 1."),
        ("version = 1", "robot.toml: model: field required; adapter: field required. Correct what is named"),
        (f"{START}watchdogs = 1", "unknown key 'watchdogs'. Did you mean 'watchdog_s'? Valid: adapter, "),
        (f"{START}loop_hz = 'fast'", "robot.toml: loop_hz: input should be a valid number, and it is 'fast'."),
        (f"{START}loop_hz = -1", "robot.toml: loop_hz: input should be greater than 0, and it is -1."),
        (f"{START}watchdog_s = nan", "robot.toml: watchdog_s: input should be "),
        (f"{START}watchdog_s = 120", "robot.toml: watchdog_s: input should be less than or equal to 10"),
        (f"{START}slower = 1.5", "robot.toml: slower: input should be a valid integer, and it is 1.5."),
        (f"{START}expect_sha256 = 'abc'", "robot.toml: expect_sha256: string should match pattern "),
        (f"{START}limits = 3", "robot.toml: limits: "),
        (f"{START}limits = 'no.toml'", "no.toml cannot be read: No such file or directory."),
        (f"{START}[limits]\nrat = 1", "rat: unknown key 'rat'. Did you mean 'rate'? "),
        (
            f"{START}[limits]\nrate = -1",
            "robot.toml, table limits: rate: input should be greater than 0, and it",
        ),
        (f"{START}settings = 'no.toml'", "no.toml cannot be read: No such file or directory."),
        (f"{START}unguarded = ['range']", "unknown guard 'range'. Did you mean 'ranges'?"),
        (f"{START}unguarded = 'ranges'", "robot.toml: unguarded: input should be a valid list, and it is 'ranges'."),
        (f"{START}emergency_stop = 'a:b'", "emergency_stop is 'a:b', and no watchdog would call it. Set watchdog_s"),
        (f"{START}[settings]\noffset = 1.0", "my_robot:make takes no settings, but some were given."),
        (START.replace("panda-satesac", "panda-satesack"), "unknown model 'panda-satesack'. Did you mean 'panda-sate"),
        (START.replace("panda-satesac", "no.onnx"), "no.onnx"),
        (START.replace(":make", ""), "the adapter is 'my_robot'; write MODULE:FACTORY"),
        (START.replace("my_robot", "my_robt"), "It must be installed, or a .py file in the current folder."),
        (f"{START}expect_sha256 = '{'0' * 64}'", "expected 0000"),
        (f"{START}loop_hz = 30\nrecord = 'new.mcap'", "loop_hz is 30.0, but this policy was trained at 25 Hz"),
        (f"{START}shadow_tolerance = 1.0", "shadow_tolerance is for comparison with a second model"),
        ("version = 1\nversion = 1", "robot.toml cannot be read: "),
    ],
)
def test_a_bad_file_is_refused_in_one_line_before_anything_moves(sami, text, message):
    robot_file(text, start="")
    result = sami("drive", "robot.toml")
    assert (result.code, result.out) == (1, "")
    assert message in result.errors
    assert result.errors.startswith("sami: ")
    assert len(result.errors.splitlines()) == 1
    assert [name for name in ("stopped.txt", "new.mcap") if Path(name).exists()] == []


def test_a_driver_that_leaves_the_process_is_an_error(sami):
    Path("my_robot.py").write_text(ROBOT + MOVES)
    Path("robot.toml").write_text(START.replace("my_robot:make", "my_robot:leaves"))
    result = sami("drive", "robot.toml", "--set", "pause_s=0")
    assert result.code == 1
    assert "sys.exit(143) in my_robot.py, line" in result.err
    assert ", in <lambda> ended the run. Raise an error instead." in result.err


@pytest.mark.parametrize("options", [(), ("--check",)], ids=str)
def test_a_signal_while_the_driver_is_made_ends_the_command_and_is_no_fault_of_the_driver(sami, options):
    Path("my_robot.py").write_text("import signal\n" + ROBOT + MOVES)
    Path("robot.toml").write_text(START.replace("my_robot:make", "my_robot:interrupted"))
    result = sami("drive", "robot.toml", *options)
    assert (result.code, result.err) == (143, "")


def test_a_check_does_everything_but_move(sami):
    Path("my_robot.py").write_text(ROBOT + MOVES + STOPPABLE)
    digest = hashlib.sha256(shipped_models()["panda-satesac"].read_bytes()).hexdigest()
    text = f'expect_sha256 = "{digest}"\nwatchdog_s = 0.5\nrecord = "r.mcap"\nlimits = {{rest = 0.0}}\n'
    robot_file(text, START.replace("make", "careful"))
    result = sami("drive", "robot.toml", "--check")
    assert (result.code, result.err) == (0, "")
    checks = checks_of(result)
    names = ["file", "model", "recording", "evidence", "limits", "host", "watchdog", "adapter", "fit", "observation"]
    assert list(checks) == [*names, "watchdog again", "close"]
    assert {state for state, _ in checks.values()} == {"ok"}
    assert digest in checks["model"][1]
    assert result.out.splitlines()[-1] == "robot.toml: 0 of 12 checks failed; no action was written"
    assert not [name for name in ("moved.txt", "written.txt", "emergency.txt", "r.mcap") if Path(name).exists()]


@pytest.mark.parametrize(
    ("text", "factory", "check", "message"),
    [
        ("limits = 3", "make", "file", "robot.toml: limits: "),
        (f"expect_sha256 = '{'0' * 64}'", "make", "model", "expected 0000"),
        ("limits = {low = {dw = 1.0}}", "make", "limits", "unknown element of the action 'dw'."),
        ("record = 'there.mcap'", "make", "recording", "there.mcap exists; a recording never replaces one."),
        ("record = 'nowhere/r.mcap'", "make", "recording", "nowhere is no folder that may be written to."),
        ("evidence = 'my_robot.py'", "make", "evidence", "my_robot.py exists; a recording never replaces one."),
        (
            "evidence = 'e.jsonl'\nevidence_key = 'no.key'",
            "make",
            "evidence",
            "no.key cannot be read: No such file or directory. Give a key of",
        ),
        ("record = 'r.csv'", "make", "recording", "cannot record to r.csv; a recording is NAME.mcap."),
        ("watchdog_s = 0.02", "make", "watchdog", "Set a longer time, such as three periods, 0.12 s."),
        ("watchdog_s = 0.5", "make", "watchdog", "unknown factory 'emergency_stop'"),
        ("", "fails", "adapter", "my_robot:fails(clock) failed: OSError: no such bus: can0"),
        ("loop_hz = 30", "make", "fit", "loop_hz is 30.0, but this policy was trained at 25 Hz"),
        ("", "far", "observation", "ranges: ee_position.x is 0.7 m, training saw"),
        ("", "wall_clock", "observation", "age: the observation was measured"),
        ("", "blind", "observation", "read() gave no 'cube_position'"),
        ("", "short", "observation", "observation 'ee_position' has 2 values, expected 3 [m] (x, y, z)."),
        ("", "leaks", "close", "ZeroDivisionError: division by zero (my_robot.py, line "),
    ],
)
def test_a_check_that_fails_says_what_is_wrong_and_exits_with_4(sami, text, factory, check, message):
    Path("there.mcap").touch()
    Path("my_robot.py").write_text(ROBOT + MOVES)
    robot_file(text, START.replace("make", factory))
    result = sami("drive", "robot.toml", "--check")
    wrong = {name: note for name, (state, note) in checks_of(result).items() if state == "WRONG"}
    assert (result.code, [*wrong]) == (4, [check]), result.out
    assert message in wrong[check]
    assert not Path("written.txt").exists()
    assert Path("there.mcap").stat().st_size == 0


def test_a_check_warns_of_what_is_missing_and_does_not_judge_what_needs_a_reset(sami):
    Path("my_robot.py").write_text(ROBOT + MOVES)
    robot_file("", START.replace("make", "shy"))
    result = sami("drive", "robot.toml", "--check", "--json")
    document = json.loads(result.out)
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert (result.code, document["wrong"]) == (0, 0)
    assert (states["limits"], states["watchdog"], states["observation"]) == ("warn", "warn", "--")
    (note,) = [check["note"] for check in document["checks"] if check["name"] == "observation"]
    assert "none before a reset, which may move the robot (nothing was asked for yet); --dry-run resets" in note
    refused = sami("drive", "robot.toml", "--check", "--dry-run")
    assert (refused.code, "--check reads once and begins no episode, so --dry-run has" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "provder=cpu"), "--set: provder: unknown key 'provder'. Did you mean 'provider'?"),
        (("--set", "provider"), "--set provider is not KEY=VALUE, such as --set provider=cuda."),
        (("--set", "priority=high"), "--set: priority: input should be a valid integer, and it is 'high'."),
        (("--set", "limits=a.toml"), "a.toml cannot be read: No such file or directory."),
        (("--set", "watchdog_s=1"), "watchdog_s=1 is for robots, which `sami drive robot.toml` drives; leave it out."),
    ],
)
def test_keys_of_a_run_are_refused_by_name(sami, options, message):
    result = sami("run", "--env", "panda", *options)
    assert (result.code, result.out, len(result.err.splitlines())) == (1, "", 1)
    assert message in result.err


def test_a_simulator_takes_keys_and_features_by_name(sami):
    same = [
        sami("run", "--env", "panda", "--episodes", 1, "--set", "steps=2", "--json", "--fix", "mass=3", *options)
        for options in (("--set", "seed=4"), ("--seed", 4))
    ]
    first, second = (json.loads(result.out) for result in same)
    assert (first["mass"], first["context"], first["steps"]) == (second["mass"], second["context"], second["steps"])


@pytest.mark.parametrize("example", ["own_arm/robot.toml", "franka/robot.toml", "ros2/robot.toml", "udp_robot.toml"])
def test_the_files_of_the_examples_are_valid(example):
    path = Path(__file__).parents[2] / "examples" / example
    robot = RobotFile.load(path)
    assert robot.limits is not None
    if robot.expect_sha256:
        Admission(robot.expect_sha256).admit(shipped_models()[robot.model])


def test_every_key_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "robot-file.md").read_text(encoding="utf-8")
    assert [key for key in RobotFile.model_fields if f"`{key}`" not in page] == []
    assert [key for key in SimulatorKeys.model_fields if f"`{key}`" not in page.split("## In a simulator")[1]] == []


def test_a_relative_path_does_not_depend_on_the_current_folder(tmp_path):
    (tmp_path / "limits.toml").write_text("rest = 0.0")
    text = 'limits = "limits.toml"\ntrusted = "keys"\nshadow = "other.onnx"\ngap = "modest"\nrecord = "/r/a.mcap"\n'
    (tmp_path / "robot.toml").write_text(START + text)
    robot = RobotFile.load(tmp_path / "robot.toml")
    assert (robot.model, robot.gap, robot.record) == ("panda-satesac", "modest", "/r/a.mcap")
    assert (robot.trusted, robot.shadow) == (str(tmp_path / "keys"), str(tmp_path / "other.onnx"))
    assert robot.limits.rest == 0.0
    with pytest.raises(SamiError, match="here: frozen: unknown key 'frozen'"):
        RobotFile.of({"version": 1, "model": "a", "adapter": "b", "frozen": 1}, "here")


def test_the_evidence_log_says_who_drove_what_and_is_checked_by_a_command(sami):
    robot_file('evidence = "log.jsonl"\nsteps = 5\nepisodes = 2\n[limits]\nrest = 0.0\nrate = 0.001\n')
    assert sami("drive", "robot.toml").code == 0
    result = sami("verify-log", "log.jsonl", "--json")
    log = json.loads(result.out)
    digest = hashlib.sha256(shipped_models()["panda-satesac"].read_bytes()).hexdigest()
    assert (result.code, log["complete"], log["model"]["sha256"]) == (0, True, digest)
    assert [(row["ended"], row["steps"]) for row in log["episodes"]] == [("steps", 5), ("steps", 5)]
    assert log["counts"]["ticks"] == 10
    assert log["counts"]["rate dx"] > 0
    text = Path("log.jsonl").read_text()
    Path("log.jsonl").write_text(text.replace("rate dx", "rate dy"))
    result = sami("verify-log", "log.jsonl")
    assert (result.code, "was changed: its hash is another one" in result.out) == (4, True)
    assert sami("drive", "robot.toml").errors.startswith("sami: log.jsonl exists; an evidence log never replaces one")
    Path("bad.key").write_text("no key")
    for name, fault in (("no.key", "cannot be read: No such file"), ("bad.key", "is no private key")):
        result = sami("drive", "robot.toml", "--set", "evidence=signed.jsonl", "--set", f"evidence_key={name}")
        assert (result.code, result.errors.startswith(f"sami: {name} {fault}")) == (1, True), (
            "before anything is written"
        )
        assert not Path("signed.jsonl").exists()
    assert len(Path("written.txt").read_text().splitlines()) == 10


def test_the_hand_over_is_printed_by_a_check_driven_and_logged_and_a_refusal_says_why(sami):
    limits = "[limits]\nrest = 0.0\nblend_in_s = 0.2\n[handover]\nwait_s = 0.2\ndamp_s = 0.1\n"
    start = 'steps = 5\nevidence = "{}.jsonl"\n' + limits + "velocity = {{ ee_velocity = {} }}\n"
    robot_file(start.format("slow", 0.2))
    assert checks_of(sami("drive", "robot.toml", "--check"))["handover"] == ("ok", "damp - home - policy - damp")
    assert sami("drive", "robot.toml", "--dry-run", "--set", "evidence=dry.jsonl").code == 0
    assert sami("drive", "robot.toml").code == 0
    stages = [line.split(" step")[0] for line in sami("verify-log", "slow.jsonl").out.splitlines() if "stage" in line]
    assert stages == ["stage none - damp", "stage damp - home", "stage home - policy", "stage policy - damp"]
    robot_file(start.format("fast", 0.05))
    result = sami("drive", "robot.toml")
    reason = "home to policy is refused: velocity: ee_velocity.x is 0.1 m/s, allowed are 0.05"
    assert (result.code, reason in result.errors) == (3, True)
    assert reason in sami("verify-log", "fast.jsonl", "--json").out
    robot_file("[limits]\nrest = 0.0\n[handover]\n")
    assert "[handover] needs limits with rest and blend_in_s" in sami("drive", "robot.toml").errors
