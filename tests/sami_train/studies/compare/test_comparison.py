"""Which runs are compared, how they are grouped and paired, and what a reader is warned of."""

import json
from pathlib import Path

import numpy as np
import pytest

from sami_runtime.errors import UnknownName
from sami_train import seeds
from sami_train.config.methods import METHODS
from sami_train.evaluation.results import Evaluation
from sami_train.files import read_json, write_json
from sami_train.runs.folder import RunFolder
from sami_train.runs.record import RunRecord
from sami_train.studies.charts.chart import colour_of
from sami_train.studies.compare import estimates
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.groups import ComparisonError, EvaluatedRun, group_runs, read_runs
from sami_train.studies.compare.tables import as_data, contests_table, standings_table, tables
from sami_train.studies.report.subject import Subject
from tests.making.made_runs import STEPS, made_run


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(estimates, "REPLICATES", 100)


def compared(*paths, by=None):
    return MethodComparison(read_runs(paths), by)


def labels(*paths, by=None):
    return [group.label for group in compared(*paths, by=by).groups]


def seeds_of(folder, method, seeds=3, **options):
    for seed in range(seeds):
        name = "-".join([method, *map(str, options.values()), str(seed)]).replace("<", "").replace(">", "")
        made_run(folder / name, method, seed, **{"success": 0.8 + 0.02 * seed, **options})


# --- groups


def test_seeds_of_a_method_are_one_group_and_methods_stand_in_the_papers_order(tmp_path):
    for method in ("saccm", "satesac", "ccm", "tesac", "pearl"):
        seeds_of(tmp_path, method, seeds=2)
    groups = compared(tmp_path).groups
    assert [group.label for group in groups] == ["PEARL", "TESAC", "CCM", "SaTESAC", "SaCCM"]
    assert [group.seeds for group in groups] == [[0, 1]] * 5


def test_a_student_is_a_group_of_its_own_and_no_run_of_the_papers_method(tmp_path):
    for seed in (0, 1):
        made_run(tmp_path / f"a{seed}", "tesac", seed)
        made_run(tmp_path / f"b{seed}", "satesac", seed)
        made_run(tmp_path / f"s{seed}", "tesac", seed)
        RunFolder.open(tmp_path / f"s{seed}").update(title="Student")
    comparison = compared(tmp_path)
    assert [group.label for group in comparison.groups] == ["TESAC", "Student", "SaTESAC"]
    assert {contest.y.label for contest in comparison.contests} == {"TESAC"}
    assert colour_of(comparison.groups[1].method) not in {colour_of(method) for method in METHODS.values()}
    record = RunRecord.of_folder(tmp_path / "s0")
    assert record.method.title == Subject.of_run(record).method == "Student"
    assert record.method is record.method, "read once"


def test_a_key_enters_a_label_where_its_method_varies_it_and_nowhere_else(tmp_path):
    for trajectories in (64, 8, 256):
        made_run(tmp_path / f"a{trajectories}", "satesac", contrast__trajectories=trajectories)
    made_run(tmp_path / "b", "tesac", contrast__trajectories=64, contrast__every=2)
    made_run(tmp_path / "c", "tesac", seed=1, contrast__trajectories=64, contrast__every=2)
    assert labels(tmp_path) == [
        "TESAC",
        "SaTESAC trajectories=8",
        "SaTESAC trajectories=64",
        "SaTESAC trajectories=256",
    ]
    assert compared(tmp_path / "a8", tmp_path / "a64").groups[0].settings == {"contrast.trajectories": 8}


def test_every_key_that_varies_parts_runs(tmp_path):
    made_run(tmp_path / "a", learning__train_every=16, contrast__every=4)
    made_run(tmp_path / "b", learning__train_every=16, contrast__every=8)
    made_run(tmp_path / "c", learning__train_every=32, contrast__every=8, contrast__temperature=0.2)
    assert labels(tmp_path) == [
        "SaTESAC train_every=16 temperature=0.1 every=4",
        "SaTESAC train_every=16 temperature=0.1 every=8",
        "SaTESAC train_every=32 temperature=0.2 every=8",
    ]


def test_keys_of_one_name_are_told_apart_by_their_section():
    evaluation = Evaluation("panda", ())
    record = RunRecord(Path("run"), None, {"method": "ccm"}, {}, None, [])
    runs = [
        EvaluatedRun(record, {"method": "ccm", "seed": 0, "one.every": first, "two.every": second}, evaluation, 1)
        for first, second in ((1, 2), (2, 1))
    ]
    assert [group.label for group in group_runs(runs)] == ["CCM one.every=1 two.every=2", "CCM one.every=2 two.every=1"]


def test_what_follows_from_a_preset_is_named_by_the_preset(tmp_path):
    made_run(tmp_path / "fast")
    made_run(tmp_path / "slow")
    config = read_json(tmp_path / "slow" / "config.json")
    config["preset"], config["learning"]["discount"], config["contrast"]["every"] = "paper", 0.9, 1
    write_json(tmp_path / "slow" / "config.json", config)
    assert labels(tmp_path) == ["SaTESAC preset=fast-cpu", "SaTESAC preset=paper"]
    made_run(tmp_path / "third", contrast__every=2)
    assert labels(tmp_path) == [
        "SaTESAC preset=fast-cpu every=2",
        f"SaTESAC preset=fast-cpu every={read_json(tmp_path / 'fast' / 'config.json')['contrast']['every']}",
        "SaTESAC preset=paper every=1",
    ]


def test_a_difference_between_methods_that_no_label_shows_is_told(tmp_path):
    seeds_of(tmp_path, "satesac", learning__discount=0.9)
    seeds_of(tmp_path, "tesac", learning__discount=0.95)
    comparison = compared(tmp_path)
    assert [group.label for group in comparison.groups] == ["TESAC", "SaTESAC"]
    assert "Methods also differ in learning.discount: TESAC 0.95, SaTESAC 0.9." in comparison.cautions()


def test_a_key_that_one_method_varies_and_another_does_not_is_a_difference_between_them(tmp_path):
    made_run(tmp_path / "a", "tesac", learning__discount=0.95, exploration__random_action=0.1)
    for value in (0.9, 0.95):
        made_run(tmp_path / f"b{value}", "satesac", learning__discount=value, contrast__temperature=value)
        made_run(tmp_path / f"c{value}", "saccm", learning__discount=value, exploration__random_action=value)
    differing = [caution for caution in compared(tmp_path).cautions() if "also differ" in caution]
    text = "TESAC 0.1, SaTESAC 0.2, SaCCM 0.9 and 0.95."
    assert (
        differing[0]
        == "Methods also differ in learning.discount: TESAC 0.95, SaTESAC 0.9 and 0.95, SaCCM 0.9 and 0.95."
    )
    assert differing[1] == "Methods also differ in contrast.temperature: SaTESAC 0.9 and 0.95, SaCCM 0.1."
    assert differing[2] == f"Methods also differ in exploration.random_action: {text}"
    assert len(differing) == 3


def test_what_both_methods_vary_or_a_preset_does_is_no_caution(tmp_path):
    for value in (0.9, 0.95):
        for name in ("tesac", "satesac"):
            made_run(tmp_path / f"{name}{value}", name, learning__discount=value)
    assert not [caution for caution in compared(tmp_path).cautions() if "also differ" in caution]
    config = read_json(tmp_path / "tesac0.9" / "config.json")
    config["preset"], config["collection"]["envs"] = "paper", 9
    write_json(tmp_path / "tesac0.9" / "config.json", config)
    differing = [caution for caution in compared(tmp_path).cautions() if "also differ" in caution]
    assert differing == ["Methods also differ in preset: TESAC fast-cpu and paper, SaTESAC fast-cpu."]


def test_what_a_method_does_not_read_makes_no_difference(tmp_path):
    seeds_of(tmp_path, "satesac", contrast__patience=0)
    seeds_of(tmp_path, "tesac", contrast__patience=500)
    assert not [caution for caution in compared(tmp_path).cautions() if "also differ" in caution]


def test_the_order_of_arguments_and_naming_a_run_twice_change_no_number(tmp_path):
    rng = np.random.default_rng(0)
    paths = [
        made_run(tmp_path / f"{method}{seed}", method, seed, success=lambda *_: rng.integers(50, 100) / 100)
        for method in ("tesac", "satesac")
        for seed in (0, 1, 2)
    ]
    expected = as_data(compared(*paths))
    assert as_data(compared(*reversed(paths))) == expected
    assert as_data(compared(tmp_path, paths[4], paths[0])) == expected
    runs = read_runs(paths)
    assert as_data(MethodComparison(runs[::-1])) == expected


# --- numbers


def test_tables_show_the_mean_over_seeds_without_trivial_starts_and_the_paper(tmp_path):
    for seed, success in enumerate((0.70, 0.80, 0.90)):
        made_run(tmp_path / str(seed), "satesac", seed, success=success, floor=0.2)
    table = standings_table(compared(tmp_path), "extreme")
    assert table.title == "extreme: success, 8 tasks, 100 episodes per task"
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["group"], row["seeds"], row["mean ± std"]) == ("SaTESAC", "3", "0.800 ± 0.100")
    assert row["mean [95 % t]"] == "[0.552, 1.000]"
    assert row["IQM [95 % bootstrap]"].startswith("0.800 [0.7")
    assert (row["excluding trivial starts"], row["paper"]) == ("0.750", "0.37 ± 0.34")


def test_pairs_are_those_of_the_paper_with_their_difference_and_p(tmp_path):
    for seed, (success, baseline) in enumerate(((0.60, 0.55), (0.58, 0.56), (0.65, 0.57))):
        made_run(tmp_path / f"a{seed}", "satesac", seed, success=success)
        made_run(tmp_path / f"b{seed}", "tesac", seed, success=baseline)
        made_run(tmp_path / f"c{seed}", "pearl", seed, success=0.3)
    comparison = compared(tmp_path)
    table = contests_table(comparison)
    assert {row[0] for row in table.rows} == {"SaTESAC - TESAC"}
    assert [row[1] for row in table.rows] == ["training", "moderate", "extreme"]
    # Three tests of the same numbers: Holm triples the p of each.
    assert table.rows[2][2:6] == ("3", "+0.050 [-0.025, 0.125]", "0.102 (0.31)", "0.13 (0.39)")
    assert table.rows[2][7] == "0.00131"
    assert "3 seeds: p < 0.05 needs a mean difference of 2.48 times its deviation" in table.notes[1]
    assert "smallest p 0.25" in table.notes[1]
    further = {(contest.x.label, contest.y.label) for contest in comparison.other_contests}
    assert further == {("TESAC", "PEARL"), ("SaTESAC", "PEARL")}
    assert all(contest.improvement.value == 1.0 for contest in comparison.other_contests)


def test_a_ranking_is_compared_with_its_shuffled_labels_and_all_tests_are_corrected_together(tmp_path):
    for seed, (value, chance) in enumerate(((0.60, 0.55), (0.58, 0.56), (0.65, 0.57))):
        made_run(tmp_path / f"a{seed}", "satesac", seed, success=value)
        made_run(tmp_path / f"b{seed}", "satesac", seed, success=chance, contrast__ranking="shuffled")
        made_run(tmp_path / f"c{seed}", "satesac", seed, success=chance, contrast__ranking="recency")
        made_run(tmp_path / f"d{seed}", "tesac", seed, success=chance)
    comparison = compared(tmp_path)
    table = contests_table(comparison)
    value = "SaTESAC ranking=return"
    assert [row[0] for row in table.rows[-6::3]] == [
        f"{value} - SaTESAC ranking={name}" for name in ("recency", "shuffled")
    ]
    assert len(table.rows) == 3 * (3 + 2)
    pairs = [(pair["x"], pair["y"], pair["task_set"]) for pair in as_data(comparison)["contests"]]
    assert len(set(pairs)) == len(pairs) == 3 * 6, "each pair of four groups once on each set"
    assert sum(pair["against_a_placebo"] for pair in as_data(comparison)["contests"]) == 3 * 2
    assert "corrected for the 9 tests here" in table.notes[0]  # shuffled labels and TESAC are equal: nothing to test
    assert table.rows[-1][3].startswith("+0.050 ")


def test_groups_pair_where_they_agree_in_what_both_methods_vary(tmp_path):
    for value in (8, 16):
        made_run(tmp_path / f"ccm{value}", "ccm", contrast__trajectories=value)
        made_run(tmp_path / f"saccm{value}", "saccm", contrast__trajectories=value)
        made_run(tmp_path / f"satesac{value}", "satesac", contrast__trajectories=value)
    made_run(tmp_path / "tesac", "tesac")
    pairs = {(contest.x.label, contest.y.label) for contest in compared(tmp_path).contests}
    assert pairs == {
        ("SaTESAC trajectories=8", "TESAC"),
        ("SaTESAC trajectories=16", "TESAC"),
        ("SaCCM trajectories=8", "CCM trajectories=8"),
        ("SaCCM trajectories=16", "CCM trajectories=16"),
    }


def test_a_curve_is_what_the_metrics_say_up_to_a_line_that_was_cut_off(tmp_path):
    path = made_run(tmp_path / "a")
    with RunFolder(path).metrics.open("a") as file:
        file.write(json.dumps({"step": STEPS, "rollout/success": 0.5}) + "\n" + json.dumps({"step": STEPS + 1}) + "\n{")
    steps, success = read_runs([path])[0].curve()
    assert steps[[0, -1]].tolist() == [STEPS // 10, STEPS]
    assert success[[0, -1]].tolist() == [0.1, 0.5]


# --- by a key


def test_by_a_key_orders_groups_by_it(tmp_path):
    for value in (64, 8):
        for method in ("satesac", "ccm"):
            made_run(tmp_path / f"{method}{value}", method, contrast__trajectories=value)
    assert labels(tmp_path, by="contrast.trajectories") == [
        "CCM trajectories=8",
        "SaTESAC trajectories=8",
        "CCM trajectories=64",
        "SaTESAC trajectories=64",
    ]


def test_by_a_former_key_means_the_present_one(tmp_path):
    for value in (3, 0):
        made_run(tmp_path / f"a{value}", "satesac", with_profile__critic_actions=value)
    for key in ("behind_gap.critic_actions", "with_profile.critic_actions"):
        assert labels(tmp_path, by=key) == ["SaTESAC critic_actions=0", "SaTESAC critic_actions=3"]
        assert compared(tmp_path, by=key).by == "with_profile.critic_actions"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("contrast.trajectoris", "unknown config key 'contrast.trajectoris'. Did you mean 'contrast.trajectories'?"),
        ("contrast.temperature", "--by contrast.temperature: no method's runs differ in it (found 0.1); give runs"),
        ("seed", "--by seed: seeds are averaged over and methods are the lines; name another key."),
    ],
)
def test_a_key_that_no_curve_can_be_drawn_against_is_refused(tmp_path, key, message):
    seeds_of(tmp_path, "satesac")
    with pytest.raises((ComparisonError, UnknownName)) as caught:
        compared(tmp_path, by=key)
    assert message in str(caught.value)


# --- cautions


def test_equal_runs_of_three_seeds_need_no_caution(tmp_path):
    seeds_of(tmp_path, "tesac")
    seeds_of(tmp_path, "satesac")
    assert compared(tmp_path).cautions() == []


def test_unequal_budgets_are_said_in_every_table_and_in_the_data(tmp_path):
    seeds_of(tmp_path, "tesac", steps=STEPS)
    seeds_of(tmp_path, "satesac", steps=STEPS // 2)
    comparison = compared(tmp_path)
    assert comparison.cautions()[0].startswith("UNEQUAL BUDGETS, so this is no comparison of methods.")
    assert "TESAC 550,000, SaTESAC 275,000" in comparison.cautions()[0]
    *standings, contests = tables(comparison)
    assert all("UNEQUAL BUDGETS" in table.title for table in standings)
    assert [row[2] for row in standings[0].rows] == ["550,000", "275,000"]
    assert all("UNEQUAL BUDGET" in row[0] for row in contests.rows)
    assert not as_data(comparison)["equal_budget"]


def test_a_grid_over_budgets_is_compared_within_each_budget(tmp_path):
    for steps in (100_000, 200_000):
        for method in ("tesac", "satesac"):
            run = RunFolder(made_run(tmp_path / f"{method}{steps}", method, steps=steps + 100))
            write_json(run.path / "config.json", read_json(run.path / "config.json") | {"steps": steps})
    comparison = compared(tmp_path, by="steps")
    assert as_data(comparison)["equal_budget"]
    assert [contest.x.label for contest in comparison.contests[::3]] == ["SaTESAC steps=100k", "SaTESAC steps=200k"]
    assert all(contest.equal_budget for contest in comparison.contests)


def test_what_a_reader_must_know_is_said(tmp_path):
    made_run(tmp_path / "a", "satesac", 0)
    made_run(tmp_path / "b", "tesac", 1, floor=0.1)
    RunFolder(tmp_path / "b").update(state="stopped", updates=100, git={"commit": "d" * 40, "dirty": True})
    text = "\n".join(compared(tmp_path).cautions())
    for part in (
        f"Not trained to the end: {tmp_path / 'b'}.",
        "One seed only, so neither deviation nor interval: TESAC, SaTESAC.",
        "Groups have different seeds: TESAC 1, SaTESAC 0.",
        "Evaluation episodes did not start alike",
        "Runs were trained by 2 states of the code: cccccccccc, dddddddddd with changes.",
        "Unequal updates for equal environment steps: TESAC 100, SaTESAC 34,375.",
    ):
        assert part in text
    assert "0 common seeds: nothing can be tested." in contests_table(compared(tmp_path)).notes


def test_runs_that_were_evaluated_by_different_seeds_are_not_compared(tmp_path):
    first, second = (made_run(tmp_path / name, seed=seed) for seed, name in enumerate("ab"))
    notes = " ".join(note for table in tables(compared(first, second)) for note in table.notes)
    assert "starts: of the development seed" in notes
    path = RunFolder(second).evaluation
    write_json(path, read_json(path) | {"seed": seeds.FINAL})
    with pytest.raises(ComparisonError, match=r"by the development seed, .*b by the final seed; evaluate all"):
        read_runs([first, second])
