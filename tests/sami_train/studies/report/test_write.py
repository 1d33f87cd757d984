"""The page holds all that it shows, and says what it lacks."""

import html
import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from sami_runtime.errors import SamiError
from sami_train.envs.catalog import environment
from sami_train.studies.charts.chart import Chart, Panel
from sami_train.studies.compare import estimates
from sami_train.studies.report.parts import PARTS, ReportPlan, find_robustness
from sami_train.studies.report.subject import Subject, merged, require_alike
from sami_train.studies.report.write import Head, check_out, render, write_report
from sami_train.studies.sweep.study import find_runs

REPOSITORY = Path(__file__).parents[4]
COMMAND = ["sami", "report", "results/models:panda-satesac", "--out", "there"]


def runs(address):
    return [Subject.of_run(record) for record in find_runs([REPOSITORY / address])]


def model(name="panda-satesac"):
    path = REPOSITORY / "models" / f"{name}.onnx"
    return Subject.of_model(path, environment(name.removesuffix("-satesac")))


def silence(part, rounds, count):
    pass


@pytest.fixture(scope="module")
def written_report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    return out, write_report(runs("results/models:panda-satesac"), ReportPlan(), out, COMMAND, silence)


def test_the_page_asks_the_network_for_nothing_and_runs_nothing(written_report):
    page = (written_report[0] / "report.html").read_text()
    assert "default-src 'none'; style-src" in page
    assert "<script" not in page
    assert re.findall(r"(?:src|href|srcset)=[\"'](?!data:|#)", page) == []
    assert "@import" not in page
    assert "url(" not in page.replace("url(#", "")


def test_every_chart_has_a_name_and_no_identifier_of_its_own(written_report):
    page = (written_report[0] / "report.html").read_text()
    pictures = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
    assert len(pictures) == 4
    assert all(re.match(r'<svg viewBox="[\d. ]+" role="img" aria-label="\w[^"]+">', picture) for picture in pictures)
    assert not any("<g id=" in picture or "<metadata" in picture for picture in pictures)
    names = set(re.findall(r"var\((--[\w-]+)\)", "".join(pictures)))
    assert names <= set(re.findall(r"(--[\w-]+):", page))
    assert {"--ink", "--faint", "--line", "--chart-0"} <= names


def test_a_run_of_numbers_tells_what_they_tell_and_names_what_is_missing(written_report):
    out, summary = written_report
    (report,) = summary["subjects"]
    assert set(report["missing"]) == set(PARTS)
    assert "give a model file or a run folder" in report["missing"]["films"]
    assert report["scores"]["training"]["score"] == pytest.approx(0.992, abs=0.001)
    low, high = report["scores"]["training"]["interval"]
    assert low < report["scores"]["training"]["score"] < high
    page = (out / "report.html").read_text()
    for words in ("0.992", "SaTESAC", "sami report results/models:panda-satesac", "1.16 nats", "results/models"):
        assert words in page
    assert all((out / file).stat().st_size for file in summary["files"])
    assert {"outcomes.png", "outcomes.csv", "learning.png", "learning.csv"} <= set(summary["files"])
    assert summary == json.loads((out / "report.json").read_text()) | {"report": summary["report"]}
    assert summary["bytes"] < 2_000_000


def test_several_runs_are_compared_over_seeds(tmp_path, monkeypatch):
    monkeypatch.setattr(estimates, "REPLICATES", 50)
    several = runs("results/panda-100k:panda-*tesac-*")
    assert len(several) > 3
    summary = write_report(several, ReportPlan(), tmp_path, COMMAND, silence)
    page = (tmp_path / "report.html").read_text()
    assert "Compared over seeds" in page
    assert "IQM" in page
    assert "scores.png" in summary["files"]


def test_a_section_says_in_one_sentence_what_it_comes_to(written_report):
    page = (written_report[0] / "report.html").read_text()
    sentences = re.findall(r'<p class="conclusion">(.*?)</p>', page)
    assert sentences == [
        "Success is 0.99 in training, 0.96 in moderate and 0.58 in extreme tasks.",
        "15 of 20 tasks succeed in 90% of episodes or more; the hardest is mass 30, friction 10.",
        "Success while exploring is 0.95 at step 550,248.",
    ]


def test_a_shipped_model_brings_what_the_checkout_holds_of_it(tmp_path):
    (subject,) = merged([model()])
    assert subject.run is not None
    assert subject.run.metrics
    assert len(find_robustness(subject.shipped_robustness, subject)) > 10
    path = tmp_path / "panda-satesac.onnx"
    path.write_bytes(subject.model.read_bytes())
    (of_model,) = merged([Subject.of_model(path, environment("panda"))])
    assert (of_model.run, of_model.shipped_robustness) == (None, [])


def test_a_legend_of_long_names_stays_within_its_chart():
    """As matplotlib measures it, whose letters are wider than those of most pages."""
    names = ["a run with a name of many words " * 3, "short", "another run of many words " * 2]
    panel = Panel("a", lambda axes: [axes.plot([0, 1], label=name) for name in names])
    figure = Chart("a", "A.", (panel,), ()).figure()
    figure.draw_without_rendering()
    (legend,) = figure.subfigs[0].legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert box.x0 >= whole.x0
    assert box.x1 <= whole.x1
    assert box.y0 >= whole.y0


def test_a_model_and_its_run_are_one(tmp_path):
    (subject,) = merged([model(), *runs("results/models:panda-satesac")])
    assert subject.model is not None
    assert subject.run is not None
    assert subject.training()["trained by"].startswith("sami train")
    other = merged([model(), *runs("results/models:hopper-satesac")])
    assert len(other) == 2


def test_what_cannot_stand_in_one_report_is_refused():
    with pytest.raises(SamiError, match=r"panda-satesac is of environment 'panda', hopper-satesac of 'hopper'"):
        require_alike([*runs("results/models:panda-satesac"), *runs("results/models:hopper-satesac")])
    with pytest.raises(SamiError, match="named panda-satesac"):
        require_alike([model(), *runs("results/models:panda-satesac")])


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("dear")
    with pytest.raises(SamiError, match="no report"):
        check_out(tmp_path, force=False)
    check_out(tmp_path, force=True)
    with pytest.raises(SamiError, match="is no folder"):
        check_out(tmp_path / "mine.txt", force=True)


def test_a_write_protected_folder_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(SamiError, match="write-protected"):
        check_out(tmp_path / "new", force=False)


def test_a_missing_package_is_told_before_anything_is_measured(tmp_path, monkeypatch):
    result = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "umap" else result(name))
    with pytest.raises(ModuleNotFoundError, match="umap"):
        check_out(tmp_path / "new", force=False)


def test_robustness_is_taken_of_the_same_weights_alone():
    assert len(find_robustness([REPOSITORY / "results/panda-robustness"], model())) > 10
    assert find_robustness([REPOSITORY / "results/panda-200k-latency"], model()) == []
    with pytest.raises(SamiError, match="there is no nowhere"):
        find_robustness([Path("nowhere")], model())


@pytest.mark.parametrize(
    "name",
    [
        "</title><script>1</script>",
        "{{ 7 * 7 }}{% for %}",
        "\\g<0>\\1$&",
    ],
)
def test_a_run_of_any_name_leaves_the_page_as_it_is(name, tmp_path):
    def page(title):
        head = Head(title, title, {}, {title: {"run": title}}, {"command": title}, [title])
        return render(head, [], tmp_path)

    assert page(name) == page("NAMED").replace("NAMED", html.escape(name).replace("&quot;", "&#34;"))


def test_words_of_a_user_end_no_element():
    chart = Chart("a", "A.", (Panel("</title><script>alert(1)</script>", lambda axes: axes.plot([0, 1])),), ())
    (picture,) = chart.pictures()
    assert "<script" not in picture
    assert "&lt;script&gt;" in picture
