"""The policy of a model file without its encoder: what it would do with another context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import onnx.shape_inference
from onnx.utils import Extractor

from sami_runtime.errors import CheckFailed, SamiError
from sami_runtime.model.artifact import Artifact
from sami_runtime.model.contract import ACTION, CONTEXT
from sami_runtime.model.lookahead import FRONT
from sami_runtime.model.probe import is_probe
from sami_runtime.session.inference import build

TOLERANCE = 1e-5
"""Largest difference from the whole file's action that is accepted, at any golden step."""


class PolicyHead:
    """The part of a model's graph from observations and context to the action, with the file's own weights.

    The graph is cut at its tensor `context`, and at the other things that it answers, such as an estimate of the
    present; the file is not changed. It was checked, when it was made, to give the actions of the file's golden steps
    from their contexts.

    Args:
        artifact: the model file.

    Raises:
        SamiError: the model infers no context.
        CheckFailed: the cut graph does not act as the whole one does.
    """

    def __init__(self, artifact: Artifact) -> None:
        contract = artifact.contract
        if contract.context is None:
            raise SamiError(f"model {contract.name!r} infers no context: there is nothing to freeze or exchange.")
        front = FRONT if contract.lookahead else ""  # what it sees of the present, however late that arrived
        self._inputs = {front + name: signal for name, signal in contract.signal_inputs.items()}
        self._extra = [signal.name for signal in contract.extra_outputs if not is_probe(signal)]
        model = onnx.load_from_string(artifact.model_bytes)
        if contract.lookahead:
            model = onnx.shape_inference.infer_shapes(model)  # of what it is cut at, which is no input of the whole
        cut = Extractor(model).extract_model([*self._inputs, CONTEXT, *self._extra], [ACTION])
        self._onnx = build(replace(artifact, model_bytes=cut.SerializeToString()))
        if golden := contract.golden_steps():
            now = slice(None) if golden.age is None else ~golden.age.any(axis=1)
            seen = {name: value[now] for name, value in golden.observation.items()}
            answers = {name: value[now] for name, value in golden.answers.items()}
            error = float(np.abs(self(seen, answers[CONTEXT], answers) - answers[ACTION]).max())
            if not error <= TOLERANCE:
                raise CheckFailed(
                    f"the policy cut from {artifact.path} differs from the whole file by {error:.2e} at its golden "
                    f"steps; at most {TOLERANCE:.0e} is accepted. Its action does not depend on the context alone."
                )

    def __call__(
        self, observation: Mapping[str, np.ndarray], context: np.ndarray, extra: Mapping[str, np.ndarray] | None = None
    ) -> np.ndarray:
        """Actions (n, A) for observations by signal, (n, size) each, contexts (n, C), and all else that is answered."""
        feed = {name: observation[signal.name] for name, signal in self._inputs.items()}
        feed |= {CONTEXT: context, **{name: (extra or {})[name] for name in self._extra}}
        (action,) = self._onnx.run([ACTION], {name: np.asarray(value, np.float32) for name, value in feed.items()})
        return np.asarray(action)
