"""What tests share that take minutes: wheel and sdist, the C++ example, ports that no other suite here has."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.making.built import build

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "panda-satesac.onnx"
SERIAL_TESTS = (
    *("test_cpp_loop", "test_franka", "test_lerobot.py", "test_own_arm", "test_ros2", "test_swap_in_time"),
    *("test_udp_robot", "test_unitree", "test_view_in_a_browser", "test_watchdog_kills", "real/test_handover"),
    *("test_a_process_that_is_stopped_and_continued", "test_the_cell_of_a_node_that_is_lost"),
    *("test_bring_your_policy", "test_put_it_on_an_arm", "test_lerobot_so101"),
)
"""Files and tests whose robots, clocks or networks would notice a test beside them."""
LONG = ("test_slurm", "test_readme", "test_many_ticks", "test_adopted_frameworks")
"""Files that take minutes: they begin first, so that no worker waits at the end."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items):
    """Mark what runs alone, and begin with what takes long."""
    for item in items:
        if any(name in item.nodeid for name in SERIAL_TESTS):
            item.add_marker("alone")
    items.sort(key=lambda item: not any(name in item.nodeid for name in LONG))


@pytest.fixture(scope="session")
def free_ports():
    """The first of two free UDP ports."""
    while True:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second,
        ):
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@pytest.fixture
def ports_of_the_robot(free_ports, monkeypatch):
    """The robot of the UDP example, and what drives it, use these ports."""
    monkeypatch.setenv("UDP_ROBOT_PORT", str(free_ports))


@pytest.fixture(scope="session")
def cpp_build(tmp_path_factory):
    """The folder of the C++ programs, with the policy and the gate of the example: they need a compiler alone."""
    if shutil.which("c++") is None:
        pytest.skip("the C++ example is not built: c++ is not installed (Debian: g++)")
    programs, options = tmp_path_factory.mktemp("build"), ("--set", f"limits={ROOT / 'examples' / 'limits.toml'}")
    run("sami", "export", "--c", MODEL, "--out", programs, *options)
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion")
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-DPOLICY=panda_satesac", *warnings, "-pthread")
    header, source = programs / "panda_satesac.hpp", programs / "panda_satesac.cpp"
    for name in ("replay", "loop"):
        program = ROOT / "examples" / "cpp" / f"{name}.cpp"
        run("c++", *flags, "-include", header, program, source, "-o", programs / name)
    return programs


def run(name, *arguments):
    """Run a program that must succeed."""
    program = Path(sys.executable).with_name(name)
    command = [program if program.exists() else name, *arguments]
    process = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """The folder with wheel and sdist: $DIST, or built here."""
    folder = Path(os.environ["DIST"]).resolve() if os.environ.get("DIST") else tmp_path_factory.mktemp("dist")
    if not list(folder.glob("*.whl")):
        build(folder)
    return folder


@pytest.fixture(scope="session")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path
