"""Drives a headless Chromium through a pipe, without any other package: see the DevTools protocol."""

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0
"""Seconds to wait for an answer."""


def find() -> str | None:
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A tab with the protocol's commands. `events` holds whatever the browser reported so far."""

    def __init__(self, write: int, read: int):
        self._write, self._read, self._rest, self._count = write, read, b"", 0
        self._session: dict[str, str] = {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {
            "sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        }
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params} | self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def show(self, path: pathlib.Path, *, width: int, height: int, scheme: str, scale: float = 1) -> None:
        """Load a file in a window of this size. The emulated size may be below the least of a real window."""
        self.events.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.reported("Page.loadEventFired"):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return answer["result"].get("value")

    def screenshot(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def reported(self, *methods: str) -> list[dict[str, Any]]:
        """The parameters of all events of some kinds."""
        return [event.get("params", {}) for event in self.events if event.get("method") in methods]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no answer from the browser for {PATIENCE:.0f} s")
            if not (more := os.read(self._read, 1 << 20)):
                raise RuntimeError("the browser ended")
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


@contextlib.contextmanager
def browser(program: str, profile: pathlib.Path) -> Iterator[Page]:
    """A browser with a new profile, which ends with the context."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # Chromium reads commands from descriptor 3 and writes answers to 4.
    shell = f'exec 3<&{to_read} 4>&{from_write}; exec "$@"'
    command = ["bash", "-c", shell, "bash", program, *FLAGS, f"--user-data-dir={profile}"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, pass_fds=(to_read, from_write), **quiet) as process:
        os.close(to_read)
        os.close(from_write)
        try:
            yield Page(to_write, from_read)
        finally:
            process.terminate()
            process.wait(PATIENCE)
            os.close(to_write)
            os.close(from_read)
