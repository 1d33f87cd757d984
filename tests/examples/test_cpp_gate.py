"""The gate in C++ rules as the Python one does, on a table of cases that the Python one wrote."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER, HEADERS = ROOT / "examples" / "cpp", ROOT / "sami_runtime" / "robots" / "c_export"
TABLE = FOLDER / "gate_cases.csv"


def call(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


def generated(*options):
    """What the Python gate rules, as the generator prints it."""
    result = call(sys.executable, FOLDER / "gate_cases.py", *options)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture(scope="module")
def gate_table(tmp_path_factory):
    """The program that compares; it needs a compiler and nothing else."""
    if shutil.which("c++") is None:
        pytest.skip("the C++ gate is not built: c++ is not installed (Debian: g++)")
    program = tmp_path_factory.mktemp("gate") / "gate_table"
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    source = (
        "-std=c++17",
        "-ffp-contract=off",
        *warnings,
        "-I",
        HEADERS,
        FOLDER / "gate_table.cpp",
        "-o",
        program,
    )
    result = call("c++", *sanitizers, *source)
    if "cannot find" in result.stderr:  # the sanitizers' libraries are a package of their own
        result = call("c++", *source)
    assert (result.returncode, result.stderr) == (0, "")
    return program


def test_the_table_is_what_the_python_gate_rules():
    """If the gate changed on purpose: python examples/cpp/gate_cases.py > examples/cpp/gate_cases.csv"""
    assert generated() == TABLE.read_text(encoding="utf-8")


def require_every_reason_and_limit(table):
    ticks = [row for row in (line.split(",") for line in table.splitlines()) if row[0] == "tick"]
    kinds = {"age", "order", "frozen", "alarm", "deadline", "ranges", "inside", "bounds", "jump"}
    assert {tick[6] for tick in ticks} == {"", *kinds, "refused", "missed", "pause", "start", "fallback"}
    limits = {name.split(" ")[0] for tick in ticks for name in tick[7].split(";") if name}
    assert limits == {"bounds", "rate", "gentle", "acceleration", "workspace", "blend-in", "rest", "stop"}


def test_the_table_has_every_reason_and_limit():
    require_every_reason_and_limit(TABLE.read_text(encoding="utf-8"))


def test_the_table_has_every_limit_that_a_person_can_set():
    """But those that the gate in C++ refuses by name."""
    from sami_runtime.robots.c_export.resolved_limits import MISSING
    from sami_runtime.safety.limits import Limits

    cases = runpy.run_path(str(FOLDER / "gate_cases.py"))
    names = {name for case in (*cases["by_hand"](), *cases["of_the_world"]()) for name in case[1]}
    assert set(Limits.model_fields) - names <= {*MISSING, "deadline_s", "known_readings"}


def test_cpp_rules_as_the_table_says_to_the_last_bit(gate_table):
    result = call(gate_table, TABLE)
    assert re.fullmatch(r"\d+ cases, \d+ ticks, \d+ of them latched: 0 differ, .* 0\.0e\+00\n", result.stdout), result
    assert result.returncode == 0


def test_cpp_rules_as_the_python_gate_on_cases_drawn_anew(gate_table, tmp_path):
    table = generated("--random", 300, "--seed", 7)
    cases = table[table.index("case,random 0\n") :]
    require_every_reason_and_limit(cases)
    (tmp_path / "drawn.csv").write_text(cases, encoding="utf-8")
    result = call(gate_table, tmp_path / "drawn.csv")
    assert (result.returncode, result.stdout.startswith("300 cases, ")) == (0, True), result.stdout


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [("robot limits", 8, "0.2001"), ("missed then acted: too many", 12, "0"), ("rate", 7, ""), ("order", 6, "age")],
)
def test_cpp_finds_a_difference_at_its_line(gate_table, tmp_path, row, column, value):
    lines = [line.split(",") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    begin = next(at for at, line in enumerate(lines) if line[:2] == ["case", row])
    ticks = [at for at in range(begin + 2, len(lines)) if lines[at][0] == "tick"][1:]
    at = next(at for at in ticks if lines[at][column] not in ("", value, "-"))
    lines[at][column] = value
    (tmp_path / "changed.csv").write_text("\n".join(map(",".join, lines)) + "\n", encoding="utf-8")
    result = call(gate_table, tmp_path / "changed.csv")
    assert (result.returncode, f"{row} differs at line {at + 1}:" in result.stdout) == (4, True)


@pytest.mark.skipif(shutil.which("c++") is None, reason="c++ is not installed (Debian: g++)")
def test_cpp_does_not_act_on_a_position_older_than_its_writes_or_its_predecessor(tmp_path):
    """Where a loop is faster than kWrites allows, it cannot count all actions since."""
    (tmp_path / "main.cpp").write_text(
        """
        #include "sami_gate.hpp"
        struct Model {
          static constexpr int kAction = 1, kObserved = 1, kSignals = 1, kWrites = 4;
          static constexpr std::array<int, 2> kSignalBegin{0, 1};
        };
        int main() {
          sami::Limits<Model> limits;
          limits.period = 0.001;
          limits.moves = {0}, limits.moves_scale = {1.0}, limits.workspace_low = {-9.0}, limits.workspace_high = {9.0};
          sami::Gate<Model> gate(limits);
          for (int i = 0; i < 9; ++i) {
            sami::Observation<Model> seen;
            seen.time = (i < 5 ? 0 : i - 5) * 0.001, seen.values[0] = static_cast<float>(i);
            const bool late = gate.fault(seen, i * 0.001).kind == sami::Kind::age;
            if (late != (i > 4)) return 1;
            gate.write(gate.propose({0.0f}, i * 0.001), [](const auto& action) { return action; });
          }
          sami::Observation<Model> old;  // a stamp of the signal before that of the observation before it
          old.by_signal = true, old.times = {0.002};
          if (gate.fault(old, 0.009).kind != sami::Kind::order) return 2;
        }
        """
    )
    program = tmp_path / "main"
    result = call("c++", "-std=c++17", "-Wall", "-Werror", "-I", HEADERS, tmp_path / "main.cpp", "-o", program)
    assert (result.returncode, call(program).returncode) == (0, 0), result.stderr


@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-ffinite-math-only"])
def test_cpp_does_not_compile_where_nan_would_pass_as_a_number(flag):
    if shutil.which("c++") is None:
        pytest.skip("c++ is not installed (Debian: g++)")
    preprocess = ("c++", "-std=c++17", "-E", "-x", "c++", HEADERS / "sami_gate.hpp", "-o", "/dev/null")
    assert call(*preprocess).returncode == 0
    result = call(*preprocess, flag)
    assert (result.returncode, "the gate rejects NaN" in result.stderr) == (1, True)


def test_cpp_refuses_a_table_that_it_cannot_read(gate_table, tmp_path):
    result = call(gate_table, tmp_path / "none.csv")
    assert (result.returncode, "cannot be read" in result.stderr) == (1, True)


def test_commands_in_comments_name_files_as_the_folder_that_they_are_called_in_sees_them():
    """Those of a Cortex-M are called in examples/cpp, and CMake takes a relative folder for one of its own."""
    commands = (FOLDER / "cortex_m.cpp").read_text().partition("cd examples/cpp")
    assert commands[1]
    files = re.findall(r"[\w./]*(?:panda_satesac\.[ch]pp|golden\.csv)", "".join(commands))
    assert files == ["../../policy/panda_satesac.hpp", "../../policy/panda_satesac.cpp", "../../golden.csv"]
    assert "-DPOLICY_FOLDER=$PWD/policy" in (FOLDER / "CMakeLists.txt").read_text()
