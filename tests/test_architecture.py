"""Rules that keep the packages apart, read from the sources."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import budget  # noqa: E402

PACKAGES = {"sami_runtime": "sami_runtime", "sami_train": "sami_train", "cli": "sami_cli", "models": "sami_models"}

TRAINING = ("sami_train", "sami_cli", "cli", "torch", "stable_baselines3", "tensorboard")
SIMULATORS = ("gymnasium", "panda_gym", "pybullet", "pybullet_utils", "mujoco")
BRIDGE = (
    *("errors", "signals", "distribution", "clock", "factories", "files", "user_code", "model", "session"),
    *("child", "adapters", "gap", "checks.verify", "recording.reader", "recording.replay"),
    *("adoption.recipe", "robots.kit"),
)
"""Rooms of the runtime that training may use: the file's format, what judges its own exports, the sim-to-real profile,
and recordings, which it learns from."""

FLOORS = {
    "sami_runtime": (
        "errors signals distribution",
        "child clock files realtime user_code",
        "factories",
        "model",
        "session gap",
        "adapters",
        "safety",
        "loop",
        "checks recording",
        "run testing",
        "robots adoption",
        "__init__",
    ),
    "sami_train": (
        "binomial files machine seeds settings __init__",
        "envs",
        "episodes",
        "evaluation",
        "config",
        "agent",
        "runs",
        "export",
        "studies",
    ),
}
"""Rooms of each package from the ground up, a floor each: a lower room does not import a higher one. Robots and studies
are branches: nothing below imports them."""

TORCH_FREE = (
    "sami_train",
    "sami_train.config.schema",
    "sami_train.envs",
    "sami_train.envs.mujoco.env",
    "sami_train.envs.mujoco.batch",
    "sami_train.episodes.rollout",
    "sami_train.episodes.rollout_workers",
    "sami_train.evaluation.evaluate",
    "sami_train.export.atlas",
    "sami_train.studies.contexts.adaptation",
    "sami_train.studies.fit_gap.fit",
    "sami_train.studies.fit_gap.trace",
    "sami_train.studies.fit_robot.files",
    "sami_train.studies.play.env",
    "sami_train.studies.sweep.sweep",
    "sami_train.studies.compare.comparison",
    "sami_train.studies.report.write",
)


def sources(folder):
    """Python files in a folder, without those of environments, builds and caches."""
    results, folders = [], [ROOT / folder]
    while folders:  # environments hold a hundred times as many files
        for path in folders.pop().iterdir():
            if path.is_dir():
                folders += [] if path.name in ("build", "dist") or path.name.startswith(".") else [path]
            elif path.suffix == ".py":
                results.append(path)
    return sorted(results)


def tracked():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@functools.cache
def import_nodes(path, module_level=False):
    """Import statements of a file; what is imported for type checking only is left out."""

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from visit(other)
            return
        if module_level and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return list(visit(budget.tree_of(path)))


@functools.cache
def every_import(path):
    """Import statements of a file wherever they stand."""
    return [node for node in ast.walk(budget.tree_of(path)) if isinstance(node, (ast.Import, ast.ImportFrom))]


def imports(path, module_level=False):
    """(line, dotted name) of each absolute import; see `import_nodes`."""
    return [
        (node.lineno, name)
        for node in import_nodes(path, module_level)
        if not getattr(node, "level", 0)
        for name in names_in(node)
    ]


def module_of(path):
    """Dotted name of a file's module, as it is imported; a package's is that of its `__init__`."""
    folder, *parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([PACKAGES[folder], *(part for part in parts if part != "__init__")])


def names_in(node, parts=()):
    """Dotted names that an import statement in the file of these parts (package, folders, file) asks for."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    base = ".".join([*parts[: len(parts) - node.level], node.module or ""]) if node.level else node.module
    return [f"{base.rstrip('.')}.{name.name}" for name in node.names]


def modules_below(folder):
    """What each module of a package imports of it when it is loaded: modules by module."""
    files = {module_of(path): path for path in sources(folder)}
    below = {}
    for module, path in files.items():
        parts = (PACKAGES[folder], *path.relative_to(ROOT / folder).with_suffix("").parts)
        names = {name for node in import_nodes(path, module_level=True) for name in names_in(node, parts)}
        # `from a.b import c` asks for the module a.b.c, or for the name c of the module a.b.
        modules = {name if name in files else name.rpartition(".")[0] for name in names}
        below[module] = modules & files.keys()
    return below


def room_of(path):
    """(package folder, room): the folder or module right below the package, or a room within one that has a floor."""
    folder, *parts = path.relative_to(ROOT).with_suffix("").parts
    return folder, room_named(folder, parts)


def room_named(folder, parts):
    """The room of a module, by the names of its folders and its own below the package."""
    inner = ".".join(parts[:2])
    return inner if any(inner in rooms.split() for rooms in FLOORS[folder]) else parts[0]


def room_imports(folder):
    """(room, room, `file:line name`) of each import from one room of a package into another, wherever it stands."""
    package = PACKAGES[folder]
    for path in sources(folder):
        parts = (package, *path.relative_to(ROOT / folder).with_suffix("").parts)
        for node in every_import(path):
            for name in names_in(node, parts):
                top, *rest = name.split(".")
                exists = rest and ((ROOT / folder / rest[0]).exists() or (ROOT / folder / f"{rest[0]}.py").exists())
                other = room_named(folder, rest) if exists else "__init__"
                if top == package and other != room_of(path)[1]:
                    yield room_of(path)[1], other, f"{path.relative_to(ROOT)}:{node.lineno} {name}"


def offences(folder, banned, module_level=False):
    """Each import of a banned package, as `file:line name`."""
    word = re.compile(rf"\b({'|'.join(banned)})\b")
    return [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sources(folder)
        if word.search(path.read_text(encoding="utf-8"))  # parsing takes far longer
        for line, name in imports(path, module_level)
        if name.split(".")[0] in banned
    ]


def test_the_rules_see_imports():
    """A guard of the guards: they would also pass if `imports` found nothing."""
    assert "torch" in {name for _, name in imports(ROOT / "sami_train" / "agent" / "learner.py")}
    late = ROOT / "sami_runtime" / "session" / "inference.py"
    assert "onnxruntime" in {name for _, name in imports(late)}
    assert "onnxruntime" not in {name for _, name in imports(late, module_level=True)}
    below = modules_below("sami_train")
    assert "sami_train.envs.spec" in below["sami_train.envs.catalog"]
    assert "sami_train.envs.catalog" not in below["sami_train.envs.mjcf.env"], "inside a function, or for types"
    assert "sami_cli.options" in modules_below("cli")["sami_cli.target"], "relative"


@pytest.mark.parametrize("folder", FLOORS)
def test_no_room_imports_from_a_floor_above(folder):
    floor = {room: at for at, rooms in enumerate(FLOORS[folder]) for room in rooms.split()}
    assert {room_of(path)[1] for path in sources(folder)} == set(floor), "each room has its floor, and nothing else has"
    imported = list(room_imports(folder))
    assert imported
    assert [where for room, other, where in imported if floor[other] > floor[room]] == []


@pytest.mark.parametrize("folder", FLOORS)
def test_no_circle_of_rooms(folder):
    """Neighbours on a floor may know each other, but not in both directions."""
    below = {}
    for room, other, _ in room_imports(folder):
        below.setdefault(room, set()).add(other)
    TopologicalSorter(below).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("folder", FLOORS)
def test_no_circle_of_modules(folder):
    """Not even one that happens to load today: which module comes first would then decide whether it does."""
    TopologicalSorter(modules_below(folder)).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("name", budget.MEASURES)
def test_the_product_keeps_its_budget(name):
    """`python benchmarks/budget.py` prints it. Lower the limit of a row that came down."""
    measure, limit, goal = budget.MEASURES[name]
    assert goal <= limit
    assert measure() <= limit


def test_a_verb_or_pronoun_is_seen_in_javascript_and_cpp():
    javascript = """
    // told in a comment
    const { from, told } = stream("told"), low = 1, said = `told ${low}`;
    class Run { gave(kept, ...own) { this.heard ||= row.taken; return { asked: 1, seen }; } }
    """
    cpp = """
    #include <told>
    struct Given { bool has(int told) const { return message->said + row.taken + std::own; } /* asked */ };
    enum class Kind { none }; const char* text = R"(seen "shown")"; char quote = '"'; this->given_ = 'x';
    """
    for ending, text, expected in (
        (".js", javascript, "told said gave kept own heard seen"),
        (".html", f"<p>told</p><script>{javascript}</script>said", "told said gave kept own heard seen"),
        (".hpp", cpp, "Given has told none"),
    ):
        names = [(line, name) for line, name in budget.script_names(text, ending) if name.lower() in budget.SENTENCES]
        assert [name for _, name in names] == expected.split(), ending
        assert names[0][0] == 3
    viewer = budget.ROOT / "sami_runtime" / "recording" / "page"
    names = {name for _, name in budget.script_names((viewer / "view.js").read_text(encoding="utf-8"), ".js")}
    assert {"neighbour", "drawOverview", "mapCaption", "legend"} <= names


def test_the_trunk_imports_no_branch():
    """Not inside a function and not for types either."""
    for branch in budget.BRANCHES:
        package, room = branch.split(".")
        inside = {name for name in budget.modules() if f"{name}.".startswith(f"{branch}.")}
        assert inside
        importers = {
            name for name in budget.modules() if name.startswith(f"{package}.") and budget.imported(name) & inside
        }
        assert importers <= inside, room
    assert any(name.startswith(budget.REGISTERED) for name in budget.modules())
    assert [name for name in budget.trunk() if name.startswith(budget.REGISTERED)] == []


def test_every_package_folder_is_in_the_wheel():
    """A forgotten one breaks only the wheel, which nobody sees in a checkout."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for folder, package in PACKAGES.items()
        for path in sources(folder)
    }
    assert set(setuptools["packages"]) == folders
    assert [path for folder in PACKAGES for path in sources(folder) if not (path.parent / "__init__.py").exists()] == []


def test_the_runtime_knows_nothing_of_training():
    assert offences("sami_runtime", TRAINING) == []


def test_the_runtime_imports_simulators_only_where_they_are_used():
    assert offences("sami_runtime", SIMULATORS, module_level=True) == []


def test_training_uses_of_the_runtime_only_what_its_files_need():
    uses = [
        (path.relative_to(ROOT), line, name)
        for path in sources("sami_train")
        for line, name in imports(path)
        if name.split(".")[0] == "sami_runtime"
    ]
    assert uses
    assert [where for where in uses if not where[2].startswith(tuple(f"sami_runtime.{room}." for room in BRIDGE))] == []
    assert offences("sami_train", ("sami_cli", "cli")) == []


def test_the_command_line_imports_both_only_inside_its_commands():
    heavy = ("sami_runtime", "sami_train", "torch", "stable_baselines3", "onnxruntime", "onnx", *SIMULATORS)
    assert offences("cli", heavy, module_level=True) == []


def test_nothing_imports_cli_by_the_name_of_its_folder():
    assert offences(".", ("cli",)) == []


def test_rollout_workers_evaluation_and_configuration_load_no_torch(tmp_path):
    pytest.importorskip("mujoco")
    script = f"""
import importlib, sys
for name in {TORCH_FREE!r}:
    importlib.import_module(name)
    assert not {{"torch", "stable_baselines3"}} & sys.modules.keys(), name
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert process.returncode == 0, process.stderr


def test_every_public_name_exists_once():
    declaring = 0
    for folder, package in PACKAGES.items():
        for path in sources(folder):
            if "__all__ =" not in path.read_text(encoding="utf-8"):
                continue
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            module = importlib.import_module(".".join([package, *(part for part in parts if part != "__init__")]))
            assert [name for name in module.__all__ if not hasattr(module, name)] == []
            assert len(set(module.__all__)) == len(module.__all__)
            declaring += 1
    assert declaring >= 3


def test_no_text_tells_to_install_what_belongs_to_somebody_else():
    """`sami` on PyPI is another project; an extra of it is not ours either."""
    # Joined from parts, so that this file does not offend itself.
    wrong = re.compile("pip " + r"install[^\n]*[ '\"]sami(?=[\[ '\"`]|$)|\bsami" + r"\[(?!\[)[a-z]", re.MULTILINE)
    texts = [path for path in tracked() if path.suffix in (".py", ".md", ".toml", ".sh") or path.name == "Makefile"]
    assert len(texts) > 100
    assert [str(path.relative_to(ROOT)) for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_no_file_names_a_place_of_one_machine():
    """Also not the models and pictures: what they carry was written by a program on some machine."""
    homes = "|".join(("home", "root", "Users", "mnt", "work", "workspace"))
    # Joined from parts, so that this file does not offend itself.
    patterns = [rf"(?<![\w.~$)}}>*/:-])/(?:{homes})/[\w.]", "index" + "-url", "/simp" + "le/?[\\s\"']"]
    place = re.compile("|".join(patterns).encode())
    results = [
        f"{path.relative_to(ROOT)}: {match.group().decode()}"
        for path in tracked()
        for match in place.finditer(path.read_bytes())
    ]
    assert results == []


def test_nothing_else_starts_a_python():
    """Neither `-m` nor `-c` is safe by itself: both put the current folder first."""
    starters = {"sami_runtime/child.py"}
    again = {"cli/app.py"}  # the same command anew, as its user wrote it
    readers = {"sami_runtime/realtime.py", "sami_runtime/distribution.py"}  # in what a person reads
    files = [path for folder in ("sami_runtime", "sami_train", "cli") for path in (ROOT / folder).rglob("*.py")]
    result = {
        str(path.relative_to(ROOT)) for path in files if re.search(r"\bsys\.executable\b", path.read_text("utf-8"))
    }
    assert result == starters | again | readers
    spawning = [path for path in files if "get_context(" in path.read_text("utf-8")]
    for path in spawning:
        assert "one_thread()" in ast.unparse(ast.parse(path.read_text("utf-8"))), path
