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
    done = subprocess.run(["c++", *options, ROOT / "examples/cpp/joint_table.cpp", "-o", program], capture_output=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program, TABLE], capture_output=True, text=True)
    cases = len(json.loads(TABLE.read_text(encoding="utf-8")))
    assert (done.returncode, done.stdout) == (0, f"{cases} cases, 0 wrong\n")
