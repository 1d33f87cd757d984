"""What the docs, the README and the cards say a context is worth is what the raw data say."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from sami_train.seeds import FINAL

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import need_a_context as measured  # noqa: E402

DOCUMENTS = measured.documents()


def test_the_docs_have_the_table_of_every_shipped_file():
    page = (ROOT / "docs/results/need-a-context.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in measured.environments_table() if line not in page] == []
    rows = [line for line in measured.environments_table() if line.startswith("| `")]
    assert len(rows) == len(list((ROOT / "models").glob("*.onnx")))


@pytest.mark.parametrize("model", measured.STUDIES)
def test_the_docs_have_the_tables_of_trained_baselines(model):
    name = "panda" if model == measured.PANDA else "mujoco"
    page = (ROOT / "docs" / "results" / f"{name}-baselines.md").read_text(encoding="utf-8").splitlines()
    table = measured.study_tables(measured.STUDIES[model]) + (measured.long_table() if name == "panda" else [])
    assert [line for line in table if line not in page] == []


def test_pandas_tesac_has_every_seed_that_was_trained_like_the_baselines():
    from sami_train.studies.compare.groups import read_runs

    (reference,) = measured.STUDIES[measured.PANDA].groups()["TESAC"].runs[:1]
    seeds = {
        run.seed
        for run in read_runs([ROOT / "results" / "placebo", ROOT / "results" / "panda-100k-one-age"])
        if run.config | {"seed": 0} == reference.config | {"seed": 0}
    }
    assert measured.STUDIES[measured.PANDA].groups()["TESAC"].seeds == sorted(seeds)


def test_the_readme_begins_its_results_with_what_a_context_is_worth():
    results = (ROOT / "README.md").read_text(encoding="utf-8").split("## Results")[1]
    table = "\n".join(measured.short_table())
    assert table in results
    assert results.index(table) == results.index("|")
    episodes = {
        document["model"]: document["episodes"] for document in DOCUMENTS if document["model"] in measured.IN_README
    }
    assert (episodes.pop("panda-satesac"), set(episodes.values())) == (25, {30})
    assert all(document["seed"] == FINAL for document in DOCUMENTS)
    assert "30 episodes of the final seed" in results
    assert "Panda 25 a task" in results


def test_the_readme_says_almost_as_well_of_panda_alone_since_half_cheetahs_exclude_no_gain():
    from sami_train.studies.compare.estimates import welch

    groups = measured.STUDIES["half-cheetah-satesac"].groups()
    tesac, sac = (groups[title].scores("moderate").mean(axis=1) for title in ("TESAC", "SAC"))
    gain = welch(tesac, sac)
    assert gain.low < 0.0 < sac.mean() < gain.high  # a gain that doubles SAC's return would not surprise
    text = " ".join(re.sub(r"\]\([^)]*\)", "]", (ROOT / "README.md").read_text(encoding="utf-8")).split())
    assert "memoryless SAC does [almost as well] on Panda, with [ten steps] on SO-101; worse" in text
    assert "[Three MuJoCo robots] show no gain over it, SaNCE none over [TESAC]." in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["model"])
def test_each_card_says_what_a_constant_context_costs_it(document):
    card = (ROOT / "models" / f"{document['model']}.md").read_text(encoding="utf-8")
    assert measured.card_line(document) in card
    needless = measured.verdict(measured.losses_of(document)) == "no"
    assert ("does not need a context" in card) == needless


def test_the_tutorial_names_the_one_ant_whose_context_shows_no_gain_in_any_set():
    losses = {document["model"]: measured.losses_of(document) for document in DOCUMENTS if "ant" in document["env"]}
    without = [name for name, sets in losses.items() if all(loss.low <= 0.0 for loss in sets.values())]
    assert (sorted(losses), without) == (["ant-satesac", "crippled-ant-satesac"], ["ant-satesac"])
    tutorial = " ".join((ROOT / "docs/tutorials/see-it-adapt.md").read_text(encoding="utf-8").split())
    assert "as for the ant, [no gain of a live context is shown]" in tutorial


def test_the_page_of_the_so101_says_how_far_a_short_history_is_behind_and_ahead():
    baselines = measured.trained_baselines("so101-satesac")
    gains = re.findall(r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]", baselines[1].split("over SAC on ten steps ")[1])
    (lag, low, high), (_, least, most), (ahead, *bounds) = [[float(number) for number in gain] for gain in gains]
    page = " ".join((ROOT / "docs/reference/so101.md").read_text(encoding="utf-8").split())
    assert f"it is {lag:.3f} [{low:.3f}, {high:.3f}] behind on training tasks, level on moderate ones" in page
    assert least < 0.0 < most
    assert f"and {-ahead:.3f} [{-bounds[1]:.3f}, {-bounds[0]:.3f}] ahead on extreme ones" in page


def test_the_go2s_card_says_how_often_one_without_memory_falls():
    assert measured.go2_line() in (ROOT / "models/go2-student.md").read_text(encoding="utf-8")


def of_returns(live, constant):
    arms = {arm: {name: [scores] for name in measured.SETS} for arm, scores in (("live", live), ("constant", constant))}
    return {"measure": "return", "arms": arms}


def test_a_loss_is_a_share_of_the_live_score_and_pairs_episodes():
    live = np.linspace(100.0, 200.0, 40)
    loss = measured.loss_of(of_returns(live.tolist(), (0.7 * live).tolist()), "moderate")
    assert (loss.live, loss.constant, loss.share) == pytest.approx((150.0, 105.0, 0.3))
    assert (loss.low, loss.high) == pytest.approx((0.3, 0.3))  # no start says otherwise
    assert measured.verdict({"moderate": loss}) == "this policy uses it"


def test_what_is_lost_in_no_set_is_not_needed_and_what_is_uncertain_is_not_shown():
    live, noise = np.full(40, 100.0), np.random.default_rng(0).normal(size=40)
    small, large = (measured.losses_of(of_returns(live.tolist(), (live + k * noise).tolist())) for k in (1.0, 90.0))
    assert measured.verdict(small) == "no"
    assert measured.verdict(large).startswith("not shown: at most ")
