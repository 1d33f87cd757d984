"""The joints' limits in C++ allow what the Python ones do, on the same table of cases."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "cases" / "joint_limits.json"


@pytest.mark.skipif(shutil.which("c++") is None, reason="c++ is not installed (Debian: g++)")
@pytest.mark.skipif(not Path("/usr/include/nlohmann/json.hpp").is_file(), reason="nlohmann-json3-dev is not installed")
def test_cpp_allows_what_the_table_says_to_the_last_bit(tmp_path):
    program = tmp_path / "joint_table"
    options = ("-std=c++17", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
    process = subprocess.run(
        ["c++", *options, ROOT / "examples/cpp/joint_table.cpp", "-o", program], capture_output=True
    )
    assert process.returncode == 0, process.stderr
    process = subprocess.run([program, TABLE], capture_output=True, text=True)
    cases = len(json.loads(TABLE.read_text(encoding="utf-8")))
    assert (process.returncode, process.stdout) == (0, f"{cases} cases, 0 wrong\n")


@pytest.mark.skipif(shutil.which("c++") is None, reason="c++ is not installed (Debian: g++)")
def test_cpp_stands_still_where_a_number_is_not_finite(tmp_path):
    """The Python code raises there; a NaN compares as within every limit."""
    (tmp_path / "main.cpp").write_text(
        """
        #include "sami_joints.hpp"
        using sami::JointCommand, sami::JointMoment;
        int main() {
          const double nan = std::nan("");
          const JointMoment moments[] = {{nan, 0.0, 0.5, 0.01}, {0.9, -sami::JointLimit::kNone, 0.5, 0.01}};
          const sami::JointLimit limits[] = {{-1.0, 1.0, 2.0}, {-1.0, 1.0, 2.0, 50.0, 10.0, 80.0, 2.0, 0.1}};
          for (const auto& limit : limits)
            for (const auto kind : {JointCommand::kVelocity, JointCommand::kTarget}) {
              const double still = kind == JointCommand::kTarget ? 0.5 : 0.0;
              unsigned limited = 0;
              for (const auto& moment : moments)
                if (sami::Joint(kind, limit).limited_to(7.0, moment, &limited) != still || limited != sami::kNotFinite)
                  return 1;
              if (sami::Joint(kind, limit).limited_to(nan, {0.9, 0.0, 0.5, 0.01}, &limited) != still) return 2;
            }
        }
        """
    )
    options = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "examples" / "cpp", "-o", tmp_path / "main")
    assert subprocess.run(["c++", *options, tmp_path / "main.cpp"]).returncode == 0
    assert subprocess.run([tmp_path / "main"]).returncode == 0
