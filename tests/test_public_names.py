"""What a user programs against, to the name: whoever adds or removes one changes this list, and the changelog."""

import importlib

import pytest

PUBLIC = {
    "sami_runtime": {
        *("Contract", "Session", "SessionState", "Signal", "Step", "read_artifact", "shipped_models"),
        *("Run", "run_episode", "EpisodeReport", "LoopReport", "Outcome", "StepRecord", "Swapped"),
        *("Clock", "ManualClock", "MonotonicClock"),
        *("Adapter", "Executed", "Observation", "DryRun", "FakeAdapter", "Gapped", "GymnasiumAdapter", "PandaAdapter"),
        *("SignalSource", "GapProfile", "Limits", "SafetyGate", "Phase", "Reading", "Telemetry"),
        *("Recorder", "Recording", "Shadow", "read_recording", "replay", "check_adapter", "verify", "adopt"),
        *("Watchdog", "real_time", "Controller", "Ending", "Pilot", "Request"),
        *("SamiError", "AdapterError", "ArtifactError", "CheckFailed", "ContractError", "NonFiniteError"),
        *("ProviderError", "RecordingError", "SafetyStop", "SignalError", "UnknownName"),
    },
    "sami_runtime.robots.kit": {
        *("ClockSync", "Datagrams", "DifferentialIK", "Differentiator", "Frame", "Gripper", "Latest", "Motion"),
        *("Rename", "Scale", "joint_signals"),
        *("matrix_from_rpy", "matrix_from_xyzw", "rpy_from_matrix", "xyzw_from_matrix"),
    },
    "sami_runtime.session": {"Session", "SessionState", "Step"},
    "sami_train.agent": {"ContextSAC"},
    "sami_train.config": {"TrainConfig", "resolve"},
    "sami_train.envs": {
        *("ENVIRONMENTS", "EnvironmentSpec", "environment", "Range", "signal", "task_space"),
        *("Feature", "Goal", "Layout", "TaskSpace"),
    },
}


@pytest.mark.parametrize("package", PUBLIC)
def test_a_package_offers_these_names_and_no_others(package):
    if package == "sami_train.agent":
        pytest.importorskip("torch")
    module = importlib.import_module(package)
    assert set(module.__all__) == PUBLIC[package]
    assert [name for name in PUBLIC[package] if not hasattr(module, name)] == []
