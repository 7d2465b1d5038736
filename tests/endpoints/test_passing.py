"""Bodies of other servers and tunnels: what a paused connection to such a server holds counts as waiting for the client."""

from __future__ import annotations

import io
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from kapi.endpoints.passing import body_to_pass, passed_on, pipe
from kapi.endpoints.tunnel import TunnelBackend
from kapi.request.pending import BACKEND_BYTES, Pending
from kapi.wire.answer import Answer
from tests.filters.requests import request


class Client:
    """A client's request, with the connection under it."""

    def __init__(self, pending: Pending) -> None:
        self.producer: Any = None
        self.written: list[bytes] = []
        self.gone: Deferred[None] = Deferred()
        self.channel = self
        self.transport: Any = StringTransport()
        self.transport.registerProducer(self, True)
        self.transport.wrappedProtocol = self
        self.transport.pending = pending
        self.transport.abortConnection = lambda: None

    def unread(self) -> bytes:
        return b""

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def notifyFinish(self) -> Deferred[None]:
        return self.gone

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def finish(self) -> None: ...

    def abort(self) -> None: ...


def answer() -> Answer:
    made = Answer((b"HTTP", 1, 1), 200, b"OK", Headers())
    made.begin(StringTransport(), lambda: None)  # type: ignore[arg-type]
    return made


class Passing(SynchronousTestCase):
    def setUp(self) -> None:
        self.pending = Pending(lambda: 0.0)
        self.client: Any = Client(self.pending)
        self.answer = answer()

    def test_a_paused_answer_counts_until_the_client_reads(self) -> None:
        pipe(self.answer, self.client, self.pending)
        producer = self.client.producer
        producer.pauseProducing()
        producer.pauseProducing()
        self.assertEqual(self.pending.size, BACKEND_BYTES)
        producer.resumeProducing()
        self.assertEqual(self.pending.size, 0)

    def test_the_headers_do_not_wait_for_the_body(self) -> None:
        pipe(self.answer, self.client)
        self.assertEqual(self.client.written, [b""])
        self.answer.feed(b"late")
        self.assertEqual(self.client.written, [b"", b"late"])
        there, client = answer(), Client(self.pending)
        there.feed(b"with the head")
        pipe(there, client)  # type: ignore[arg-type]
        self.assertEqual(client.written, [b"with the head"])

    def test_nothing_counts_when_either_side_has_gone(self) -> None:
        for end in (
            lambda: self.answer.finish(),
            lambda: self.client.gone.errback(Failure(ConnectionError())),
        ):
            self.answer = answer()
            pipe(self.answer, self.client, self.pending)
            self.client.producer.pauseProducing()
            end()
            self.assertEqual(self.pending.size, 0)

    def test_a_paused_tunnel_counts_until_the_client_reads_or_one_end_goes(self) -> None:
        backend = TunnelBackend(self.client, b"", Clock())  # type: ignore[arg-type]
        backend.makeConnection(StringTransport())
        backend.dataReceived(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        producer = self.client.transport.producer
        producer.pauseProducing()
        self.assertEqual(self.pending.size, BACKEND_BYTES)
        producer.resumeProducing()
        self.assertEqual(self.pending.size, 0)
        producer.pauseProducing()
        backend.connectionLost()
        self.assertEqual(self.pending.size, 0)


@pytest.mark.parametrize(
    "name",
    [
        "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer",
        "Transfer-Encoding", "Upgrade", "Host", "Content-Length", "Authorization", "Expect", "X-Remote-User", "X-Remote-Extra-A",
        "Impersonate-User", "Named-By-Connection",
    ],
)  # fmt: skip
def test_headers_of_the_client_s_connection_and_identity_stay_here(name: str) -> None:
    headers: dict[str, str | list[str]] = {"Connection": "close, named-by-connection", "X-Own": "1", name: "x"}
    if name == "Connection":
        headers[name] = "named-by-connection"
    assert passed_on(request(headers=headers).http) == [(b"X-Own", b"1")]


@pytest.mark.parametrize(
    ("method", "passed"), [("GET", None), ("HEAD", None), ("OPTIONS", None), ("POST", b""), ("DELETE", b"")]
)
def test_reads_without_a_body_have_none_elsewhere(method: str, passed: bytes | None) -> None:
    ctx = request(method=method)
    ctx.http.gone = False  # type: ignore[misc]
    assert body_to_pass(ctx) == passed
    ctx.http.content = io.BytesIO(b"x")  # type: ignore[misc]
    assert body_to_pass(ctx) == b"x"
