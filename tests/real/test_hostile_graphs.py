"""`sami adopt` on graphs and recipes that want all memory or time: one line, within limits, and no file."""

import os
import resource
import subprocess
import sys
import time

import pytest

import sami_runtime.adoption.adopt as adoption
from sami_runtime import SamiError, adopt
from sami_runtime.adoption.adopt import CPU_S, MEMORY
from tests.making import bombs, foreign


@pytest.mark.parametrize("graph", bombs.GRAPHS, ids=lambda graph: graph.__name__)
def test_a_hostile_graph_is_refused_within_limits(graph, tmp_path, monkeypatch):
    if graph in (bombs.endless, bombs.many_nodes, bombs.functions):  # they take the whole minute that they may
        monkeypatch.setattr(adoption, "CPU_S", 3)
    paths = foreign.Foreign(tmp_path).write(graph(), bombs.recipe_of(graph))
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    with pytest.raises(SamiError) as refused:
        adopt(*paths, tmp_path / "out.onnx")
    after, duration = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time() - start
    child = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{graph.__name__}: {duration:.1f} s here, {child:.1f} s apart: {str(refused.value)[:160]}")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 5_000
    assert duration < 10
    assert child < CPU_S + 5
    assert after.ru_maxrss * 1024 < MEMORY + (1 << 30)
    assert sorted(os.listdir(tmp_path)) == ["my.json", "policy.onnx"]


@pytest.mark.parametrize("kind", bombs.TEXTS)
def test_a_hostile_recipe_is_refused_within_limits(kind, tmp_path):
    (tmp_path / "policy.onnx").write_bytes(foreign.feed_forward().SerializeToString())
    (tmp_path / "my.toml").write_text(bombs.TEXTS[kind])
    command = [sys.executable, "-c", "from sami_cli.app import main; main()"]
    command += ["adopt", "policy.onnx", "--contract", "my.toml"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # noqa: E731
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert process.returncode == 1, process
    assert process.stderr.startswith("sami: ")
    assert "Error" not in process.stderr
    assert len(process.stderr) < 5_000, process.stderr[:300]
    assert sorted(os.listdir(tmp_path)) == ["my.toml", "policy.onnx"]
