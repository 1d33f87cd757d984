"""Builds the onnxruntime session that a policy runs in: one thread, quiet, from bytes that were checked."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sami_runtime.distribution import install_hint, pip
from sami_runtime.errors import ArtifactError, ProviderError, UnknownName
from sami_runtime.model.artifact import Artifact

if TYPE_CHECKING:
    import onnxruntime as ort

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"

TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""onnxruntime reads this variable once, when it is imported."""

_OPTIONS = {CUDA: {"use_tf32": "0"}}
"""By provider: TF32 keeps 10 bits of a float32's 23, too few for an action that is compared to 1e-5."""


def install_advice() -> str:
    """Return how to install one of the two builds of onnxruntime."""
    return f"{install_hint('cpu')}, or, for an NVIDIA GPU, {install_hint('gpu')}"


def import_onnxruntime() -> ModuleType:
    """Return the module onnxruntime, imported so that a robot sends nothing about itself.

    Since 1.29 onnxruntime keeps an identifier of the machine in the user's cache, starts a thread and sends events to
    its maker, unless `ORT_DISABLE_TELEMETRY` is set before it is imported. It is set for the import here, unless the
    environment says otherwise. A program that imports onnxruntime before this package decides for itself.

    Raises:
        ProviderError: onnxruntime is not installed, or damaged.
    """
    chosen = os.environ.get(TELEMETRY)
    if chosen is None:
        os.environ[TELEMETRY] = "1"
    try:
        # Here, because it costs a quarter of a second that whoever only reads a contract should not pay.
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ProviderError(f"onnxruntime is not installed ({error}). Install it with: {install_advice()}.") from error
    finally:
        if chosen is None:
            del os.environ[TELEMETRY]
    if not hasattr(onnxruntime, "InferenceSession"):
        raise ProviderError(
            f"onnxruntime at {list(onnxruntime.__path__)} is damaged, as it is after one of two installed builds was "
            "removed. Remove onnxruntime and onnxruntime-gpu with pip uninstall, then install one of them: "
            f"{install_advice()}."
        )
    return onnxruntime


def build(artifact: Artifact, provider: str = "cpu") -> ort.InferenceSession:
    """Return an onnxruntime session for the bytes of a model file.

    Args:
        artifact: The checked file.
        provider: What runs the graph: `"cpu"`, `"cuda"`, or another execution provider of the installed onnxruntime,
            by its short or its full name. It runs the whole graph, or nothing runs.

    Raises:
        ArtifactError: onnxruntime refuses the graph.
        UnknownName: The provider is not part of the installed onnxruntime.
        ProviderError: The provider did not start, or would have left a part of the graph to the CPU; or onnxruntime is
            not installed.
    """
    onnxruntime = import_onnxruntime()
    name = full_name(provider)
    options = _options(onnxruntime)
    if name == CPU:
        try:
            return onnxruntime.InferenceSession(artifact.model_bytes, options, providers=[CPU], enable_fallback=0)
        except Exception as error:  # onnxruntime's exceptions share no base class
            raise ArtifactError(
                f"{artifact.path} is refused by onnxruntime {onnxruntime.__version__}: {error}. Upgrade onnxruntime, "
                "or export the model again."
            ) from error
    # onnxruntime goes on with the CPU when a provider fails to start or lacks an operator; timing and rounding would
    # change silently.
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    chosen = (name, _OPTIONS.get(name, {}))
    complaints = load_libraries(onnxruntime)
    try:
        session = onnxruntime.InferenceSession(artifact.model_bytes, options, providers=[chosen], enable_fallback=0)
    except Exception as error:
        raise _not_started(name, artifact, f"{complaints} {error}") from error
    if name not in session.get_providers():
        raise _not_started(name, artifact, f"active: {', '.join(session.get_providers())}")
    return session


def runner(
    session: ort.InferenceSession, inputs: Mapping[str, NDArray[np.float32]], outputs: Mapping[str, NDArray[np.float32]]
) -> Callable[[], object]:
    """Return a call that runs the graph on these arrays: it reads `inputs` and writes `outputs` in place.

    Args:
        session: Where the graph is built.
        inputs: By name, every input of the graph, contiguous.
        outputs: By name, outputs of the graph, contiguous and of exactly the shapes that they have.
    """
    if session.get_providers() == [CPU]:
        return in_place(session, bind(session, inputs, outputs))

    # A binding copies to another device when it is bound, not when it is run: it would feed the first values for ever.
    names = list(outputs)

    def run() -> None:
        for target, value in zip(outputs.values(), session.run(names, dict(inputs)), strict=True):
            np.copyto(target, value)

    return run


def bind(
    session: ort.InferenceSession, inputs: Mapping[str, NDArray[np.float32]], outputs: Mapping[str, NDArray[np.float32]]
) -> ort.IOBinding:
    """Return a binding to arrays of the CPU, which onnxruntime reads and writes where they are; see `runner`."""
    value_of = import_onnxruntime().OrtValue.ortvalue_from_numpy
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value_of(value))
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value_of(value))
    # It knows the arrays' addresses only: without these references it would write into freed memory.
    vars(binding)["arrays"] = [*inputs.values(), *outputs.values()]
    return binding


def in_place(session: ort.InferenceSession, binding: ort.IOBinding) -> Callable[[], object]:
    """Return a call that runs the graph on bound arrays, straight in C++ where this onnxruntime lets us.

    The public method asks each time whether WebGPU captures the graph. Between two runs of a graph its code has left
    the caches, so that this takes a microsecond, a fifth of all that a session adds to the graph's own time.
    """
    compiled, bound = getattr(session, "_sess", None), getattr(binding, "_iobinding", None)
    straight = getattr(compiled, "run_with_iobinding", None)
    if straight is None or bound is None:
        return functools.partial(session.run_with_iobinding, binding)
    run = functools.partial(straight, bound, None)
    vars(run)["binding"] = binding  # which keeps the arrays
    return run


def is_failure(error: Exception) -> bool:
    """Whether an exception says that onnxruntime failed, which has classes of its own and passes on those of C++."""
    return type(error).__module__.startswith("onnxruntime") or isinstance(
        error, RuntimeError | MemoryError | ValueError
    )


def require_shapes(
    session: ort.InferenceSession, artifact: Artifact, batch: int, inputs: Mapping[str, NDArray[np.float32]]
) -> None:
    """Run the graph once, and refuse outputs that are not what the contract says.

    Args:
        session: What `build` made of the artifact.
        artifact: The model file.
        batch: N.
        inputs: Every input by its name in the graph, each (N, ...).

    Raises:
        ArtifactError: The graph cannot be run with this batch, or an output has another shape.
    """
    expected = {name: (batch, *shape) for name, shape in artifact.contract.outputs.items()}
    try:
        outputs = session.run(list(expected), dict(inputs))
    except Exception as error:
        raise ArtifactError(
            f"{artifact.path} cannot be run with a batch of {batch}: {error}. Export the model again."
        ) from error
    for (name, shape), value in zip(expected.items(), outputs, strict=True):
        if value.shape != shape:
            raise ArtifactError(
                f"{artifact.path} gives {name!r} of shape {value.shape}, expected {shape}. "
                "Export the model again with a dynamic batch axis."
            )


def full_name(provider: str) -> str:
    """Return what onnxruntime calls an execution provider.

    Raises:
        UnknownName: There is no such provider here.
    """
    available = import_onnxruntime().get_available_providers()
    short = {name.removesuffix("ExecutionProvider").lower(): name for name in available}
    key = provider.removesuffix("ExecutionProvider").lower()
    if key not in short:
        hint = (
            f"cuda comes with the other build of onnxruntime: {pip()} uninstall onnxruntime, then "
            f"{install_hint('gpu')}. "
            "`sami doctor` shows what is there."
        )
        raise UnknownName("execution provider", provider, short, hint)
    return short[key]


def load_libraries(onnxruntime: ModuleType) -> str:
    """Load the CUDA libraries that pip installed, and returns what onnxruntime prints where it finds none."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        onnxruntime.preload_dlls()
    return printed.getvalue()


def _not_started(name: str, artifact: Artifact, reason: str) -> ProviderError:
    return ProviderError(
        f"execution provider {name} was asked for and does not run {artifact.path}: {' '.join(reason.split())} Nothing "
        "is run on the CPU in its place. `sami doctor` shows whether the provider and its driver load; or ask for the "
        "provider cpu."
    )


def _options(onnxruntime: ModuleType) -> ort.SessionOptions:
    options = onnxruntime.SessionOptions()
    # A policy this small is fastest on one thread, and the robot's other processes keep theirs.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # onnxruntime would also accept its own format, which the scan has not judged.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 4  # what goes wrong is raised, and said once
    return options
