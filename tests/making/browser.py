"""A headless Chromium, spoken to by its own protocol: what a page asks for and complains of, and how it looks."""

import base64
import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 120


def chromium():
    """Return the browser's path; skips where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here; on Debian: apt install chromium, or make debian")
    return found


class Page:
    """One tab.

    Args:
        socket: of the tab's debugger.
    """

    def __init__(self, socket):
        self._socket, self._number = socket, 0
        self.complaints, self.requests = [], []
        """What the console said of errors and warnings; addresses that were asked for."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.do(f"{domain}.enable")

    def do(self, method, **parameters):
        """Call a method of the protocol, and return its result; what happens meanwhile is kept."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE_S))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._keep(message)

    def _keep(self, message):
        told = message.get("params", {})
        if message["method"] == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif message["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(told["args"]))
        elif message["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(told["entry"]))

    def open(self, path, width, height=900, dark=False, mobile=False):
        """Open a file as a window of this size shows it."""
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.darken(dark)
        self.do("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("document.readyState === 'complete'")

    def darken(self, dark):
        """Have it prefer dark colours, or light ones."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, expression):
        """Return what a script evaluates to."""
        found = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression):
        """Wait until a script says true."""
        end = time.monotonic() + PATIENCE_S
        while not self.value(expression):
            assert time.monotonic() < end, f"never came true: {expression}; {self.complaints}"
            time.sleep(0.1)

    def tall(self, width, mobile=False):
        """Make the window as high as the page, so that everything is near it."""
        for _ in range(2):  # charts that appear make it higher
            height = self.value("document.documentElement.scrollHeight")
            self.do(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
            )
            self.wait_for("[...document.querySelectorAll('.view')].every((place) => place.dataset.drawn)")

    def picture(self, path):
        """Keep what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.do("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def page():
    """Start a browser with one tab, and end it afterwards."""
    connect = pytest.importorskip("websockets.sync.client").connect
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # its children may still write
        command = [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}"]
        command += ["--remote-debugging-port=0", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = _port(Path(folder) / "DevToolsActivePort", process)
            with urlopen(f"http://127.0.0.1:{port}/json", timeout=PATIENCE_S) as answer:
                address = next(each for each in json.load(answer) if each["type"] == "page")["webSocketDebuggerUrl"]
            with connect(address, max_size=None, open_timeout=PATIENCE_S) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def _port(path, process):
    end = time.monotonic() + PATIENCE_S
    while not path.is_file() or not path.read_text().strip():
        assert process.poll() is None, "the browser ended"
        assert time.monotonic() < end, "the browser did not start"
        time.sleep(0.1)
    return int(path.read_text().splitlines()[0])
