"""`sami check-adapter` and `sami drive`: a robot of the user's own, from a module in the current folder."""

import json
import sys
from pathlib import Path

import pytest

from sami_runtime.recording.reader import read_recording
from tests.making.still_robot import ROBOT, driving

pytestmark = pytest.mark.usefixtures("my_robot")


def test_a_good_adapter_passes_and_nothing_is_written_unless_asked_for(sami, panda):
    result = sami("check-adapter", "my_robot:make", "--model", panda.model)
    assert (result.code, result.err) == (0, "")
    assert "0 of 12 checks failed; nothing was written, --write checks that, too; " in result.prose
    assert "tiny.onnx has no training ranges, so frames and units were not judged" in result.prose
    assert not Path("written.txt").exists()
    result = sami("check-adapter", "my_robot:make", "--model", panda.model, "--write")
    assert (result.code, Path("written.txt").exists()) == (1, False)
    assert "needs the neutral action, which moves nothing, and the limits set no rest. Set rest = 0.0" in result.err
    Path("limits.toml").write_text("rest = 0.0")
    options = ("--write", "--limits", "limits.toml")
    result = sami("check-adapter", "my_robot:make", "--model", panda.model, *options)
    assert "my_robot:make: 0 of 13 checks failed; " in result.prose
    assert Path("written.txt").read_text() == "0.0 0.0 0.0 0.0\n" * 25


def test_a_broken_law_is_told_and_exits_with_4(sami, panda):
    result = sami("check-adapter", "my_robot:wall_clock", "--model", panda.model)
    assert result.code == 4
    assert "BROKEN  stamps observations with the loop's clock" in result.out
    assert "1 of 12 checks failed" in result.out
    result = sami("check-adapter", "my_robot:wall_clock", "--model", panda.model, "--json")
    document = json.loads(result.out)
    assert (result.code, document["broken"], len(document["laws"])) == (4, 1, 12)


def test_numbers_are_judged_by_what_training_saw(sami):
    robot = ("check-adapter", "my_robot:make", "--model", "panda-satesac")
    result = sami(*robot)
    assert result.code == 0
    assert result.prose.endswith("my_robot:make: 0 of 13 checks failed; nothing was written, --write checks that, too")
    assert "note: the episode began elsewhere than those of training" in result.prose
    far = sami("check-adapter", "my_robot:far", "--model", "panda-satesac")
    assert (far.code, "BROKEN  gives numbers like those of training" in far.out) == (4, True)
    assert "gave ee_position.x = 0.7 m, and training saw" in far.prose
    assert "Probably another frame" in far.prose
    assert not Path("written.txt").exists()


def test_a_robot_is_not_moved_for_a_model_that_does_not_tell_what_answers(sami, panda):
    Path("limits.toml").write_text("rest = 0.0")
    result = sami("check-adapter", "my_robot:make", "--model", panda.model, "--excite", "--limits", "limits.toml")
    assert (result.code, Path("written.txt").exists()) == (1, False)
    assert "sami describe FILE measures them, but not for an adopted file: check it without --excite" in result.err


def test_a_robot_is_run_in_real_time_recorded_and_replayed(sami, panda):
    result = sami(*driving(model=panda.model, steps=3), "--record", "r.mcap", "--json")
    assert (result.code, result.errors) == (0, "")
    warnings = result.err.splitlines()
    warned = [line.partition(":")[2].partition(":")[0].strip() for line in warnings]
    assert warned[:3] == ["no watchdog", "no limits", "no neutral action"]
    assert [line.partition(" in '")[0] for line in warned[3:]] == [
        "no training ranges",
        "no in-distribution reference",
    ]
    (row,) = map(json.loads, result.out.splitlines())
    assert (row["steps"], row["return"], sum(row["outcomes"].values())) == (3, None, 3)
    assert len(Path("written.txt").read_text().splitlines()) == 3
    assert Path("stopped.txt").exists()
    recording = read_recording("r.mcap")
    assert recording.about["env"] == "my_robot:make"
    times = [step.record.time for step in recording.steps]
    assert times[2] - times[0] > 0.075
    assert sami("replay", "r.mcap").code == 0


def test_a_robot_in_another_unit_does_not_act_until_its_guard_is_turned_off_by_name(sami):
    Path("mm.py").write_text(
        ROBOT.replace("signal.size, 0.1", "signal.size, 0.1 * (1000 if signal.unit == 'm' else 1)")
    )
    result = sami(*driving("mm:make", steps=40), "--json")
    assert (result.code, Path("written.txt").exists()) == (3, False)
    assert "probably mm: divide cube_position by 1000 (unguarded = ['ranges'])" in result.errors
    refused = sami(*driving("mm:make", unguarded=["range"]))
    assert refused.errors.startswith("sami: unknown guard 'range'. Did you mean 'ranges'? Valid: frozen, ood, ranges.")
    assert (refused.code, Path("written.txt").exists()) == (1, False)
    limits = {"rest": 0.0, "out_of_bounds": "act"}
    result = sami(*driving("mm:make", steps=40, limits=limits, unguarded=["ranges", "ood"]))
    assert (result.code, len(Path("written.txt").read_text().splitlines())) == (0, 40)
    warned = [line.partition(": ")[2].partition(":")[0] for line in result.err.splitlines()]
    assert warned == ["no watchdog"]
    sys.modules.pop("mm", None)


def test_what_a_robot_says_of_success_is_told(sami):
    text = Path("my_robot.py").read_text()
    Path("judge.py").write_text(
        text.replace("Executed(action.copy())", "Executed(action.copy(), True, {'is_success': True})")
    )
    robot = driving("judge:make", episodes=2)
    result = sami(*robot, "--record", "r.mcap")
    assert "2 of 2 episodes succeeded" in result.out
    assert "    1  yes " in result.out
    assert [tuple(episode) for episode in read_recording("r.mcap").episodes.values()] == [("world", True)] * 2
    rows = [json.loads(row) for row in sami(*robot, "--json").out.splitlines()]
    assert [(row["success"], row["ended"]) for row in rows] == [(True, "world")] * 2
    sys.modules.pop("judge", None)


def test_a_dry_run_of_a_robot_never_writes(sami, panda):
    result = sami(*driving(model=panda.model, steps=3), "--dry-run")
    assert (result.code, result.errors) == (0, "")
    assert "3 ticks: " in result.out
    assert not Path("written.txt").exists()


def test_observations_of_a_robot_age(sami, panda):
    result = sami(*driving("my_robot:wall_clock", panda.model, steps=12), "--record", "stale.mcap")
    assert result.code == 3
    assert "s after now by the loop's clock, allowed are 0.12 s (max_age_s). Nothing more is written" in result.err
    assert not Path("written.txt").exists()
    replayed = sami("replay", "stale.mcap")
    assert replayed.code == 1
    assert "there is no step to compare" in replayed.out
    assert "stale.mcap holds no step of the policy, so nothing was checked." in replayed.err


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("my_robot", "the adapter is 'my_robot'; write MODULE:FACTORY, e.g. my_arm:make"),
        ("my_robt:make", "It must be installed, or a .py file in the current folder."),
        ("my_robot.py:make", "Leave out .py: my_robot."),
        ("needs:make", "Install rclpyy, which it needs."),
        ("leaves:make", "leaves of leaves:make cannot be imported: SystemExit: 0. Correct the module."),
        (
            "my_robot:mak",
            "unknown factory 'mak'. Did you mean 'make'? Valid: Dying, Retreat, Still, fails, far, make, ",
        ),
        ("my_robot:fails", "my_robot:fails(clock) failed: OSError: no such bus: can0 (my_robot.py, line "),
        ("my_robot:unfinished", "made a object, which lacks observation, action, reset, read, write, stop, close."),
    ],
)
@pytest.mark.parametrize("command", ["check-adapter", "drive"])
def test_an_adapter_that_cannot_be_made_is_refused(sami, panda, command, adapter, message):
    words = driving(adapter, panda.model) if command == "drive" else (command, adapter, "--model", panda.model)
    result = sami(*words)
    assert result.code == 1
    assert result.err.startswith("sami: ")
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_a_factory_is_given_settings_and_the_models_contract_if_it_takes_them(sami):
    model = ("--model", "panda-satesac")
    Path("arm.toml").write_text("offset = 0.0")
    for factory in ("my_robot:settled", "my_robot:preset"):
        assert sami("check-adapter", factory, *model, "--adapter-config", "arm.toml").code == 0
        assert sami(*driving(factory, steps=2, settings="arm.toml")).code == 0
    assert sami(*driving("my_robot:preset", steps=2)).code == 0
    Path("late.toml").write_text("offset = -1.0")
    result = sami("check-adapter", "my_robot:settled", *model, "--adapter-config", "late.toml")
    assert (result.code, "BROKEN  stamps observations with the loop's clock" in result.out) == (4, True)
    for factory, settings, message in (
        ("my_robot:settled", None, "my_robot:settled needs settings (config), but none were given."),
        ("my_robot:make", "arm.toml", "my_robot:make takes no settings, but some were given."),
        ("my_robot:settled", "no.toml", "no.toml cannot be read: No such file or directory."),
    ):
        options = ("--adapter-config", settings) if settings else ()
        for words in (("check-adapter", factory, *model, *options), driving(factory, settings=settings)):
            result = sami(*words)
            assert (result.code, message in result.err) == (1, True), result.err


def test_a_fallback_of_the_users_own_drives_a_robot_whose_sensors_die(sami):
    limits = {"rest": 0.0, "stop_after": 8, "hold_ticks": 2, "max_age_s": 0.9}
    robot = driving("my_robot:Dying", limits=limits, fallback="my_robot:Retreat", steps=30)
    result = sami(*robot, "--record", "r.mcap")
    assert result.code == 3
    assert "no new action at 8 ticks in a row (stop_after)" in result.err
    # Four ticks acted, two held, five driven by the fallback; nothing is written at the eighth without the policy.
    assert Path("written.txt").read_text().splitlines()[6:] == ["0.25 0.0 0.0 0.0"] * 5
    assert "5 fallback" in result.out
    assert Path("retreat.txt").read_text() == "contract\n"
    assert read_recording("r.mcap").about["fallback"] == "Retreat"
    assert sami("replay", "r.mcap").code == 0
    result = sami(*robot, "--set", "fallback=my_robot:make")
    assert "made a Still, which lacks act. A fallback has reset, act; see docs/how-to/intervene.md" in result.err


def test_a_robot_is_written_to_more_often_than_the_policy_is_asked(sami):
    (row,) = map(json.loads, sami(*driving(steps=3, loop_hz=100), "--json").out.splitlines())
    outcomes = row["outcomes"]
    # Up to three ticks of the robot stand between two of the policy; a busy machine misses some of them.
    assert outcomes["acted"] == 3
    assert 3 <= outcomes["standing"] <= 9
    lines = Path("written.txt").read_text().splitlines()
    assert len(lines) == outcomes["acted"] + outcomes["standing"]
    assert (row["ended"], row["success"]) == ("steps", None)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("loop_hz=100", "loop_hz=100 is for robots, which `sami drive robot.toml` drives; leave it out."),
        ("adapter=my_robot:make", "adapter=my_robot:make is for robots"),
        ("settings=arm.toml", "settings={} is for robots"),
        ("fallback=my_robot:Retreat", "fallback=my_robot:Retreat is for robots"),
        ("unguarded=ood", "unguarded=ood is for robots"),
        ("slower=3", "slower=3 is for robots"),
        ("watchdog_s=0.5", "watchdog_s=0.5 is for robots"),
        ("emergency_stop=a:b", "emergency_stop=a:b is for robots"),
    ],
)
def test_keys_of_robots_are_refused_in_a_simulator(sami, key, message):
    Path("arm.toml").write_text("")
    result = sami("run", "--env", "panda", "--set", key)
    assert (result.code, result.out) == (1, "")
    assert message in result.err


def test_a_gap_that_would_write_what_no_gate_allowed_is_refused_on_a_robot(sami, panda):
    robot = driving(model=panda.model, steps=2, gap="gap.toml")
    Path("gap.toml").write_text("action_latency_s = 0.1")
    result = sami(*robot)
    assert (result.code, result.out) == (1, "")
    assert "write actions that the gate did not allow" in result.err
    Path("gap.toml").write_text("noise = 0.01")
    assert sami(*robot).code == 0


def test_a_robot_is_driven_more_slowly(sami, panda):
    result = sami(*driving(model=panda.model, steps=3, slower=3), "--json")
    assert result.code == 0
    assert json.loads(result.out.splitlines()[0])["steps"] == 3


STOPPABLE = """

def emergency_stop():
    return lambda: open("emergency.txt", "a").close()
"""


def test_a_watchdog_watches_over_a_robot_that_offers_an_emergency_stop(sami, panda):
    robot = driving(model=panda.model, steps=3, watchdog_s=0.5)
    Path("my_robot.py").write_text(ROBOT + "\n\ndef halt(port=1):\n    return print\n")
    result = sami(*robot)
    assert (result.code, result.out) == (1, "")
    assert "the watchdog could not stop the robot, so nothing was moved: unknown factory 'emergency_stop'" in result.err
    assert "Valid: halt. my_robot does not have it; e.g. my_arm:emergency_stop for emergency_stop()" in result.err
    assert not Path("written.txt").exists()
    Path("my_robot.py").write_text(ROBOT + STOPPABLE)
    result = sami(*robot)
    assert (result.code, result.errors) == (0, "")
    assert not Path("emergency.txt").exists()
    assert "Set a longer time, such as three periods, 0.12 s." in sami(*robot, "--set", "watchdog_s=0.02").err
    Path("brakes.py").write_text(STOPPABLE)
    assert sami(*robot, "--set", "emergency_stop=brakes:emergency_stop").code == 0
