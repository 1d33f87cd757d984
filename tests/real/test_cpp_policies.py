"""Policies written as C++ by other compilers, of other frameworks, in a recording, and on emulated microcontrollers."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cpp_equality import largest_difference, session_table
from sami_runtime import Executed, Limits, ManualClock, Observation, Run, Session, adopt
from sami_runtime.model.artifact import read_artifact
from sami_runtime.recording.reader import read_recording
from sami_runtime.robots.c_export.export import cpp_sources
from tests.making import foreign

ROOT = Path(__file__).parents[2]
CPP = ROOT / "examples" / "cpp"
PANDA = ROOT / "models" / "panda-satesac.onnx"
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
FUSED = "-mfma" if " fma " in Path("/proc/cpuinfo").read_text() else ""
TOLERANCE = 1e-6 if FUSED else 1e-5
HISTORY = {"steps": 9, "first": "oldest", "start": "repeat"}
CORES = {
    "mps2-an386": ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16"),
    "mps2-an500": ("-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16"),
}


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)}: not installed; tests/debian.sh installs it")


def call(*command, folder=None):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, cwd=folder)


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    """The folder with the policy's sources, and the golden steps with a session's answers."""
    folder = tmp_path_factory.mktemp("policy")
    for name, text in {**cpp_sources(read_artifact(PANDA)), "golden.csv": session_table(PANDA)}.items():
        (folder / name).write_text(text)
    return folder


def network_of(kind):
    """The network of another framework, and its recipe."""
    if kind == "MLP":
        return foreign.feed_forward(), foreign.document()
    if kind == "2-D convolution":
        return foreign.image_convolution(), foreign.document(history={**HISTORY, "steps": 5})
    if "convolution" in kind:
        group = 2 if "groups" in kind else 1
        network = foreign.convolutional(9, 8, 4, 3, group, strides=[2], dilations=[2], pads=[0, 1])
        return network, foreign.document(history=HISTORY)
    network = foreign.recurrent(kind.split(",")[0])
    for node in network.graph.node:
        if node.op_type == "GRU":  # torch's has 1, Keras' may have 0
            reset_last = int(kind == "GRU")
            node.attribute.append(foreign.helper.make_attribute("linear_before_reset", reset_last))
    return network, foreign.document(state=foreign.STATES if kind == "LSTM" else foreign.STATES[:1])


KINDS = ["MLP", "LSTM", "GRU", "GRU, reset first", "convolution", "convolution, groups", "2-D convolution"]


@needs("c++")
@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_of_another_framework_answers_as_onnxruntime(tmp_path, kind):
    adopt(*foreign.Foreign(tmp_path).write(*network_of(kind)), tmp_path / "adopted.onnx")
    steps, difference = largest_difference(tmp_path / "adopted.onnx", f"-O1 {FUSED} {' '.join(STRICT)}")
    assert steps > 10
    assert difference <= TOLERANCE


@needs("c++")
def test_the_sanitizers_find_nothing_in_a_policys_episodes():
    sanitizers = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    steps, difference = largest_difference(PANDA, f"-O1 {sanitizers} {FUSED}")
    assert (steps, difference <= TOLERANCE) == (64, True)


@needs("clang++")
def test_clang_takes_it_without_a_warning_and_it_answers_as_onnxruntime():
    _, difference = largest_difference(PANDA, " ".join(("-O1", FUSED, *STRICT)), "clang++")
    assert difference <= TOLERANCE


class Hand:
    """Observes random numbers, and executes half of what it is asked for."""

    def __init__(self, contract, clock):
        self.observation, self.action, self.clock = contract.observation, contract.action, clock
        self._draw = np.random.default_rng(0)

    def reset(self, seed=None):
        pass

    def read(self):
        values = {signal.name: self._draw.uniform(-0.3, 0.3, signal.size) for signal in self.observation}
        return Observation({name: np.float32(value) for name, value in values.items()}, self.clock.now())

    def write(self, action):
        return Executed(np.float32(0.5) * action)

    def stop(self):
        pass

    close = stop


@needs("c++")
@pytest.mark.filterwarnings("ignore::sami_runtime.errors.SafetyWarning")
def test_a_recording_replayed_in_cpp_gives_the_recorded_actions_and_contexts(policy, tmp_path):
    session, clock = Session.load(PANDA), ManualClock()
    unguarded, path = ("ranges", "ood", "frozen"), tmp_path / "run.mcap"
    hand = Hand(session.contract, clock)
    with Run(session, hand, clock, limits=Limits(rest=0.0), unguarded=unguarded, record=path) as run:
        for seed in range(2):
            run.episode(seed, 40)
    lines = ["columns"]
    for _, record in read_recording(path).steps:
        observed = [record.observation.values[signal.name] for signal in session.contract.observation]
        row = [float(record.step == 0), *np.concatenate([*observed, record.executed, record.action, record.context])]
        lines.append(",".join(f"{number:.9g}" for number in row))
    assert len(lines) == 81
    (tmp_path / "recording.csv").write_text("\n".join(lines) + "\n")
    program, header = tmp_path / "replay", policy / "panda_satesac.hpp"
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", *([FUSED] if FUSED else []), *STRICT)
    built = call(
        "c++", *flags, "-DPOLICY=panda_satesac", "-include", header, CPP / "replay.cpp", header.with_suffix(".cpp"),
        "-o", program,
    )  # fmt: skip
    assert (built.returncode, built.stderr) == (0, "")
    result = call(program, tmp_path / "recording.csv", TOLERANCE)
    assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("80 steps")


@needs("arm-none-eabi-g++", "qemu-system-arm")
@pytest.mark.parametrize("board", CORES)
def test_a_microcontroller_answers_as_onnxruntime(policy, board):
    flags = ("-mthumb", "-mfloat-abi=hard", "-std=c++17", "-O2", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti")
    sources = (CPP / "replay.cpp", policy / "panda_satesac.cpp", CPP / "cortex_m.cpp")
    built = call(
        "arm-none-eabi-g++", *CORES[board], *flags, "-DPOLICY=panda_satesac", "-include", policy / "panda_satesac.hpp",
        *sources, "-T", CPP / "cortex_m.ld", "--specs=rdimon.specs", "-Wl,--gc-sections", "-o", policy / "replay.elf",
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    semihosting = "enable=on,target=native,arg=replay,arg=golden.csv,arg=1e-5"
    quiet = ("-nographic", "-monitor", "none", "-serial", "none")
    result = call(
        "qemu-system-arm", "-M", board, *quiet, "-semihosting-config", semihosting, "-kernel", "replay.elf",
        folder=policy,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("64 steps")
