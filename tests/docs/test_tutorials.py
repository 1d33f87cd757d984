"""The tutorials that need no training, block by block; `tests/real` follows those that train."""

import pytest

from tests.making.tutorial import ROOT, follow, notebook

UDP_ROBOT_PORT = "47311"


def test_see_it_adapt(tmp_path):
    printed = follow("see-it-adapt.md", tmp_path, [("--steps 200", "--steps 80"), ("--episodes 4", "--episodes 2")])
    assert "live less" in printed
    assert (tmp_path / "light.html").stat().st_size > 10_000
    assert (tmp_path / "adapt" / "adaptation.png").is_file()


def test_put_it_on_an_arm(tmp_path, monkeypatch):
    monkeypatch.setenv("UDP_ROBOT_PORT", UDP_ROBOT_PORT)
    printed = follow("put-it-on-an-arm.md", tmp_path)
    assert (tmp_path / "examples" / "run.mcap").is_file()
    assert (tmp_path / "examples" / "my_arm.py").is_file()
    assert "WRONG" not in printed


def test_the_notebook_is_the_page():
    path = ROOT / "docs" / "tutorials" / "compare-methods.ipynb"
    written = "from tests.making.tutorial import notebook; print(notebook('compare-methods.md'), end='')"
    assert path.read_text(encoding="utf-8") == notebook("compare-methods.md"), f'python -c "{written}" > {path.name}'


@pytest.mark.parametrize("page", ["see-it-adapt", "train-your-own-robot", "put-it-on-an-arm", "compare-methods"])
def test_a_tutorial_says_what_it_installs(page):
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    assert ".venv/bin/pip install -c constraints.txt '.[cpu," in text
