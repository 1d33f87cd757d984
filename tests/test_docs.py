"""What the pages for newcomers say exists, and their pictures show what the code does."""

import importlib
import inspect
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import get_args, get_origin
from xml.etree import ElementTree

import numpy as np
import pytest
from pydantic import BaseModel

from sami_runtime.adapters import Executed, Observation
from sami_runtime.adoption import adopt as adoption
from sami_runtime.clock import ManualClock
from sami_runtime.distribution import shipped_models
from sami_runtime.loop.episode import Lateness, run_episode
from sami_runtime.loop.excitation import REST_TICKS
from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import Contract
from sami_runtime.robots.body.settings import BodySettings
from sami_runtime.robots.franka.settings import FrankaSettings
from sami_runtime.robots.handover import HandoverSettings
from sami_runtime.robots.lerobot.settings import LeRobotSettings
from sami_runtime.robots.ros2.settings import RosSettings
from sami_runtime.robots.unitree.adapter import LYING_DEG
from sami_runtime.robots.unitree.settings import UnitreeSettings
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import DEFAULT_ALARM, FROZEN_LEAST, Limits
from sami_runtime.safety.watchdog_process import REPEAT_S, REPEATS
from sami_runtime.session.admission import LOAD_CPU_S, STEPS
from sami_runtime.session.session import Session
from sami_runtime.session.telemetry import Telemetry
from sami_train.envs import EnvironmentSpec, environment
from sami_train.seeds import EVALUATION, FINAL
from sami_train.studies.sweep.spread import TRIES

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import drawings  # noqa: E402

PAGES = ("CONTRIBUTING.md", "docs/how-it-works.md", "docs/index.md")
ENDS = ("py", "md", "sh", "toml", "txt", "json", "csv", "onnx", "svg", "png")
FILE_NAME = re.compile(r"[\w.*-]+(?:/[\w.*-]*)+|[\w-]+\.(?:" + "|".join(ENDS) + r")\b")
"""A path in code: parts with slashes, or a file's name."""
EXAMPLES = {"build/", "limits.toml", "gap.toml", "robot.toml", "run.mcap", "docs/results/"}
"""Files that a user writes, or a command makes."""


def words(page):
    return (ROOT / page).read_text(encoding="utf-8")


def exists(name, page):
    """Whether a path exists: from the repository's root, beside the page, or within a package."""
    places = [ROOT, (ROOT / page).parent, *(ROOT / package for package in ("sami_runtime", "sami_train", "cli"))]
    return any(list(place.glob(name.rstrip("/"))) for place in places)


def file_names(page):
    """Each path that a page names in code, in an indented block or as the target of a link."""
    text = words(page)
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^    (.*)$", text, re.MULTILINE)
    paths = {match.rstrip(".") for part in code for match in FILE_NAME.findall(part.split("#")[0])}
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)|(?:src|srcset)=\"([^\"]+)\"", text)
    return sorted(paths - EXAMPLES), sorted({a or b for a, b in links if "://" not in (a or b)})


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page):
    paths, links = file_names(page)
    assert paths or links
    assert [name for name in paths if not exists(name, page)] == []
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/how-it-works.md"])
def test_every_module_and_public_name_that_a_page_names_exists(page):
    for package, name in re.findall(r"`(sami_(?:runtime|train)(?:\.[a-z_]+)*)\.(\w+)`", words(page)):
        assert hasattr(importlib.import_module(package), name), f"{package}.{name}"
    for owner, method, path in re.findall(r"`(\w+)\.(\w+)` in `([\w/]+\.py)`", words(page)):
        assert re.search(rf"^class {owner}\b.*^    def {method}\(", words(path), re.MULTILINE | re.DOTALL), path


def test_a_path_that_does_not_exist_is_noticed():
    """A guard of the guard."""
    assert FILE_NAME.findall("sh tests/hashed.sh") == ["tests/hashed.sh"]
    assert not exists("tests/hushed.sh", "CONTRIBUTING.md")
    assert "sami_runtime/loop/episode.py" in file_names("docs/how-it-works.md")[0]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/how-it-works.md"])
def test_every_room_on_disk_stands_in_the_tables(page):
    rooms = [
        f"{package}/{path.parent.name}/"
        for package in ("sami_runtime", "sami_train")
        for path in sorted((ROOT / package).glob("*/__init__.py"))
    ]
    assert len(rooms) > 15
    assert [room for room in rooms if f"| `{room}` |" not in words(page)] == []


def site_pages():
    """Every page of the site, from the repository's root."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    outside = re.sub(r"^```.*?^```", "", words(page), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", line) for line in re.findall("(?m)^#+ (.*)$", outside)]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_pages_are_short():
    counts = {page: len(words(page).split()) for page in [*site_pages(), "README.md"]}
    assert {page: count for page, count in counts.items() if count > (550 if page == "README.md" else 1_500)} == {}


def test_lines_have_at_most_120_characters():
    """But rows of tables and the alternative texts of pictures, which cannot be broken."""
    lines = [(page, line) for page in [*site_pages(), "README.md"] for line in words(page).splitlines()]
    assert [pair for pair in lines if len(pair[1]) > 120 and not pair[1].startswith(("|", "  <img "))] == []


def test_every_page_begins_with_a_sentence():
    """Which says whom it serves; a page that begins with commands or a table leaves that to its heading."""
    assert [page for page in site_pages() if not re.match(r"[A-Z`*\[±]", words(page).split("\n\n")[1])] == []


def test_every_command_stands_in_a_block_of_code():
    """Else a page shows it as prose, and Markdown eats its line breaks."""
    prose = [
        (page, re.sub(r"^ *```.*?^ *```", "", words(page), flags=re.MULTILINE | re.DOTALL)) for page in site_pages()
    ]
    assert [page for page, text in prose if re.search(r"^(sami|pip|python) [\w.-]+ .*\n    ", text, re.MULTILINE)] == []


@pytest.mark.parametrize("page", [*site_pages(), "README.md", "CONTRIBUTING.md", "results/README.md"])
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", words(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent.joinpath(path) if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.resolve().relative_to(ROOT).as_posix()), link


def test_every_test_and_benchmark_that_a_page_names_exists():
    """By the end of its path: a table may name a folder once."""
    files = [f"/{path.relative_to(ROOT)}" for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*")]
    script = re.compile(r"(?:[\w-]+/)*test_\w+\.py|benchmarks/\w+\.py")
    names = {(page, name) for page in [*site_pages(), "results/README.md"] for name in script.findall(words(page))}
    assert len(names) > 100
    assert [pair for pair in names if not any(path.endswith(f"/{pair[1]}") for path in files)] == []


def test_the_table_of_raw_results_names_each_of_them_and_pages_that_name_it():
    rows = re.findall(r"^\| (`.*?`) \|.*\| (\[.*\)) \|$", words("results/README.md"), re.MULTILINE)
    listed = {name for first, _ in rows for name in re.findall("`([^`]+)`", first)}
    entries = {path.name for path in (ROOT / "results").iterdir()} - {"README.md"}
    assert entries - listed == set()
    for first, last in rows:
        names = "|".join(map(re.escape, re.findall("`([^`]+)`", first)))
        for page in re.findall(r"\]\(\.\./(docs/[^)#]+)", last):
            assert re.search(rf"results/(?:{names})(?![\w-])", words(page)), f"{page} does not name {first}"


def test_links_lead_from_the_index_to_every_page():
    reached, pending = set(), ["docs/index.md"]
    while pending:
        page = pending.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)#:\s]+\.md)", words(page))
        targets = {(ROOT / page).parent.joinpath(link).resolve().relative_to(ROOT).as_posix() for link in links}
        pending += [target for target in targets if target.startswith("docs/") and target not in reached]
    assert set(site_pages()) - reached == set()


def test_the_page_of_the_installation_names_every_extra():
    extras = re.findall(r"^([\w-]+) = \[", words("pyproject.toml").split("optional-dependencies]")[1], re.MULTILINE)
    extras = extras[: extras.index("all") + 1]
    assert "cpu" in extras
    assert [extra for extra in extras if f"`{extra}`" not in words("docs/how-to/install.md")] == []


def test_the_site_shows_every_page_once():
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1])
    assert sorted(f"docs/{page}" for page in listed) == site_pages()


@pytest.mark.parametrize("path", drawings.drawings())
def test_a_committed_picture_is_what_the_script_draws(path):
    picture = drawings.drawings()[path]
    assert (ROOT / path).read_text(encoding="utf-8") == picture, "run make pictures NAMES=" + path
    ElementTree.fromstring(picture)
    assert path.removeprefix("docs/") in words("docs/how-it-works.md")


@pytest.mark.parametrize("name", drawings.PICTURES)
def test_a_picture_is_the_same_in_light_and_dark_but_for_its_colours(name):
    light, dark = (drawings.drawings()[f"docs/pictures/{name}-{mode}.svg"] for mode in ("light", "dark"))
    assert re.sub("#[0-9a-f]{6}", "", light) == re.sub("#[0-9a-f]{6}", "", dark)
    texts = re.findall(r">([^<]+)</text>", light)
    assert texts
    paths = {path for text in texts for path in FILE_NAME.findall(text)} - EXAMPLES
    assert [path for path in paths - {"NAME.onnx"} if not exists(path, "docs/index.md")] == []


@pytest.mark.parametrize("mode", drawings.PALETTES)
def test_text_has_contrast_on_what_it_stands_on(mode):
    """At least 4.5 to 1, as WCAG asks of text."""
    palette = drawings.PALETTES[mode]
    page = {"light": "#ffffff", "dark": "#0d1117"}[mode]

    def luminance(colour):
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(*colours):
        low, high = sorted(map(luminance, colours))
        return (high + 0.05) / (low + 0.05)

    for ink in ("text", "muted"):
        for ground in (page, palette["plain"], palette["file"], palette["stop"]):
            assert contrast(palette[ink], ground) >= 4.5
    for ink in ("held", "copy", "gradient"):
        assert contrast(palette[ink], page) >= 4.5


def test_the_picture_of_the_contract_has_each_of_its_keys():
    pictured_keys = {key for keys, *_ in drawings.FIELDS for key in keys.split(", ")}
    assert pictured_keys == {field.serialization_alias or name for name, field in Contract.model_fields.items()}


class Still:
    """A robot whose sensors all read 0.1."""

    def __init__(self, contract):
        self.observation, self.action = contract.observation, contract.action

    def reset(self, seed=None):
        pass

    stop = close = reset

    def read(self):
        return Observation({s.name: np.full(s.size, 0.1, np.float32) for s in self.observation}, 0.0)

    def write(self, action):
        return Executed(action)


def test_the_picture_of_a_tick_has_the_order_of_the_loop(monkeypatch):
    """Calls of one tick, in the order in which they happen; the deadline is judged between a step and its ruling."""
    session = Session.load(shipped_models()["panda-satesac"])
    adapter = Still(session.contract)
    gate, telemetry, calls = SafetyGate(adapter, session.contract), Telemetry(session.contract), []

    class Beat:
        def beat(self):
            calls.append("heartbeat")

        def __getattr__(self, name):
            return lambda *args, **kwargs: None

    def noted(thing, method, name):
        original = getattr(thing, method)

        def call(*args, **kwargs):
            calls.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(thing, method, call)

    noted(adapter, "read", "read")
    noted(gate, "fault", "guards")
    noted(Lateness, "age", "age")
    noted(session, "step", "step")
    noted(gate, "propose", "ruling")
    noted(adapter, "write", "write")
    noted(session, "executed", "executed")
    noted(gate, "record_telemetry", "telemetry")
    run_episode(
        session,
        adapter,
        max_steps=1,
        clock=ManualClock(),
        gate=gate,
        telemetry=telemetry,
        watchdog=Beat(),
        on_step=lambda record: calls.append("record"),
    )
    assert calls == [name for _, name, _ in drawings.TICK if name != "deadline"]
    names = [name for _, name, _ in drawings.TICK]
    assert ("step", "deadline") in pairwise(names)
    assert ("deadline", "ruling") in pairwise(names)


def test_the_picture_of_held_ticks_has_the_default_limits():
    picture = drawings.drawings()["docs/pictures/one-tick-light.svg"]
    assert f"hold_ticks = {Limits().hold_ticks}:" in picture
    assert f"stop_after = {Limits().stop_after}:" in picture
    assert picture.count(">repeat<") == Limits().hold_ticks


HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))


@pytest.mark.parametrize("path", HOW_TO, ids=lambda path: path.stem)
def test_what_a_how_to_imports_exists_and_a_class_that_it_makes_is_public_or_imported(path):
    text = path.read_text(encoding="utf-8")
    imports = re.findall(r"^ *from (sami_runtime[\w.]*) import ([\w, ]+)$", text, re.MULTILINE)
    imported = {name: package for package, names in imports for name in names.split(", ")}
    assert [name for name, package in imported.items() if not hasattr(importlib.import_module(package), name)] == []
    classes = set(re.findall(r"`([A-Z][a-z]\w+)\(", text))
    packages = ("sami_runtime", "sami_runtime.robots.kit")
    public = {name for package in packages for name in importlib.import_module(package).__all__}
    assert classes - public - imported.keys() == set()


def test_the_page_of_presets_counts_the_robots_with_a_budget_of_their_own():
    names = {read_artifact(path).contract.training["env"] for path in shipped_models().values()}
    number = sum("steps" in environment(name).hyperparameters.get("fast-cpu", {}) for name in names)
    assert {4: "four"}.get(number, str(number)) + " robots have their own" in words("docs/reference/presets.md")


def test_the_page_of_environments_names_every_argument_of_from_gymnasium():
    table = words("docs/reference/environments.md").split("| what | if it is left out |")[1].split("\n\n")[0]
    arguments = [*inspect.signature(EnvironmentSpec.from_gymnasium).parameters][1:]
    assert [argument for argument in arguments if f"`{argument}`" not in table] == []


SETTINGS = {
    "docs/how-to/lerobot.md": LeRobotSettings,
    "docs/how-to/unitree.md": UnitreeSettings,
    "docs/reference/body.md": BodySettings,
    "docs/reference/franka-settings.md": FrankaSettings,
    "docs/reference/handover.md": HandoverSettings,
    "docs/reference/ros2-settings.md": RosSettings,
}


def keys_of(table, prefix=""):
    """Yield each key of a table of settings with its default; `*` stands for a name that a user chooses."""
    for name, field in table.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        values = [get_args(kind)[1] for kind in kinds if get_origin(kind) is dict]
        inner = [kind for kind in kinds + values if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if inner:
            yield from keys_of(inner[0], f"{prefix}{name}.*." if values else f"{prefix}{name}.")
        else:
            yield prefix + name, field.default


def rows_of(page):
    """Yield each key of a page's tables, written out (`hand.speed`, `force` are two), with its default as written."""
    for first, cell in re.findall(r"^\| (`\w[\w.]*`.*?) \|(.*?)\| ", words(page), re.MULTILINE):
        names, prefix = re.findall("`([^`]+)`", first), ""
        defaults = cell.strip().split(", ")
        for index, name in enumerate(names):
            key = f"{prefix}.{name.lstrip('.')}" if prefix and (index and "." not in name.lstrip(".")) else name
            prefix = key.rpartition(".")[0]
            key = re.sub(r"\b[A-Z]+\b", "*", key).removesuffix(".*")
            yield key, defaults[index] if len(defaults) == len(names) else ""


@pytest.mark.parametrize("page", SETTINGS)
def test_a_page_of_settings_lists_every_key_and_no_other_with_its_default(page):
    """A key that several tables have may be named in the text, by its last part. An error names the same page."""
    assert getattr(SETTINGS[page], "page", page) == page
    keys, rows = dict(keys_of(SETTINGS[page])), dict(rows_of(page))
    text = re.sub(r"^\|.*", "", words(page), flags=re.MULTILINE)
    assert [key for key in keys if key not in rows and f"`{key.rpartition('.')[2]}`" not in text] == []
    assert [key for key in rows if key not in keys] == []
    numbers = {key: float(cell) for key, cell in rows.items() if re.fullmatch(r"[\d.]+", cell)}
    assert {key: keys[key] for key in numbers} == numbers


DOCUMENTS = {
    "docs/how-to/adopt-a-policy.md": "sami_runtime.adoption.recipe",
    "docs/how-to/play-a-policy.md": "sami_train.studies.play.robot",
    "docs/reference/profile.md": "sami_runtime.gap.profile",
    "docs/reference/robot-model-file.md": "sami_train.envs.mjcf.description",
    "docs/reference/safety-gate.md": "sami_runtime.safety.limits",
}


@pytest.mark.parametrize("page", DOCUMENTS)
def test_a_page_of_a_file_names_every_key_of_it(page):
    module = importlib.import_module(DOCUMENTS[page])
    tables = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, BaseModel)]
    keys = {key for kind in tables if kind.__module__ == module.__name__ for key in kind.model_fields}
    assert len(keys) > 5
    assert [key for key in sorted(keys) if not re.search(rf"\b{key}\b", words(page))] == []


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("explanation/test-seeds", f"development, {EVALUATION:,} |"),
        ("explanation/test-seeds", f"final, {FINAL:,} |"),
        (
            "how-to/adopt-a-policy",
            f"at most {adoption.CPU_S} s of a processor, 1 s a step, {adoption.MEMORY >> 30} GiB",
        ),
        ("how-to/fit-a-profile", f"{REST_TICKS} periods of the neutral action"),
        ("how-to/run-in-cpp", f"the golden steps of the {len(shipped_models())} shipped files"),
        ("how-to/sweep", "five times at most" if TRIES == 5 else f"{TRIES} times at most"),
        ("how-to/unitree", f"tilted by more than {LYING_DEG:g} degrees"),
        ("reference/guarantees", f"stepped at least {STEPS} times in a process of its own, with {LOAD_CPU_S} s"),
        (
            "reference/guards",
            f"after {DEFAULT_ALARM.steps} steps in a row with an OOD score above {DEFAULT_ALARM.score:g}",
        ),
        ("reference/guards", f"hold at {FROZEN_LEAST} in a row"),
        ("reference/watchdog", f"at least every {1e3 * REPEAT_S:g} ms"),
        ("reference/watchdog", f"{REPEATS} times where the loop's process is gone"),
    ],
)
def test_a_number_of_a_page_is_the_codes(page, text):
    assert text in " ".join(words(f"docs/{page}.md").split())
