"""The network inside an adopted file, without the recipe around it: raw inputs in, raw outputs out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sami_runtime.adoption.adopt import adopt_reading, read_policy
from sami_runtime.adoption.graph import PREFIX, import_onnx
from sami_runtime.adoption.recipe import Recipe
from sami_runtime.model.artifact import Artifact, read_artifact, read_bytes
from sami_runtime.model.contract import METADATA_KEY, state_input, state_output
from sami_runtime.model.graph_scan import FLOAT
from sami_runtime.session.admission import rehearse
from sami_runtime.session.inference import import_onnxruntime

Array = NDArray[np.float64]


def adopted_policy(path: str | Path, contract: str | Path | None = None) -> Artifact:
    """Return a file that `sami adopt` wrote, or adopt a policy in memory; see `adopt`.

    Raises:
        SamiError: `path` is neither, the recipe is incomplete, or the policy takes too much time or memory.
    """
    if contract is None and Path(path).is_file() and METADATA_KEY.encode() in read_bytes(path):
        artifact = read_artifact(path)  # its errors name the fault; `read_policy` would only miss the recipe
        Recipe.of(artifact)
        rehearse(artifact)
        return artifact
    return adopt_reading(read_policy(path, contract), path)


class PolicyNetwork:
    """The network of an adopted file without the recipe, for many inputs at once."""

    def __init__(self, artifact: Artifact) -> None:
        self.recipe = Recipe.of(artifact)
        self._states = {state_input(state.name): state for state in artifact.contract.state}
        onnx, runtime = import_onnx(), import_onnxruntime()
        whole = onnx.load_from_string(artifact.model_bytes)
        graph = whole.graph
        makers = {name: node for node in graph.node for name in node.output}
        # The last node of the recipe reads the flat vector to which the slices refer.
        self._entries = {name: makers[PREFIX + name].input[0] for name in self.recipe.inputs}
        self._pairs = {state_input(pair.name): state_output(pair.name) for pair in self.recipe.state}
        outputs = [PREFIX + self.recipe.output, *self._pairs.values()]
        inputs = {*self._entries.values(), *self._pairs}
        needed: set[int] = set()
        queue = list(outputs)
        while queue:
            name = queue.pop()
            if name in inputs or name not in makers or id(makers[name]) in needed:
                continue
            needed.add(id(makers[name]))
            queue += makers[name].input
        subgraph = onnx.helper.make_graph(
            [node for node in graph.node if id(node) in needed],
            "network",
            [onnx.helper.make_tensor_value_info(name, FLOAT, None) for name in inputs],
            [onnx.helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
            graph.initializer,
        )
        model = onnx.helper.make_model(subgraph, opset_imports=whole.opset_import, ir_version=whole.ir_version)
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        self._outputs = outputs
        self._session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    @property
    def widths(self) -> dict[str, int]:
        """Width D of every input of the recipe, by name."""
        recipe = self.recipe
        steps = {recipe.input: recipe.history.steps if recipe.history else 1}
        return {name: terms[-1][1].slice[1] * steps.get(name, 1) for name, terms in recipe.inputs.items()}

    def answer(self, entries: Mapping[str, Array]) -> Array:
        """Return raw outputs (N, A) for inputs (N, D) by name; each row is the first step of an episode."""
        count = len(next(iter(entries.values())))
        return self._run(entries, {name: self._initial(name, count) for name in self._pairs})[0]

    def follow(self, entries: Mapping[str, Array], step: NDArray[np.int64]) -> Array:
        """Return raw outputs (T, A) for successive inputs (T, D) by name; `step` (T,) is 0 where an episode begins."""
        if not self._pairs:
            return self._run(entries, {})[0]
        answers, states = [], {name: self._initial(name, 1) for name in self._pairs}
        for at, index in enumerate(step):
            if index == 0:
                states = {name: self._initial(name, 1) for name in self._pairs}
            answer, *after = self._run({name: value[at : at + 1] for name, value in entries.items()}, states)
            states = dict(zip(self._pairs, after, strict=True))
            answers.append(answer)
        return np.concatenate(answers)

    def _run(self, entries: Mapping[str, Array], states: Mapping[str, Array]) -> list[Array]:
        feed = {self._entries[name]: np.asarray(value, np.float32) for name, value in entries.items()}
        feed |= {name: np.asarray(value, np.float32) for name, value in states.items()}
        return [np.asarray(value, np.float64) for value in self._session.run(self._outputs, feed)]

    def _initial(self, name: str, count: int) -> Array:
        state = self._states[name]
        return np.full((count, *state.shape), state.initial)
