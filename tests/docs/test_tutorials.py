"""What holds of the tutorials without running them; `tests/real` follows each, block by block."""

import re

import pytest
from sami_cli.app import app
from typer.main import get_command

from sami_runtime.files import tomllib
from tests.making.tutorial import ROOT, notebook


def test_the_notebook_is_the_page():
    path = ROOT / "docs" / "tutorials" / "compare-methods.ipynb"
    program = "from tests.making.tutorial import notebook; print(notebook('compare-methods.md'), end='')"
    assert path.read_text(encoding="utf-8") == notebook("compare-methods.md"), f'python -c "{program}" > {path.name}'


@pytest.mark.parametrize("page", ["see-it-adapt", "train-your-own-robot", "put-it-on-an-arm", "compare-methods"])
def test_a_tutorial_says_what_it_installs(page):
    text = (ROOT / "docs" / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    assert ".venv/bin/pip install -c constraints.txt '.[cpu," in text


def test_a_tutorial_shows_what_is_in_the_file_of_the_example():
    blocks = {
        page: tomllib.loads(re.search("```toml\n(.*?)```", (ROOT / "docs" / "tutorials" / page).read_text(), re.S)[1])
        for page in ("put-it-on-an-arm.md", "train-your-own-robot.md")
    }
    assert blocks["put-it-on-an-arm.md"] == tomllib.loads((ROOT / "examples" / "udp_robot.toml").read_text())
    robot = tomllib.loads((ROOT / "examples" / "own_environment" / "my_robot.toml").read_text())
    for table, keys in blocks["train-your-own-robot.md"].items():
        assert robot[table] | keys == robot[table]


def shown_commands():
    """Every `sami` command that pages, model cards and the README show, with where."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "models").glob("*.md"))]
    for page in pages:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for name, rest in re.findall(r"\bsami ([a-z][a-z-]*)\b([^`|;#\n]*)", text):
            yield page.name, name, rest


def test_every_option_that_a_page_shows_is_one_of_its_command():
    commands = get_command(app).commands
    anywhere, options, strange = {"--json", "--force", "--debug", "--help"}, set(), []
    for page, name, rest in shown_commands():
        page_options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest))
        if name in commands:
            valid = {
                option for parameter in commands[name].params for option in [*parameter.opts, *parameter.secondary_opts]
            }
            strange += [f"{page}: sami {name} {option}" for option in sorted(page_options - valid - anywhere)]
            options |= page_options
    assert strange == []
    assert {"--env", "--set", "--fix", "--record"} <= options, "the pages are read"
