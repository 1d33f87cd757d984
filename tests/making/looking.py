"""A policy with lookahead and an exact forward model, the fake robot's dynamics written by hand."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sami_runtime.adapters import FakeAdapter, Observation
from sami_runtime.model.artifact import graph_sha256
from sami_runtime.model.contract import Context, Contract, StateTensor
from sami_runtime.model.lookahead import Lookahead, SignalErrors
from sami_runtime.signals import Signal

PERIOD, STEPS = 0.04, 3
LAW = np.array([[0.0, 0.0], [PERIOD, 0.0]], np.float32)  # of the state (position, velocity)
PUSH = np.array([[PERIOD * PERIOD, PERIOD]], np.float32)  # of the force, for a mass of 1 kg
WEIGHTS = np.array([[-3.0], [-1.0]], np.float32)


def signal(name, unit):
    return Signal(name=name, size=1, unit=unit, elements=("x",), low=(None,), high=(None,))


SIGNALS = (signal("position", "m"), signal("velocity", "m/s"))
FORCE = FakeAdapter().action


def nodes(steps, context):
    yield helper.make_node("Concat", ["observation.position", "observation.velocity"], ["seen"], axis=1)
    now = "seen"
    if steps:
        yield helper.make_node("Split", ["state.past_actions.in"], [f"row{k}" for k in range(steps)], axis=1)
    for k in range(steps, 0, -1):
        force = "previous_action"
        if k > 1:
            force = f"force{k}"
            yield helper.make_node("Squeeze", [f"row{k - 2}", "one"], [force])
        yield helper.make_node("MatMul", [now, "LAW"], [f"drift{k}"])
        yield helper.make_node("MatMul", [force, "PUSH"], [f"push{k}"])
        yield helper.make_node("Add", [f"drift{k}", f"push{k}"], [f"change{k}"])
        yield helper.make_node("Sub", ["age", f"k{k}"], [f"older{k}"])
        yield helper.make_node("Clip", [f"older{k}", "none", "whole"], [f"share{k}"])
        yield helper.make_node("Mul", [f"share{k}", f"change{k}"], [f"moved{k}"])
        yield helper.make_node("Add", [now, f"moved{k}"], [f"seen{k}"])
        now = f"seen{k}"
    yield helper.make_node("MatMul", [now, "W"], ["raw"])
    yield helper.make_node("Tanh", ["raw"], ["action"])
    yield helper.make_node("Add", ["state.sum.in", "previous_action"], ["state.sum.out"])
    yield helper.make_node(context, ["state.sum.out"], ["context"])
    if steps:
        yield helper.make_node("Unsqueeze", ["previous_action", "one"], ["newest"])
        yield helper.make_node("Slice", ["state.past_actions.in", "begin", "end", "one"], ["newer"])
        yield helper.make_node("Concat", ["newest", "newer"], ["state.past_actions.out"], axis=1)


def contract_of(steps):
    state = [StateTensor(name="sum", shape=(1,))]
    errors = {item.name: SignalErrors(predicted=(0.0,) * steps, standing=(1.0,) * steps) for item in SIGNALS}
    ahead = None
    if steps:
        state.append(StateTensor(name="past_actions", shape=(steps, 1)))
        ahead = Lookahead(steps=steps, fitted="the law of the fake", transitions=1, held_out=1, errors=errors)
    return Contract(
        name="looking" if steps else "plain",
        rate_hz=1 / PERIOD,
        observation=SIGNALS,
        action=FORCE,
        state=tuple(state),
        context=Context(size=1),
        episode_steps=40,
        training={"method": "SaTESAC"},
        lookahead=ahead,
        weights_sha256="0" * 64,
    )


def write(path, steps=STEPS, context="Identity"):
    """Write the policy with a lookahead of `steps` periods; 0 treats each observation as current.

    Its context is what this operator makes of the sum of its actions.
    """
    contract = contract_of(steps)

    def info(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", *s]) for n, s in shapes.items()]

    values = {"LAW": LAW, "PUSH": PUSH, "W": WEIGHTS, "none": np.float32(0), "whole": np.float32(1)}
    values |= {f"k{k}": np.float32(k - 1) for k in range(1, steps + 1)}
    values |= {name: np.array([number], np.int64) for name, number in (("one", 1), ("begin", 0), ("end", -1))}
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    graph = helper.make_graph(list(nodes(steps, context)), "g", info(contract.inputs), info(contract.outputs), weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    contract = contract.model_copy(update={"weights_sha256": graph_sha256(model.SerializeToString())})
    helper.set_model_props(model, contract.metadata())
    path.write_bytes(model.SerializeToString())
    return path


class Stamped:
    """A robot in real time, whose observations were measured `late_s` before `read`.

    Args:
        clock: The loop's clock.
        late_s: Observation age [s]: one number, or by signal.
    """

    def __init__(self, clock, late_s, command_delay_s=0.0):
        self.clock, self.late_s, self.command_delay_s = clock, late_s, command_delay_s
        self.observation, self.action = SIGNALS, FORCE
        self._fake = FakeAdapter()

    def reset(self, seed=None):
        self._fake.reset(seed)

    def read(self):
        values, now = self._fake.read().values, self.clock.now()
        if isinstance(self.late_s, dict):
            return Observation(values, now, {name: now - late for name, late in self.late_s.items()})
        return Observation(values, now - self.late_s)

    def write(self, action):
        return self._fake.write(action)

    def stop(self):
        self._fake.stop()

    def close(self):
        self._fake.close()
