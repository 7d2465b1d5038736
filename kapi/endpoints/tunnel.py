"""A client's connection turned into a pipe to a backend, after both have agreed to upgrade.

The backend's answer decides: only after its own ``101 Switching Protocols`` do bytes flow freely.  Anything else is an
ordinary answer, after which both connections end, so that nobody can speak to the backend over a connection that it
never upgraded (CVE-2018-1002105).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol
from twisted.internet.protocol import connectionDone as CLEAN
from twisted.python.failure import Failure

from kapi.endpoints.throttle import Throttle
from kapi.request.context import RequestContext
from kapi.request.headers import all_headers
from kapi.request.http import HTTPRequest
from kapi.request.transport import StreamTransport

MAX_HEAD = 64 * 1024  # bytes of a backend's answer before its body
MAX_BODY = 64 * 1024  # bytes of the body of an answer that upgrades nothing
LEAVE_TIMEOUT = 60.0  # seconds for the last bytes to one end when the other one has gone
Limit = Callable[[IPushProducer], Throttle]  # of a transport
_code = re.compile(rb"[1-5][0-9][0-9]").fullmatch


class NotUpgradable(Exception):
    """The client's connection cannot be taken over (HTTP/2 has no upgrade)."""


def wants_upgrade(ctx: RequestContext) -> bool:
    """True for a request that asks to go on in another protocol."""
    wanted = bool(ctx.header("upgrade"))
    return wanted and any("upgrade" in value.lower() for value in all_headers(ctx, "connection"))


def wants_websocket(ctx: RequestContext) -> bool:
    """True for a request to upgrade to a WebSocket."""
    return wants_upgrade(ctx) and (ctx.header("upgrade") or "").lower() == "websocket"


class TakenConnection:
    """A client's connection without HTTP; what arrives, early bytes included, is a subclass's ``dataReceived``."""

    def __init__(self, http: HTTPRequest) -> None:
        channel: Any = getattr(http, "channel", None)
        transport = getattr(channel, "transport", None)
        owner = getattr(transport, "wrappedProtocol", None)
        if transport is None or owner is None or not hasattr(channel, "unread"):
            raise NotUpgradable("the connection cannot be upgraded")
        self.transport = transport
        self._waiting: bytes = channel.unread()
        transport.unregisterProducer()
        owner.channel = self
        owner.dataReceived = self.dataReceived

    def early(self) -> bytes:
        """What the client sent before it had the answer; only once."""
        waiting, self._waiting = self._waiting, b""
        return waiting

    def dataReceived(self, data: bytes) -> None:
        """Bytes of the client."""

    def connectionLost(self, reason: Failure = CLEAN) -> None:
        """The client is gone."""

    def close_when_idle(self) -> None:
        self.transport.loseConnection()


class _Leaving:
    """The end of a connection: what is left is sent, and when nobody takes it in time it is dropped."""

    def __init__(self, transport: StreamTransport, reactor: IReactorTime) -> None:
        transport.loseConnection()
        self._call: IDelayedCall = reactor.callLater(LEAVE_TIMEOUT, transport.abortConnection)

    def over(self) -> None:
        if self._call.active():
            self._call.cancel()


class Peer(Protocol):
    """The other end of a tunnel."""

    transport: StreamTransport

    def leave(self) -> None:
        """The client is gone."""
        raise NotImplementedError


class _Tunnelled(TakenConnection):
    """What arrives goes to ``peer``; what ``peer`` has is written here."""

    endless = True  # only its ends know when it is over: a server that stops does not wait for it

    def __init__(self, http: HTTPRequest, peer: Peer, reactor: IReactorTime, limit: Limit | None = None) -> None:
        super().__init__(http)
        self._peer = peer
        self._reactor = reactor
        self._leaving: _Leaving | None = None
        self._gone = False
        self._throttle = None if limit is None else limit(self.transport)
        self._peers: Throttle | None = None

    def begin(self, peers: Throttle | None = None) -> None:
        """Passes on what the client sent early, and lets it send more; ``peers`` is what holds the peer back."""
        assert self._peer.transport is not None
        self._peers = peers
        self._peer.transport.registerProducer(self._throttle or self.transport, True)
        self.transport.registerProducer(peers or self._peer.transport, True)
        early = self.early()
        if early:
            self._peer.transport.write(early)
        self.transport.resumeProducing()

    def end(self) -> None:
        """The peer is gone."""
        if self._throttle is not None:
            self._throttle.release()
        if not self._gone:
            self._leaving = _Leaving(self.transport, self._reactor)

    def close_when_idle(self) -> None:
        """Without effect: it goes on while requests are answered, and ends with the server."""

    def dataReceived(self, data: bytes) -> None:
        if self._peer.transport is not None:
            self._peer.transport.write(data)
        if self._throttle is not None:
            self._throttle.passed(len(data))

    def connectionLost(self, reason: Failure = CLEAN) -> None:
        self._gone = True
        if self._leaving is not None:
            self._leaving.over()
        if self._throttle is not None:
            self._throttle.close()
        if self._peers is not None:
            self._peers.release()
        self._peer.leave()


class TunnelBackend(Peer):
    """The backend's side: sends the request, reads the head of the answer, then is a pipe or hands the answer over.

    ``decided`` fires with (status, headers, start of the body); after 101 the pipe is open already.  ``limit`` makes what holds a
    side back that sends too fast.
    """

    def __init__(self, http: HTTPRequest, request: bytes, reactor: IReactorTime, limit: Limit | None = None) -> None:
        self._reactor = reactor
        self._leaving: _Leaving | None = None
        self._lost = False
        self._limit = limit
        self._throttle: Throttle | None = None
        self._http = http
        self._request = request
        self._head = b""
        self._taken: _Tunnelled | None = None
        self._refusal: tuple[int, list[tuple[bytes, bytes]], int] | None = None
        self._body = b""
        self.decided: Deferred[tuple[int, list[tuple[bytes, bytes]], bytes]] = Deferred(lambda _: self._give_up())

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(self._request)

    def dataReceived(self, data: bytes) -> None:
        if self._taken is not None:
            self._taken.transport.write(data)
            if self._throttle is not None:
                self._throttle.passed(len(data))
            return
        if self.decided.called:
            return
        if self._refusal is not None:
            self._collect(data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > MAX_HEAD:
                self._fail(ValueError("the head of the backend's answer is too long"))
            return
        head, rest = self._head[: end + 4], self._head[end + 4 :]
        try:
            status, headers = _parse(head)
        except ValueError as error:
            self._fail(error)
            return
        if status == 101:
            try:
                self._taken = _Tunnelled(self._http, self, self._reactor, self._limit)
            except NotUpgradable as error:
                self._fail(error)
                return
            self._taken.transport.write(head + rest)
            if self._limit is not None:
                self._throttle = self._limit(self.transport)
            self._taken.begin(self._throttle)
            self.decided.callback((status, headers, b""))
            return
        self._refusal = (status, headers, _length(headers))
        self._collect(rest)

    def _collect(self, data: bytes) -> None:
        """The body of an answer that upgrades nothing, as far as it is short."""
        assert self._refusal is not None and self.transport is not None
        self._body += data
        status, headers, length = self._refusal
        if len(self._body) >= min(length, MAX_BODY):
            self.decided.callback((status, headers, self._body[: min(length, MAX_BODY)]))
            self.transport.abortConnection()

    def _fail(self, error: Exception) -> None:
        self.decided.errback(error)
        assert self.transport is not None
        self.transport.abortConnection()

    def _give_up(self) -> None:
        """Nobody waits for the answer any more."""
        if self.transport is not None:
            self.transport.abortConnection()

    def leave(self) -> None:
        if not self._lost:
            self._leaving = _Leaving(self.transport, self._reactor)

    def connectionLost(self, reason: Failure = CLEAN) -> None:
        self._lost = True
        if self._leaving is not None:
            self._leaving.over()
        if self._throttle is not None:
            self._throttle.close()
        if self._taken is not None:
            self._taken.end()
        elif not self.decided.called:
            if self._refusal is not None:
                self.decided.callback((*self._refusal[:2], self._body))
            else:
                self.decided.errback(reason)


def _parse(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Status and headers of an answer's head.  Raises ValueError."""
    first, *lines = head[:-4].split(b"\r\n")
    parts = first.split(b" ", 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not _code(parts[1]):
        raise ValueError("the backend's answer is not HTTP")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon:
            raise ValueError("the backend's answer has a broken header")
        headers.append((name.strip(), value.strip()))
    return int(parts[1]), headers


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    """The length of a body; without one it ends with the connection."""
    for name, value in headers:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return MAX_BODY
