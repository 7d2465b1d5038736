"""Kept HTTP/1.1 connections to one API server, for whole answers and for streams (watches, logs).

A request is written in one piece; a whole answer is one Deferred.  ``kapi.client.kept`` is its like for webhooks, which never
stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from socket import MSG_DONTWAIT, MSG_PEEK
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from kapi.client.answer import Answer, AnswerTooLarge, BadAnswer, content_length, read_head
from kapi.client.head import header_line, request_line
from kapi.client.keeping import KeptConnections
from kapi.client.transport import Header, Response, Stream

if TYPE_CHECKING:
    from kapi.client.websocket import WebSocket

MAX_HEAD = 256 * 1024  # bytes
MAX_ANSWER = 1024 * 1024 * 1024  # bytes of a whole answer
_BREAK = b"\r\n\r\n"


class Connection(Protocol):
    """One connection: idle, or busy with one request."""

    def __init__(self, pool: Connections) -> None:
        self.pool = pool
        self.since = 0.0  # reactor seconds of becoming idle
        self.busy: Deferred[Response] | None = None
        self._begin()

    def _begin(self) -> None:
        self._raw = b""
        self._answer: Answer | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._left: int | None = None  # bytes still to come; None: till the end of the connection
        self._chunks: Any = None
        self._streaming = self._bodiless = False
        self._stream: Stream | None = None

    def has_news(self) -> bool:
        """Whether the socket holds what nobody asked for: most likely that the server has closed."""
        socket: Any = getattr(self.transport, "socket", None)
        try:
            return socket is not None and len(socket.recv(1, MSG_PEEK | MSG_DONTWAIT)) >= 0
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            return True

    def ask(self, data: bytes, busy: Deferred[Response], streaming: bool, bodiless: bool) -> None:
        self.busy, self._streaming, self._bodiless = busy, streaming, bodiless
        self.transport.write(data)  # type: ignore[union-attr]

    def abort(self) -> None:
        """Ends the connection; who waits is not told."""
        self.busy = self._stream = None
        self.transport.abortConnection()  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self.busy is None and self._stream is None:
            self.abort()  # nobody asked
            return
        try:
            if self._answer is None:
                self._raw += data
                self._read_head()
            else:
                self._read_body(data)
        except (BadAnswer, AnswerTooLarge) as problem:
            self._fail(Failure(problem))

    def _read_head(self) -> None:
        while self._answer is None:
            end = self._raw.find(_BREAK)
            if end < 0:
                if len(self._raw) > MAX_HEAD:
                    raise BadAnswer(f"server response headers exceeded {MAX_HEAD} bytes")
                return
            answer = read_head(self._raw[:end])
            rest, self._raw = self._raw[end + 4 :], b""
            if answer.code == 101:
                raise BadAnswer("unexpected 101 Switching Protocols")
            if answer.code < 200:
                self._raw = rest
                continue
            self._answer = answer
            coding = answer.headers.getRawHeaders(b"transfer-encoding")
            if answer.code in (204, 304) or self._bodiless:
                self._left = 0
            elif coding is not None:
                if len(coding) != 1 or coding[0].lower() != b"chunked":
                    raise BadAnswer("unsupported transfer encoding")
                from twisted.web.http import _ChunkedTransferDecoder  # long to load, and seldom needed by a command

                self._chunks = _ChunkedTransferDecoder(self._add, self._end)
            else:
                self._left = content_length(answer.headers.getRawHeaders(b"content-length"))
            if self._streaming and answer.code < 300:
                self._stream = Stream(self._flow, self.abort)
                busy, self.busy = self.busy, None
                assert busy is not None
                busy.callback(Response(answer.code, answer.headers, stream=self._stream))
            self._read_body(rest)

    def _flow(self, wait: bool) -> None:
        if self.transport is not None:
            (self.transport.pauseProducing if wait else self.transport.resumeProducing)()  # type: ignore[attr-defined]

    def _read_body(self, data: bytes) -> None:
        if self._chunks is not None:
            try:
                self._chunks.dataReceived(data)
            except (AnswerTooLarge, BadAnswer):
                raise
            except Exception as problem:  # the decoder has a class for each of its complaints
                raise BadAnswer(f"malformed chunked encoding: {problem}") from None
        elif self._left is None:
            self._add(data)
        elif len(data) > self._left:
            raise BadAnswer("the answer is longer than its Content-Length")
        else:
            self._left -= len(data)
            if data:
                self._add(data)
            if not self._left:
                self._end(b"")

    def _add(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(data)
            return
        self._size += len(data)
        if self._size > MAX_ANSWER:
            raise AnswerTooLarge(f"the answer is larger than {MAX_ANSWER} bytes")
        self._parts.append(data)

    def _end(self, extra: bytes) -> None:
        """The answer is whole."""
        answer, busy, stream = self._answer, self.busy, self._stream
        if answer is None or (busy is None and stream is None):
            return  # its reader has closed it
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self.busy = None
        self._begin()
        closing = answer.headers.getRawHeaders(b"connection", ())
        if extra or answer.version[2] == 0 or any(b"close" in value.lower() for value in closing):
            self.transport.loseConnection()  # type: ignore[union-attr]
        else:
            if stream is not None:
                self._flow(False)
            self.pool.free(self)
        if stream is not None:
            stream.finish()
        elif busy is not None:
            busy.callback(Response(answer.code, answer.headers, body))

    def _fail(self, why: Failure) -> None:
        busy, stream = self.busy, self._stream
        self.abort()
        if stream is not None:
            stream.finish(why)
        elif busy is not None:
            busy.errback(why)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.pool.lost(self)
        busy, stream, self.busy = self.busy, self._stream, None
        if busy is None and stream is None:
            return
        if self._answer is not None and self._left is None and self._chunks is None and reason.check(ConnectionDone):
            self.busy = busy
            self._end(b"closed")
        elif stream is not None:
            stream.finish(Failure(BadAnswer("unexpected EOF")))
        elif busy is not None:
            busy.errback(reason if self._answer is None else Failure(BadAnswer("unexpected EOF")))


class Connections(KeptConnections[Connection]):
    """A Transport to one server.  ``connect`` makes a connection with a protocol factory; ``url`` names the server."""

    def __init__(self, reactor: Any, url: str, connect: Callable[[Factory], Deferred[Any]]) -> None:
        super().__init__(reactor)
        self._connect = connect
        parsed = urlsplit(url)
        self._base = parsed.path.rstrip("/")
        self._host = header_line(b"Host", parsed.netloc.rpartition("@")[2].encode("ascii"))
        self._factory: Any = Factory.forProtocol(lambda: Connection(self))
        self._factory.noisy = False

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        lines = [request_line(method.encode("ascii"), (self._base + target).encode("ascii")), self._host]
        lines += [header_line(name, value) for name, value in headers]
        if body is not None:
            lines.append(b"Content-Length: %d" % len(body))
        data = b"\r\n".join(lines) + _BREAK + (body or b"")
        bodiless = method == "HEAD"
        return self._ask(lambda connection, done: connection.ask(data, done, streaming, bodiless))

    def _connected(self) -> Deferred[Any]:
        return self._connect(self._factory)

    async def websocket(self, target: str, headers: Sequence[Header], protocols: Sequence[str]) -> WebSocket | Response:
        """A WebSocket, or the server's answer when it does not want one.  Cancelling ends the connection."""
        from kapi.client.websocket import WebSocket

        named = [(b"Host", self._host.partition(b": ")[2]), *headers]
        made = WebSocket(self._reactor, "GET", self._base + target, named, protocols)
        factory: Any = Factory.forProtocol(lambda: made)
        factory.noisy = False
        await self._connect(factory)
        found: WebSocket | Response = await made.opened
        return found

    def forget(self) -> None:
        """Closes idle connections: their credentials no longer count."""
        idle, self.idle = self.idle, []
        for connection in idle:
            connection.abort()
