"""The site of a server: its resources are the tree of Klein apps, its connections speak HTTP/1.1 or HTTP/2 over one TLS port.

A request has passed the filters when its resource is looked for.
Upstream: apiserver ``server/handler.go`` (APIServerHandler) and ``server/secure_serving.go``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

from twisted.internet import protocol
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web import server
from twisted.web.resource import IResource

from kapi.machinery.meters import counter
from kapi.process.timers import Repeated
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.transport import StreamTransport
from kapi.serving.connections import FULL, HANDSHAKE_TIMEOUT, MAX_STREAMS, ConnectionErrors, Swept, max_connections
from kapi.serving.generic import Delegate
from kapi.serving.http1 import Channel
from kapi.serving.http2 import Http2
from kapi.serving.http2_stream import Stream, StreamRequest
from kapi.serving.request import APIRequest
from kapi.serving.routing import LookUp, Rendered
from kapi.serving.run import RequestRunner


class Site(server.Site):
    """A site whose root is the outermost server of a chain."""

    #: tests switch it off: then every request goes through the Klein apps
    short_cut = True

    runner: RequestRunner  # from ``run_by`` on
    requestFactory: type[APIRequest]

    def __init__(self, outermost: Delegate, reactor: IReactorTime) -> None:
        super().__init__(outermost.resource(), reactor=reactor)
        self._outermost = outermost

    def run_by(self, runner: RequestRunner) -> None:
        """Has requests run by ``runner``: the filters, which call ``answer`` in the end."""
        self.runner = runner
        self.requestFactory = type("BoundRequest", (APIRequest,), {"runner": runner, "site": self})

    @cached_property
    def _look_up(self) -> LookUp:
        return LookUp(self._outermost.apps(), self._outermost.end())

    def getResourceFor(self, request: Rendered) -> IResource:
        """The resource of a request, and the one place where the tree is cut short."""
        path = request.context.path
        found = self._look_up.find(path) if self.short_cut else None
        if found is not None:
            return found
        if path.startswith("//"):  # matches no route, as upstream, though it is authorized like a path with one slash
            return self._outermost.end()
        resource: IResource = self.resource  # a leaf of twisted.web: each app matches the whole path
        return resource

    def answer(self, ctx: RequestContext) -> Response | Awaitable[Response]:
        """The answer of the tree to a request that has passed the filters.  Raises what its handler raises."""
        request = ctx.http
        before, request.context = request.context, ctx
        try:
            request.render(self.getResourceFor(request))  # type: ignore[arg-type]
        finally:
            request.context = before
        found, ctx.answer = ctx.answer, None
        if isinstance(found, Failure):
            found.raiseException()
        return found  # type: ignore[return-value]  # what a handler has returned


log = Logger()
_SWEEP_SECONDS = 1.0  # seconds between two sweeps
_MAX_SWEPT_AT_ONCE = 128  # connections in one turn of the reactor: to end one costs 50 us
_BUSY_SECONDS = 5 * _SWEEP_SECONDS  # after a longer gap between two sweeps the process itself was busy
#: at the stop, the time for the next request on a connection that is in use; at least a sweep
_LAST_REQUEST_SECONDS = 1.0


class Negotiator(protocol.Protocol):
    """Waits for the handshake, then passes everything to the channel that ALPN chose with the first bytes."""

    transport: StreamTransport

    def __init__(self, owner: Connections) -> None:
        self.owner = owner
        self.channel: Any = None
        self._since = owner.now

    def connectionMade(self) -> None:
        self.owner.open.add(self)
        self.owner.watched.add(self)

    def sweep(self, now: float) -> None:
        """Ends the connection when the client does not complete the handshake."""
        if now - self._since >= HANDSHAKE_TIMEOUT and self.transport is not None:
            self.transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        chosen = getattr(self.transport, "negotiatedProtocol", None)
        owner = self.owner
        channel: Any
        if chosen == b"h2":
            channel = Http2(owner, self.transport)
            self.transport.registerProducer(channel, True)
        else:
            channel = Channel()
            channel.owner = owner
            channel.requestFactory = owner.requestFactory
            channel.makeConnection(self.transport)
        self.channel = channel
        owner.watched.discard(self)
        owner.watched.add(channel)
        self.dataReceived = channel.dataReceived  # type: ignore[method-assign]
        channel.dataReceived(data)

    def connectionLost(self, reason: object = protocol.connectionDone) -> None:
        self.owner.closed(self)
        if self.channel is not None:
            self.channel.connectionLost(reason)
        elif not getattr(self.transport, "established", True):
            self.owner.handshake_errors.add()
            problem = getattr(self.transport, "problem", None)
            log.debug(
                "http: TLS handshake error from {peer}: {error}",
                peer=getattr(self.transport.getPeer(), "host", ""),
                error="EOF" if problem is None else str(problem),
            )
            if problem is not None:
                self.owner.errors.add("handshake", self.transport.getPeer(), problem, self.owner.now)

    def writeConnectionLost(self) -> None:
        """Called when the transport has sent all data and its end."""
        self.owner.written(self)

    def leave_soon(self) -> None:
        """Makes the next answer the last one."""
        if self.channel is not None:
            self.channel.leave_soon = True

    def quiet_since(self) -> float:
        """The begin of idleness in reactor seconds, with the precision of a sweep; infinity while the connection is not idle."""
        return self._since if self.channel is None else getattr(self.channel, "quiet_since", float("-inf"))

    def close_when_idle(self) -> None:
        if self.channel is not None:
            self.channel.close_when_idle()
        elif self.transport is not None:
            self.transport.loseConnection()


class Connections(Site):
    """The site of a listening port: it bounds and ends all connections (see ``connections``)."""

    noisy = False

    def __init__(self, outermost: Delegate, reactor: IReactorTime, max_streams: int = MAX_STREAMS) -> None:
        super().__init__(outermost, reactor)
        self.max_streams = max_streams or MAX_STREAMS
        self.open: set[Negotiator] = set()
        #: connections with a deadline, so without the thousands that only have watches
        self.watched: set[Swept] = set()
        self._all_closed: Deferred[None] | None = None
        self.handshake_errors = counter("apiserver_tls_handshake_errors_total")
        self.errors = ConnectionErrors()
        self.closing = False
        self._closing_since: float | None = None
        #: connections whose end was sent; bytes that their clients still send are dropped
        self._lingering: set[Negotiator] = set()
        #: seconds, see _LAST_REQUEST_SECONDS
        self.last_request = _LAST_REQUEST_SECONDS
        #: reactor seconds, as of the last sweep
        self.now = reactor.seconds()
        self._unswept: list[Swept] = []
        self._sweeper = Repeated(self._sweep, reactor, "looking at the deadlines of connections")
        self.stream_request_class: Callable[[Stream], StreamRequest]  # from ``run_by`` on

    def run_by(self, runner: RequestRunner) -> None:
        super().run_by(runner)
        self.stream_request_class = type("BoundStreamRequest", (StreamRequest, self.requestFactory), {})

    def startFactory(self) -> None:
        self._sweeper.start(_SWEEP_SECONDS, now=True)

    def stopFactory(self) -> None:
        self._sweeper.stop()
        self.errors.flush()

    def _sweep(self) -> None:
        before, self.now = self.now, self.reactor.seconds()
        if self.now - before > _BUSY_SECONDS:
            return  # this process was busy: first read what clients have sent meanwhile
        if not self._unswept:
            self._unswept = list(self.watched)
            self._sweep_some()
        self.errors.sweep(self.now)
        self.runner.pending.look()

    def _sweep_some(self) -> None:
        for connection in self._unswept[-_MAX_SWEPT_AT_ONCE:]:
            if connection not in self.watched:
                continue
            try:
                connection.sweep(self.now)
            except Exception:
                log.failure("a connection's deadlines are looked at no more, by a fault of the server's")
                self.watched.discard(connection)
        del self._unswept[-_MAX_SWEPT_AT_ONCE:]
        if self._unswept:
            self.reactor.callLater(0, self._sweep_some)

    @property
    def full(self) -> bool:
        """Whether no descriptors are left for further connections."""
        return len(self.open) >= max_connections()

    def buildProtocol(self, addr: object) -> Negotiator | None:  # type: ignore[override]
        """The protocol of a new connection; None ends it."""
        if self.full:
            error = f"there are {len(self.open)}, and the other file descriptors (ulimit -n) are reserved"
            self.errors.add(FULL, addr, error, self.now)
            return None
        connection = Negotiator(self)
        connection.factory = self
        return connection

    def close_idle(self) -> Deferred[None]:
        """Ends each connection after its current answer, or at once when it is idle.

        A connection that had a request a moment ago may send another before its client sees the end.  That one is still answered:
        the Deferred fires when the time for it is over.
        """
        self.closing = True
        now = self.reactor.seconds()
        if self._closing_since is None:
            self._closing_since = now
        late = now - self._closing_since >= self.last_request
        spared = False
        for connection in list(self.open):
            if late or connection.quiet_since() <= now - 2 * _LAST_REQUEST_SECONDS:
                connection.close_when_idle()
            else:
                spared = True
                connection.leave_soon()
        waited: Deferred[None] = Deferred()
        if spared:
            self.reactor.callLater(self.last_request, waited.callback, None)
            waited.addCallback(lambda _: self.close_idle())
        else:
            waited.callback(None)
        return waited

    def closed(self, connection: Negotiator) -> None:
        self.open.discard(connection)
        self.watched.discard(connection)
        self.watched.discard(connection.channel)
        self._lingering.discard(connection)
        self._check_closed()

    def written(self, connection: Negotiator) -> None:
        """Called when a connection has sent all data and its end."""
        self._lingering.add(connection)
        self._check_closed()

    def _check_closed(self) -> None:
        waiting = self._all_closed
        if waiting is None or waiting.called:
            return
        if all(each in self._lingering or getattr(each.channel, "endless", False) for each in self.open):
            waiting.callback(None)

    def all_closed(self) -> Deferred[None]:
        """Fires when all connections have sent everything, except tunnels."""
        self._all_closed = Deferred()
        self._check_closed()
        return self._all_closed

    def abort_all(self) -> None:
        for connection in list(self.open):
            transport: Any = connection.transport
            if connection in self._lingering:
                transport.end()
            elif transport is not None:
                transport.abortConnection()
