"""A real browser, driven by the protocol of its developer tools."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

from tests.waiting import MAX_WAIT, until

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = MAX_WAIT


def find() -> str | None:
    """Its program, where one is installed."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def can_import() -> bool:
    """Whether a browser can be given a client certificate: by the tools of NSS, which keeps those of chromium."""
    return bool(shutil.which("certutil") and shutil.which("pk12util"))


def import_certificate(profile: Path, certificate: Path, key: Path) -> None:
    """The browser of this profile shows the certificate to every server that asks for one, and asks nobody first.

    The profile has the setting that the policy AutoSelectCertificateForUrls makes, in place of a dialog.
    """
    database = profile / "home" / ".pki" / "nssdb"
    database.mkdir(parents=True)
    both = profile / "client.p12"
    for command in (
        ["openssl", "pkcs12", "-export", "-in", certificate, "-inkey", key, "-out", both, "-passout", "pass:x"],
        ["certutil", "-N", "-d", f"sql:{database}", "--empty-password"],
        ["pk12util", "-i", both, "-d", f"sql:{database}", "-W", "x"],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
    settings = profile / "Default" / "Preferences"
    settings.parent.mkdir()
    shown = {"auto_select_certificate": {"*,*": {"setting": {"filters": [{}]}}}}
    settings.write_text(json.dumps({"profile": {"content_settings": {"exceptions": shown}}}))


class Connection:
    """To what a browser's developer tools offer at one address."""

    def __init__(self, address: str) -> None:
        self._number = 0
        self._socket: websocket.WebSocket = websocket.create_connection(address, timeout=_SECONDS)

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, message: Any) -> None:
        """What comes besides the answers."""

    def close(self) -> None:
        self._socket.shutdown()


class Browser:
    """A browser without a window."""

    def __init__(self, program: str, profile: Path, width: int = 1200, height: int = 800) -> None:
        """``profile``: a directory of its own, empty but for a certificate."""
        self._size = {"width": width, "height": height}
        self._connection: Connection | None = None
        home = profile / "home"
        home.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        self._process = subprocess.Popen(
            [
                program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--ignore-certificate-errors", "--remote-debugging-port=0", "--remote-allow-origins=*",
                f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank",
            ],
            env={**environment, "HOME": str(home)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            self._port, path = self._place(profile / "DevToolsActivePort")
            self._connection = Connection(f"ws://127.0.0.1:{self._port}{path}")
        except BaseException:
            self.close()
            raise

    def _place(self, file: Path) -> tuple[str, str]:
        """The port of its developer tools, and where the browser itself is there."""
        lines = until(lambda: file.exists() and "\n" in (text := file.read_text()) and text.split("\n"))
        return lines[0], lines[1]

    @contextmanager
    def page(self) -> Iterator[Page]:
        """An empty one that shares no cookies, storage or cache with any other."""
        assert self._connection is not None
        call = self._connection.call
        context = call("Target.createBrowserContext")["browserContextId"]
        try:
            target = call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            page = Page(f"ws://127.0.0.1:{self._port}/devtools/page/{target}", self._size)
            try:
                yield page
            finally:
                page.close()
        finally:
            call("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(120)


class Page(Connection):
    """``problems`` is what its console and scripts complained about."""

    def __init__(self, address: str, size: dict[str, int]) -> None:
        super().__init__(address)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(**size)

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """``scheme``: "light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key: str) -> None:
        """A key that has a character."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    def note(self, message: Any) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(message["params"]["exceptionDetails"])[:1000])
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            entry = message["params"]["entry"]
            self.problems.append(f"{entry['text']} {entry.get('url', '')}")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:1000])
        return result["result"].get("value")

    def wait(self, script: str) -> Any:
        """Until an expression is true.  Fails with what the page shows."""
        return until(lambda: self.run(script), state=lambda: f"{script}: {self.run('document.body.innerText')}")

    def wait_text(self, text: str) -> None:
        self.wait(f"document.body.innerText.includes({json.dumps(text)})")

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
