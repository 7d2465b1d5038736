"""``/debug/pprof/`` and ``/debug/flags/v`` on a Unix socket (upstream: apiserver ``routes/debugsocket.go``).

It works also when authentication fails.  Only the owner of the socket's file can connect, so no credentials are needed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable
from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.web.server import Site

from kapi.filters.chain import FilterChain
from kapi.filters.request_info import request_info
from kapi.request.context import RequestContext
from kapi.request.reactor import Reactor
from kapi.request.response import Response
from kapi.server.generic import GenericServer
from kapi.server.not_found import NotFound
from kapi.server.profiling import Verbosity, install_profiling
from kapi.server.runner import RequestRunner
from kapi.server.site import SiteResource


class DebugSocket:
    """``logs`` are the log flags, whose ``v`` can be changed."""

    def __init__(self, path: str, reactor: Reactor, logs: Verbosity) -> None:
        self._path = path
        self._reactor = reactor
        server = GenericServer("debug", NotFound())
        install_profiling(server, reactor, logs)

        def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
            answer = server.handle(ctx)
            assert answer is not None  # the delegate answers 404 for all other paths
            return answer

        runner = RequestRunner(FilterChain([request_info], handle), reactor)
        self._site: Any = Site(SiteResource(runner.answer))
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
