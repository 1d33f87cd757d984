"""Builds the onnxruntime session that runs a policy: on one thread, without log output, from checked bytes."""

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
"""Options by provider. TF32 is off: it keeps 10 of float32's 23 bits, but golden actions are compared to 1e-5."""


def install_advice() -> str:
    """Return a text on how to install one of the two builds of onnxruntime."""
    return f"{install_hint('cpu')}, or, for an NVIDIA GPU, {install_hint('gpu')}"


def import_onnxruntime() -> ModuleType:
    """Import the module onnxruntime with its telemetry turned off, and return it.

    Since 1.29 onnxruntime stores an identifier of the machine in the user's cache, starts a thread and sends events to
    its maker, unless `ORT_DISABLE_TELEMETRY` is set before the import. This function sets it during the import, unless
    the user has set it. A program that imports onnxruntime earlier has to set the variable itself.

    Raises:
        ProviderError: onnxruntime is not installed, or damaged.
    """
    setting = os.environ.get(TELEMETRY)
    if setting is None:
        os.environ[TELEMETRY] = "1"
    try:
        # The import takes a quarter of a second, which a program that only reads contracts need not spend.
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ProviderError(f"onnxruntime is not installed ({error}). Install it with: {install_advice()}.") from error
    finally:
        if setting is None:
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
        provider: Short or full name of an execution provider of the installed onnxruntime: `"cpu"`, `"cuda"`, ... It
            has to run the whole graph; no part falls back to the CPU.

    Raises:
        ArtifactError: onnxruntime refuses the graph.
        UnknownName: The provider is not part of the installed onnxruntime.
        ProviderError: The provider did not start, or cannot run a part of the graph; or onnxruntime is not installed.
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
    # By default onnxruntime falls back to the CPU when a provider fails to start or lacks an operator. Timing and
    # rounding would change silently.
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    choice = (name, _OPTIONS.get(name, {}))
    complaints = load_libraries(onnxruntime)
    try:
        session = onnxruntime.InferenceSession(artifact.model_bytes, options, providers=[choice], enable_fallback=0)
    except Exception as error:
        raise _not_started(name, artifact, f"{complaints} {error}") from error
    if name not in session.get_providers():
        raise _not_started(name, artifact, f"active: {', '.join(session.get_providers())}")
    return session


def runner(
    session: ort.InferenceSession, inputs: Mapping[str, NDArray[np.float32]], outputs: Mapping[str, NDArray[np.float32]]
) -> Callable[[], object]:
    """Return a function that runs the graph on these arrays: it reads `inputs` and writes `outputs` in place.

    Args:
        session: The onnxruntime session of the graph.
        inputs: A contiguous array for every input of the graph, by its name.
        outputs: A contiguous array for each output that is wanted, by its name, of the output's shape.
    """
    if session.get_providers() == [CPU]:
        return in_place(session, bind(session, inputs, outputs))

    # A binding to another device copies the values once, when it is made: every run would read those first values.
    names = list(outputs)

    def run() -> None:
        for target, value in zip(outputs.values(), session.run(names, dict(inputs)), strict=True):
            np.copyto(target, value)

    return run


def bind(
    session: ort.InferenceSession, inputs: Mapping[str, NDArray[np.float32]], outputs: Mapping[str, NDArray[np.float32]]
) -> ort.IOBinding:
    """Return a binding to arrays in the CPU's memory, which onnxruntime reads and writes in place; see `runner`."""
    value_of = import_onnxruntime().OrtValue.ortvalue_from_numpy
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value_of(value))
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value_of(value))
    # The binding stores only the arrays' addresses: without these references it would write into freed memory.
    vars(binding)["arrays"] = [*inputs.values(), *outputs.values()]
    return binding


def in_place(session: ort.InferenceSession, binding: ort.IOBinding) -> Callable[[], object]:
    """Return a function that runs the graph on bound arrays, through onnxruntime's C++ object if it is accessible.

    The public Python method first checks whether WebGPU captures the graph. At a control rate that code is not in the
    caches, so the check takes a microsecond: a fifth of the time that a session adds to the graph's own.
    """
    compiled, bound = getattr(session, "_sess", None), getattr(binding, "_iobinding", None)
    straight = getattr(compiled, "run_with_iobinding", None)
    if straight is None or bound is None:
        return functools.partial(session.run_with_iobinding, binding)
    run = functools.partial(straight, bound, None)
    vars(run)["binding"] = binding  # keeps the arrays alive
    return run


def is_failure(error: Exception) -> bool:
    """Whether an exception comes from onnxruntime, which raises classes of its own and those that it maps from C++."""
    return type(error).__module__.startswith("onnxruntime") or isinstance(
        error, RuntimeError | MemoryError | ValueError
    )


def require_shapes(
    session: ort.InferenceSession, artifact: Artifact, batch: int, inputs: Mapping[str, NDArray[np.float32]]
) -> None:
    """Run the graph once, and compare the shapes of its outputs with the contract.

    Args:
        session: The onnxruntime session that `build` returned for the artifact.
        artifact: The model file.
        batch: N, the number of episodes.
        inputs: Every input by its name in the graph, each (N, ...).

    Raises:
        ArtifactError: The graph cannot be run with this batch, or an output has another shape.
    """
    expected = {name: (batch, *shape) for name, shape in artifact.contract.outputs.items()}
    try:
        outputs = session.run(list(expected), dict(inputs))
    except Exception as error:
        raise ArtifactError(
            f"{artifact.path} cannot be run with a batch of {batch}: {error}. Export it with a free batch axis."
        ) from error
    for (name, shape), value in zip(expected.items(), outputs, strict=True):
        if value.shape != shape:
            raise ArtifactError(
                f"{artifact.path} computes {name!r} of shape {value.shape}, expected {shape}. "
                "Export the model again with a dynamic batch axis."
            )


def full_name(provider: str) -> str:
    """Return onnxruntime's full name of an execution provider, such as `"CPUExecutionProvider"` for `"cpu"`.

    Raises:
        UnknownName: The provider is not part of the installed onnxruntime.
    """
    available = import_onnxruntime().get_available_providers()
    short = {name.removesuffix("ExecutionProvider").lower(): name for name in available}
    key = provider.removesuffix("ExecutionProvider").lower()
    if key not in short:
        hint = (
            f"cuda comes with the other build of onnxruntime: {pip()} uninstall onnxruntime, then "
            f"{install_hint('gpu')}. "
            "`sami doctor` shows the available providers."
        )
        raise UnknownName("execution provider", provider, short, hint)
    return short[key]


def load_libraries(onnxruntime: ModuleType) -> str:
    """Load the CUDA libraries that pip installed, and return the text that onnxruntime prints about missing ones."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        onnxruntime.preload_dlls()
    return output.getvalue()


def _not_started(name: str, artifact: Artifact, reason: str) -> ProviderError:
    return ProviderError(
        f"execution provider {name} does not run {artifact.path}: {' '.join(reason.split())} The model was not run on "
        "the CPU instead. `sami doctor` shows whether the provider and its driver load; or choose the provider cpu."
    )


def _options(onnxruntime: ModuleType) -> ort.SessionOptions:
    options = onnxruntime.SessionOptions()
    # A policy this small is fastest on one thread, which also leaves the cores to the robot's other processes.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # onnxruntime would also accept its own ORT format, which `graph_scan` does not check.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 4  # errors are raised; onnxruntime need not log them, too
    return options
