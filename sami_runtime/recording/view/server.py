"""Serves a run to browsers of this machine while it happens, in a process of its own.

    GET /TOKEN/          the page
    GET /TOKEN/events    what happened so far and what happens, as server-sent events

Anything else is not found, and nothing that is sent here is read: what is watched cannot be commanded.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOST_BYTES = 256 << 20
"""How many bytes of messages are kept for browsers that connect later; then the oldest tenth goes. At 4.4 kB a tick,
as of a robot with many signals, that is ten minutes at 100 Hz."""
BATCH = 2_000
"""Ticks that are sent together to who comes late."""
PATIENCE_S = 10.0
"""After how long without a byte taken a browser is given up [s]."""


class LiveHistory:
    """Messages of a run in their order; threads wait for the next one."""

    def __init__(self) -> None:
        self.first = b""
        self._ticks: list[bytes] = []
        self._gone = self._bytes = 0
        self.over = False
        self._changed = threading.Condition()

    def follow(self, source: socket.socket) -> None:
        """Take every message, until the loop's end is closed."""
        while data := source.recv(1 << 20):
            with self._changed:
                if self.first:
                    self._ticks.append(data)
                    self._bytes += _size(data)
                else:
                    self.first = data
                if self._bytes > MOST_BYTES:
                    gone = max(1, len(self._ticks) // 10)
                    self._bytes -= sum(map(_size, self._ticks[:gone]))
                    del self._ticks[:gone]
                    self._gone += gone
                self._changed.notify_all()
        with self._changed:
            self.over = True
            self._changed.notify_all()

    def after(self, ticks_sent: int, timeout_s: float) -> tuple[list[bytes], int]:
        """Return the messages after so many, and how many have been seen with them; none if nothing came in time."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or self._gone + len(self._ticks) > ticks_sent, timeout_s)
            start = max(0, ticks_sent - self._gone)
            ticks = self._ticks[start : start + BATCH]
            return ticks, self._gone + start + len(ticks)


def _size(data: bytes) -> int:
    """Return the memory that a message takes: its bytes, those of the object, and its place in the list."""
    return sys.getsizeof(data) + 8


class Handler(BaseHTTPRequestHandler):
    """Answers with the page or with events, to who knows the token."""

    history: LiveHistory
    token: str
    page: bytes
    timeout = PATIENCE_S
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        """Answer."""
        port = self.connection.getsockname()[1]
        token, _, rest = self.path.lstrip("/").partition("/")
        # Another name for this machine is a page elsewhere that wants to read what is here.
        ours = self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}")
        if not ours or not secrets.compare_digest(token.encode(), self.token.encode()) or rest not in ("", "events"):
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
        """Send all that happened, and what happens, until it is over."""
        self.wfile.write(b"retry: 1000\n\ndata: " + self.history.first + b"\n\n")
        ticks_sent = 0
        while True:
            ticks, ticks_sent = self.history.after(ticks_sent, timeout_s=5.0)
            self.wfile.write(b"".join(b"data: " + tick + b"\n\n" for tick in ticks) or b": nothing new\n\n")
            if not ticks and self.history.over:
                self.wfile.write(b'data: {"over": true}\n\n')
                return

    def log_message(self, *_: Any) -> None:
        """Say nothing: the terminal is the loop's."""


def main(descriptor: int) -> None:
    """Serve the run whose messages come in by a socket; the token is the first line of the input."""
    from sami_runtime.recording.view.page import page

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(10)  # the loop goes first
    source = socket.socket(fileno=descriptor)
    Handler.token, Handler.history, Handler.page = (
        sys.stdin.readline().strip(),
        LiveHistory(),
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
    threading.Event().wait(1.0)  # for those who watch to hear the end
