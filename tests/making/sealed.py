"""A small policy, and files made from it with correct hashes, also after mutations."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from sami_runtime.model.contract import HASH_KEY, METADATA_KEY, Context, Contract, StateTensor, text_sha256
from sami_runtime.model.golden import GoldenSteps
from sami_runtime.signals import Signal

HIDDEN, SKILL = 4, 2


def base() -> tuple[Contract, dict[str, np.ndarray], list]:
    """Return the contract, weights and nodes of a small recurrent policy that resembles an exported one."""
    draw = np.random.default_rng(0)
    position = Signal(name="position", size=2, unit="m", elements=("x", "y"), low=(-1, -1), high=(1, 1))
    action = Signal(name="force", size=2, unit="N", elements=("fx", "fy"), low=(-1, -1), high=(1, 1))
    shapes = {"W": (1, 4 * HIDDEN, 4), "R": (1, 4 * HIDDEN, HIDDEN), "B": (1, 8 * HIDDEN), "Wc": (HIDDEN, SKILL)}
    shapes |= {"Wa": (2 + SKILL, 2), "Ba": (2,), "scale": (4,)}
    weights = {name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    weights |= {"zero": np.array([0], np.int64), "scale": np.ones(4, np.float32)}
    node = helper.make_node
    nodes = [
        node("Concat", ["observation.position", "previous_action"], ["seen"], axis=1),
        node("Div", ["seen", "scale"], ["scaled"]),
        node("Clip", ["scaled"], ["clipped"]),
        node("Unsqueeze", ["clipped", "zero"], ["sequence"]),
        node("Transpose", ["state.hidden.in"], ["h"], perm=[1, 0, 2]),
        node("Transpose", ["state.cell.in"], ["c"], perm=[1, 0, 2]),
        node("LSTM", ["sequence", "W", "R", "B", "", "h", "c"], ["", "h1", "c1"], hidden_size=HIDDEN),
        node("Transpose", ["h1"], ["state.hidden.out"], perm=[1, 0, 2]),
        node("Transpose", ["c1"], ["state.cell.out"], perm=[1, 0, 2]),
        node("Squeeze", ["h1", "zero"], ["flat"]),
        node("MatMul", ["flat", "Wc"], ["context"]),
        node("Concat", ["observation.position", "context"], ["told"], axis=1),
        node("Gemm", ["told", "Wa", "Ba"], ["raw"]),
        node("Tanh", ["raw"], ["action"]),
    ]
    contract = Contract(
        name="hostile",
        rate_hz=25.0,
        observation=(position,),
        action=action,
        state=tuple(StateTensor(name=name, shape=(1, HIDDEN)) for name in ("hidden", "cell")),
        context=Context(size=SKILL),
        episode_steps=10,
        training={"method": "none", "env": "none"},
        weights_sha256="0" * 64,
    )
    steps = GoldenSteps(
        observation={"position": np.zeros((4, 2), np.float32)},
        executed=np.zeros((4, 2), np.float32),
        answers={"action": np.zeros((4, 2), np.float32), "context": np.zeros((4, SKILL), np.float32)},
        resets=(0,),
    )
    return contract.model_copy(update={"golden": contract.pack_golden(steps)}), weights, nodes


def model_of(contract: Contract, weights: dict[str, np.ndarray], nodes: list):
    """Return the ONNX model, without its contract."""

    def info(shapes):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", *s]) for n, s in shapes.items()]

    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", info(contract.inputs), info(contract.outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def seal(model, document: dict, extra: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Return the file of a model and a contract, with correct hashes, so that no reader rejects it for those."""
    del model.metadata_props[:]
    document = {**document, "weights_sha256": hashlib.sha256(model.graph.SerializeToString()).hexdigest()}
    text = json.dumps(document, separators=(",", ":"))
    for key, value in ((METADATA_KEY, text), (HASH_KEY, text_sha256(text)), *extra):
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()


def framed(graph: bytes, contract: Contract) -> bytes:
    """Return a file with these bytes as its graph, which need not be valid."""
    document = json.loads(contract.dumps()) | {"weights_sha256": hashlib.sha256(graph).hexdigest()}
    text = json.dumps(document, separators=(",", ":"))

    def field(number, content):
        size, head = len(content), []
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        return bytes([*_varint(number << 3 | 2), *head, size]) + content

    entries = ((METADATA_KEY, text), (HASH_KEY, text_sha256(text)))
    metadata = b"".join(field(14, field(1, key.encode()) + field(2, value.encode())) for key, value in entries)
    return b"\x08\x0a" + field(8, b"\x0a\x00\x10\x12") + field(7, graph) + metadata


def _varint(value):
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value


def sealed() -> bytes:
    """Return the intact file."""
    contract, weights, nodes = base()
    return seal(model_of(contract, weights, nodes), json.loads(contract.dumps()))
