"""Steps skill-aware policies inside a control loop, from one ONNX file and without torch.

The names in `__all__` are the public API. The subpackages have more names, for people who extend the runtime.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sami_runtime.adapters import (
        Adapter,
        DryRun,
        Executed,
        FakeAdapter,
        Gapped,
        GymnasiumAdapter,
        Observation,
        PandaAdapter,
    )
    from sami_runtime.adoption.adopt import adopt
    from sami_runtime.checks.check_adapter import check_adapter
    from sami_runtime.checks.verify import verify
    from sami_runtime.clock import Clock, ManualClock, MonotonicClock
    from sami_runtime.distribution import shipped_models
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
    from sami_runtime.gap.profile import GapProfile
    from sami_runtime.loop.episode import EpisodeReport, run_episode
    from sami_runtime.loop.pilot import Ending, Pilot, Request
    from sami_runtime.loop.tick import LoopReport, Outcome, StepRecord, Swapped
    from sami_runtime.model.artifact import read_artifact
    from sami_runtime.model.contract import Contract
    from sami_runtime.realtime import real_time
    from sami_runtime.recording.reader import Recording, read_recording
    from sami_runtime.recording.recorder import Recorder
    from sami_runtime.recording.replay import Shadow, replay
    from sami_runtime.run import Run
    from sami_runtime.safety.gate import Controller, SafetyGate
    from sami_runtime.safety.limits import Limits
    from sami_runtime.safety.watchdog import Watchdog
    from sami_runtime.session.session import Session, SessionState, Step
    from sami_runtime.session.telemetry import Phase, Reading, Telemetry
    from sami_runtime.signals import Signal, SignalSource

__all__ = [
    "Adapter",
    "AdapterError",
    "ArtifactError",
    "CheckFailed",
    "Clock",
    "Contract",
    "ContractError",
    "Controller",
    "DryRun",
    "Ending",
    "EpisodeReport",
    "Executed",
    "FakeAdapter",
    "GapProfile",
    "Gapped",
    "GymnasiumAdapter",
    "Limits",
    "LoopReport",
    "ManualClock",
    "MonotonicClock",
    "NonFiniteError",
    "Observation",
    "Outcome",
    "PandaAdapter",
    "Phase",
    "Pilot",
    "ProviderError",
    "Reading",
    "Recorder",
    "Recording",
    "RecordingError",
    "Request",
    "Run",
    "SafetyGate",
    "SafetyStop",
    "SamiError",
    "Session",
    "SessionState",
    "Shadow",
    "Signal",
    "SignalError",
    "SignalSource",
    "Step",
    "StepRecord",
    "Swapped",
    "Telemetry",
    "UnknownName",
    "Watchdog",
    "adopt",
    "check_adapter",
    "read_artifact",
    "read_recording",
    "real_time",
    "replay",
    "run_episode",
    "shipped_models",
    "verify",
]

_HOMES = {
    "adapters": "Adapter DryRun Executed FakeAdapter Gapped GymnasiumAdapter Observation PandaAdapter",
    "adoption.adopt": "adopt",
    "checks.check_adapter": "check_adapter",
    "checks.verify": "verify",
    "clock": "Clock ManualClock MonotonicClock",
    "distribution": "shipped_models",
    "errors": "AdapterError ArtifactError CheckFailed ContractError NonFiniteError ProviderError RecordingError "
    "SafetyStop SamiError SignalError UnknownName",
    "gap.profile": "GapProfile",
    "loop.episode": "EpisodeReport run_episode",
    "loop.pilot": "Ending Pilot Request",
    "loop.tick": "LoopReport Outcome StepRecord Swapped",
    "model.artifact": "read_artifact",
    "model.contract": "Contract",
    "realtime": "real_time",
    "recording.reader": "Recording read_recording",
    "recording.recorder": "Recorder",
    "recording.replay": "Shadow replay",
    "run": "Run",
    "safety.gate": "Controller SafetyGate",
    "safety.limits": "Limits",
    "safety.watchdog": "Watchdog",
    "session.session": "Session SessionState Step",
    "session.telemetry": "Phase Reading Telemetry",
    "signals": "Signal SignalSource",
}
"""Public names by module. A module is imported when one of its names is first used, so that the small processes (the
watchdog, the rehearsal of a model file) start fast: they need few of the modules."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker would accept any name of a module that defines __getattr__

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
