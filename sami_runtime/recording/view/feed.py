"""What a loop does for those who watch it: a message a tick into a socket, and nothing else.

Who serves it is another process. A message that finds the socket full is dropped and counted: nothing that a browser
does can make the loop wait.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sami_runtime.recording.view.rows import RunRows, described

if TYPE_CHECKING:
    from sami_runtime.loop.episode import EpisodeReport
    from sami_runtime.loop.tick import StepRecord
    from sami_runtime.model.contract import Contract
    from sami_runtime.session.session import Session

SOCKET_BYTES = 4_000_000
"""How much may wait in the socket: minutes at 25 Hz."""
START_S = 20.0
"""How long the server may take to begin [s]."""


class Feed:
    """A run to look at while it happens; it is a loop's `on_step`.

    Args:
        contract: Of the policy.
        about: What the run is, as a recording says it.
        name: What the run is called.

    Raises:
        SamiError: The server does not begin.
    """

    def __init__(self, contract: Contract, about: dict[str, Any], name: str) -> None:
        from sami_runtime.child import python_command
        from sami_runtime.errors import SamiError

        self.dropped = 0
        """Ticks that those who watch do not see."""
        self._rows, self._episode = RunRows(contract), -1
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        token = secrets.token_urlsafe(16)
        with theirs:
            # A session of its own: Ctrl-C is the loop's. It ends by itself when the loop's end of the socket is closed.
            self._server = subprocess.Popen(
                python_command(f"{__package__}.server", theirs.fileno()),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(token + "\n")  # not an argument, which everybody on the machine could read
        self._server.stdin.close()
        first_line = self._server.stdout.readline().strip()
        if not first_line.isdigit():
            self._server.wait(START_S)
            raise SamiError(f"nobody can watch the run: {first_line or 'the server did not begin'}. Leave out --live.")
        self.url = f"http://127.0.0.1:{first_line}/{token}/"
        """Where it is; whoever knows this address, and is on this machine, may watch."""
        run = {**described(contract, about, name), "groups": self._rows.groups, "columns": self._rows.columns}
        self._socket.send(json.dumps({"run": run}).encode())
        self._socket.setblocking(False)

    def __call__(self, record: StepRecord) -> None:
        """Send one tick. One that cannot be shown is dropped and counted: it must not end the run."""
        self._episode += record.step == 0
        try:
            message = self._rows.row(self._episode, record)
        except Exception:
            self.dropped += 1
            return
        self._tell(message)

    def ended(self, report: EpisodeReport) -> None:
        """Tell what came of the episode whose ticks were told last."""
        self._tell({"came": [self._episode, report.ended.value, report.success]})

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._socket.send(json.dumps(message, allow_nan=False).encode())
        except (OSError, ValueError, TypeError):  # full, or nobody there any more; or JSON has no such value
            self.dropped += 1
            if words := message.get("words"):  # the next row brings them
                self._rows.forget(len(words))

    def close(self) -> None:
        """Let those who watch know that it is over. The page keeps what it has."""
        self._socket.close()
        if self._server.stdout:
            self._server.stdout.close()
        try:
            self._server.wait(2.0)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class Nobody:
    """In the place of a feed where nobody watches."""

    def __call__(self, record: StepRecord) -> None:
        """Tell nobody."""

    def ended(self, report: EpisodeReport) -> None:
        """Tell nobody."""


@contextmanager
def watching(wanted: bool, session: Session, name: str, about: dict[str, Any]) -> Iterator[Feed | Nobody]:
    """Let a run be watched, and say where; see `Feed`. To be entered before a process takes a real-time priority."""
    if not wanted:
        yield Nobody()
        return
    with Feed(session.contract, about, name) as feed:
        print(f"watch it at {feed.url}", file=sys.stderr, flush=True)
        yield feed
    if feed.dropped:
        print(f"{feed.dropped} ticks were not shown to those who watched", file=sys.stderr)
