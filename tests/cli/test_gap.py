"""`--gap` and `sami robustness`, as a user calls them, with a model that hardly learnt."""

import json
import shutil
from pathlib import Path

import pytest
from sami_cli.commands.robustness import robustness

from sami_runtime.gap.profile import GapProfile
from sami_train.evaluation.intervals import interval_of
from sami_train.evaluation.results import Evaluation
from sami_train.evaluation.robustness import kinds

ROOT = Path(__file__).parents[2]
HARSH = "latency_s = [0.0, 0.08]\nnoise = { cube_position = 0.05 }\nactuator_lag_s = 0.1\n"


@pytest.fixture
def gap(tmp_path):
    path = tmp_path / "gap.toml"
    path.write_text(HARSH)
    return path


def lines(result):
    assert (result.code, result.err) == (0, "")
    # How long a step took is not what the gap decides.
    return [{k: v for k, v in json.loads(line).items() if k != "infer_us"} for line in result.out.splitlines()]


def test_run_with_a_profile_is_repeated_by_its_seed(sami, panda, gap):
    options = ("run", "--model", panda.model, "--episodes", 2, "--set", "steps=8", "--json")
    first, again, other = (sami(*options, "--gap", gap, "--seed", seed) for seed in (3, 3, 4))
    assert lines(first) == lines(again) != lines(other)
    assert lines(first) != lines(sami(*options, "--seed", 3))
    assert lines(sami(*options, "--seed", 3, "--gap", "modest")) != lines(first)


def test_a_recording_tells_the_gap_and_replays(sami, panda, gap):
    result = sami(
        "run", "--model", panda.model, "--episodes", 1, "--set", "steps=8", "--gap", gap, "--record", "run.mcap"
    )
    assert result.code == 0
    replayed = sami("replay", "run.mcap", "--json")
    assert replayed.code == 0
    assert json.loads(replayed.out)["about"]["gap"] == GapProfile.load(gap).to_dict()


def test_with_a_profile_observations_age_as_on_a_robot(sami, panda, tmp_path):
    (tmp_path / "late.toml").write_text("latency_s = 0.4")
    result = sami("run", "--model", panda.model, "--episodes", 1, "--gap", tmp_path / "late.toml")
    assert result.code == 3
    assert "age: the observation was measured" in result.err


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--model", "MODEL"),
        ("eval", "--model", "MODEL"),
        ("train", "--out", "run"),
    ],
)
def test_a_bad_gap_is_refused_before_anything_begins(sami, panda, tmp_path, command):
    (tmp_path / "bad.toml").write_text("dropout = 1.5")
    words = [panda.model if word == "MODEL" else word for word in command]
    result = sami(*words, "--gap", tmp_path / "bad.toml")
    assert (result.code, result.out) == (1, "")
    assert "bad.toml: dropout is 1.5; it must be a number from 0 to 1, or a range [low, high]" in result.err
    (tmp_path / "bad.toml").write_text("noise = { cube = 0.1 }")
    result = sami(*words, "--gap", tmp_path / "bad.toml")
    assert (result.code, result.out) == (1, "")
    assert "unknown observation signal 'cube'." in result.err


def test_evaluation_with_a_profile_says_so_and_leaves_the_runs_own_alone(sami, run_copy, gap, short_panda):
    before = (run_copy / "evaluation.json").read_text()
    result = sami("eval", "--run", run_copy, "--gap", gap, "--episodes", 1, "--on", 1, "--json")
    assert result.code == 0
    assert GapProfile.loads(json.loads(result.out)["gap"]) == GapProfile.load(gap)
    assert (run_copy / "evaluation.json").read_text() == before


def test_robustness_measures_each_severity_from_the_same_starts(sami, panda, tmp_path, short_panda):
    options = (panda.model, "--gap", "actuator lag", "--episodes", 1, "--on", 1, "--out", "told")
    result = sami("robustness", *options)
    assert result.code == 0, result.err
    assert "wrote told/robustness.png" in result.out
    document = json.loads((tmp_path / "here" / "told" / "robustness.json").read_text())
    points = document["points"]
    assert [(point["kind"], point["severity"]) for point in points] == [
        ("", 0.0),
        *(("actuator lag", s) for s in (0.02, 0.04, 0.08, 0.16)),
    ]
    assert points[1]["gap"] == {"actuator_lag_s": 0.02, "same_as": {"achieved_goal": "cube_position"}}
    assert {point["sets"]["training"]["episodes"] for point in points} == {2}
    assert len({json.dumps([task["solved_at_start"] for task in point["tasks"]]) for point in points}) == 1
    assert "robustness.json exists" in sami("robustness", *options).err
    refused = sami("robustness", *options[:-1], "told/robustness.json")
    assert (refused.code, refused.out) == (1, "")
    assert "told/robustness.json is no folder." in refused.err


def test_an_unknown_kind_of_gap_is_refused(sami, panda):
    result = sami("robustness", panda.model, "--gap", "latensy")
    assert (result.code, result.out) == (1, "")
    assert "unknown kind of disturbance 'latensy'. Did you mean 'latency'?" in result.err


@pytest.mark.parametrize("content", ["{}", '{"env": "panda", "points": []}'])
def test_another_file_than_a_measurement_is_refused_by_its_name(sami, content):
    Path("evaluation.json").write_text(content)
    result = sami("robustness", "evaluation.json")
    assert (result.code, result.out) == (1, "")
    assert "evaluation.json has no points; give what sami robustness wrote" in result.err


@pytest.mark.parametrize("folder", ["panda-robustness", "panda-robustness-others"])
def test_the_tables_of_the_docs_are_what_is_printed_of_the_raw_results(sami, folder):
    result = sami("robustness", ROOT / "results" / folder)
    assert result.code == 0
    page = (ROOT / "docs" / "results" / "robustness.md").read_text()
    assert f"sami robustness results/{folder}\n\n{result.out}" in page


def test_what_the_docs_say_of_training_with_delays_is_what_is_printed_of_its_raw_results(sami):
    page = (ROOT / "docs" / "results" / "trained-with-a-profile.md").read_text()
    folder, result = Path("results") / "panda-200k-latency", {}
    for name in ("trained-behind-delays", "trained-without"):
        outcome = sami("robustness", ROOT / folder / f"{name}.json")
        assert f"sami robustness {folder}/{name}.json" in page
        rows = [line.split(" | ") for line in outcome.out.splitlines()[2:]]
        result[name] = [[cell.strip(" |").split(", ") for cell in row[2:]] for row in rows]
    cells = [[value for row in rows for value in row[at]] for at in (0, 1) for rows in result.values()]
    for row in zip(*cells, strict=True):
        assert f"| {' | '.join(row)} |" in page


def test_a_profile_is_measured_as_a_whole_and_key_by_key_and_read_again(sami, panda, gap, short_panda):
    result = sami("robustness", panda.model, "--gap", gap, "--episodes", 2, "--on", 1, "--out", "told", "--json")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    kinds = ["", "the whole gap", "actuator_lag_s alone", "latency_s alone", "noise alone"]
    assert [point["kind"] for point in document["points"]] == kinds
    report = document["points"][1]["sets"]["training"]
    assert (report["episodes"], report["starts"], len(report["interval"])) == (4, 2, 2)
    assert json.loads(sami("robustness", "told", "--json").out) == document
    assert "training (4 episodes a point, 2 starts)" in sami("robustness", "told").out


def test_kinds_of_disturbance_in_the_help_are_ones_that_the_command_takes():
    listed = robustness.__doc__.partition("with ")[2].partition(", ...")[0]
    assert [kind.name for kind in kinds(listed.split(", "))] == listed.split(", ")


def test_robustness_wants_a_model_or_what_was_measured(sami):
    assert sami("robustness").code == 2
    result = sami("robustness", "told")
    assert (result.code, result.out) == (1, "")
    assert "unknown model 'told'" in result.err


@pytest.fixture
def recorded(sami, panda, tmp_path):
    """A recording of an excited Panda with a sim-to-real profile, in the folder where `sami` is called."""
    profile = tmp_path / "behind.toml"
    profile.write_text("latency_s = 0.04\naction_latency_s = 0.08\nnoise = { cube_position = 0.003 }\n")
    options = ("--set", "excite=true", "--episodes", 4, "--gap", profile, "--record", "run.mcap", "--json")
    result = sami("run", "--model", panda.model, *options)
    assert result.code == 0, result.err
    return "run.mcap"


def test_an_excited_recording_tells_the_gap_and_the_profile_serves_where_profiles_do(sami, panda, recorded):
    result = sami("fit-gap", recorded, "--out", "gap.toml")
    assert result.code == 0, result.err
    assert "wrote gap.toml" in result.out
    document = GapProfile.load("gap.toml")
    assert (document.latency_s, document.action_latency_s, document.dropout) == (0.04, 0.08, 0.0)
    low, high = document.noise["cube_position"]
    assert low < 0.003 < high
    assert set(document.noise) == {"cube_position"}
    assert "gap.toml exists; choose another name" in sami("fit-gap", recorded, "--out", "gap.toml").err
    result = sami("eval", "--model", panda.model, "--gap", "gap.toml", "--tasks", "training", "--episodes", 1, "--json")
    assert GapProfile.loads(json.loads(result.out)["gap"]) == document
    for reference in (recorded, shutil.copy(recorded, "copy.mcap")):  # the robot's own noise would be the reference's
        refused = sami("fit-gap", recorded, "--reference", reference, "--json")
        assert (refused.code, refused.out) == (1, "")
        assert "--reference is a recording of the robot itself; give one of the simulator" in refused.err
    assert sami("replay", recorded).code == 0


def test_a_recording_of_a_robot_that_rests_is_refused(sami, panda, tmp_path):
    (tmp_path / "still.toml").write_text("rest = 0.0\nlow = 0.0\nhigh = 0.0\n")
    options = ("--episodes", 1, "--set", f"limits={tmp_path / 'still.toml'}", "--record", "still.mcap")
    assert sami("run", "--model", panda.model, *options).code == 0
    result = sami("fit-gap", "still.mcap", "--out", "gap.toml")
    assert (result.code, result.out) == (1, "")
    assert "still.mcap excites nothing: dx, dy, dz and gripper hardly change. Record one in which" in result.err


def test_a_known_value_zeroes_a_bias_in_each_episode(sami, panda, tmp_path):
    (tmp_path / "bias.toml").write_text("bias = { ee_position = [-0.02, 0.02] }")
    options = ("--episodes", 2, "--set", "steps=4", "--gap", tmp_path / "bias.toml", "--json")
    report = lines(
        sami("run", "--model", panda.model, "--set", f"limits={ROOT / 'examples' / 'calibrated.toml'}", *options)
    )
    offsets = [row["zeroed"]["ee_position.z"] for row in report]
    assert all(0 < abs(offset) <= 0.0201 for offset in offsets)
    assert offsets[0] != offsets[1]


def test_what_the_docs_say_of_a_calibration_is_what_its_raw_results_say():
    page = " ".join((ROOT / "docs" / "how-to" / "calibrate.md").read_text().split())
    shares = {}
    for name in ("zeroed", "none"):
        raw = (ROOT / "results" / "panda-zeroing" / f"{name}.jsonl").read_text().splitlines()
        shares[name] = [json.loads(line)["success"] for line in raw]
    assert {len(share) for share in shares.values()} == {420}
    zeroed, unaided = (sum(share) / len(share) for share in shares.values())
    assert f"from {unaided:.2f} (0.74 to 0.82) to **{zeroed:.2f}** (0.85 to 0.91)" in page
    first, second = sum(shares["zeroed"][:120]) / 120, sum(shares["zeroed"][120:]) / 300
    assert f"The first 120 alone give {first:.2f}, the others {second:.2f}." in page


def test_what_the_docs_say_of_a_gap_that_was_found_again_is_what_its_raw_results_say():
    page = " ".join((ROOT / "docs" / "how-to" / "fit-a-profile.md").read_text().split())
    folder, reports = ROOT / "results" / "panda-fit-gap", []
    for name, gap in (("true", ROOT / "examples" / "gap.toml"), ("fitted", folder / "gap.toml")):
        evaluation = Evaluation.from_dict(json.loads((folder / f"{name}.json").read_text()))
        assert evaluation.gap == GapProfile.load(gap)
        low, high = interval_of(evaluation, "training")
        reports.append(f"{evaluation.success('training'):.2f} ({low:.2f} to {high:.2f})")
    assert (
        f"succeeds in {reports[0]} of 180 episodes, with the one fitted to 12 excited episodes in {reports[1]}" in page
    )
    low, high = GapProfile.load(folder / "gap.toml").actuator_lag_s
    assert f"it has an actuator lag of {low:g} to {high:g} s, which `sami fit-gap` now reports as a note" in page
