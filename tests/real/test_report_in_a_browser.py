"""A report of a shipped model, in a real browser: it complains of nothing, asks for nothing, and fits any window."""

import base64
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.making.browser import LOCAL, Browser, needs_chromium

pytest.importorskip("gymnasium")
pytest.importorskip("umap")
pytest.importorskip("matplotlib")

REPOSITORY = Path(__file__).parents[2]
RUN = "import sys; sys.argv[0] = 'sami'; from sami_cli.app import main; main()"
WINDOWS = {"desktop": (1280, False), "tablet": (820, True), "phone": (390, True), "small phone": (320, True)}


def report(*words, timeout=1500):
    command = [sys.executable, "-c", RUN, "report", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, cwd=REPOSITORY, env=environment, check=False
    )


@pytest.fixture(scope="module")
def written_report(tmp_path_factory):
    needs_chromium()  # skips before minutes are spent
    out = tmp_path_factory.mktemp("made") / "report"
    result = report(
        "panda-satesac", "--set", "episodes=4", "--set", "films=mass=1,friction=0.1", "--out", out, "--json"
    )
    assert result.returncode == 0, result.stderr
    return out, json.loads(result.stdout)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    needs_chromium()
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def show(tab, path, width, dark=False, mobile=False):
    """Open a page in a window as high as itself, so that everything on it is drawn."""
    tab.complaints.clear()
    tab.requested.clear()
    tab.open(path.as_uri(), width, dark=dark, mobile=mobile)
    tab.look(width, tab.value("document.documentElement.scrollHeight"), dark, mobile)


def test_nothing_is_missing(written_report):
    out, summary = written_report
    (reported,) = summary["subjects"]
    assert reported["missing"] == {}
    assert reported["episodes"] == 80
    assert {row["label"] for row in reported["told"]} >= {"mass", "friction"}
    assert reported["robustness_points"] > 10
    assert summary["bytes"] < 10_000_000
    assert all((out / file).is_file() for file in summary["files"])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_shows_all_of_it_and_no_more(written_report, tab, window, dark):
    width, mobile = WINDOWS[window]
    path = written_report[0] / "report.html"
    show(tab, path, width, dark, mobile)
    assert tab.complaints == []
    assert [url for url in tab.requested if not url.startswith(LOCAL)] == []
    assert [url for url in tab.requested if url.startswith("file://")] == [path.as_uri()]
    assert tab.value("document.documentElement.scrollWidth") <= width, "nothing has to be scrolled sideways"
    charts = "[...document.querySelectorAll('.panel svg')]"
    assert tab.value(f"{charts}.length") == tab.value("document.querySelectorAll('.panel').length") > 20
    assert tab.value(f"{charts}.filter((c) => c.getBoundingClientRect().right > innerWidth).length") == 0
    assert tab.value(f"{charts}.every((c) => c.getBoundingClientRect().height > 60)")
    assert tab.value(f"{charts}.every((c) => c.getAttribute('aria-label').length > 5)")
    tab.wait_for(
        "[...document.images].every((image) => image.complete && image.naturalWidth > 100)"
    )  # decoding takes time


def test_every_word_of_a_chart_is_within_it(written_report, tab):
    """Legends above all: a page's letters may be wider than those that the chart was drawn with."""
    show(tab, written_report[0] / "report.html", 1280)
    outside = """[...document.querySelectorAll('.panel svg')].flatMap((chart) => {
        const box = chart.getBoundingClientRect();
        return [...chart.querySelectorAll('text')].filter((text) => {
            const bounds = text.getBoundingClientRect();
            return bounds.left < box.left - 1 || bounds.right > box.right + 1 || bounds.bottom > box.bottom + 1;
        }).map((text) => text.textContent);
    })"""
    assert tab.value(outside) == []


def test_paper_shows_every_chart_and_whole_tables(written_report, tab):
    path = written_report[0] / "report.html"
    tab.open(path.as_uri(), 1280, dark=True)
    output = base64.b64decode(tab.call("Page.printToPDF")["data"])
    pages = pages_of(output)
    assert len(pages) > 5
    assert min(map(len, pages)) > 1000, "no page is blank"
    shapes = [len(re.findall(rb"\s(?:f|f\*|S|Do)\s", page)) for page in pages]
    count = "document.querySelectorAll('.panel svg path, .panel svg use').length"
    assert sum(shapes) > 0.5 * tab.value(count), "charts are drawn on paper"
    a4_px = 688  # within margins of 14 mm
    tab.look(a4_px, 1000, dark=False)
    tab.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert tab.value("[...document.querySelectorAll('.scroll')].every((t) => t.scrollWidth <= t.clientWidth + 1)")
        assert tab.value("document.documentElement.scrollWidth") <= a4_px
        assert tab.value("[...document.images].every((image) => image.currentSrc.length > 1000)")
    finally:
        tab.call("Emulation.setEmulatedMedia", media="")


def pages_of(document):
    """What draws each page of a PDF, unpacked.

    Each stream ends where its own compression says: packed bytes may end in, or hold, what reads as an end of line.
    """
    drawing = []
    for number in re.findall(rb"/Type /Page\b.*?/Contents (\d+) 0 R", document, flags=re.DOTALL):
        start = re.search(rb"\n" + number + rb" 0 obj\n.*?stream\r?\n", document, flags=re.DOTALL).end()
        unpacking = zlib.decompressobj()
        drawing.append(unpacking.decompress(document[start:]))
        assert unpacking.eof, "a page is cut off"
    return drawing


def test_charts_follow_when_a_reader_changes_to_dark(written_report, tab):
    show(tab, written_report[0] / "report.html", 1280)
    ink = "getComputedStyle(document.querySelector('.panel svg text')).fill"
    light = tab.value(ink)
    tab.look(1280, tab.value("document.documentElement.scrollHeight"), dark=True)
    assert (light, tab.value(ink)) == ("rgb(88, 96, 105)", "rgb(160, 169, 180)")
    assert tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(16, 20, 24)"
    assert tab.complaints == []


def test_words_can_be_read_on_their_ground(written_report, tab):
    """Contrast of at least 4.5 (WCAG AA), by the style's own colours."""
    luminance = """(colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }"""
    pairs = [("figcaption", ".chart"), (".note", ".note"), ("nav a", "nav"), (".tile .label", ".tile"), ("dt", "body")]
    for dark in (False, True):
        show(tab, written_report[0] / "report.html", 1280, dark)
        for words, ground in pairs:
            result = tab.value(
                f"""(() => {{ const l = {luminance};
                const [a, b] = [l(getComputedStyle(document.querySelector({words!r})).color),
                                l(getComputedStyle(document.querySelector({ground!r})).backgroundColor)];
                return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }})()"""
            )
            assert result >= 4.5, (words, ground, dark)
        frame = f"""(() => {{ const l = {luminance};
            const line = document.querySelector('.panel svg path[style*="stroke: var(--faint)"]');
            const [a, b] = [l(getComputedStyle(line).stroke),
                            l(getComputedStyle(document.querySelector('.chart')).backgroundColor)];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }})()"""
        assert tab.value(frame) >= 3, "the frames of charts are seen"


def test_what_was_measured_is_not_measured_again(written_report):
    out, first = written_report
    before = {path: path.stat().st_mtime_ns for path in out.rglob("parts/*.json")}
    result = report(
        "panda-satesac", "--set", "episodes=4", "--set", "films=mass=1,friction=0.1", "--out", out, "--json"
    )
    again = json.loads(result.stdout)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("parts/*.json")} == before
    assert again["subjects"][0]["told"] == first["subjects"][0]["told"]
    assert sum(again["subjects"][0]["seconds"].values()) < sum(first["subjects"][0]["seconds"].values()) / 4
