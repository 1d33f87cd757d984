"""Tiny policies whose answers numpy gives by hand, written as model files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sami_runtime.adapters import FakeAdapter, Observation
from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.contract import Context, Contract, StateTensor
from sami_runtime.model.golden import GoldenSteps
from sami_runtime.safety.gate import SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.signals import Signal
from tests.making.gates import PERIOD

POSITION = Signal(name="position", size=2, unit="m", elements=("x", "y"), low=(-1, -1), high=(1, 1))
GOAL = Signal(name="goal", size=1, unit="m", elements=("x",), low=(None,), high=(None,))
FORCE = Signal(name="force", size=2, unit="N", elements=("fx", "fy"), low=(-1, -1), high=(1, 1))


class Recurrent:
    """m' = tanh([position, goal, previous] Wx + m Wm); context = m' Wc; action = tanh([p, g, context] Wa)."""

    name = "tiny"
    state = (StateTensor(name="memory", shape=(1, 3), initial=0.5),)
    context_size = 2

    def __init__(self, seed=0):
        generator = np.random.default_rng(seed)
        shapes = {"Wx": (5, 3), "Wm": (3, 3), "Wc": (3, 2), "Wa": (5, 2)}
        self.weights = {k: generator.normal(0, 0.6, s).astype(np.float32) for k, s in shapes.items()}

    def nodes(self):
        return [
            helper.make_node("Concat", ["observation.position", "observation.goal", "previous_action"], ["x"], axis=1),
            helper.make_node("Squeeze", ["state.memory.in", "one"], ["memory"]),
            helper.make_node("MatMul", ["x", "Wx"], ["from_x"]),
            helper.make_node("MatMul", ["memory", "Wm"], ["from_memory"]),
            helper.make_node("Add", ["from_x", "from_memory"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["next"]),
            helper.make_node("Unsqueeze", ["next", "one"], ["state.memory.out"]),
            helper.make_node("MatMul", ["next", "Wc"], ["context"]),
            helper.make_node("Concat", ["observation.position", "observation.goal", "context"], ["seen"], axis=1),
            helper.make_node("MatMul", ["seen", "Wa"], ["raw"]),
            helper.make_node("Tanh", ["raw"], ["action"]),
        ]

    def initializers(self):
        return {**self.weights, "one": np.array([1], np.int64)}

    def reference(self, observation, executed=None, resets=(0,)):
        """(actions (T, 2), contexts (T, C)) by hand; without `executed`, the own actions were executed."""
        w, actions, contexts = self.weights, [], []
        for t in range(len(observation["position"])):
            if t in resets:
                memory, previous = np.full(3, 0.5, np.float32), np.zeros(2, np.float32)
            sight = np.concatenate([observation["position"][t], observation["goal"][t]])
            memory = np.tanh(np.concatenate([sight, previous]) @ w["Wx"] + memory @ w["Wm"])
            context = memory @ w["Wc"]
            action = np.tanh(np.concatenate([sight, context]) @ w["Wa"])
            previous = action if executed is None else executed[t]
            actions.append(action)
            contexts.append(context)
        return np.array(actions, np.float32), np.array(contexts, np.float32)


class Memoryless:
    """action = tanh([position, goal] W)."""

    name = "reflex"
    state = ()
    context_size = 0

    def __init__(self, seed=0):
        self.weights = {"W": np.random.default_rng(seed).normal(0, 0.6, (3, 2)).astype(np.float32)}

    def nodes(self):
        return [
            helper.make_node("Concat", ["observation.position", "observation.goal"], ["x"], axis=1),
            helper.make_node("MatMul", ["x", "W"], ["raw"]),
            helper.make_node("Tanh", ["raw"], ["action"]),
        ]

    def initializers(self):
        return self.weights

    def reference(self, observation, executed=None, resets=(0,)):
        sight = np.concatenate([observation["position"], observation["goal"]], axis=1)
        return np.tanh(sight @ self.weights["W"]), np.zeros((len(sight), 0), np.float32)


class Inverse(Memoryless):
    """action = position / goal, so that a goal of 0 gives no finite answer; its state counts the steps."""

    name = "inverse"
    state = (StateTensor(name="count", shape=(1,)),)

    def nodes(self):
        return [
            helper.make_node("Div", ["observation.position", "observation.goal"], ["action"]),
            helper.make_node("Add", ["state.count.in", "unit"], ["state.count.out"]),
        ]

    def initializers(self):
        return {"unit": np.ones(1, np.float32)}


class Table(Inverse):
    """action = position + row of a table with two rows; for a goal that names no row onnxruntime fails."""

    name = "table"

    def nodes(self):
        return [
            helper.make_node("Cast", ["observation.goal"], ["whole"], to=TensorProto.INT64),
            helper.make_node("Squeeze", ["whole", "one"], ["index"]),
            helper.make_node("Gather", ["rows", "index"], ["row"]),
            helper.make_node("Add", ["row", "observation.position"], ["action"]),
            helper.make_node("Add", ["state.count.in", "unit"], ["state.count.out"]),
        ]

    def initializers(self):
        rows = np.array([[0.0, 0.0], [0.5, 0.5]], np.float32)
        return {"unit": np.ones(1, np.float32), "rows": rows, "one": np.array([1], np.int64)}


def contract_of(policy, **changes):
    fields = {
        "name": policy.name,
        "rate_hz": 25.0,
        "observation": (POSITION, GOAL),
        "action": FORCE,
        "state": policy.state,
        "context": Context(size=policy.context_size) if policy.context_size else None,
        "episode_steps": 10,
        "training": {"method": "SaTESAC", "seed": 0},
        "weights_sha256": "0" * 64,
    }
    return Contract(**(fields | changes))


def model_of(policy, contract=None):
    """The ONNX model of a policy, not signed yet."""
    contract = contract or contract_of(policy)

    def info(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", *s]) for n, s in shapes.items()]

    weights = [numpy_helper.from_array(value, name) for name, value in policy.initializers().items()]
    graph = helper.make_graph(policy.nodes(), "g", info(contract.inputs), info(contract.outputs), weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def sign(model, contract, hashed=True):
    """The bytes of a model that carries the contract with its graph's hash."""
    if hashed:
        contract = contract.model_copy(update={"weights_sha256": graph_sha256(model.SerializeToString())})
    helper.set_model_props(model, contract.metadata())
    return model.SerializeToString()


def observations(steps, seed=1):
    generator = np.random.default_rng(seed)
    return {
        "position": generator.uniform(-1, 1, (steps, 2)).astype(np.float32),
        "goal": generator.uniform(0.5, 1, (steps, 1)).astype(np.float32),
    }


def golden_of(policy, steps=16, resets=(0, 7)):
    """Golden steps by numpy: each action is executed within +-0.4 N."""
    observed, limit = observations(steps), 0.4
    executed = np.zeros((steps, 2), np.float32)
    for _ in range(steps):  # each pass makes one more step's executed action final
        actions, contexts = policy.reference(observed, executed, resets)
        executed = np.clip(actions, -limit, limit)
    return pack(policy, observed, executed, {"action": actions, "context": contexts}, resets)


def pack(policy, observation, executed, answers, resets=(0,), **changes):
    """Golden steps as the policy's contract holds them."""
    return contract_of(policy, **changes).pack_golden(GoldenSteps(observation, executed, answers, resets))


class Maker:
    """Writes model files of tiny policies into a test's folder."""

    recurrent, memoryless, inverse, table = Recurrent, Memoryless, Inverse, Table
    contract_of, model_of, sign = staticmethod(contract_of), staticmethod(model_of), staticmethod(sign)
    golden_of, observations, pack = staticmethod(golden_of), staticmethod(observations), staticmethod(pack)
    observation_signals, action_signal = (POSITION, GOAL), FORCE

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, policy, edit=None, hashed=True, **changes):
        """The path of the policy's file; `edit` changes the ONNX model before it is signed."""
        contract = contract_of(policy, **changes)
        model = model_of(policy, contract)
        if edit is not None:
            edit(model)
        return self.raw(sign(model, contract, hashed))

    def raw(self, data):
        path = self.folder / f"{len(list(self.folder.iterdir()))}.onnx"
        path.write_bytes(data)
        return path


@pytest.fixture
def make(tmp_path):
    return Maker(tmp_path)


@pytest.fixture
def onnx_tools():
    return onnx, helper, numpy_helper, TensorProto


class Arm(FakeAdapter):
    """The fake with the tiny policies' signals: a position of two axes, and a goal.

    Args:
        clock: Stamps observations and passes by `reading` and `writing`, the seconds that each read and write takes.
        goals: The goal at some reads, by index; 0.5 elsewhere.
        stale_at_reads: Indices of reads that give the observation of the read before, with its time.
    """

    def __init__(self, clock=None, reading=(), writing=(), goals=(), stale_at_reads=(), **script):
        super().__init__(axes=2, clock=clock, **script)
        goal = {"name": "goal", "size": 1, "elements": ("x",), "low": (None,), "high": (None,)}
        # Nothing holds the mass back, so that it says itself that it leaves the bounds of the policies.
        position, *signals = self.observation
        position = position.model_copy(update={"low": (-1e6,) * 2, "high": (1e6,) * 2})
        self.observation = (position, *signals, position.model_copy(update=goal))
        self.clock, self.reading, self.writing = clock, iter(reading), iter(writing)
        self.goals, self.stale_at_reads = dict(goals), stale_at_reads
        self.written_at = []
        """When each write began, by the clock."""
        self._last = None

    def read(self):
        observation = super().read()
        at = self.reads - 1
        if at not in self.stale_at_reads or self._last is None:
            goal = np.float32([self.goals.get(at, 0.5)])
            self._last = Observation({**observation.values, "goal": goal}, observation.time)
        self._pass(self.reading)
        return self._last

    def write(self, action):
        if self.clock is not None:
            self.written_at.append(self.clock.now())
        executed = super().write(action)
        self._pass(self.writing)
        return executed

    def _pass(self, durations):
        if seconds := next(durations, 0.0):
            self.clock.advance(seconds)


@pytest.fixture
def arm():
    """The class: `arm(limit=0.1)` makes one."""
    return Arm


@pytest.fixture
def same():
    """Whether two session states are equal to the last bit."""

    def compare(first, second):
        assert first.weights_sha256 == second.weights_sha256
        assert first.tensors.keys() == second.tensors.keys()
        pairs = [(first.previous_action, second.previous_action), (first.acted, second.acted)]
        pairs += [(first.tensors[name], second.tensors[name]) for name in first.tensors]
        return all(a.tobytes() == b.tobytes() for a, b in pairs)

    return compare


@pytest.fixture
def policy(make):
    """A recurrent policy."""
    return make.recurrent()


@pytest.fixture
def path(make, policy):
    """Its model file."""
    return make.write(policy)


@pytest.fixture
def gate(make):
    """Makes a gate with limits for the fake, or another adapter, and begins an episode."""

    def new_gate(adapter=None, period=PERIOD, **limits):
        if adapter is None:
            adapter = FakeAdapter(axes=2, limit=100.0)
            adapter.reset()
        result = SafetyGate(adapter, make.contract_of(make.recurrent()), Limits(**limits))
        result.begin(period)
        return result

    return new_gate
