"""Shows a run while it happens: the loop sends a message for each tick into a socket, and another process serves it.

If the socket is full, a message is dropped and counted: nothing that a browser does can make the loop wait. The server
answers only browsers of this machine:

    GET /TOKEN/          the page
    GET /TOKEN/events    the messages so far, then new ones, as server-sent events

Other requests get the error 404, and no request's body is read: a browser cannot command the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from sami_runtime.adapters.scene import Scene
from sami_runtime.child import python_command
from sami_runtime.errors import SamiError
from sami_runtime.loop.episode import EpisodeReport
from sami_runtime.loop.tick import StepRecord
from sami_runtime.model.contract import Contract
from sami_runtime.recording.scene_topics import plain_scene
from sami_runtime.recording.view import RunRows, described, page
from sami_runtime.session.session import Session

SOCKET_BYTES = 4_000_000
"""Most bytes that wait in the socket: minutes of a run at 25 Hz."""
START_S = 20.0
"""How long [s] a server that failed to start may take to exit."""
MOST_BYTES = 256 << 20
"""Most bytes of messages that are stored for browsers that connect later; beyond it, the oldest tenth is deleted. At
4.4 kB a tick, as of a robot with many signals, that is ten minutes at 100 Hz."""
BATCH = 2_000
"""Most ticks that are sent to a browser in one piece."""
PATIENCE_S = 10.0
"""Time [s] after which the server gives up a browser that receives nothing."""


class Feed:
    """Sends a run to the live view; pass it to a loop as `on_step`.

    Args:
        contract: Of the policy.
        about: The run's metadata, as in a recording.
        name: Name of the run.

    Raises:
        SamiError: The system is not Linux, or the server does not start.
    """

    def __init__(self, contract: Contract, about: dict[str, Any], name: str) -> None:
        self.scene: Scene | None = None
        """The robot's appearance; set it before the first tick."""
        self.dropped = 0
        """Messages that could not be sent; nearly all are ticks."""
        self._rows, self._episode = RunRows(contract), -1
        if sys.platform != "linux":
            raise SamiError(
                f"a live view needs Linux, this is {sys.platform}. Record the run, and look at it by `sami view`."
            )
        self._socket, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        token = secrets.token_urlsafe(16)
        with peer:
            # In its own session, Ctrl-C does not reach it. It exits once the loop closes its end of the socket.
            self._server = subprocess.Popen(
                python_command(__name__, peer.fileno()),
                pass_fds=[peer.fileno()],
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._server.stdin
        assert self._server.stdout
        run = {**described(contract, about, name), "groups": self._rows.groups, "columns": self._rows.columns}
        with contextlib.suppress(OSError), self._server.stdin as head:  # the server's output says why it ended
            # The token is no argument, which every user could read; no socket takes a head of thousands of elements.
            head.write(f"{token}\n{json.dumps({'run': run})}\n")
        first_line = self._server.stdout.readline().strip()
        if not first_line.isdigit():
            self._server.wait(START_S)
            raise SamiError(f"nobody can watch the run: {first_line or 'the server did not begin'}. Leave out --live.")
        self.url = f"http://127.0.0.1:{first_line}/{token}/"
        """Address of the page: every user of this machine who knows it may watch."""
        self._socket.setblocking(False)

    def __call__(self, record: StepRecord) -> None:
        """Send one tick; if that fails, count it as dropped, because the view must not end the run."""
        self._episode += record.step == 0
        try:
            message = self._rows.row(self._episode, record)
            if self.scene is not None:
                if record.step == 0:
                    message["scene"] = plain_scene(self.scene)
                message["poses"] = np.round(self.scene.poses(), 5).ravel().tolist()
        except Exception:
            self.dropped += 1
            return
        self._send(message)

    def end_episode(self, report: EpisodeReport) -> None:
        """Send the outcome of the episode whose ticks were sent last."""
        self._send({"came": [self._episode, report.ended.value, report.success]})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.send(json.dumps(message, allow_nan=False).encode())
        except (OSError, ValueError, TypeError):  # the socket is full or closed, or JSON cannot represent a value
            self.dropped += 1
            if words := message.get("words"):  # so that the next row sends them again
                self._rows.forget(len(words))

    def close(self) -> None:
        """Close the socket, which shows the browsers that the run is over, and end the server."""
        self._socket.close()
        if self._server.stdout:
            self._server.stdout.close()
        try:
            self._server.wait(2.0)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


@contextlib.contextmanager
def watching(enabled: bool, session: Session, name: str, about: dict[str, Any]) -> Iterator[Feed | None]:
    """Show a run if `enabled`, and print the page's address. Enter it before the process gets a real-time priority."""
    if not enabled:
        yield None
        return
    with contextlib.closing(Feed(session.contract, about, name)) as feed:
        print(f"watch it at {feed.url}", file=sys.stderr, flush=True)
        yield feed
    if feed.dropped:
        print(f"{feed.dropped} ticks were not shown to those who watched", file=sys.stderr)


class LiveHistory:
    """Stores a run's head and its messages in order; other threads wait for the next message."""

    def __init__(self, head: bytes = b"") -> None:
        self.head = head
        self._ticks: list[bytes] = []
        self._dropped_count = self._bytes = 0
        self.over = False
        self._news = threading.Condition()

    def follow(self, source: socket.socket) -> None:
        """Store every message, until the loop closes its end of the socket."""
        # `recv` would keep a whole buffer with each message; the system doubles the size, and no message is longer.
        buffer = memoryview(bytearray(2 * SOCKET_BYTES))
        while size := source.recv_into(buffer):
            data = bytes(buffer[:size])
            with self._news:
                self._ticks.append(data)
                self._bytes += _size(data)
                if self._bytes > MOST_BYTES:
                    count = max(1, len(self._ticks) // 10)
                    self._bytes -= sum(map(_size, self._ticks[:count]))
                    del self._ticks[:count]
                    self._dropped_count += count
                self._news.notify_all()
        with self._news:
            self.over = True
            self._news.notify_all()

    def after(self, ticks_sent: int, timeout_s: float) -> tuple[list[bytes], int]:
        """Return messages after the first `ticks_sent`, and the count including them; none after `timeout_s` [s]."""
        with self._news:
            self._news.wait_for(lambda: self.over or self._dropped_count + len(self._ticks) > ticks_sent, timeout_s)
            start = max(0, ticks_sent - self._dropped_count)
            ticks = self._ticks[start : start + BATCH]
            return ticks, self._dropped_count + start + len(ticks)


def _size(data: bytes) -> int:
    """Return the memory of a message [bytes]: the object's, and its place in the list."""
    return sys.getsizeof(data) + 8


class Handler(BaseHTTPRequestHandler):
    """Answers requests that contain the token with the page or with events."""

    history: LiveHistory
    token: str
    page: bytes
    timeout = PATIENCE_S
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        """Answer one request."""
        port = self.connection.getsockname()[1]
        token, _, rest = self.path.lstrip("/").partition("/")
        # Another host name means that a foreign page tries to read this one (DNS rebinding).
        local = self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")
        if not local or not secrets.compare_digest(token.encode(), self.token.encode()) or rest not in ("", "events"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Content-Type", "text/event-stream" if rest else "text/html; charset=utf-8")
        self.end_headers()
        with contextlib.suppress(OSError):  # the browser went away
            self._events() if rest else self.wfile.write(self.page)

    def _events(self) -> None:
        """Send the stored messages, then new ones, until the run is over."""
        self.wfile.write(b"retry: 1000\n\ndata: " + self.history.head + b"\n\n")
        ticks_sent = 0
        while True:
            ticks, ticks_sent = self.history.after(ticks_sent, timeout_s=5.0)
            self.wfile.write(b"".join(b"data: " + tick + b"\n\n" for tick in ticks) or b": nothing new\n\n")
            if not ticks and self.history.over:
                self.wfile.write(b'data: {"over": true}\n\n')
                return

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal is for the loop."""


def main(descriptor: int) -> None:
    """Serve the run whose messages arrive at the socket `descriptor`; lines of stdin: the token, and the run's head."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(10)  # the loop has priority
    source = socket.socket(fileno=descriptor)
    Handler.token, Handler.history, Handler.page = (
        sys.stdin.readline().strip(),
        LiveHistory(sys.stdin.readline().strip().encode()),
        page([], live=True).encode(),
    )
    try:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    except OSError as error:
        print(f"no port of 127.0.0.1 can be had: {error.strerror}", flush=True)
        sys.exit(1)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    Handler.history.follow(source)
    threading.Event().wait(1.0)  # until the browsers have received the end
