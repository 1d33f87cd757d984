"""What holds of the tutorials without running them; `tests/real` follows each, block by block."""

import re

import pytest
from sami_cli.app import OLD_OPTIONS

from tests.making.tutorial import ROOT, notebook


def test_the_notebook_is_the_page():
    path = ROOT / "docs" / "tutorials" / "compare-methods.ipynb"
    written = "from tests.making.tutorial import notebook; print(notebook('compare-methods.md'), end='')"
    assert path.read_text(encoding="utf-8") == notebook("compare-methods.md"), f'python -c "{written}" > {path.name}'


@pytest.mark.parametrize("page", ["see-it-adapt", "train-your-own-robot", "put-it-on-an-arm", "compare-methods"])
def test_a_tutorial_says_what_it_installs(page):
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    assert ".venv/bin/pip install -c constraints.txt '.[cpu," in text


def test_no_command_of_a_page_has_an_option_that_the_next_version_lacks():
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for name, old in OLD_OPTIONS.items():
            for command in re.findall(rf"\bsami {name}\b([^`|;#\n]+)", text):
                used = {word.partition("=")[0] for word in command.split()}
                # robot-file.md says what --adapter became.
                assert used & set(old) <= {"--adapter"}, f"{page.name}: sami {name}{command}"
