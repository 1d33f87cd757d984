"""The doctor finds what it is shown, and says what to do about it."""

import os
import sys

import pytest

from sami_runtime.checks import doctor
from sami_runtime.distribution import install_hint

WORDS = {"ok", "warn", "fail"}


@pytest.fixture
def machine(tmp_path):
    """Writes files of a machine's `proc` and `sys`; returns their root."""

    def write(**files):
        for name, text in files.items():
            file = tmp_path / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return write


def test_this_machine_can_be_examined_and_every_warning_has_advice(tmp_path):
    findings = list(doctor.examine())
    names = [finding.name for finding in findings]
    assert len(set(names)) == len(names)
    assert {"versions", "onnxruntime build", "onnxruntime", "telemetry", "kernel", "clock", "sleep"} <= set(names)
    for finding in findings:
        assert finding.status in WORDS
        assert bool(finding.advice) == (finding.status != "ok"), finding
    assert {f.name: f.status for f in findings}["onnxruntime"] == "ok"


def test_a_governor_that_saves_power_is_named(machine):
    root = machine(
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="performance\n",
        sys__devices__system__cpu__cpu1__cpufreq__scaling_governor="powersave\n",
    )
    result = doctor.governor(root)
    assert (result.status, result.measured) == (
        "warn",
        "performance, powersave: a core that slept wakes with a low clock",
    )
    assert "cpupower frequency-set -g performance" in result.advice
    machine(sys__devices__system__cpu__cpu1__cpufreq__scaling_governor="performance\n")
    assert doctor.governor(root).status == "ok"
    (root / "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor").mkdir(parents=True)
    assert doctor.governor(root).status == "ok", "one that cannot be read, as of a core that is offline, is left out"


def test_a_machine_without_governors_is_no_fault(machine):
    assert doctor.governor(machine()).status == "ok"


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ({"proc__sys__kernel__version": "#1 SMP PREEMPT_DYNAMIC Debian 6.1"}, "warn"),
        ({"proc__sys__kernel__version": "#1 SMP PREEMPT_RT Debian 6.1"}, "ok"),
        ({"proc__sys__kernel__version": "#1 SMP", "sys__kernel__realtime": "1\n"}, "ok"),
        ({"proc__sys__kernel__version": "#1 SMP", "sys__kernel__realtime": "0\n"}, "warn"),
    ],
)
def test_a_real_time_kernel_is_recognised(machine, files, status):
    assert doctor.kernel(machine(**files)).status == status


def test_a_busy_machine_is_named(machine):
    cores = os.cpu_count() or 1
    assert doctor.load(machine(proc__loadavg=f"{cores * 0.9:.2f} 0.1 0.1 1/1 1\n")).status == "warn"
    assert doctor.load(machine(proc__loadavg="0.00 9.0 9.0 1/1 1\n")).status == "ok"


def test_a_slow_clock_is_named(machine):
    source = "sys__devices__system__clocksource__clocksource0__current_clocksource"
    assert doctor.clock(machine(**{source: "hpet\n"})).status == "warn"
    assert doctor.clock(machine(**{source: "tsc\n"})).status == "ok"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's limits")
def test_limits_are_those_of_this_user(machine):
    import resource

    def result(capabilities):
        root = machine(proc__self__status=f"Name:\tx\nCapEff:\t{capabilities}\n")
        return {finding.name: finding.status for finding in doctor.limits(root)}

    limits = {resource.RLIMIT_RTPRIO: 0, resource.RLIMIT_MEMLOCK: 65536}
    before = {limit: resource.getrlimit(limit) for limit in limits}
    try:
        for limit, soft in limits.items():
            resource.setrlimit(limit, (soft, before[limit][1]))
        assert result("0000000000000000") == {"real-time priority": "warn", "locked memory": "warn"}
        assert result("0000000000800000") == {"real-time priority": "ok", "locked memory": "warn"}
        assert result("0000000000804000") == {"real-time priority": "ok", "locked memory": "ok"}
    finally:
        for limit, values in before.items():
            resource.setrlimit(limit, values)


@pytest.mark.parametrize(
    ("runtime", "status", "words"),
    [("950000", "ok", "950000 of 1000000 µs"), ("-1", "warn", "never sleeps"), ("0", "warn", "does not run")],
)
def test_the_share_of_real_time_priorities_is_told(machine, runtime, status, words):
    root = machine(
        proc__sys__kernel__sched_rt_runtime_us=runtime + "\n", proc__sys__kernel__sched_rt_period_us="1000000\n"
    )
    (result,) = doctor.throttling(root)
    assert (result.status, words in result.measured, bool(result.advice)) == (status, True, status == "warn")


def test_a_kernel_that_tells_no_share_is_no_fault(tmp_path):
    assert list(doctor.throttling(tmp_path)) == []


def test_no_build_of_onnxruntime_is_a_failure():
    result = doctor.builds([])
    assert result.status == "fail"
    assert install_hint("cpu") in result.advice


def test_a_cuda_provider_that_does_not_load_is_told_with_the_reason(tmp_path):
    result = doctor.cuda(tmp_path / "libonnxruntime_providers_cuda.so", "Failed to load libcublas.so.13")
    assert result.status == "warn"
    assert "libonnxruntime_providers_shared.so: cannot open shared object file" in result.measured
    assert result.measured.endswith("Failed to load libcublas.so.13")


def test_telemetry_that_was_asked_for_is_named(monkeypatch):
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    result = {finding.name: finding for finding in doctor.onnxruntime()}["telemetry"]
    assert (result.status, result.advice) == ("warn", "Unset ORT_DISABLE_TELEMETRY, or set it to 1.")
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    assert {finding.name: finding for finding in doctor.onnxruntime()}["telemetry"].status == "ok"


def test_sleeps_are_measured():
    result = doctor.sleep(count=5)
    assert result.measured.startswith("5 sleeps of 1 ms ended late by p50 ")
