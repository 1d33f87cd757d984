"""What tests share that take minutes: wheel and sdist, the C++ example, ports that no other suite here has."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.making.built import build

ROOT = Path(__file__).parents[2]
SYSTEM = ("/usr/local/include", "/usr/include")
OF_DEBIAN_13 = ROOT / "build" / "onnxruntime" / "usr" / "include"
HEADER_FOLDERS = ("", "onnxruntime", "onnxruntime/core/session")


def missing():
    """What the C++ example needs and this machine lacks; empty where it can be built."""
    for tool, package in (("cmake", "cmake"), ("c++", "g++")):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian: {package})"
    if not any(Path(folder, "nlohmann", "json.hpp").is_file() for folder in SYSTEM):
        return "nlohmann/json.hpp is not installed (Debian: nlohmann-json3-dev)"
    if header_root() is None:
        return "onnxruntime's C++ headers are not installed (Debian: libonnxruntime-dev)"
    return ""


def header_root():
    """The folder that holds onnxruntime's C++ headers: of a release, the system's, or those of `make debian`."""
    root = os.environ.get("ONNXRUNTIME_ROOT", "")
    roots = [*([Path(root, "include")] if root else []), *map(Path, SYSTEM), OF_DEBIAN_13]
    for include in roots:
        if any((include / folder / "onnxruntime_cxx_api.h").is_file() for folder in HEADER_FOLDERS):
            return include
    return None


ALONE = (
    *("test_cpp_loop", "test_franka", "test_lerobot.py", "test_ros2", "test_swap_in_time", "test_udp_robot"),
    *("test_unitree", "test_view_in_a_browser", "test_watchdog_kills", "test_a_process_that_is_stopped_and_continued"),
    *("test_the_cell_of_a_node_that_is_lost", "test_bring_your_policy", "test_put_it_on_an_arm"),
)
"""Files and tests whose robots, clocks or networks would notice a test beside them."""
LONG = ("test_slurm", "test_readme", "test_own_arm", "test_million_ticks", "test_adopted_frameworks")
"""Files that take minutes: they begin first, so that no worker waits at the end."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items):
    """Mark what runs alone, and begin with what takes long."""
    for item in items:
        if any(name in item.nodeid for name in ALONE):
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
    """The folder of the C++ programs, built against the headers that were found and the Python package's library."""
    if reason := missing():
        pytest.skip(f"the C++ example is not built: {reason}")
    import onnxruntime

    root, programs = tmp_path_factory.mktemp("onnxruntime"), tmp_path_factory.mktemp("build")
    library = next((Path(onnxruntime.__path__[0]) / "capi").glob("libonnxruntime.so.*"), None)
    if library is None:
        pytest.skip("the C++ example is not built: this onnxruntime package has no shared library of its own")
    (root / "include").symlink_to(header_root())
    (root / "lib").mkdir()
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (root / "lib" / name).symlink_to(library)
    source = ROOT / "examples" / "cpp"
    for command in (
        ("cmake", "-S", source, "-B", programs, f"-DONNXRUNTIME_ROOT={root}", "-DCMAKE_BUILD_TYPE=Debug"),
        ("cmake", "--build", programs),
    ):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stdout + done.stderr
    return programs


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
