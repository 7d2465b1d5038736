"""The servers of a test session: one for each set of flags, started when a test first needs it."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from kapi.testing.audit import POLICY, AuditTrail
from kapi.testing.process import KapiProcess
from kapi.testing.shared import SharedProcess

MAX_SERVERS = 4  # that run at the same time; the least recently used one is stopped before another starts


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
            self._stop(server)  # a test has ended it
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
