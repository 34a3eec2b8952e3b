"""A headless Chromium, driven through two pipes by its DevTools protocol: no port, no library.

Source: chromedevtools.github.io/devtools-protocol; messages are JSON, each followed by a NUL.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--headless --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-extensions --hide-scrollbars --remote-debugging-pipe"
)


def program() -> str:
    """Return the path of a Chromium; "" where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), "")


class Browser:
    """A browser with one page.

    Attributes:
        events: every event since the start, in order: (method, params).
    """

    def __init__(self, *, wide: int = 1280, high: int = 1600) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # which Chromium refuses as root
        options = [
            *_QUIET.split(),
            *sandbox,
            f"--window-size={wide},{high}",
            f"--user-data-dir={self._profile.name}",
        ]
        self._process = subprocess.Popen(
            # bash: other shells take no variable for the number of a descriptor
            ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program(), *options],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._held = b""
        self._number = 0
        self._session = ""
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait()
        self._profile.cleanup()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer. Raises RuntimeError when the browser refuses it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])

    def wait_for(self, method: str) -> dict[str, Any]:
        """Return the parameters of the next event of this kind."""
        while True:
            answer = self._next()
            if answer.get("method") == method:
                return dict(answer["params"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended")
            self._held += piece
        text, _, self._held = self._held.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        if "method" in found:
            self.events.append((found["method"], found["params"]))
        return found

    # What tests do with it

    def open(self, page: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.ask("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def requests(self) -> list[str]:
        """Return the address of everything that the pages have loaded, themselves included."""
        return [
            params["request"]["url"]
            for method, params in self.events
            if method == "Network.requestWillBeSent"
        ]

    def problems(self) -> list[str]:
        """Errors and warnings on the console: of scripts, of the parser, of a policy."""
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(params) for method, params in self.events if method in kinds]

    def colors(self, scheme: str) -> None:
        """Show the page in the colours of a light or a dark system."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self) -> bytes:
        """Return the visible part of the page as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def pdf(self) -> bytes:
        """Return the printed page."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])
