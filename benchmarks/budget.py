"""Prints the size and coupling of the product against its budget: `python benchmarks/budget.py [--json]`.

The budget limits the total size, not the size of each file. The trunk is what a newcomer must read: all modules that
training, evaluating, exporting, verifying and running a policy import, also inside functions and for types.
`tests/test_architecture.py` enforces the budget. A limit above its goal must come down; a feature that users asked for
may raise the limit by as much as it needs, in the change that adds the feature.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"sami_runtime": "sami_runtime", "sami_train": "sami_train", "cli": "sami_cli"}
"""Import name of each folder of the product."""
TRUNK = (
    "sami_train.runs.train",
    "sami_train.evaluation.evaluate",
    "sami_train.export.export",
    "sami_runtime.checks.verify",
    "sami_runtime.run",
)
"""The first modules of the trunk, which consists of these and everything that they import."""
BRANCHES = ("sami_runtime.adoption", "sami_runtime.robots", "sami_train.studies")
"""Packages that most users never open, and that the trunk must not import."""
REGISTERED = tuple(f"sami_train.envs.{robot}." for robot in ("go2", "mjcf", "mujoco", "panda", "panda_mujoco", "so101"))
"""Robots that `sami_train.envs` registers by name; they are branches too, but studies may import them."""
SENTENCES = {
    *("told", "found", "own", "said", "each", "given", "going", "asked", "stands", "kept"),
    *("began", "took", "gave", "drove", "driven"),
    *("has", "had", "was", "does", "came", "gone", "wrote", "stood", "slept", "won", "tells", "tell", "asks", "ask"),
    *("wants", "want", "wishes", "wish", "lies", "lacks", "lacking", "listens", "takes", "arrives", "responds"),
    *("accepts", "agree", "agrees", "differs", "differ", "happened", "happens", "believed", "mentions", "attend"),
    *("untold", "unsaid", "untaken", "torn", "tried", "swept", "spent", "follows", "begins", "begun", "heard"),
    *("taken", "wanted", "made", "taught", "brought", "fell", "ran", "lay", "lives", "dies", "helps"),
    *("whose", "its", "itself", "this", "those", "which", "who", "another", "some"),
    *("everything", "anything", "everyone", "nobody", "ones", "ours", "theirs", "others", "what", "nothing", "one"),
    *("mine", "none", "how", "behind", "seen", "shown", "known", "moved", "met", "died", "born", "paid", "aged"),
    *("heed", "heeds", "heeded", "unheard", "lets", "remembers", "sent", "held", "beside", "here", "there"),
    *("fed", "elsewhere", "alike", "aside", "apart", "away", "otherwise", "instead", "together", "alone", "both"),
    *("chosen", "drawn", "judged", "counted", "called", "opened", "added", "started", "saved", "printed", "trained"),
    *("waiting", "seldom"),
}
"""Bare verbs and pronouns, which name nothing: no identifier may be one of them, in any case, including private names,
tests and scripts."""
KEYS = {
    *("sami_runtime/robots/franka/settings.py ours", "sami_runtime/robots/franka/settings.py theirs"),
    *("sami_runtime/robots/lerobot/settings.py others", "sami_runtime/safety/limits.py known"),
    *("sami_runtime/robots/c_export/sami_gate.hpp none", "sami_runtime/robots/c_export/sami_gate.hpp has"),
    *("sami_runtime/robots/c_export/sami_gate.hpp held", "sami_runtime/loop/tick.py HELD"),
    *("sami_runtime/robots/franka/settings.py here", "sami_runtime/robots/franka/settings.py there"),
    *("sami_runtime/recording/page/data.js came", "sami_runtime/loop/tick.py fed", "sami_train/envs/tasks.py drawn"),
    *("sami_train/envs/panda_mujoco/both.py both", "sami_train/studies/sweep/job.py trained"),
}
"""Exceptions from SENTENCES as `file name`, because users have these names in their files or their C++ programs."""
FOLDERS = (*PACKAGES, "benchmarks", "docs", "examples", "tests")
"""Folders whose identifiers are checked."""
SCRIPTS = (".js", ".html", ".j2", ".cpp", ".hpp")
"""Endings of the files in JavaScript and C++ whose identifiers are checked, but for `*.min.js`, which is not ours."""


@dataclass(frozen=True)
class Row:
    """One measure of the product."""

    name: str
    measured: int
    limit: int
    """Largest value that the tests allow."""
    goal: int


@cache
def modules() -> dict[str, Path]:
    """Return every module of the product, by its dotted name."""
    return {
        ".".join([package, *(part for part in _parts(path, folder) if part != "__init__")]): path
        for folder, package in PACKAGES.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(module: str) -> frozenset[str]:
    """Return the modules of the product that a module imports, also inside functions and for type checking."""
    path = modules()[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            names |= {".".join([*base, alias.name]) for alias in node.names}
    # `from a.b import c` imports the module a.b.c, or the name c from the module a.b.
    targets = {name if name in modules() else name.rpartition(".")[0] for name in names}
    return frozenset((targets & modules().keys()) - {module})


def trunk() -> set[str]:
    """Return the modules of the trunk: those in `TRUNK`, and all that they import, directly or not."""
    return _reach(TRUNK)


def circles() -> int:
    """Return the number of groups of modules that import one another, directly or not."""
    reach = {module: _reach(imported(module)) for module in modules()}
    return len({frozenset(o for o in reach[m] if m in reach[o]) for m in modules() if m in reach[m]})


def rooms() -> list[str]:
    """Return the folders on the first level of the three packages."""
    return [
        f"{folder}/{path.name}"
        for folder in PACKAGES
        for path in sorted((ROOT / folder).iterdir())
        if (path / "__init__.py").exists()
    ]


def classes_defined_twice() -> list[str]:
    """Return the names that several top-level classes share."""
    names = Counter(
        node.name for path in modules().values() for node in tree_of(path).body if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, count in names.items() if count > 1)


def sentence_names() -> list[str]:
    """Return each place that uses a bare verb or pronoun as an identifier, as `file:line name`."""
    return [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        for line, name in _names_of(path)
        if name.strip("_").lower() in SENTENCES and f"{path.relative_to(ROOT)} {name}" not in KEYS
    ]


def script_names(text: str, ending: str) -> list[tuple[int, str]]:
    """Return line and name of each identifier in JavaScript or C++ that this text itself defines.

    An identifier after `.`, `->` or `::` belongs to something else, unless that is JavaScript's `this`. One before the
    colon of JavaScript is a key. Comments and strings are left out, also the expressions inside `${...}`.

    Args:
        text: A file. Of HTML, only the scripts inside are read.
        ending: One of `SCRIPTS`.
    """
    if ending in (".html", ".j2"):
        text = re.sub(r"(?s)(^|</script>).*?(<script[^>]*>|$)", _newlines, text)
    comment = r"//.*?$|/\*.*?\*/|^[ \t]*#include.*?$"
    string = r"""R"\(.*?\)"|"(\\.|[^"\\])*"|(?<!\w)'(\\.|[^'\\])*'|`(\\.|[^`\\])*`"""
    text = re.sub(f"(?sm){comment}|{string}", _newlines, text)
    external = r"(?<!(?<!\.\.)\.)(?<!->)(?<!::)" if ending in (".cpp", ".hpp") else r"(?<!(?<!this)(?<!\.\.)\.)"
    key = "" if ending in (".cpp", ".hpp") else r"(?!\s*:)"
    return [
        (text.count("\n", 0, match.start()) + 1, match.group())
        for match in re.finditer(rf"{external}(?<![\w$])[A-Za-z_]\w*\b{key}", text)
        if match.group() != "this"
    ]


def options() -> int:
    """Return the number of options that the commands show, without those of `sami` itself, such as --json."""
    from sami_cli.app import app
    from typer.main import get_command

    commands = getattr(get_command(app), "commands")  # noqa: B009
    visible = [p for command in commands.values() for p in command.params if p.param_type_name == "option"]
    return sum(not option.hidden for option in visible)


def lines_of(names: set[str] | dict[str, Path]) -> int:
    """Return the number of lines of some modules."""
    return sum(len(modules()[name].read_text(encoding="utf-8").splitlines()) for name in names)


def budget() -> list[Row]:
    """Return every measure, with its limit and its goal."""
    return [Row(name, measure(), limit, goal) for name, (measure, limit, goal) in MEASURES.items()]


MEASURES: dict[str, tuple[Callable[[], int], int, int]] = {
    "files of the trunk": (lambda: len(trunk()), 140, 140),
    "lines of the trunk": (lambda: lines_of(trunk()), 19_000, 19_000),
    "lines of the product": (lambda: lines_of(modules()), 63_262, 41_000),
    "rooms on the first level": (lambda: len(rooms()), 19, 19),
    "class names defined twice": (lambda: len(classes_defined_twice()), 0, 0),
    "circles of imports": (circles, 0, 0),
    "options of the commands": (options, 140, 140),
    "names that are a verb or pronoun": (lambda: len(sentence_names()), 0, 0),
}
"""For each row of the budget: a function that measures it, the limit of the tests, and the goal."""


def _parts(path: Path, folder: str) -> tuple[str, ...]:
    return path.relative_to(ROOT / folder).with_suffix("").parts


def _reach(beginnings: Iterable[str]) -> set[str]:
    """Return some modules and all modules that they import, directly or not."""
    reached: set[str] = set()
    queue = list(beginnings)
    while queue:
        module = queue.pop()
        if module not in reached:
            reached.add(module)
            queue += imported(module)
    return reached


def _newlines(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n") or " "


def _names_of(path: Path) -> Iterable[tuple[int, str]]:
    if path.suffix == ".py":
        return [(1, path.stem), *_defined_names(tree_of(path))]  # a module is named by its file
    if path.suffix in SCRIPTS and ".min." not in path.name:
        return script_names(path.read_text(encoding="utf-8"), path.suffix)
    return []


def _defined_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def main() -> None:
    """Print the budget as a table, or as JSON."""
    rows = budget()
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print(f"{'':34}{'measured':>10}{'limit':>10}{'goal':>10}")
    for row in rows:
        print(f"{row.name:34}{row.measured:>10,}{row.limit:>10,}{row.goal:>10,}")


if __name__ == "__main__":
    main()
