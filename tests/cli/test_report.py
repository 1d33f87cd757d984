"""`sami report` refuses before it measures, and tells what it wrote."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

# Not imported: each worker would spend seconds on umap, which compiles as it is imported.
if not all(map(find_spec, ("matplotlib", "sklearn", "umap"))):
    pytest.skip("what a report needs is not installed: pip install 'sami-rl[report]'", allow_module_level=True)

from sami_runtime.errors import SamiError

REPOSITORY = Path(__file__).parents[2]
RUN = f"{REPOSITORY / 'results/models'}:panda-satesac"
MODEL = REPOSITORY / "models" / "panda-satesac.onnx"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "without=maps,skils"], "skils"),
        (["--set", "change=mass=1:10@4"], "friction"),
        (["--set", "films=mass=1,frction=0.1"], "frction"),
        (["--set", "films=mass=heavy,friction=0.1"], "heavy"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_anything_is_measured(sami, tmp_path, words, message):
    result = sami("report", MODEL, "--out", tmp_path / "new", *words)
    assert result.code == 1
    assert message in result.err
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_filmed_is_reported_before_anything_is_measured(sami, tmp_path, monkeypatch):
    def refuse(spec):
        raise SamiError(f"{spec.name} cannot be filmed")

    monkeypatch.setattr("sami_train.studies.report.write.require_renderer", refuse)
    result = sami("report", MODEL, "--out", tmp_path / "new")
    assert (result.code, result.out) == (1, "")
    assert "panda cannot be filmed" in result.err
    assert not (tmp_path / "new").exists()
    assert sami("report", RUN, "--out", tmp_path / "new").code == 0, "of numbers alone nothing is filmed"


def test_a_run_of_a_study_becomes_a_page_and_the_summary_says_what_it_lacks(sami, tmp_path):
    result = sami("report", RUN, "--out", tmp_path / "new", "--json")
    assert result.code == 0, result.err
    summary = json.loads(result.out)
    assert (tmp_path / "new" / "report.html").stat().st_size == summary["bytes"]
    (report,) = summary["subjects"]
    assert report["name"] == "panda-satesac"
    assert "films" in report["missing"]


def test_what_several_runs_lack_is_printed_once(sami, tmp_path, monkeypatch):
    missing = {"films": "only numbers are stored"}
    subjects = [{"name": name, "missing": dict(missing)} for name in ("a", "b", "c", "d")]
    subjects.append({"name": "e", "missing": {"maps": "too few"}})
    summary = {"subjects": subjects, "report": "report.html", "bytes": 1, "seconds": 1, "files": []}
    monkeypatch.setattr("sami_train.studies.report.write.write_report", lambda *arguments, **keywords: summary)
    result = sami("report", RUN, "--out", tmp_path / "new")
    assert result.out.splitlines()[:2] == ["4 of 5 subjects: no films: only numbers are stored", "e: no maps: too few"]
