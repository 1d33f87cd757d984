"""Measures the time until a watched robot is at rest after its loop fails, over many failures of each kind.

    python benchmarks/watchdog_kills.py [--kills N] [--within S] [--kinds NAME ...] [--seed N] [--json]

The robot is that of examples/udp_robot.py, a velocity-controlled hand in its own process, without its deadman timer:
it keeps the last commanded velocity. The robot itself reports when it came to rest, what stopped it, and later
commands. The loop is `sami drive` with `watchdog_s = S`, with the shipped policy at 25 Hz. Ways to fail:

    killed       SIGKILL, at any moment
    stopped      SIGSTOP, at any moment; SIGCONT half a second later must not make it move again
    read         a read that blocks for ever
    write        a write that hangs for half a second, and then sends its command
    gil          a read that blocks for ever and lets no other thread run
    segfault     in the driver
    exits        the driver ends the process
    memory       no more memory; the loop itself may stop the robot

Times are from the failure until the robot rests; the limit is the watchdog's time plus one period. Exits with 4 if a
time is longer, the robot moves again, or a process is left behind. Each kill takes about two seconds.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import queue
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from udp_robot import UdpRobot, emergency_stop  # noqa: E402, F401 - the watchdog imports the second

PERIOD, HANG_S = 0.04, 0.5
MAIN = "import sys; sys.path[0] = '.'; from sami_cli.app import main; main()"


def _out_of_memory() -> None:
    memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (memory + 2**26, memory + 2**26))
    rest = []
    while True:
        rest.append(bytearray(2**24))


INSIDE: dict[str, tuple[str, Callable[[], object]]] = {
    "read": ("read", threading.Event().wait),
    "write": ("write", lambda: time.sleep(HANG_S)),
    "gil": ("read", lambda: ctypes.PyDLL(None).sleep(1000)),
    "segfault": ("read", lambda: ctypes.string_at(0)),
    "exits": ("write", lambda: os._exit(1)),
    "memory": ("read", _out_of_memory),
}
"""Failures of the driver: the method that fails, and the failure."""
OUTSIDE = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
KINDS = (*OUTSIDE, *INSIDE)


class Failing(UdpRobot):
    """The adapter of the example with a driver that fails at a tick, as environment variables set."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.kind, self.remaining = os.environ["FAIL_BY"], int(os.environ["FAIL_AT"])

    def read(self) -> Any:
        """Read, or fail."""
        self.remaining -= 1
        self._perhaps_fail("read")
        return super().read()

    def write(self, action: Any) -> Any:
        """Write, or fail."""
        self._perhaps_fail("write")
        return super().write(action)

    def _perhaps_fail(self, method: str) -> None:
        if self.remaining == 0 and self.kind in INSIDE and INSIDE[self.kind][0] == method:
            os.write(2, f"FAILS {time.monotonic()}\n".encode())
            INSIDE[self.kind][1]()


make = Failing


class Outcome(NamedTuple):
    """The outcome of a failure."""

    kind: str
    late_s: float
    """Time from the failure until the robot rests [s]; infinite if it never rests."""
    by: str
    """What stopped the robot."""
    faults: list[str]
    """Other errors."""


def lines_of(stream: IO[str]) -> queue.Queue[str]:
    """Return a queue of the lines of a stream; an empty line marks its end."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    return lines


class Witness:
    """Reads the robot's own messages about when it moves and when it rests."""

    def __init__(self, robot: subprocess.Popen[str]) -> None:
        self._lines = lines_of(robot.stdout)  # type: ignore[arg-type]
        assert self._lines.get(timeout=30).startswith("listening")

    def next(self, key: str, timeout_s: float) -> dict[str, Any] | None:
        """Return the robot's next message with the key `moves` or `rests`; None if none arrives in time."""
        end = time.monotonic() + timeout_s
        while (remaining := end - time.monotonic()) > 0:
            try:
                document = json.loads(self._lines.get(timeout=remaining))
            except queue.Empty:
                return None
            if key in document:
                return dict(document)
        return None


@contextmanager
def witness(port: int) -> Iterator[Witness]:
    """Run the robot without a deadman timer at a port, and yield its witness."""
    command = [sys.executable, str(ROOT / "examples" / "udp_robot.py"), "36000", "--deadman", "inf"]
    environment = {**os.environ, "UDP_ROBOT_PORT": str(port)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as robot:
        try:
            yield Witness(robot)
        finally:
            robot.kill()


def fail(kind: str, robot: Witness, within_s: float, draw: random.Random, port: int) -> Outcome:
    """Drive the robot, make the loop fail once the robot moves, and return the outcome."""
    environment = {
        **os.environ,
        "UDP_ROBOT_PORT": str(port),
        "FAIL_BY": kind,
        "FAIL_AT": str(draw.randrange(5, 20)),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    robot_keys = {"version": 1, "adapter": "watchdog_kills:make", "model": "panda-satesac", "steps": 10_000}
    command = [sys.executable, "-c", MAIN, "drive", "robot.json", "--json"]
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "robot.json").write_text(json.dumps({**robot_keys, "watchdog_s": within_s}))
        with subprocess.Popen(command, cwd=folder, env=environment, **options) as loop:
            try:
                return _watch(kind, robot, loop, lines_of(loop.stderr), draw)  # type: ignore[arg-type]
            finally:
                loop.kill()


def _watch(
    kind: str, robot: Witness, loop: subprocess.Popen[str], errors: queue.Queue[str], draw: random.Random
) -> Outcome:
    if robot.next("moves", 60.0) is None:
        loop.kill()
        raise SystemExit(f"the loop never moved the robot: {''.join(iter(errors.get, ''))}")
    if kind in OUTSIDE:
        time.sleep(draw.uniform(0.1, 0.5))
        failed_at = time.monotonic()
        loop.send_signal(OUTSIDE[kind])
    else:
        while not (line := errors.get(timeout=30)).startswith("FAILS"):
            pass
        failed_at = float(line.split()[1])
    rest = robot.next("rests", 5.0)
    if rest is None:
        return Outcome(kind, float("inf"), "nothing", ["it never came to rest"])
    faults = []
    if kind in ("stopped", "write"):  # the loop still runs, and must notice the stop
        if kind == "stopped":
            time.sleep(HANG_S)
            loop.send_signal(signal.SIGCONT)
        if (code := loop.wait(10)) != 3:
            faults.append(f"the loop ended with {code}, not with 3")
    elif kind in ("read", "gil"):
        time.sleep(0.1)
        loop.kill()
    try:
        while errors.get(timeout=10):  # ends once the watchdog, which shares the stream, has ended too
            pass
    except queue.Empty:
        faults.append("a process was left behind")
    if robot.next("moves", 0.05) is not None:
        faults.append("it moved again")
    return Outcome(kind, rest["time"] - failed_at, rest["rests"], faults)


def table(outcomes: list[Outcome], allowed_s: float) -> str:
    """Return a table of the times by kind of failure."""
    lines = [f"{'':>10} {'n':>4} {'p50':>8} {'max':>8}  ms from the failure to rest; stopped by"]
    for kind in (*dict.fromkeys(outcome.kind for outcome in outcomes), "all"):
        of_kind = [outcome for outcome in outcomes if kind in (outcome.kind, "all")]
        times = [1e3 * outcome.late_s for outcome in of_kind]
        by = ", ".join(sorted({outcome.by for outcome in of_kind}))
        lines.append(f"{kind:>10} {len(of_kind):>4} {statistics.median(times):>8.1f} {max(times):>8.1f}  {by}")
    late = sum(outcome.late_s > allowed_s for outcome in outcomes)
    faults = [f"{outcome.kind}: {fault}" for outcome in outcomes for fault in outcome.faults]
    lines.append(f"later than {1e3 * allowed_s:.0f} ms: {late} of {len(outcomes)}; other faults: {faults or 'none'}")
    return "\n".join(lines)


def machine() -> str:
    """Return a description of this machine and its load."""
    busy = f"load {os.getloadavg()[0]:.2f}, nice {os.nice(0)}"
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {busy}"


def main() -> None:
    """Let loops fail, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="how many loops fail, the kinds in turns (200)")
    parser.add_argument("--within", type=float, default=0.12, help="the watchdog's time [s] (0.12)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="ways to fail (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which they do (0)")
    parser.add_argument("--port", type=int, default=47021, help="the first of the robot's two ports (47021)")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    draw, before = random.Random(arguments.seed), machine()
    outcomes = []
    with witness(arguments.port) as robot:
        for number in range(arguments.kills):
            kind = arguments.kinds[number % len(arguments.kinds)]
            outcomes.append(fail(kind, robot, arguments.within, draw, arguments.port))
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {arguments.kills}", end="", file=sys.stderr)
    allowed = arguments.within + PERIOD
    if arguments.json:
        print(json.dumps({"machine": before, "allowed_s": allowed, "kills": [item._asdict() for item in outcomes]}))
    else:
        print(f"{before}; after it: {machine()}\n{table(outcomes, allowed)}")
    if any(outcome.faults or outcome.late_s > allowed for outcome in outcomes):
        sys.exit(4)


if __name__ == "__main__":
    main()
