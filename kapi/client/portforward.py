"""Local ports that are forwarded to a Pod (upstream: client-go ``tools/portforward``).

Each local connection has a WebSocket of the protocol v4.channel.k8s.io: channel 0 is data, channel 1 errors, and the first
message of each channel begins with the port.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.interfaces import IListeningPort, IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.client.errors import ClientError, StatusError
from kapi.client.remotecommand import V4
from kapi.client.rest import Request, RESTClient
from kapi.process.reactor import Reactor
from kapi.request.transport import StreamTransport, close_when_sent
from kapi.wire.spdy import SPDYStreams
from kapi.wire.upgrade import WebSocketClosed
from kapi.wire.websocket import WebSocket

DATA, ERROR = 0, 1
_TUNNEL = "SPDY/3.1+portforward.k8s.io"  # what kubectl opens; no port is connected before a stream asks for it
_STREAMS = ("portforward.k8s.io",)  # of SPDY
_PORT_BYTES = 2  # bytes of the port, with which each channel begins
log = Logger()


@implementer(IPushProducer)
class _Local(Protocol):
    """A connection to the local port."""

    transport: StreamTransport

    def __init__(self, forward: PortForward) -> None:
        self._forward = forward
        self._running: Deferred[None] | None = None
        self._socket: WebSocket | SPDYStreams | None = None
        self._resumed: Deferred[None] | None = None
        self._full = self._gone = False

    def connectionMade(self) -> None:
        transport = self.transport
        self._forward.accepted(transport.getHost().port)
        transport.registerProducer(self, True)
        transport.pauseProducing()  # until the WebSocket is open
        self._running = Deferred.fromCoroutine(self._run())
        self._running.addErrback(self._forward.failed)
        self._running.addBoth(lambda _: close_when_sent(transport))

    def pauseProducing(self) -> None:
        self._full = True

    def resumeProducing(self) -> None:
        self._full = False
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.callback(None)

    def stopProducing(self) -> None:
        self.resumeProducing()

    async def _run(self) -> None:
        socket = self._socket = await self._forward.connect()
        transport = self.transport
        if self._gone:
            socket.close()
            return
        transport.resumeProducing()
        begun: set[int] = set()
        try:
            while (message := await socket.read()) is not None and message:
                channel, data = message[0], message[1:]
                if channel not in begun:
                    begun.add(channel)
                    data = data[_PORT_BYTES:]
                if channel == ERROR and data:
                    raise ClientError(data.decode("utf-8", "replace"))
                if channel == DATA and data:
                    transport.write(data)
                    while self._full and not self._gone:
                        self._resumed = Deferred()
                        await self._resumed
        finally:
            socket.close()

    def dataReceived(self, data: bytes) -> None:
        transport = self.transport
        transport.pauseProducing()
        sending = Deferred.fromCoroutine(self._send(data))
        sending.addCallbacks(lambda _: None if self._gone else transport.resumeProducing(), self._forward.failed)

    async def _send(self, data: bytes) -> None:
        assert self._socket is not None
        await self._socket.send(bytes((DATA,)) + data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._gone = True
        self.resumeProducing()
        if self._socket is not None:
            self._socket.close()
        elif self._running is not None:
            self._running.cancel()


class PortForward:
    """``client`` is a RESTClient for ``v1``.  ``report`` is called with the error of a connection; other connections continue.

    ``accepted`` is called with the local port of each connection.
    """

    def __init__(
        self,
        client: RESTClient,
        namespace: str,
        pod: str,
        port: int,
        report: Callable[[str], object] | None = None,
        accepted: Callable[[int], object] | None = None,
    ) -> None:
        self._client, self._namespace, self._pod, self.port = client, namespace, pod, port
        self._report = report or (lambda text: log.warn("port forwarding: {text}", text=text))
        self.accepted = accepted or (lambda port: None)
        self._ports: list[IListeningPort] = []  # the local ports

    async def connect(self) -> WebSocket | SPDYStreams:
        """A connection to the Pod's port.  Raises StatusError and ClientError."""
        try:
            return await self._request(self._client.get()).param("ports", self.port).websocket(V4)
        except StatusError:  # as of a user who may only create
            names = {ERROR: "error", DATA: "data"}
            more = {"port": str(self.port), "requestid": "0"}
            streams = {channel: {"streamtype": name, **more} for channel, name in names.items()}
            begin = [bytes((channel,)) + self.port.to_bytes(_PORT_BYTES, "little") for channel in names]
            return await self._request(self._client.post()).spdy(_STREAMS, streams, begin)

    async def open(self) -> WebSocket | SPDYStreams:
        """A connection to the Pod without one to its port; it lasts until the Pod cannot be reached.

        Raises StatusError and ClientError.
        """
        try:
            return await self._request(self._client.get()).websocket(_TUNNEL)
        except StatusError:  # as before, or of a kubelet before 1.36, which does not know tunnels
            return await self._request(self._client.post()).spdy(_STREAMS, {})

    def _request(self, made: Request) -> Request:
        return made.namespace(self._namespace).resource("pods").name(self._pod).subresource("portforward")

    async def listen(self, reactor: Reactor, local_port: int = 0, address: str = "127.0.0.1") -> int:
        """Listens at one more address; port 0 is any free one.  Returns the port.  Raises Twisted's CannotListenError."""
        endpoint = TCP6ServerEndpoint if ":" in address else TCP4ServerEndpoint
        factory = Factory.forProtocol(lambda: _Local(self))
        factory.noisy = False
        port: IListeningPort = await endpoint(reactor, local_port, interface=address).listen(factory)  # type: ignore[no-untyped-call]
        self._ports.append(port)
        return port.getHost().port  # type: ignore[attr-defined, no-any-return]

    async def close(self) -> None:
        """Stops listening; open connections continue."""
        ports, self._ports = self._ports, []
        for port in ports:
            await maybeDeferred(port.stopListening)

    def failed(self, why: Failure) -> None:
        if why.check(CancelledError, WebSocketClosed):
            return
        known = why.check(StatusError, ClientError)
        self._report(str(getattr(why.value, "message", "") or why.value) if known else why.getErrorMessage())
