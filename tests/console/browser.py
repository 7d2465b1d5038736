"""A real browser, driven by the protocol of its developer tools."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import websocket

from tests.waiting import MAX_WAIT

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = MAX_WAIT


def find() -> str | None:
    """Its program, where one is installed."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of a browser without a window.  ``problems`` is what the page's console and scripts complained about."""

    def __init__(self, program: str, profile: Path, width: int = 1200, height: int = 800) -> None:
        self.problems: list[str] = []
        self._number = 0
        self._socket: websocket.WebSocket | None = None
        self._process = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--ignore-certificate-errors", "--remote-debugging-port=0", "--remote-allow-origins=*",
                f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            self._socket = websocket.create_connection(self._address(profile / "DevToolsActivePort"), timeout=_SECONDS)
            for domain in ("Page", "Runtime", "Log"):
                self._call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def _address(self, file: Path) -> str:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if file.exists() and (port := file.read_text().partition("\n")[0]):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_SECONDS) as answer:
                    pages = [one for one in json.load(answer) if one["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            time.sleep(0.05)
        raise TimeoutError("the browser does not start")

    def _call(self, method: str, **parameters: Any) -> Any:
        assert self._socket is not None
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _note(self, message: Any) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(message["params"]["exceptionDetails"])[:1000])
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            entry = message["params"]["entry"]
            self.problems.append(f"{entry['text']} {entry.get('url', '')}")

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:1000])
        return result["result"].get("value")

    def wait(self, script: str) -> Any:
        """Until an expression is true.  Raises TimeoutError with what the page shows."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if value := self.run(script):
                return value
            time.sleep(0.05)
        raise TimeoutError(f"{script}: {self.run('document.body.innerText')}")

    def wait_text(self, text: str) -> None:
        self.wait(f"document.body.innerText.includes({json.dumps(text)})")

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.shutdown()
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(120)
