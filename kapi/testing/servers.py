"""The servers of a test session: one for each set of flags, started when a test first needs it.

Several processes, such as the workers of pytest-xdist, may share a server: the first starts it, the last ends it.  They
coordinate by locks of files in a common directory: ``lock`` is held during start and stop, ``users`` is a shared lock of all
processes that use the server, ``alive`` is held by the server.  The kernel releases the locks of a process that crashes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from kapi.testing.audit import POLICY, AuditTrail
from kapi.testing.process import READY, URL, KapiProcess

#: starts the server and ends, so that the server is not a child of a process that ends before it
_LAUNCH = """
import os, subprocess, sys
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=[int(sys.argv[1])])
os.write(1, b"%d" % server.pid)
os._exit(0)
"""
_POLL_SECONDS = 0.02
_END_SECONDS = 30.0  # time for a server to end after SIGTERM


class SharedProcess(KapiProcess):
    """``directory`` must be the same in all processes that share the server.  Tests must not end it."""

    def __init__(self, *flags: str, directory: Path) -> None:
        self._directory = directory
        self._output = directory / "server" / "output"
        self._output.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(*flags, directory=self._output.parent)
        self._users: IO[str] | None = None
        self._pid = 0

    @property
    def output(self) -> list[str]:
        """The output of the server."""
        return self._output.read_text().splitlines(keepends=True) if self._output.exists() else []

    @property
    def running(self) -> bool:
        with (self._directory / "alive").open("a") as alive:
            return not _lock(alive, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def start(self, seconds: float = 120.0) -> Self:
        """Uses the server that runs, or starts it.  Raises RuntimeError as KapiProcess does."""
        record = self._directory / "record"
        with self._locked():
            if not self.running:
                record.write_text(json.dumps(self._launched(seconds)))
            self._pid, self.url = json.loads(record.read_text())
            self._users = (self._directory / "users").open("a")
            fcntl.flock(self._users, fcntl.LOCK_SH)
        return self

    def _launched(self, seconds: float) -> tuple[int, str]:
        """Starts a server.  Returns its process id and URL."""
        shutil.rmtree(self.data, ignore_errors=True)  # data of a server that crashed
        self._output.parent.mkdir(exist_ok=True)
        with (self._directory / "alive").open("a") as alive, self._output.open("w") as output:
            fcntl.flock(alive, fcntl.LOCK_EX)
            number = alive.fileno()
            launched = subprocess.run(
                [sys.executable, "-c", _LAUNCH, str(number), *self.command()],
                stdout=subprocess.PIPE, stderr=output, pass_fds=[number], check=True,
            )  # fmt: skip
        self._pid = int(launched.stdout)
        end = time.monotonic() + seconds
        while True:
            text = "".join(self.output)
            found = URL.search(text)
            if found and f"\n{READY}" in text:
                return self._pid, found[1]
            if not self.running or time.monotonic() > end:
                self._end()
                raise RuntimeError(f"kapi did not start:\n{''.join(self.output)}")
            time.sleep(_POLL_SECONDS)

    def end(self, number: int = signal.SIGTERM, seconds: float = _END_SECONDS) -> int:
        """Always raises RuntimeError: other processes use the server."""
        raise RuntimeError("the server is shared with other processes")

    def _end(self, seconds: float = _END_SECONDS) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            end = time.monotonic() + seconds
            if self.running:
                os.kill(self._pid, number)
            while self.running and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)

    def stop(self) -> int:
        """Stops using the server.  The last user ends it and removes its data; its output stays."""
        with self._locked():
            users, self._users = self._users, None
            if users is not None:
                with users:
                    if _lock(users, fcntl.LOCK_EX | fcntl.LOCK_NB):
                        self._end()
                        shutil.rmtree(self.data, ignore_errors=True)
        return 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._directory / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _lock(file: IO[str], how: int) -> bool:
    """Takes a lock.  Returns False when another process has it."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True


MAX_SERVERS = 4  # concurrent servers; the least recently used one is stopped before another starts


class Servers:
    """``get`` starts a server when there is none with the flags; ``stop`` ends all.

    With a directory, servers with logical clusters are shared by all processes that give the same directory.
    """

    def __init__(self, shared: Path | None = None) -> None:
        self._shared = shared
        self._running: OrderedDict[tuple[str, ...], KapiProcess] = OrderedDict()
        self._trails: dict[KapiProcess, AuditTrail] = {}

    def get(self, flags: Sequence[str] = ()) -> KapiProcess:
        """The server with these flags; the same one in each call while it runs."""
        key = tuple(flags)
        server = self._running.pop(key, None)
        if server is not None and not server.running:
            self._stop(server)  # a test has ended the server
            server = None
        if server is None:
            while len(self._running) >= MAX_SERVERS:
                self._stop(self._running.popitem(last=False)[1])
            server = self._start(key)
        self._running[key] = server
        return server

    def _start(self, flags: tuple[str, ...]) -> KapiProcess:
        server = self._made(flags)
        if not any(flag.startswith("--audit-") for flag in flags):
            policy, log = server.root / "audit-policy.yaml", server.root / "audit.log"
            _replace(policy, POLICY)  # atomically: another process may be starting a server with it
            server.flags += [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxbackup=1"]
            self._trails[server] = AuditTrail(log)
        return server.start()

    def _made(self, flags: tuple[str, ...]) -> KapiProcess:
        if several(flags):
            return KapiProcess(*flags)
        flags = (*flags, "--enable-logical-clusters")
        if self._shared is None:
            return KapiProcess(*flags)
        digest = hashlib.sha256("\0".join(flags).encode()).hexdigest()[:16]
        return SharedProcess(*flags, directory=self._shared / digest)

    def trail(self, server: KapiProcess) -> AuditTrail | None:
        """The server's audit log; None when the flags of the server configure auditing."""
        return self._trails.get(server)

    def _stop(self, server: KapiProcess) -> None:
        self._trails.pop(server, None)
        server.stop()

    def stop(self) -> None:
        while self._running:
            self._stop(self._running.popitem()[1])


def _replace(file: Path, text: str) -> None:
    """Writes a file in one step."""
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(file)


def several(flags: Sequence[str]) -> bool:
    """Whether the flags ask for several processes, which have no logical clusters."""
    return any(flag.startswith("--workers") and flag != "--workers=1" for flag in flags)
