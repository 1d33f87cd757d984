"""Steps skill-aware policies inside a control loop, from one ONNX file and without torch."""

from sami_runtime.adapters import (
    Adapter,
    DryRun,
    Executed,
    FakeAdapter,
    Gapped,
    GymnasiumAdapter,
    Observation,
    PandaAdapter,
    SignalSource,
    require_compatible,
)
from sami_runtime.checks.verify import Check, Verification
from sami_runtime.clock import Clock, ManualClock, MonotonicClock
from sami_runtime.errors import (
    AdapterError,
    ArtifactError,
    CheckFailed,
    ContractError,
    NonFiniteError,
    ProviderError,
    RecordingError,
    SafetyStop,
    SamiError,
    SignalError,
    UnknownName,
)
from sami_runtime.gap.gap import Gap
from sami_runtime.gap.profile import GapProfile
from sami_runtime.loop.report import LoopReport
from sami_runtime.loop.run_episode import EpisodeReport, run_episode
from sami_runtime.loop.tick import Outcome, SectionTimes, StepRecord, Swapped
from sami_runtime.model.artifact import Artifact, read_artifact
from sami_runtime.model.atlas import Atlas, Locator, Place
from sami_runtime.model.contract import CONTRACT_VERSION, METADATA_KEY, Context, Contract, StateTensor
from sami_runtime.model.golden import Golden, GoldenSteps
from sami_runtime.recording.comparison import Comparison, Difference
from sami_runtime.recording.format import RecordedStep
from sami_runtime.recording.reader import Recording, read_recording
from sami_runtime.recording.recorder import Recorder
from sami_runtime.recording.replay import Shadow
from sami_runtime.run import Run
from sami_runtime.safety.gate import Ruling, SafetyGate
from sami_runtime.safety.limits import Limits
from sami_runtime.session.session import Session, SessionState, Step
from sami_runtime.session.telemetry import Phase, Reading, Telemetry
from sami_runtime.signals import Signal

# `verify` and `replay` themselves stay in their modules of the same name: sami_runtime.verify.verify.
__all__ = [
    "CONTRACT_VERSION",
    "METADATA_KEY",
    "Adapter",
    "AdapterError",
    "Artifact",
    "ArtifactError",
    "Atlas",
    "Check",
    "CheckFailed",
    "Clock",
    "Comparison",
    "Context",
    "Contract",
    "ContractError",
    "Difference",
    "DryRun",
    "EpisodeReport",
    "Executed",
    "FakeAdapter",
    "Gap",
    "GapProfile",
    "Gapped",
    "Golden",
    "GoldenSteps",
    "GymnasiumAdapter",
    "Limits",
    "Locator",
    "LoopReport",
    "ManualClock",
    "MonotonicClock",
    "NonFiniteError",
    "Observation",
    "Outcome",
    "PandaAdapter",
    "Phase",
    "Place",
    "ProviderError",
    "Reading",
    "RecordedStep",
    "Recorder",
    "Recording",
    "RecordingError",
    "Ruling",
    "Run",
    "SafetyGate",
    "SafetyStop",
    "SamiError",
    "SectionTimes",
    "Session",
    "SessionState",
    "Shadow",
    "Signal",
    "SignalError",
    "SignalSource",
    "StateTensor",
    "Step",
    "StepRecord",
    "Swapped",
    "Telemetry",
    "UnknownName",
    "Verification",
    "read_artifact",
    "read_recording",
    "require_compatible",
    "run_episode",
]
