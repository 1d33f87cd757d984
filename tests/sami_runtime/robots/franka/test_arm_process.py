"""What stops an arm from outside of its loop."""

import socket
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sami_runtime import AdapterError, ManualClock, SafetyStop, Watchdog
from sami_runtime.files import read_document
from sami_runtime.robots.franka.link import FOLLOW, GO, KIND, STOP, ArmPhase, ArmState, HandState, Ring
from sami_runtime.robots.franka.settings import FrankaSettings
from sami_runtime.robots.kit import Frame
from sami_runtime.safety.watchdog import instruct_watchdogs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watchdogs need Linux")
ARM = Path(__file__).parents[4] / "examples" / "franka" / "arm.toml"


@pytest.fixture
def pair():
    ring, bell = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ring, bell:
        yield ring, bell


def test_a_watchdog_rings_at_the_arm_that_its_adapter_drives(pair):
    ring, bell = pair
    with pytest.raises(AdapterError, match="nothing was sent: no adapter has connected to an arm"):
        Ring()()
    with Watchdog("sami_runtime.robots.franka:emergency_stop", 60.0) as dog:
        assert not dog.fire(wait_s=0.1)
        dog.rearm()
        instruct_watchdogs(dog, KIND, {}, [ring.fileno()])
        ring.close()
        assert dog.fire(wait_s=10.0)
        assert bell.recv(16)


def test_an_arm_stops_when_its_bell_rings_and_goes_on_where_nobody_holds_it(pair):
    pytest.importorskip("pylibfranka")
    from sami_runtime.robots.franka.arm_process import ArmProcess

    ring, bell = pair
    loop, link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with loop, link:
        arm = ArmProcess(link, FrankaSettings.of(read_document(ARM, "settings")), bell)
        command = arm._command = (FOLLOW, 7 * (0.1,))
        arm._listen()
        assert arm._command == command
        ring.send(b"!")
        arm._listen()
        assert arm._command is None
        arm._command = command
        ring.close()
        arm._listen()
        arm._listen()
        assert arm._command == command


def test_an_arm_on_its_way_home_is_not_sent_on_after_an_emergency_stop(monkeypatch):
    pytest.importorskip("mink")
    from sami_runtime.robots.franka import adapter as adapters

    monkeypatch.setattr(adapters, "HOME_S", 0.5)
    arm_state = ArmState(ArmPhase.POSITIONING, 0.0, np.ones(7), np.zeros(7), False, 1.0, 0, 0, 0.0)
    messages = []
    robot = object.__new__(adapters.FrankaAdapter)
    robot.settings = FrankaSettings.of(read_document(ARM, "settings"))
    robot.clock, robot._home = ManualClock(), np.zeros(7)
    robot._hand = SimpleNamespace(state=HandState(0.0, 0.0, 0.0, 0.0, False, 0), send=lambda message: None)
    robot._arm = SimpleNamespace(state=arm_state, send=lambda message: messages.append(message[:1]))
    threading.Timer(0.05, robot.emergency_stop).start()
    with pytest.raises(SafetyStop, match=r"emergency_stop\(\) was called"):
        robot.reset()
    assert len(messages) > 1
    assert messages[-2:].count(STOP) == 1, "no more than one command that was on its way"
    messages.clear()
    robot._base, robot._period, robot._reach = Frame.of((-0.6, 0.0, 0.0)), 0.04, np.ones(3)
    robot._ik = adapters.DifferentialIK(adapters.MODEL, "fingertips", adapters.JOINTS, 0.1 * np.ones(7))
    robot._values = {"gripper_width": [0.0], "achieved_goal": np.zeros(3), "desired_goal": np.ones(3)}
    with pytest.raises(SafetyStop, match=r"emergency_stop\(\) was called; nothing is sent until the next reset"):
        robot.write(np.float32([1.0, 0.0, 0.0, 0.0]))
    assert messages == []


@pytest.mark.parametrize("kind", [FOLLOW, GO])
@pytest.mark.parametrize(
    ("at_rest", "arrived", "stops"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_an_arm_that_moves_stops_when_the_loop_falls_silent_on_the_way_home_too(kind, at_rest, arrived, stops):
    pytest.importorskip("pylibfranka")
    from sami_runtime.robots.franka.arm_process import ArmProcess, now

    arm = object.__new__(ArmProcess)
    arm._settings, arm._command = FrankaSettings.of(read_document(ARM, "settings")), (kind, 7 * (0.1,))
    arm._message_time = now() - 2 * arm._settings.stale_s
    assert arm._reason(SimpleNamespace(at_rest=at_rest, arrived=arrived), bad=0).startswith("no command came") is stops


@pytest.mark.parametrize(
    ("now_at", "message"), [(0.0, ""), (1.0, "joint1 is 1 rad from home, and the arm may not move")]
)
def test_an_arm_that_may_not_move_home_is_judged_by_where_it_is_now(now_at, message):
    """States that were sent in a pause wait in the socket, and the newest of them may be minutes old."""
    pytest.importorskip("mink")
    from sami_runtime.robots.franka import adapter as adapters
    from sami_runtime.robots.franka import link

    def states():
        yield ArmState(ArmPhase.IDLE, 0.0, np.array([1.0 - now_at, *6 * [0.0]]), np.zeros(7), False, 1.0, 0, 0, 0.0)
        while True:
            at = np.array([now_at, *6 * [0.0]])
            yield ArmState(ArmPhase.IDLE, link.now(), at, np.zeros(7), False, 1.0, 0, 0, 0.0)

    class Arm:
        reports = states()
        state = property(lambda arm: next(arm.reports))

    robot = object.__new__(adapters.FrankaAdapter)
    document = {**read_document(ARM, "settings"), "move_home": False}
    robot.settings, robot.clock, robot._home = FrankaSettings.of(document), ManualClock(), np.zeros(7)
    robot._arm, robot._hand, robot._task = Arm(), SimpleNamespace(), {}
    robot._link = SimpleNamespace(reset=lambda: None, send=lambda **_: None)
    robot._imaging, robot._moves, robot._turns = threading.Lock(), *2 * [SimpleNamespace(reset=lambda: None)]
    robot._latest = SimpleNamespace(reset=lambda: None, always=lambda **_: None)
    with pytest.raises(AdapterError, match=message) if message else nullcontext():
        robot.reset(0)
