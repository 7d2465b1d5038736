"""``/debug/pprof/`` and ``/debug/flags/v`` on a Unix socket (upstream: apiserver ``routes/debugsocket.go``).

It works also when authentication fails.  Only the owner of the socket's file can connect, so no credentials are needed.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort

from kapi.filters.chain import FilterChain
from kapi.filters.request_info import request_info
from kapi.observability.profiling import Profiling, Verbosity
from kapi.process.reactor import Reactor
from kapi.serving.generic import GenericServer, NotFound
from kapi.serving.run import RequestRunner
from kapi.serving.site import Connections


class DebugSocket:
    """``logs`` are the log flags, whose ``v`` can be changed."""

    def __init__(self, path: str, reactor: Reactor, logs: Verbosity) -> None:
        self._path = path
        self._reactor = reactor
        server = GenericServer("debug", NotFound())
        server.app.include(Profiling(reactor, logs))
        site = Connections(server, reactor)
        site.run_by(RequestRunner(FilterChain([request_info], site.answer), reactor))
        self._site: Any = site
        self._port: IListeningPort | None = None

    def open(self) -> None:
        """Listens.  Replaces the socket file of a process that was killed.  Raises OSError and CannotListenError."""
        try:
            if not stat.S_ISSOCK(os.lstat(self._path).st_mode):
                raise FileExistsError(f"{self._path} is there and is no socket")
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        self._port = self._reactor.listenUNIX(self._path, self._site, mode=0o600)

    async def close(self) -> None:
        if self._port is not None:
            port, self._port = self._port, None
            await maybeDeferred(port.stopListening)
