"""Builds the onnxruntime session that a policy runs in: one thread, quiet, from bytes that were checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sami_runtime.artifact import Artifact
from sami_runtime.errors import ArtifactError, SamiError, UnknownName

if TYPE_CHECKING:
    import onnxruntime as ort

CPU = "CPUExecutionProvider"


def build(artifact: Artifact, providers: Sequence[str] | None = None) -> ort.InferenceSession:
    """An onnxruntime session for the bytes of a model file.

    Args:
        artifact: The checked file.
        providers: Execution providers, best first. The CPU if None.

    Raises:
        ArtifactError: onnxruntime refuses the graph.
        UnknownName: A provider is not part of the installed onnxruntime.
        SamiError: A provider was asked for and did not start.
    """
    # Here, because it costs a quarter of a second that whoever only reads a contract should not pay.
    import onnxruntime as ort

    wanted = list(providers) if providers else [CPU]
    available = ort.get_available_providers()
    for provider in wanted:
        if provider not in available:
            raise UnknownName(
                *("execution provider", provider, available),
                "GPU providers come with: pip install 'sami[gpu]'.",
            )
    try:
        session = ort.InferenceSession(artifact.model_bytes, _options(), providers=wanted)
    except Exception as error:  # onnxruntime's exceptions share no base class
        raise ArtifactError(
            f"{artifact.path} is refused by onnxruntime {ort.__version__}: {error}. Upgrade onnxruntime, or "
            "export the model again."
        ) from error
    # onnxruntime goes on with the CPU when a provider fails to start; timing must not change silently.
    active = session.get_providers()
    if inactive := [provider for provider in wanted if provider not in active]:
        raise SamiError(
            f"execution provider {', '.join(inactive)} was asked for and did not start; active: "
            f"{', '.join(active)}. Install its driver, or ask for one that is active."
        )
    return session


def _options() -> ort.SessionOptions:
    import onnxruntime as ort

    options = ort.SessionOptions()
    # A policy this small is fastest on one thread, and the robot's other processes keep theirs.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    # onnxruntime would also accept its own format, which the scan has not judged.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 4  # what goes wrong is raised, and said once
    return options
