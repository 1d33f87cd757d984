"""A headless Chromium, driven by the DevTools protocol, that records a page's requests and console messages."""

import base64
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import ExitStack

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LOCAL = ("file://", "data:", "blob:")


def needs_chromium():
    """Skip the test if there is no browser, or no package `websockets` to drive it."""
    pytest.importorskip("websockets", reason="websockets is not installed, which talks to Chromium")
    if CHROMIUM is None:
        pytest.skip("no browser is installed (Debian: chromium)")


class Browser:
    """One page; `with` closes it."""

    def __init__(self, folder):
        from websockets.sync.client import connect

        self._closing = ExitStack()
        self._process = subprocess.Popen(
            [
                *(CHROMIUM, "--headless", "--no-sandbox", "--remote-debugging-port=0"),
                *("--use-angle=swiftshader", "--enable-unsafe-swiftshader"),  # WebGL without a GPU
                *("--hide-scrollbars", "--no-first-run", "--disable-background-networking"),
                *(f"--user-data-dir={folder / 'profile'}", "about:blank"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._closing.callback(self._process.wait, 10)
        self._closing.callback(self._process.terminate)
        report = folder / "profile/DevToolsActivePort"
        for _ in range(600):
            if report.exists() and (words := report.read_text().split()):
                break
            time.sleep(0.1)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with self._opener.open(f"http://127.0.0.1:{words[0]}/json") as answer:
            page = next(item for item in json.load(answer) if item["type"] == "page")
        connected = connect(page["webSocketDebuggerUrl"], max_size=None, proxy=None)
        self._socket = self._closing.enter_context(connected)
        self._number = itertools.count(1)
        self.requested, self.complaints = [], []
        """Every address that the page requested, and every message and exception of its console."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Call a method of the DevTools protocol, and return its result; fail the test on an error."""
        number = next(self._number)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            self._note(message)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def open(self, address, width=1440, height=1000, dark=False, mobile=False):
        """Open a page in a window of this size [pixels] and colour scheme, and wait until it is loaded."""
        self.look(width, height, dark, mobile)
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete'")

    def look(self, width, height, dark, mobile=False):
        """Emulate a screen of this size [pixels] and colour scheme."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        time.sleep(0.3)

    def value(self, expression):
        """Return the value of a JavaScript expression on the page; fail the test on an exception."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression, timeout_s=120):
        """Wait until a JavaScript expression is true on the page; fail the test after `timeout_s`."""
        until = time.monotonic() + timeout_s
        while not self.value(expression):
            assert time.monotonic() < until, f"{expression} did not come true"
            time.sleep(0.1)

    def key(self, key):
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)
        time.sleep(0.2)

    def screenshot(self, path):
        """Write a screenshot as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _note(self, message):
        method, report = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requested.append(report["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(
                report["exceptionDetails"]["text"] + str(report["exceptionDetails"].get("exception"))
            )
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(report["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(report["entry"]["text"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._closing.close()
