"""Policies as other frameworks export them, with recipes, for comparison with the tests' own numpy computations."""

from __future__ import annotations

import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper

JOINTS = ["hip", "knee"]
DEFAULT = [0.5, -1.0]


def adopt_in_this_process(monkeypatch):
    """Adopt without a child process, which saves a second; `adoption/test_confinement.py` tests the child process."""
    from sami_runtime.adoption import adopt, network

    monkeypatch.setattr(adopt, "PARITY_STEPS", 40)  # nine more than up to the second reset
    for module in (adopt, network):
        monkeypatch.setattr(
            module, "adopt_reading", lambda reading, policy: adopt.adopt_in_process(reading, str(policy))
        )


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights, opset=17):
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "exported", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def weights_of(size, actions=2, seed=0):
    generator = np.random.default_rng(seed)
    return {"w": generator.normal(0, 0.5, (size, actions)).astype(np.float32), "b": np.full(actions, 0.1, np.float32)}


def feed_forward(size=8, actions=2, shape=None, **fields):
    """Return a policy `actions` = tanh(`obs` w + b), in the form that rsl_rl and stable-baselines3 export."""
    weights = weights_of(size, actions)
    nodes = [
        helper.make_node("Gemm", ["obs", "w", "b"], ["z"]),
        helper.make_node("Tanh", ["z"], ["actions"]),
    ]
    return model(nodes, [info("obs", shape or [1, size])], [info("actions", [1, actions])], weights, **fields)


def recurrent(kind="LSTM", batch_first=False, size=8, hidden=5, layers=2):
    """Return stacked LSTMs or GRUs with states [layers, batch, size], or a cell with states [batch, size]."""
    generator = np.random.default_rng(1)
    gates = {"LSTM": 4, "GRU": 3}[kind]
    layers = 1 if batch_first else layers
    tensors = ["h", "c"] if kind == "LSTM" else ["h"]
    weights = {"axis": np.array([0], np.int64)}
    nodes, value, wide = [helper.make_node("Unsqueeze", ["obs", "axis"], ["x0"])], "x0", size
    for tensor in tensors:
        if not batch_first:
            parts = [f"{tensor}{layer}.in" for layer in range(layers)]
            nodes.append(helper.make_node("Split", [f"{tensor}_in"], parts, axis=0))
        else:
            nodes.append(helper.make_node("Unsqueeze", [f"{tensor}_in", "axis"], [f"{tensor}0.in"]))
    for layer in range(layers):
        for name, columns in (("W", wide), ("R", hidden)):
            shape = (1, gates * hidden, columns)
            weights[f"{name}{layer}"] = generator.normal(0, 0.4, shape).astype(np.float32)
        inputs = [value, f"W{layer}", f"R{layer}", "", "", *(f"{tensor}{layer}.in" for tensor in tensors)]
        outputs = [f"y{layer}", *(f"{tensor}{layer}.out" for tensor in tensors)]
        nodes.append(helper.make_node(kind, inputs, outputs, hidden_size=hidden))
        value, wide = f"x{layer + 1}", hidden
        nodes.append(helper.make_node("Squeeze", [f"y{layer}", "one"], [value]))
    weights |= {"one": np.array([1], np.int64), **weights_of(hidden)}
    nodes.append(helper.make_node("Squeeze", [value, "axis"], ["last"]))
    nodes.append(helper.make_node("Gemm", ["last", "w", "b"], ["actions"]))
    shape = [1, hidden] if batch_first else [layers, 1, hidden]
    for tensor in tensors:
        parts = [f"{tensor}{layer}.out" for layer in range(layers)]
        if batch_first:
            nodes.append(helper.make_node("Squeeze", [parts[0], "axis"], [f"{tensor}_out"]))
        else:
            nodes.append(helper.make_node("Concat", parts, [f"{tensor}_out"], axis=0))
    inputs = [info("obs", [1, size]), *(info(f"{tensor}_in", shape) for tensor in tensors)]
    outputs = [info("actions", [1, 2]), *(info(f"{tensor}_out", shape) for tensor in tensors)]
    return model(nodes, inputs, outputs, weights)


def convolutional(steps=6, size=8, channels=3, places=None, group=1, **attributes):
    """Return a policy with a 1-D convolution over the frames of `obs` [1, steps, size], a history encoder."""
    generator = np.random.default_rng(2)
    weights = {"kernel": generator.normal(0, 0.5, (channels, size // group, 3)).astype(np.float32)}
    weights |= {"shift": np.arange(channels, dtype=np.float32), **weights_of(channels * (places or steps - 2))}
    inputs = ["rows", "kernel", "shift"]
    nodes = [
        helper.make_node("Transpose", ["obs"], ["rows"], perm=[0, 2, 1]),
        helper.make_node("Conv", inputs, ["filtered"], kernel_shape=[3], group=group, **attributes),
        helper.make_node("Flatten", ["filtered"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["actions"]),
    ]
    return model(nodes, [info("obs", [1, steps, size])], [info("actions", [1, 2])], weights)


def image_convolution(steps=5, size=8):
    """Return a policy with a 2-D convolution over a history [batch, steps, size], as over a height map."""
    kernel = np.random.default_rng(2).normal(0, 0.4, (4, 1, 3, 3)).astype(np.float32)
    weights = {"kernel": kernel, "axis": np.array([1], np.int64), **weights_of(4 * (steps - 2) * (size - 2))}
    nodes = [
        helper.make_node("Unsqueeze", ["obs", "axis"], ["image"]),
        helper.make_node("Conv", ["image", "kernel"], ["filtered"], kernel_shape=[3, 3], strides=[1, 1]),
        helper.make_node("Flatten", ["filtered"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["actions"]),
    ]
    inputs, outputs = [info("obs", ["batch", steps, size])], [info("actions", ["batch", 2])]
    return model(nodes, inputs, outputs, weights)


def document(**changes):
    """Return the recipe of `feed_forward()`: angles, velocities, a command, the last action."""
    fields = {
        "name": "walker",
        "rate_hz": 50.0,
        "episode_steps": 20,
        "input": "obs",
        "output": "actions",
        "signals": [
            signal("joint_angles", "rad", JOINTS, [0, 2], offset=DEFAULT),
            signal("joint_velocities", "rad/s", JOINTS, [2, 4], scale=0.05),
            signal("command", "m/s", ["forward", "left"], [4, 6], command=True),
        ],
        "last_action": {"slice": [6, 8], "kind": "raw"},
        "action": {
            "name": "joint_targets",
            "unit": "rad",
            "elements": JOINTS,
            "meaning": "position targets of the joints",
            "scale": [0.25, 0.5],
            "default": DEFAULT,
            "kp": 20.0,
            "kd": 0.5,
        },
    }
    return fields | changes


def signal(name, unit, elements, slice_, scale=1.0, **fields):
    return {"name": name, "unit": unit, "elements": elements, "slice": slice_, "scale": scale, **fields}


STATES = [{"name": name, "input": f"{name}_in", "output": f"{name}_out"} for name in ("h", "c")]


class Foreign:
    """Writes a policy and its contract into a folder."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, policy, document):
        """Write policy and recipe, the recipe as JSON, and return both paths."""
        paths = self.folder / "policy.onnx", self.folder / "my.json"
        paths[0].write_bytes(policy if isinstance(policy, bytes) else policy.SerializeToString())
        paths[1].write_text(json.dumps(document))
        return paths
