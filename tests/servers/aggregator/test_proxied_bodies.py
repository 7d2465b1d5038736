"""Bodies on their way to another server, and who is to blame when they do not arrive."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, inlineCallbacks
from twisted.internet.error import ConnectionLost
from twisted.python.failure import Failure

from kapi.machinery.status import RequestTooLarge
from kapi.request.streamed_body import StreamedBody
from tests.servers.aggregator.proxy_case import Http, Ignored, ProxyCase
from tests.waiting import eventually


class BodyTests(ProxyCase):
    @inlineCallbacks
    def test_a_body_that_has_not_come_is_passed_on_while_it_comes(self) -> Any:
        http = Http(b"POST", b"/apis/example.com/v1/a", {b"authorization": [b"Bearer secret"]})
        body = http.streamed = StreamedBody(Ignored(), None, b"abc")  # type: ignore[attr-defined]
        asked = self.request(http)
        yield eventually(lambda: b"3\r\nabc\r\n" in self.received)
        self.assertNotIn(b"\r\n0\r\n", self.received)
        self.assertIn(b"X-Remote-User: alice\r\n", self.received)
        self.assertIn(b"Host: svc.ns.svc\r\n", self.received)
        self.assertNotIn(b"secret", self.received)
        body.received(b"de")
        body.end()
        yield eventually(lambda: self.received.endswith(b"2\r\nde\r\n0\r\n\r\n"))
        connection = self.factory.connections[0]
        connection.transport.write(b"HTTP/1.1 201 Created\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\nok")
        response = yield asked
        self.assertEqual((response.status, response.content_type, http.written), (201, b"text/x", b"ok"))
        self.assertEqual(self.failed, [])

    @inlineCallbacks
    def test_a_server_is_not_to_blame_for_a_client_that_goes(self) -> Any:
        http = Http(b"POST", b"/apis/example.com/v1/a", {})
        body = http.streamed = StreamedBody(Ignored(), 10, b"abc")  # type: ignore[attr-defined]
        asked = self.request(http)
        yield eventually(lambda: self.received.endswith(b"\r\n\r\nabc"))
        body.fail(Failure(ConnectionLost()))
        response = yield asked
        self.assertEqual((response.status, self.failed), (503, []))

    @inlineCallbacks
    def test_what_nobody_waits_for_any_more_ends(self) -> Any:
        """The deadline has answered for a server that takes its time."""
        http = Http(b"POST", b"/apis/example.com/v1/a", {})
        http.streamed = StreamedBody(Ignored(), 3, b"abc")  # type: ignore[attr-defined]
        http.streamed.end()  # type: ignore[attr-defined]
        asked = self.request(http)
        yield eventually(lambda: self.received.endswith(b"\r\n\r\nabc"))
        http.over.callback(None)
        yield self.assertFailure(asked, CancelledError)
        yield eventually(lambda: not self.factory.connections[0].connected)
        self.assertEqual(self.failed, [])

    @inlineCallbacks
    def test_a_server_is_not_to_blame_for_an_answer_that_nobody_waits_for(self) -> Any:
        asked = self.request(Http(b"POST", b"/apis/example.com/v1/a", {}, b"abc"))
        yield eventually(lambda: self.received.endswith(b"\r\n\r\nabc"))
        asked.cancel()
        yield eventually(lambda: not self.factory.connections[0].connected)
        self.failureResultOf(asked, CancelledError)
        self.assertEqual(self.failed, [])

    @inlineCallbacks
    def test_a_body_that_is_too_long_is_refused_and_not_passed_on_in_part(self) -> Any:
        http = Http(b"POST", b"/", {}, b"the beginning")
        http.body_too_large = True  # type: ignore[attr-defined]
        yield self.assertFailure(self.request(http), RequestTooLarge)
        self.assertEqual(self.received, b"")
