"""Steps skill-aware policies inside a control loop, from one ONNX file and without torch."""

from sami_runtime.adapters import (
    Adapter,
    Executed,
    FakeAdapter,
    GymnasiumAdapter,
    Observation,
    PandaAdapter,
    SignalSource,
    require_compatible,
)
from sami_runtime.artifact import Artifact, read_artifact
from sami_runtime.clock import Clock, ManualClock, MonotonicClock
from sami_runtime.contract import CONTRACT_VERSION, METADATA_KEY, Context, Contract, Signal, StateTensor
from sami_runtime.errors import (
    AdapterError,
    ArtifactError,
    CheckFailed,
    ContractError,
    ProviderError,
    SafetyStop,
    SamiError,
    SignalError,
    UnknownName,
)
from sami_runtime.golden import Golden, GoldenSteps
from sami_runtime.loop import EpisodeReport, SectionTimes, StepRecord, run_episode
from sami_runtime.session import Session, SessionState, Step
from sami_runtime.verify import Check, Verification

# `verify` itself stays in its module of the same name: sami_runtime.verify.verify.
__all__ = [
    "CONTRACT_VERSION",
    "METADATA_KEY",
    "Adapter",
    "AdapterError",
    "Artifact",
    "ArtifactError",
    "Check",
    "CheckFailed",
    "Clock",
    "Context",
    "Contract",
    "ContractError",
    "EpisodeReport",
    "Executed",
    "FakeAdapter",
    "Golden",
    "GoldenSteps",
    "GymnasiumAdapter",
    "ManualClock",
    "MonotonicClock",
    "Observation",
    "PandaAdapter",
    "ProviderError",
    "SafetyStop",
    "SamiError",
    "SectionTimes",
    "Session",
    "SessionState",
    "Signal",
    "SignalError",
    "SignalSource",
    "StateTensor",
    "Step",
    "StepRecord",
    "UnknownName",
    "Verification",
    "read_artifact",
    "require_compatible",
    "run_episode",
]
