"""A Franka behind its own protocol, simulated by franka-sim on loopback: driven, and stopped whatever fails.

`make franka-sim` makes its environment. Nothing here was tried on a robot.
"""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sami_runtime import (
    AdapterError,
    Limits,
    MonotonicClock,
    Run,
    SafetyStop,
    Session,
    Watchdog,
    check_adapter,
    shipped_models,
)
from sami_runtime.robots.franka.link import ArmPhase

pytest.importorskip("pylibfranka")
pytest.importorskip("mink")

from tests.making.franka import EXAMPLE, PYTHON, ROOT, SimulatedRobot, drive, forgiving, host

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason=f"{PYTHON} is not there: make franka-sim makes it")
RESTS_S = 1.0
"""Within which an arm that is not commanded any more has to rest, on a machine that is busy with other things."""


@pytest.fixture(scope="module")
def robot():
    instance = SimulatedRobot(2)
    yield instance
    instance.close()


@pytest.fixture(scope="module")
def session():
    return Session.load(shipped_models()["panda-satesac"])


def rests(adapter):
    """Whether the arm comes to rest in time."""
    end = time.monotonic() + RESTS_S
    while time.monotonic() < end:
        if abs(adapter.arm.velocities).max() < 0.01:
            return True
        time.sleep(0.02)
    return False


def up(adapter, ticks=8):
    drive(adapter, [0.0, 0.0, 0.5, 0.0], ticks)


def hamper(adapter, pid):
    """Drives while the arm's process is held up again and again."""
    for _ in range(100):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.06)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
        adapter.read()
        adapter.write(np.float32([0.0, 0.0, 0.2, 0.0]))


def recovered(adapter):
    """It goes on after a person had it recover."""
    adapter.recover()
    adapter.reset(0)
    up(adapter)
    adapter.stop()
    return adapter.arm.phase is ArmPhase.IDLE


@forgiving
def test_it_keeps_the_laws_of_adapters(robot, session):
    with robot.adapter(session) as adapter:
        limits = Limits.load(EXAMPLE / "limits.toml")
        verdicts = check_adapter(adapter, session.contract, adapter.clock, limits, write=True)
    assert [f"{verdict.law}: {verdict.fault}" for verdict in verdicts if verdict.fault] == []
    assert len(verdicts) == 14


@forgiving
def test_the_hand_reaches_points_in_space_and_few_packets_are_lost(robot, session, capsys):
    points = [[0.1, 0.1, 0.15], [-0.1, 0.1, 0.25], [-0.1, -0.1, 0.1], [0.05, 0.0, 0.2]]
    with robot.adapter(
        session, stale_s=0.4
    ) as adapter:  # a machine that stands still for a tenth of a second is forgiven
        adapter.reset(0)
        off = []
        for point in points:

            def towards(values, point=point):
                return [*np.clip(12.0 * (np.array(point) - values["ee_position"]), -1.0, 1.0), 0.0]

            values = drive(adapter, towards, 100)
            off.append(float(np.linalg.norm(values["ee_position"] - point)))
        adapter.stop()
        arm = adapter.arm
    with capsys.disabled():
        print(f"\noff by {np.round(off, 4)} m; {arm.misses} of {arm.cycles} cycles lost, longest {arm.worst_s:.4f} s")
    assert max(off) < 0.01
    assert arm.misses < 0.1 * arm.cycles


@forgiving
def test_a_policy_that_stalls_ends_in_a_stop_with_its_reason(robot, session):
    with robot.adapter(session) as adapter:
        adapter.reset(0)
        up(adapter)
        assert abs(adapter.arm.velocities).max() > 0.05, "it moves"
        time.sleep(0.5)
        assert rests(adapter)
        with pytest.raises(SafetyStop, match=r"no command came for .* the policy or its host stalled"):
            adapter.read()
        with pytest.raises(SafetyStop, match="stalled"):
            adapter.write(np.zeros(4, np.float32))
        with pytest.raises(SafetyStop, match="stalled"):
            adapter.reset(0)
        adapter.stop()
        assert recovered(adapter)


@forgiving
def test_the_arm_of_a_host_that_was_killed_rests_and_its_process_ends(robot, session):
    with host(robot) as (process, pids):
        process.kill()
        process.wait()
        deadline = time.monotonic() + 3.0
        while any(os.path.exists(f"/proc/{pid}") for pid in pids.values()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids.values())
    with robot.adapter(session) as adapter:  # the robot is in no fault: it was brought to rest
        before = adapter.arm.positions
        time.sleep(0.2)
        assert adapter.arm.positions == pytest.approx(before, abs=1e-3)


@forgiving
def test_the_arm_of_a_host_that_froze_rests_and_the_host_learns_why(robot):
    with host(robot) as (process, _):
        time.sleep(0.5)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.8)
        process.send_signal(signal.SIGCONT)
        assert "the policy or its host stalled" in process.stdout.readline()
        assert process.wait(20) == 3


@forgiving
def test_the_emergency_stop_works_from_another_process(robot, session):
    with (
        Watchdog("sami_runtime.robots.franka:emergency_stop", 60.0) as dog,
        robot.adapter(session) as adapter,
    ):
        adapter.reset(0)
        up(adapter)
        assert dog.fire(wait_s=5.0)
        assert rests(adapter)
        adapter.stop()


@forgiving
def test_a_reflex_ends_in_a_stop_and_nothing_recovers_unasked(robot, session):
    with robot.adapter(session) as adapter:
        adapter.reset(0)
        up(adapter)
        pid = adapter.processes["arm"]
        os.kill(pid, signal.SIGSTOP)  # 20 commands in a row are lost
        time.sleep(0.1)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.3)
        with pytest.raises(SafetyStop, match=r"the robot stopped by itself: .*communication_constraints_violation"):
            adapter.read()
        for again in (adapter.read, adapter.reset, adapter.stop, adapter.read):
            if again == adapter.stop:
                again()
            else:
                with pytest.raises(SafetyStop, match="communication_constraints_violation"):
                    again()
        assert adapter.arm.phase is ArmPhase.FAULT
        assert recovered(adapter)


def test_a_person_asks_for_the_state_and_for_recovery_by_a_command(robot, tmp_path):
    """franka-sim forgets a reflex with the connection, which a robot does not: so there is nothing to recover from."""
    settings = tmp_path / "arm.json"
    settings.write_text(json.dumps(robot.settings()))
    command = [sys.executable, "-m", "sami_runtime.robots.franka", "recover", str(settings)]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("mode Idle, last errors []")
    assert "nothing to recover from" in process.stdout


def test_the_camera_that_tells_nothing_is_refused(robot, session):
    silent = {"here": [robot.address, 47399], "there": [robot.address, 47398]}
    with pytest.raises(AdapterError, match="no camera at"), robot.adapter(session, camera=silent):
        pass


@forgiving
def test_an_arm_that_may_not_move_home_has_to_be_there(robot, session):
    with robot.adapter(session) as adapter:
        adapter.reset(0)
        drive(adapter, [0.0, 1.0, 0.0, 0.0], 25)
        adapter.stop()
    refusal = pytest.raises(AdapterError, match="rad from home, and the arm may not move there")
    with refusal, robot.adapter(session, move_home=False):
        pass


@forgiving
def test_packets_that_are_lost_end_in_a_stop_and_a_robot_that_is_gone_too(session):
    robot = SimulatedRobot(3, "--lenient")
    try:
        with robot.adapter(session, stale_s=0.5) as adapter:
            adapter.reset(0)
            up(adapter)
            pid = adapter.processes["arm"]
            with pytest.raises(SafetyStop, match=r"packets are lost, and the arm was stopped"):
                hamper(adapter, pid)
            assert rests(adapter)
            assert adapter.arm.misses > 10
            adapter.recover()
            adapter.reset(0)
            robot.process.kill()
            time.sleep(2.0)
            with pytest.raises(SafetyStop, match="the connection to the robot is lost"):
                adapter.read()
            adapter.stop()
    finally:
        robot.close()


def test_it_does_the_whole_task(robot, session, capsys):
    """How often, docs/results/franka.md tells; here, that it does."""
    with robot.adapter(session) as adapter:
        with Run(session, adapter, MonotonicClock(), limits=Limits.load(EXAMPLE / "limits.toml")) as run:
            rows = []
            for seed in range(4):
                try:
                    report = run.episode(seed=seed, max_steps=150)
                    rows.append((bool(report.success), report.steps))
                except SafetyStop as stop:
                    rows.append((False, str(stop)))
                    adapter.recover()
                    run.gate.rearm()
        with capsys.disabled():
            print(f"\n(success, steps): {rows}; {adapter.arm.misses} of {adapter.arm.cycles} cycles lost")
    assert sum(success for success, _ in rows) >= 1
