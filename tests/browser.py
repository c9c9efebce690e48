"""A real browser for tests: Debian's chromium without a window, driven over two pipes by its own protocol.

Nothing is installed for it but chromium (tests/find_chromium.sh), and nothing listens on a port.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 120  # seconds for one answer, on a machine that has other things to do
_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--remote-debugging-pipe", "--disable-dev-shm-usage", "--disable-background-networking")  # fmt: skip


class Browser:
    """One page; `said` gathers what a reader of its console would see: messages, refusals, exceptions."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive, self._rest, self._number = send, receive, b"", 0
        self.said: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = ""
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a page of a size in pixels, and wait until it is loaded."""
        self.said.clear()
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Page.navigate", url=address)
        self._until(lambda message: message.get("method") == "Page.loadEventFired")

    def value(self, script: str) -> Any:
        """What an expression of JavaScript is."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        taken = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _ask(self, method: str, **given: object) -> Any:
        self._number += 1
        number, session = self._number, {"sessionId": self._session} if getattr(self, "_session", "") else {}
        os.write(self._send, json.dumps({"id": number, "method": method, "params": given, **session}).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    def _until(self, wanted: Any) -> Any:
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" not in self._rest:
                ready, _, _ = select.select([self._receive], [], [], max(0.0, end - time.monotonic()))
                part = os.read(self._receive, 1 << 16) if ready else b""
                assert part, "chromium has ended, or did not answer in time"
                self._rest += part
            whole, _, self._rest = self._rest.partition(b"\0")
            message = json.loads(whole)
            self._note(message)
            if wanted(message):
                return message

    def _note(self, message: Any) -> None:
        if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(message["params"])[:500])
        if message.get("method") == "Page.javascriptDialogOpening":
            self.said.append(f"a dialog: {message['params']}")


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium with a profile of its own, ended with the block."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "These tests need chromium: `bash tests/find_chromium.sh` gets it."
    (read_in, send), (receive, write_out) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Chromium reads from descriptor 3 and writes to 4.
        command = f'exec "$0" "$@" 3<&{read_in} 4>&{write_out}'
        arguments = ["bash", "-c", command, program, *_OPTIONS, f"--user-data-dir={profile}"]
        running = subprocess.Popen(arguments, pass_fds=(read_in, write_out), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        os.close(read_in)
        os.close(write_out)
        try:
            yield Browser(send, receive)
        finally:
            os.close(send)
            os.close(receive)
            running.terminate()
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
