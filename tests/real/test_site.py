"""The documentation as a site: built with strict links, complete, and without the network."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(
    r"""<(?:script|img|source|iframe)[^>]+src(?:set)?="(https?:[^"]+)|<link[^>]+href="(https?:[^"]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return folder


def test_no_page_asks_the_network_for_anything(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    table = {page.name: FETCHED.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: urls for name, urls in table.items() if urls} == {}
    assert (site / "search" / "search_index.js").is_file()


def test_search_works_on_a_page_that_is_opened_from_the_disk(site, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    address = (site / "how-to" / "train.html").as_uri() + "?q=watchdog"
    command = [browser, *options, "--virtual-time-budget=15000", "--dump-dom", address]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    assert "matching documents" in page
    assert "reference/watchdog.html" in page


@pytest.mark.parametrize(
    ("package", "page"),
    [("sami_runtime", "sami_runtime"), ("sami_runtime.robots.kit", "robot-kit"), ("sami_train.envs", "sami_train")],
)
def test_the_api_pages_have_every_public_name(site, package, page):
    text = (site / "reference" / "api" / f"{page}.html").read_text(encoding="utf-8")
    names = set(importlib.import_module(package).__all__)
    assert {name for name in names if f'id="{package}.{name}"' not in text} == set()
