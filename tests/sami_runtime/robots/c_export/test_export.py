"""A model file as C++: as ONNX Runtime to the last bits, without heap, and the same text each time."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sami_runtime.distribution import shipped_models
from sami_runtime.errors import ArtifactError, SamiError
from sami_runtime.model.artifact import read_artifact
from sami_runtime.robots.c_export.export import cpp_sources
from sami_runtime.robots.c_export.resolved_limits import resolved_limits
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session

ROOT = Path(__file__).parents[4]
sys.path.insert(0, str(ROOT / "benchmarks"))
import budget  # noqa: E402

AHEAD = shipped_models()["panda-satesac-ahead"]
FLAGS = ("-std=c++17", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


def call(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def sources():
    return cpp_sources(read_artifact(AHEAD))


@pytest.fixture(scope="module")
def folder(sources, tmp_path_factory):
    """The folder with the sources, and the object file of the policy."""
    if shutil.which("c++") is None:
        pytest.skip("the policy is not compiled: c++ is not installed (Debian: g++)")
    path = tmp_path_factory.mktemp("policy")
    for name, text in sources.items():
        (path / name).write_text(text)
    result = call("c++", *FLAGS, "-fno-exceptions", "-c", path / "panda_satesac_ahead.cpp", "-o", path / "policy.o")
    assert (result.returncode, result.stderr) == (0, "")
    return path


def answers_of_onnxruntime(path):
    """The golden steps as `replay` reads them, with the answers of a session instead of torch's."""
    session = Session.load(AHEAD)
    contract, golden = session.contract, session.contract.golden_steps()
    lines = ["columns"]
    for step in range(len(golden)):
        if step in golden.resets:
            session.reset()
        session.elapse(int(golden.holds[step, 0]))
        age = {signal.name: float(golden.age[step, at]) for at, signal in enumerate(contract.observation)}
        observation = {name: values[step] for name, values in golden.observation.items()}
        answer = session.step(observation, age)
        session.executed(golden.executed[step])
        parts = [*observation.values(), golden.executed[step], answer.action, answer.context, golden.age[step]]
        row = [float(step in golden.resets), *(x for part in parts for x in part.tolist()), golden.holds[step, 0]]
        lines.append(",".join(f"{number:.9g}" for number in row))
    path.write_text("\n".join(lines) + "\n")


def test_it_answers_as_onnxruntime_step_by_step(folder):
    program, table = folder / "replay", folder / "session.csv"
    header, source = folder / "panda_satesac_ahead.hpp", ROOT / "examples" / "cpp" / "replay.cpp"
    fused = ("-mfma",) if " fma " in Path("/proc/cpuinfo").read_text() else ()
    again = call("c++", *FLAGS, *fused, "-c", folder / "panda_satesac_ahead.cpp", "-o", folder / "fused.o")
    assert again.returncode == 0
    result = call(
        "c++", *FLAGS, "-DPOLICY=panda_satesac_ahead", "-include", header, source, folder / "fused.o", "-o", program
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    answers_of_onnxruntime(table)
    result = call(program, table, "1e-6" if fused else "1e-5")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("64 steps")


def test_it_refers_to_no_heap(folder):
    undefined = call("nm", "-u", folder / "policy.o").stdout.split()
    assert not [name for name in undefined if re.match(r"malloc|calloc|realloc|free|_Zn|_Zd|__cxa", name)]


def test_the_same_file_gives_the_same_text(sources):
    assert cpp_sources(read_artifact(AHEAD)) == sources


def test_the_text_names_nothing_by_a_verb_or_pronoun(sources):
    public = {key.split()[1] for key in budget.KEYS if "sami_gate.hpp" in key}  # C++ users call them
    for name, text in sources.items():
        names = {word.strip("_").lower() for _, word in budget.script_names(text, Path(name).suffix)}
        assert names & budget.SENTENCES <= public
        assert {"infer", "ktasks", "action"} & names


@pytest.mark.parametrize("text", ["a\nint injected;", "a\rint injected;", "a\\\nint injected;", "a\u2028int injected;"])
def test_no_text_of_a_model_file_becomes_code(text):
    artifact = read_artifact(shipped_models()["panda-sac"])
    first, *signals = artifact.contract.observation
    first = first.model_copy(update={"unit": text, "elements": tuple(f"{text}{at}" for at in range(first.size))})
    hostile = artifact.contract.model_copy(update={"name": text, "observation": (first, *signals)})
    for source in cpp_sources(replace(artifact, contract=hostile)).values():
        assert [line for line in source.splitlines() if line.startswith("int injected")] == []
        assert "injected" in source


def test_limits_that_the_gate_in_cpp_lacks_are_refused_by_name():
    limits = Limits(known={"ee_position.z": 0.1})
    with pytest.raises(SamiError, match=r"the limits set known, which the gate in C.. lacks"):
        cpp_sources(read_artifact(AHEAD), limits)


def test_the_time_to_adapt_is_the_files_own_where_the_limits_name_no_steps():
    contract = read_artifact(shipped_models()["half-cheetah-satesac"]).contract
    members = dict(resolved_limits(Limits(time_to_adapt={"gentle": 0.5}, rate=20.0, rest=0.0), contract))
    assert (members["adapt_steps"], members["adapt_gentle"], members["adapt_then"]) == (
        contract.recovery.steps, 0.5, "hold",
    )  # fmt: skip


def test_an_operator_that_cannot_be_written_is_refused_by_name():
    import onnx

    artifact = read_artifact(AHEAD)
    model = onnx.load_from_string(artifact.model_bytes)
    node = next(node for node in model.graph.node if node.op_type == "Tanh")
    node.op_type = "Atan"
    with pytest.raises(ArtifactError, match=r"its operator Atan .* is none of: Abs, Add, .*Run this file with"):
        cpp_sources(replace(artifact, model_bytes=model.SerializeToString()))


@pytest.mark.parametrize(
    ("limits", "writes"), [({}, 2), ({"max_age_s": 0.3}, 302), ({"max_age_s": float("inf")}, 1002)], ids=repr
)
def test_the_gate_keeps_the_writes_of_a_loop_of_1_khz_up_to_the_largest_age(limits, writes):
    workspace = {"ee_position.x": [-0.3, 0.3]} if limits else {}
    moves = {"dx": {"element": "ee_position.x", "scale": 0.05}} if limits else {}
    document = {**limits, "workspace": workspace, "moves": moves}
    sources = cpp_sources(read_artifact(AHEAD), limits=Limits.of(document, "limits.toml"))
    assert f"static constexpr int kWrites = {writes};" in sources["panda_satesac_ahead.hpp"]
