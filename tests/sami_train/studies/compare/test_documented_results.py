"""What the docs quote of runs can be printed again from what git holds."""

import importlib
import json
import re
import runpy
import shlex
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
import torch

from sami_runtime.model.artifact import read_artifact
from sami_train.config.methods import METHODS
from sami_train.envs.catalog import environment
from sami_train.evaluation.intervals import interval_over_starts, scores_of_starts
from sami_train.evaluation.paper import SETS, reported
from sami_train.evaluation.results import Evaluation
from sami_train.studies.compare import estimates
from sami_train.studies.compare.comparison import MethodComparison
from sami_train.studies.compare.groups import read_runs
from sami_train.studies.compare.tables import standings_table
from sami_train.studies.contexts.largest_bound import HELD_OUT_EVERY
from sami_train.studies.sweep.study import find_runs, read_study

ROOT = Path(__file__).parents[4]
MODELS = sorted((ROOT / "models").glob("*.onnx"))
PAGES = [ROOT / "README.md", ROOT / "results" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"sami compare '?results/(?!mine)[^`\n]*")
"""`results/mine` is the reader's own, in examples."""
NOT_MUJOCO = ("panda", "go2", "so101")
"""Environments of shipped models that are none of the paper's ten MuJoCo robots."""

LIGHTER_AND_CONTROL = ("mass=1:0.4,damping=1@300", "mass=1:1,damping=1@300")


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(estimates, "REPLICATES", 2)


def compared(command):
    """The comparison that a command of the docs makes."""
    words = shlex.split(command)[2:]
    by = words[words.index("--by") + 1] if "--by" in words else None
    paths = [word for word in words if word.startswith("results/") and words[words.index(word) - 1] != "--out"]
    return MethodComparison(read_runs([ROOT / path for path in paths]), by)


def table_text(comparison):
    """Means and deviations in the tables."""
    rows = [row for name in comparison.task_sets for row in standings_table(comparison, name).rows]
    return {number for row in rows for number in row[2].split(" ± ")}


def run_of(model):
    """The run of a shipped model; one that looks ahead is another model's policy, behind a forward model."""
    return model.stem.removesuffix("-ahead")


def text_of(page):
    """A page's text, commands of several lines on one."""
    return page.read_text(encoding="utf-8").replace("\\\n", "")


def prose(page):
    """A page of the docs with all line breaks as spaces."""
    return " ".join((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").split())


def commands():
    return sorted({command.strip() for page in PAGES for command in COMMAND.findall(text_of(page))})


def tables():
    """Each table of the comparison that stands below a command: the commands since the last one, and its text."""
    pending, table = [], []
    pages = ("methods.md", "contrast-settings.md")
    lines = [line for page in pages for line in text_of(ROOT / "docs" / "results" / page).splitlines()]
    for line in [*lines, ""]:
        if line.startswith("|"):
            table.append(line)
        elif table:
            yield pytest.param(pending, "\n".join(table), id=table[2])
            pending, table = [], []
        pending += COMMAND.findall(line)


@pytest.mark.parametrize("command", commands())
def test_each_quoted_comparison_can_be_made(command):
    assert compared(command).groups


@pytest.mark.parametrize(("quoted", "table"), list(tables()))
def test_each_table_of_the_comparison_is_what_its_commands_print(quoted, table):
    numbers = set(re.findall(r"\b\d\.\d{3}\b", table))
    assert quoted
    assert numbers
    assert numbers - {number for command in quoted for number in table_text(compared(command))} == set()


def test_the_page_of_the_methods_has_the_placebos_bound_over_the_run_and_at_its_end():
    runs = read_runs([ROOT / "results" / "placebo:panda-satesac-?"])
    bounds = [[row["contrast/bound"] for row in run.record.metrics if "contrast/bound" in row] for run in runs]
    over, end = (f"{min(of):.2f} to {max(of):.2f}" for of in ([*map(mean, bounds)], [of[-1] for of in bounds]))
    assert f"reaches {over} nats of 3.48, in the mean over a run ({end} at its end)" in prose("results/methods")
    assert "the card and `sami compare` the mean over the run" in prose("explanation/contrast")
    assert "(mean over the run" in (ROOT / "models" / "panda-satesac.md").read_text("utf-8")


def test_the_page_of_the_contrast_has_the_soft_weights_of_both_kinds_of_keys():
    ranges = []
    for study in ("panda-100k-keys", "placebo:panda-satesac-?"):
        weight = "train/contrast_weight"
        runs = [run.record.metrics for run in read_runs([ROOT / "results" / study])]
        means = [mean(row[weight] for row in rows if weight in row) for rows in runs]
        ranges.append(f"{min(means):.2f} to {max(means):.2f}")
    text = "on Panda {} in the mean over a run with keys of the momentum encoder, {} with keys of the encoder |"
    assert text.format(*ranges) in prose("explanation/contrast")


@pytest.mark.parametrize(("study", "sentence"), [("panda-100k", 1), ("placebo:panda-[st]*sac-?", 2)])
def test_the_page_of_the_methods_says_that_its_intervals_of_few_seeds_are_paired(study, sentence):
    runs, paired = read_runs([ROOT / "results" / study]), []
    for task_set in SETS:
        success = [
            {run.seed: run.evaluation.success(task_set) for run in runs if run.method.title == title}
            for title in ("SaTESAC", "TESAC")
        ]
        paired += estimates.paired_t_test(*success).difference
    quoted = prose("results/methods").split("paired by seed: ")[sentence].split(" on extreme")
    numbers = re.findall(r"-?0\.\d{3}", quoted[0] + quoted[1].split(")")[0])
    assert numbers == [f"{number:.3f}" for number in paired]


@pytest.mark.parametrize("study", ["half-cheetah-400k", "hopper-400k"])
def test_what_contexts_carry_is_what_the_benchmark_prints(study, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    importlib.import_module("contexts_of_runs").table(ROOT / "results" / study, against="tesac")
    report = capsys.readouterr().out
    assert report.strip() in (ROOT / "docs" / "results" / "contrast.md").read_text(encoding="utf-8")


def test_the_page_of_the_contrast_has_what_the_crippled_hopper_shows_and_how_far_the_half_cheetahs_trained():
    runs = read_runs([ROOT / "results" / "robots-400k-baselines:crippled-*"])
    titles = "SaTESAC", "TESAC"
    returns = [{run.seed: run.evaluation.ret("extreme") for run in runs if run.method.title == of} for of in titles]
    less = estimates.paired_t_test(*returns)
    paper = [reported("crippled-hopper", title, "extreme").mean for title in titles]
    studies = "half-cheetah-400k:*-satesac-0", "models:half-cheetah-satesac"
    short, shipped = (read_runs([ROOT / "results" / study])[0].updates for study in studies)
    card = (ROOT / "models" / "half-cheetah-satesac.md").read_text()
    assert f"{shipped:,} gradient steps" in card
    page = prose("results/contrast")
    value, low, high = less.difference
    assert f"{paper[0] - paper[1]:,.0f} above TESAC in extreme tasks, six seeds at 400,000 steps" in page
    assert (len(less.seeds), f"{value:.0f} [{low:.0f}, {high:.0f}], paired by seed" in page) == (6, True)
    assert f"on the half-cheetah {100 * short / shipped:.0f} % of the shipped run's updates" in page


def test_the_quoted_returns_of_mujoco_are_those_of_the_runs_and_of_the_paper():
    table = (ROOT / "docs" / "results" / "mujoco.md").read_text(encoding="utf-8")
    three = r"([\d,]+) / ([\d,]+) / ([\d,]+)"
    rows = re.findall(rf"models/([\w-]+)\.md\) \| {three} \| {three} \| {three} \|", table.replace("**", ""))
    assert len(rows) == sum(not model.stem.startswith(NOT_MUJOCO) for model in MODELS)
    for name, *numbers in rows:
        (run,) = read_runs([ROOT / "results" / f"models:{name}"])
        titles = [method.title for method in METHODS.values()]
        reports = [[reported(run.evaluation.env, title, task_set) for title in titles] for task_set in SETS]
        expected = [run.evaluation.ret(task_set) for task_set in SETS]
        expected += [reported(run.evaluation.env, "SaTESAC", task_set).mean for task_set in SETS]
        expected += [max(cell.mean for cell in cells if cell) for cells in reports]
        assert numbers == [f"{number:,.0f}" for number in expected]


def test_the_page_of_the_panda_has_what_its_evaluation_reached():
    page = (ROOT / "docs" / "results" / "panda.md").read_text(encoding="utf-8")
    (run,) = read_runs([ROOT / "results" / "models:panda-satesac"])
    quoted = dict(re.findall(r"^\| (\w+) \([^)]*\) \| ([\d.]+) \[", page, re.MULTILINE))
    assert quoted == {name: f"{run.evaluation.success(name):.3f}" for name in run.evaluation.sets}


def test_the_returns_below_the_readmes_film_are_those_that_were_measured():
    raw = json.loads((ROOT / "results" / "adaptation-half-cheetah" / "adaptation.json").read_text(encoding="utf-8"))
    changes = {change["change"]: change for change in raw["changes"]}
    lighter, control = ({row["variant"]: row["ret"] for row in changes[text]["rows"]} for text in LIGHTER_AND_CONTROL)
    arms = ("live", "frozen", "constant")
    returns = ", ".join(f"{lighter[arm]['value']:,.0f} ± {lighter[arm]['error']:,.0f} {arm}" for arm in arms)
    without = "{}, {} and {}".format(*(f"{control[arm]['value']:,.0f}" for arm in arms))
    caption = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split("\n- **")[0].split())
    assert f"{returns}; without a change {without}" in caption
    assert {changes[text]["episodes"] for text in LIGHTER_AND_CONTROL} == {40}
    assert "[40 starts]" in caption


def change_in(folder):
    """The rows of `sami adapt`'s result in a folder of results, by change and variant."""
    raw = json.loads((ROOT / "results" / folder / "adaptation.json").read_text(encoding="utf-8"))
    return {change["change"]: {row["variant"]: row for row in change["rows"]} for change in raw["changes"]}


def test_the_page_of_the_mujoco_robots_calls_the_steps_to_a_notice_medians():
    half_cheetah, crippled = (change_in(f"adaptation-{name}") for name in ("half-cheetah", "crippled-half-cheetah"))
    far = [rows["live"]["detected"] for text, rows in half_cheetah.items() if ":1.25" not in text and ":1," not in text]
    steps = sorted(notice["median"] for notice in far)
    page = prose("results/adaptation-mujoco")
    assert {notice["share"] for notice in far} == {1.0}
    assert f"is noticed**, in the median after {steps[0]:.0f} to {steps[-1]:.0f} steps" in page
    failures = [rows["live"]["detected"]["median"] for text, rows in crippled.items() if "3:" in text]
    assert (len(failures), {round(median, -1) for median in failures}) == (2, {30.0})
    assert "**Every failure is noticed**, half of them within about 30 steps" in page


def test_the_page_of_a_changing_delay_has_what_both_files_reached_with_the_delay_to_the_end():
    page = prose("results/adaptation-delay")
    shares = []
    for model in ("panda-satesac-camera", "panda-satesac"):
        changes = change_in(f"adaptation-delay/{model}")
        late = changes["mass=5,friction=1,latency_s=0.08:0@4"]["unchanged"]
        late_from_the_change = changes["mass=5,friction=1,latency_s=0:0.08@4"]["live"]
        success = f"{late['success']['value']:.2f}".removeprefix("0")
        assert f"`{model}` {'succeeds ' if model.endswith('camera') else ''}in {success}" in page
        shares += [f"{row['detected']['share']:.2f}".removeprefix("0") for row in (late_from_the_change, late)]
    delay = "of the episodes in which the delay begins, in {} of those with the delay from the start."
    text = f"alarms in {{}} {delay} Those of `panda-satesac`, measured without delays: {{}} and {{}}."
    assert text.format(*shares) in page


def test_the_page_that_quotes_alarms_by_an_earlier_reference_of_the_panda_has_todays_rate_beside_them():
    checks = json.loads((ROOT / "results" / "atlas" / "panda.json").read_text("utf-8"))
    tasks = [check for check in checks if check["task_set"] == "extreme"]
    rate = sum(check["alarms"] for check in tasks) / sum(check["episodes"] for check in tasks)
    assert f"whose threshold is higher, {rate:.2f} do." in prose("results/contrast")


@pytest.mark.parametrize("robot", ["half-cheetah", "crippled-half-cheetah", "crippled-ant"])
def test_what_the_live_context_gains_over_a_constant_one_is_as_the_raw_file_has_it(robot):
    cells = [
        f"{gain['value']:,.0f} ± {gain['error']:.0f}"
        for rows in change_in(f"adaptation-{robot}").values()
        for gain in [rows["constant"]["less_than_live"]]
    ]
    assert f"| live less constant | {' | '.join(cells)} |" in prose("results/adaptation-mujoco").replace("**", "")


OTHER_REWARD = ("slim-humanoid-satesac",)
"""The paper's numbers come from another start, see docs/explanation/paper.md."""
LONGER = ("crippled-half-cheetah-satesac", "crippled-ant-satesac")
"""Episodes of 2000 steps, where the published code stops at 1000: the returns are halved."""


def test_the_docs_count_the_comparable_returns_that_are_at_or_above_the_papers_best():
    robots = [run_of(path) for path in MODELS if not path.stem.startswith(NOT_MUJOCO)]
    above = 0
    for robot in sorted(set(robots) - set(OTHER_REWARD)):
        (run,) = read_runs([ROOT / "results" / f"models:{robot}"])
        for task_set in SETS:
            cells = [reported(run.evaluation.env, method.title, task_set) for method in METHODS.values()]
            reached = run.evaluation.ret(task_set) / (2 if robot in LONGER else 1)
            above += reached >= max(cell.mean for cell in cells if cell)
    text = " ".join((ROOT / "docs" / "results" / "mujoco.md").read_text(encoding="utf-8").split())
    assert f"in {above} of {3 * len(robots)} cells" in text


def test_every_shipped_model_has_its_run_and_models_holds_nothing_else():
    study = {run.name: run for run in read_study(ROOT / "results" / "models" / "runs.jsonl")}
    assert set(study) == {run_of(path) for path in MODELS}
    for path in MODELS:
        contract, run = read_artifact(path).contract, study[run_of(path)]
        assert Evaluation.from_dict(contract.evaluation) == Evaluation.from_dict(run.evaluation)
        assert contract.training["steps"] == run.facts["steps"]
    files = {path.name for path in (ROOT / "models").iterdir() if path.is_file()}
    assert files == {"__init__.py"} | {
        f"{path.stem}.{kind}" for path in MODELS for kind in ("onnx", "md", "png", "safetensors")
    }


def test_git_holds_no_folder_a_run():
    assert find_runs([ROOT / "results"])
    assert list((ROOT / "results").rglob("run.json")) == []


def test_the_page_of_pandas_baselines_says_which_seed_of_sac_is_behind_by_its_interval():
    (shipped,) = read_runs([ROOT / "results" / "models:panda-satesac"])
    base, excluded = scores_of_starts(shipped.evaluation, "moderate"), {}
    for run in read_runs([ROOT / "results" / "panda-550k-baselines"]):
        _, high = interval_over_starts(scores_of_starts(run.evaluation, "moderate") - base)
        excluded[run.seed] = high < -1e-9
    assert excluded == {0: False, 1: True}
    assert "an interval over starts that excludes 0 in seed 1 and ends at 0 in seed 0." in prose(
        "results/panda-baselines"
    )


WITHOUT_SEED = ("falling-hopper", "scoreboard", "scoreboard-protocol", "speed")
"""Pages of learning curves and of times."""


@pytest.mark.parametrize("page", sorted(path.stem for path in (ROOT / "docs" / "results").glob("*.md")))
def test_every_page_of_results_names_the_seed_of_its_evaluations(page):
    match = re.search(
        r"(development|final) seed|seed \d,\d{3},\d{3}|--seed \d{3}", prose(f"results/{page}"), re.IGNORECASE
    )
    assert match or page in WITHOUT_SEED


def test_pages_say_what_intervals_that_include_0_still_allow():
    selections = "panda-100k-baselines", "placebo:panda-[st]*sac-?", "panda-100k-one-age:panda-tesac-*"
    runs = [run for name in selections for run in read_runs([ROOT / "results" / name])]
    success = {
        title: np.array([run.evaluation.success("moderate") for run in runs if run.method.title == title])
        for title in ("SAC", "TESAC", "SaTESAC")
    }
    tesac, satesac = (estimates.welch(success[title], success["SAC"]).high for title in ("TESAC", "SaTESAC"))
    text = f"exclude gains over SAC above {tesac:.3f} for TESAC and {satesac:.3f} for SaTESAC."
    assert text in prose("results/panda-baselines")
    rows = re.findall(
        r"^\| R2 .*, \+([\d.]+)\] \|$", (ROOT / "docs/results/contrast.md").read_text("utf-8"), re.MULTILINE
    )
    assert f"excludes 0, and those of R2 reach {max(rows)}." in prose("results/contrast")
    gains = re.findall(r"\[[-+.\d]+, \+([.\d]+)\]", prose("results/trained-with-a-profile"))
    assert f"and each allows {min(map(float, gains)):.2f} and more." in prose("results/trained-with-a-profile")


def test_the_page_of_the_second_simulator_has_the_loss_from_one_to_the_other():
    studies, losses = ROOT / "results", {}
    for file, source in (("panda-mujoco-satesac-in-pybullet", "panda-mujoco"), ("panda-satesac-in-mujoco", "models")):
        other = Evaluation.from_dict(json.loads((studies / "panda-mujoco" / f"{file}.json").read_text("utf-8")))
        (run,) = read_runs([studies / f"{source}:{file.partition('-in-')[0]}"])
        for task_set in SETS:
            moved_scores = scores_of_starts(other, task_set)
            less = scores_of_starts(run.evaluation, task_set)[: len(moved_scores)] - moved_scores
            losses[source, task_set] = less.mean(), *interval_over_starts(less)
    certain = {key: "{:.2f} [{:.2f}, {:.2f}]".format(*loss) for key, loss in losses.items() if loss[1] > 0}
    assert list(certain) == [("panda-mujoco", "extreme")]
    text = f"**In extreme tasks the policy trained in MuJoCo loses {certain['panda-mujoco', 'extreme']} in PyBullet**"
    assert text in prose("results/second-simulator")


def test_the_page_of_skills_says_of_which_cubes_tesac_pushes_more_than_the_others():
    pushed = {
        run.method.title: {
            mass: mean(item.skills["push"] for item in run.evaluation.results if item.task["mass"] == mass)
            for mass in (1.0, 5.0, 10.0, 30.0)
        }
        for run in read_runs([ROOT / "results" / "panda-100k-today"])
    }
    tesac = pushed.pop("TESAC")
    most = [mass for mass, share in tesac.items() if share > max(other[mass] for other in pushed.values())]
    fewest = [mass for mass, share in tesac.items() if share < min(other[mass] for other in pushed.values())]
    assert (most, fewest) == ([5.0, 10.0], [30.0])
    assert "TESAC pushes cubes of 5 and 10 kg a little more than the others" in prose("results/skills")
    assert "it pushes no more of 1 kg, and the fewest of 30 kg" in prose("results/skills")


def test_the_page_of_the_franka_sums_up_all_of_its_runs():
    ranges = []
    quiet = "slower", "slower-quiet", "late-dropped"
    for files in ((*quiet, "slower-again"), quiet):
        runs = [json.loads((ROOT / "results" / "franka" / f"{file}.json").read_text("utf-8")) for file in files]
        for key in ("success", "success_in_150_periods"):
            shares = sorted(f"{run[key]:.2f}"[1:] for run in runs)
            ranges.append(f"{shares[0]} to {shares[-1]}")
    text = "succeeds in {}, within 150 periods of 0.04 s in {}; without the run beside installs and type checks in {}"
    assert f"{text} and {{}}.".format(*ranges) in prose("results/franka")


def test_the_readme_does_not_call_inferred_what_no_readout_identifies():
    readouts = "".join(path.read_text("utf-8") for path in (ROOT / "results" / "probe").glob("*.txt"))
    lines = [line for line in readouts.splitlines() if line.strip().startswith("friction")]
    assert lines
    assert [line for line in lines if "the context does not carry it" not in line] == []
    text = (ROOT / "README.md").read_text("utf-8")
    assert "An LSTM's context adapts a policy to hidden mass, friction, dead joints." in text


def test_the_page_of_an_update_allows_for_chance_in_a_bound_of_a_known_information(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    torch.manual_seed(0)
    few = [importlib.import_module("log_k").bound(1.0, k=64, queries=20) for _ in range(20)]
    assert max(few) > 1.0 > mean(few) - 0.2
    text = "It never exceeds log K, nor in expectation the information (Lemma 1); a printed mean may by chance."
    assert text in prose("explanation/update")


def test_the_speed_of_the_shipped_panda_run_is_what_its_script_reads(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    run = importlib.import_module("training_speed").time_to(ROOT / "results" / "models:panda-satesac", 0.9)
    rates = f"{run['steps_per_s']:.0f} environment steps/s and {run['updates_per_s']:.1f} gradient steps/s"
    assert f"| the shipped run, both at once | {rates} |" in prose("results/speed")
    assert f"0.9 training success (while exploring) | {run['minutes']:.1f} |" in prose("results/speed")
    assert f"after {run['minutes']:.1f} minutes of {run['total_minutes']:.0f}" in prose("how-to/train")


@pytest.mark.parametrize(
    ("script", "page"),
    [("learner_changes", "learner-changes"), ("panda_heavy", "panda"), ("hopper_settings", "falling-hopper")],
)
def test_the_tables_of_a_page_are_what_its_script_prints(script, page, capsys, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr("sys.argv", [script])
    runpy.run_path(str(ROOT / "benchmarks" / f"{script}.py"), run_name="__main__")
    text = (ROOT / "docs" / "results" / f"{page}.md").read_text(encoding="utf-8")
    for table in capsys.readouterr().out.strip().split("\n\n"):
        assert table in text


def test_the_page_of_the_falling_hopper_says_where_its_ten_seeds_end():
    lines = (ROOT / "results" / "hopper-180k-settings" / "curves.jsonl").read_text(encoding="utf-8").splitlines()
    ends = defaultdict(list)
    for curve in map(json.loads, lines):
        if curve["seed"] in range(60, 70):
            ends[curve["arm"]].append(curve["curve"][-1]["return"])
    peer, preset = ends["as the peer"], ends["nothing changed"]
    outside = sum(end > max(preset) for end in peer), sum(end < min(preset) for end in peer)
    assert (len(peer), len(preset), outside) == (10, 10, (3, 2))
    text = "three of ten end above all that have the preset's settings, two below all of them"
    assert text in prose("results/falling-hopper")


def test_the_page_of_the_learners_changes_counts_the_half_cheetahs_of_other_methods_that_got_stuck():
    studies = "half-cheetah-400k", "robots-400k-baselines:half-cheetah-*", "robots-400k-history:half-cheetah-*"
    other_runs = [
        run for run in read_runs([ROOT / "results" / name for name in studies]) if run.method.title != "TESAC"
    ]
    stuck = [run.method.title for run in other_runs if run.evaluation.ret("training") < 2_300]
    assert (len(other_runs), stuck) == (12, ["SAC with history"] * 3)
    text = "of twelve of other methods at [400,000 steps](mujoco-baselines.md) three, those of SAC on ten steps"
    assert text in prose("results/learner-changes")


def test_the_page_of_the_learners_changes_counts_the_long_runs_that_pass_what_the_plan_asked():
    folder, verdicts = ROOT / "results" / "half-cheetah-long", []
    assert "three of three seeds at 6,700 in training tasks and 4,400" in (folder / "plan.md").read_text("utf-8")
    for seed in (10, 11, 12):
        sets = json.loads((folder / f"final-{seed}.json").read_text("utf-8"))["sets"]
        verdicts.append(sets["training"]["ret"] >= 6_700 and sets["moderate"]["ret"] >= 4_400)
    assert verdicts == [True, True, False]
    assert "two of three fresh seeds with returns of three steps pass what the" in prose("results/learner-changes")


def test_the_page_of_the_contrasts_settings_names_runs_that_do_not_come_from_the_command_above():
    page, folder = prose("results/contrast-settings"), ROOT / "results" / "panda-100k-critics"
    (control,) = read_runs([ROOT / "results" / "panda-100k:*-tesac-0"])
    scores = " / ".join(f"{control.evaluation.success(task_set):.3f}" for task_set in SETS)
    assert {task.episodes for task in control.evaluation.results} == {100}
    assert f"{scores} with all (seed 0 of `panda-100k`, evaluated in 100 episodes a task)" in page
    (earlier,) = read_runs([ROOT / "results" / "panda-100k-rate:*slow*"])
    lines = (folder / "separate.jsonl").read_text("utf-8").splitlines()
    later = [json.loads(line)["evaluation"]["sets"] for line in lines]
    for task_set in SETS:
        assert mean(sets[task_set]["success"] for sets in later) < earlier.evaluation.success(task_set)
    assert len(later) == 3
    assert "[three of later code](learner-changes.md#other-critics-and-the-contrasts-own-optimiser) have less" in page


def test_the_page_of_the_contrast_says_of_how_many_tasks_its_held_out_episodes_are():
    held_out = {}
    for env in ("panda", "half-cheetah"):
        tasks = len(environment(env).tasks.sets["training"])
        held_out[env] = (len({number % tasks for number in range(9, 2000, HELD_OUT_EVERY)}), tasks)
    assert held_out == {"panda": (3, 6), "half-cheetah": (5, 25)}
    text = " ".join((ROOT / "docs" / "explanation" / "contrast.md").read_text(encoding="utf-8").split())
    assert "three of Panda's 6, five of the half-cheetah's 25" in text
