"""A session works in place: what it gives away is still the caller's, and who embeds it notices nothing of it."""

import gc
import os
import subprocess
import sys
import tracemalloc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime.model.artifact import read_artifact
from sami_runtime.model.contract import observation_input
from sami_runtime.session.inference import bind, build, in_place, runner
from sami_runtime.session.memory import ALIGNMENT, EpisodeMemory, TensorBlock
from sami_runtime.session.session import Session


@pytest.fixture
def values(make):
    return make.observations(40)


def at(values, t, rows=None):
    return {name: value[t] if rows is None else value[t : t + rows] for name, value in values.items()}


def by_hand(path, values, batch):
    """Actions and contexts of onnxruntime's plain `run` on new arrays each time, the state fed back."""
    onnx = build(read_artifact(path))
    names = ["action", "context", "state.memory.out"]
    action, memory = np.zeros((batch, 2), np.float32), np.full((batch, 1, 3), 0.5, np.float32)
    for t in range(20):
        observed = {observation_input(name): value[t : t + batch] for name, value in values.items()}
        feeds = {**observed, "previous_action": action, "state.memory.in": memory}
        action, context, memory = onnx.run(names, feeds)
        yield action, context


@pytest.mark.parametrize("batch", [1, 3])
def test_steps_in_place_are_bit_equal_to_steps_on_new_arrays(path, values, batch):
    session = Session.load(path, batch=batch)
    for t, (action, context) in enumerate(by_hand(path, values, batch)):
        step = session.step(at(values, t) if batch == 1 else at(values, t, batch))
        np.testing.assert_array_equal(step.action.reshape(batch, 2), action)
        np.testing.assert_array_equal(step.context.reshape(batch, 2), context)


def test_an_answer_that_was_kept_never_changes(path, values):
    session = Session.load(path)
    rest = [session.step(at(values, t)) for t in range(3)]
    rest.append(session.hold())
    state = session.state
    copies = [(step.action.copy(), step.context.copy()) for step in rest]
    memory = state.tensors["memory"].copy()
    for t in range(3, 40):
        session.step(at(values, t))
        session.executed([0.1, 0.2])
        session.prewarm()
    session.reset()
    for step, (action, context) in zip(rest, copies, strict=True):
        np.testing.assert_array_equal(step.action, action)
        np.testing.assert_array_equal(step.context, context)
    np.testing.assert_array_equal(state.tensors["memory"], memory)


def test_what_was_given_to_a_session_stays_the_callers(path, values):
    session, other = Session.load(path), Session.load(path)
    value, applied = at(values, 0), np.array([0.1, 0.2], np.float32)
    for item in (session, other):
        item.step(value)
        item.executed(applied)
    value["position"][:], applied[:] = 9.0, 9.0
    np.testing.assert_array_equal(session.step(at(values, 1)).action, other.step(at(values, 1)).action)
    np.testing.assert_array_equal(session.state.previous_action, other.state.previous_action)


@pytest.mark.parametrize("batch", [1, 2])
def test_warming_up_changes_nothing_that_a_step_depends_on(path, values, batch):
    warmed, other = Session.load(path, batch=batch), Session.load(path, batch=batch)
    warmed.prewarm()
    for t in range(20):
        observation = at(values, t) if batch == 1 else at(values, t, batch)
        np.testing.assert_array_equal(warmed.step(observation).context, other.step(observation).context)
        before, tick = warmed.state, warmed.tick
        warmed.prewarm()
        after = warmed.state
        assert warmed.tick == tick
        for name in ("previous_action", "context", "acted"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
        np.testing.assert_array_equal(after.tensors["memory"], before.tensors["memory"])
        if t == 9:
            warmed.reset()
            other.reset()


def test_an_interruption_leaves_the_session_as_it_was(path, values):
    class Interrupted(dict):
        def __getitem__(self, name):
            if name == "goal":
                raise KeyboardInterrupt
            return super().__getitem__(name)

    session, other = Session.load(path), Session.load(path)
    for item in (session, other):
        item.step(at(values, 0))
    with pytest.raises(KeyboardInterrupt):
        session.step(Interrupted(at(values, 1)))
    assert session.tick == 1
    np.testing.assert_array_equal(session.step(at(values, 2)).context, other.step(at(values, 2)).context)


def test_tensors_of_a_block_begin_aligned_and_share_one_memory():
    block = TensorBlock({"a": (1, 3), "empty": (1, 0), "b": (2, 17)})
    assert [tensor.shape for tensor in block.tensors.values()] == [(1, 3), (1, 0), (2, 17)]
    for tensor in block.tensors.values():
        assert tensor.ctypes.data % ALIGNMENT == 0
        tensor[...] = np.nan
    assert np.isnan(block.numbers).sum() == 3 + 34
    assert block.numbers.flags.c_contiguous


def test_arrays_that_only_onnxruntime_works_on_stay_alive(path):
    """A binding holds addresses, not arrays."""
    artifact = read_artifact(path)
    memory = EpisodeMemory(artifact.contract, 1)
    shares = {f"observation.{s.name}": np.zeros((1, s.size), np.float32) for s in artifact.contract.observation}
    outputs = {name: np.zeros((1, *shape), np.float32) for name, shape in artifact.contract.outputs.items()}
    arrays = [weakref.ref(array) for array in (*shares.values(), *memory.inputs.values(), *outputs.values())]
    run = runner(build(artifact), shares | memory.inputs, outputs)
    del memory, shares, outputs
    gc.collect()
    run()
    assert all(array() is not None for array in arrays)


class Copying:
    """An onnxruntime session that says it runs on a GPU: inputs and outputs are then copied at each run."""

    def __init__(self, session):
        self.run = session.run

    def get_providers(self):
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]


def test_a_device_with_memory_of_its_own_reads_each_observation_anew(path, values):
    artifact = read_artifact(path)
    onnx = build(artifact)
    answers = []
    for session in (onnx, Copying(onnx)):
        memories = [EpisodeMemory(artifact.contract, 1) for _ in range(2)]
        shares = TensorBlock({f"observation.{name}": (1, value.shape[1]) for name, value in values.items()}).tensors
        run = runner(session, shares | memories[0].inputs, memories[1].outputs)
        for t in range(3):
            for name, value in values.items():
                shares[f"observation.{name}"][0] = value[t]
            run()
            answers.append(memories[1].numbers.copy())
    np.testing.assert_array_equal(answers[:3], answers[3:])
    assert np.abs(answers[0] - answers[1]).max() > 0.01


# --- who embeds a session


EMBEDDED = """
import logging, os, sys, warnings
import numpy

def facts():
    root = logging.getLogger()
    loggers = sorted(logging.root.manager.loggerDict)
    state = [root.level, root.handlers, logging.raiseExceptions, logging.getLoggerClass(), logging.root.manager.disable]
    return [len(os.listdir("/proc/self/task")), state, loggers, dict(os.environ), list(warnings.filters)]

before = facts()
from sami_runtime.session.session import Session
session = Session.load(sys.argv[1])
for _ in range(100):
    session.step({"position": [0.1, 0.2], "goal": [0.5]})
    session.prewarm()
session.reset()
after = facts()
after[2] = [name for name in after[2] if name in before[2] or name.startswith(("sami", "onnxruntime"))]
for name, one, other in zip(("threads", "logging", "loggers", "environment", "warnings"), before, after):
    assert one == other, (name, one, other)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
def test_an_embedded_session_starts_no_thread_prints_nothing_and_keeps_nothing_on_disk(path, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    # onnxruntime would not report to its maker in continuous integration anyhow; here it must be our doing.
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")}
    environment |= {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        [sys.executable, "-c", EMBEDDED, str(path)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")
    assert [str(leftover.relative_to(home)) for leftover in home.rglob("*")] == []


def test_steps_allocate_nothing_that_stays(path, values):
    session = Session.load(path)
    observation = at(values, 0)

    def play(steps):
        for _ in range(steps):
            session.executed(session.step(observation).action)
            session.prewarm()
        gc.collect()
        return sys.getallocatedblocks()

    before = play(1000)
    assert abs(play(5000) - before) < 200


def test_a_steady_step_allocates_its_answer_and_small_temporaries_which_are_freed_with_it(path, values):
    """CPython allocates every tuple and float; what a step may not do is to keep any, or to make large ones."""
    session, observation = Session.load(path), at(values, 0)

    def play(steps):
        for _ in range(steps):
            session.step(observation)

    play(1000)
    gc.collect()
    before = sys.getallocatedblocks()
    play(10_000)
    assert sys.getallocatedblocks() - before < 50, "less than one block in two hundred steps"
    buffers = [memory.numbers.ctypes.data for memory in session._memories]
    tracemalloc.start()
    try:
        play(100)
        rest, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        play(1000)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - rest < 200
    assert peak - rest < 1500, "bytes that are alive at once within a step, its answer included"
    assert [memory.numbers.ctypes.data for memory in session._memories] == buffers


def test_an_onnxruntime_without_the_inner_call_runs_by_the_public_one(path, values):
    """The step goes past onnxruntime's Python method where it can; names that are not public may go away."""
    artifact = read_artifact(path)
    onnx = build(artifact)
    compiled = onnx._sess
    answers = []
    for has_inner_call in (True, False):
        memories = [EpisodeMemory(artifact.contract, 1) for _ in range(2)]
        shares = TensorBlock({f"observation.{name}": (1, value.shape[1]) for name, value in values.items()}).tensors
        for name, value in values.items():
            shares[f"observation.{name}"][0] = value[0]
        binding = bind(onnx, shares | memories[0].inputs, memories[1].outputs)
        public = SimpleNamespace(run_with_iobinding=onnx.run_with_iobinding)
        run = in_place(onnx if has_inner_call else public, binding)
        assert (run.func == compiled.run_with_iobinding) == has_inner_call
        run()
        answers.append(memories[1].numbers.copy())
    np.testing.assert_array_equal(*answers)
    assert answers[0].any()
