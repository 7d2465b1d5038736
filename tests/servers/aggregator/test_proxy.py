"""The way to other servers, over real sockets: identity, redirects, upgrades, failures."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, inlineCallbacks
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from kapi.request.user import UserInfo
from kapi.servers.aggregator import proxy
from kapi.servers.aggregator.availability import Target
from kapi.servers.aggregator.backend import Backends
from kapi.servers.aggregator.proxy import MAX_HOPS, ReverseProxy
from kapi.wire.head import identity_headers
from tests.servers.aggregator.proxy_case import KEY, NAME, Canned, Http, ProxyCase
from tests.wire.http2_server import options


class ProxyTests(ProxyCase):
    @inlineCallbacks
    def test_requests_go_to_all_targets_and_connections_are_kept_for_one(self) -> Any:
        other = Factory.forProtocol(Canned)
        for name in ("received", "answered", "answer", "connections"):
            setattr(other, name, type(getattr(self.factory, name))())
        port = reactor.listenSSL(0, other, options(pem=self.pair), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(port.stopListening)
        targets = [Target("127.0.0.1", one.getHost().port, NAME) for one in (self.port, port)]
        spec = {"caBundle": base64.b64encode(self.pem).decode()}
        backend = self.backends.set(KEY, targets, spec, None)
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
        other.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"  # type: ignore[attr-defined]
        answers = []
        for number in (0, 1, 1, 0, None):
            if number is None:  # the first one is gone
                self.backends.set(KEY, targets[1:], spec, None)
            else:
                self.patch(backend, "pick", lambda number=number: targets[number])
            for factory in (self.factory, other):
                factory.received, factory.answered = b"", False  # type: ignore[attr-defined]
            http = Http(b"GET", b"/apis/example.com/v1/things", {})
            yield self.request(http)
            answers.append(http.written)
        self.assertEqual(answers, [b"a", b"b", b"b", b"a", b"b"])
        self.assertEqual([len(one.connections) for one in (self.factory, other)], [1, 1])  # type: ignore[attr-defined]

    @inlineCallbacks
    def test_the_backend_learns_who_asks_and_never_sees_credentials(self) -> Any:
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\nok")
        headers = {
            b"authorization": [b"Bearer secret"],
            b"x-remote-user": [b"system:masters"],
            b"impersonate-user": [b"root"],
            b"connection": [b"close, x-hop"],
            b"x-hop": [b"1"],
            b"accept": [b"*/*"],
        }
        http = Http(b"GET", b"/apis/example.com/v1/a%2Fb?x=1", headers)
        response = yield self.request(http)
        self.assertEqual((response.status, response.content_type, http.written), (200, b"text/x", b"ok"))
        self.assertTrue(http.finished)
        head = self.received.lower()
        self.assertTrue(self.received.startswith(b"GET /apis/example.com/v1/a%2Fb?x=1 HTTP/1.1\r\n"))
        self.assertIn(b"x-remote-user: alice\r\n", head)
        self.assertIn(b"x-remote-group: dev\r\n", head)
        self.assertIn(b"x-remote-extra-example.com%2fa: 1\r\n", head)
        self.assertIn(b"host: svc.ns.svc\r\n", head)
        for word in (b"secret", b"system:masters", b"root", b"x-hop"):
            self.assertNotIn(word, head)

    @inlineCallbacks
    def test_a_request_for_a_group_version_waits_for_seconds(self) -> Any:
        self.patch(proxy, "DISCOVERY_SECONDS", 0.05)
        for path in (b"/apis/example.com/v1?a=b", b"/apis/example.com/v1/"):
            response = yield self.request(Http(b"GET", path, {}))
            self.assertEqual(response.status, 503)
            self.assertEqual(response.body, b"error trying to reach service: context deadline exceeded\n")
        self.assertEqual(self.failed, [KEY, KEY])
        while any(connection.connected for connection in self.factory.connections):
            yield deferLater(reactor, 0.005)  # type: ignore[arg-type]
        waiting = ensureDeferred(self.proxy.handle(self.context(Http(b"GET", b"/apis/example.com/v1/a", {})), KEY))
        yield deferLater(reactor, 0.1)  # type: ignore[arg-type]
        self.assertFalse(waiting.called)
        waiting.cancel()
        yield self.assertFailure(waiting, CancelledError)

    @inlineCallbacks
    def test_the_resources_of_a_group_version_come_completely_or_the_connection_ends(self) -> Any:
        self.patch(proxy, "DISCOVERY_SECONDS", 0.1)
        for body, is_complete in ((b"o", False), (b"ok", True)):
            self.factory.answered, self.factory.received = False, b""
            self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body)
            http = Http(b"GET", b"/apis/example.com/v1", {})
            ctx = self.context(http)
            response = yield Deferred.fromCoroutine(self.proxy.handle(ctx, KEY))  # type: ignore[arg-type]
            response.run(http)
            if is_complete:
                while not http.finished:
                    yield deferLater(reactor, 0.005)  # type: ignore[arg-type]
                for finish in ctx.finishers:
                    finish(ctx, 200)
            yield deferLater(reactor, 0.2)  # type: ignore[arg-type]
            http.over.callback(None)
            self.assertEqual((http.written, http.finished, http.gone), (body, is_complete, not is_complete))

    @inlineCallbacks
    def test_the_backend_learns_of_the_trace_instead_of_the_clients(self) -> Any:
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        http = Http(b"GET", b"/apis/example.com/v1/a", {b"traceparent": [b"00-1-2-01"]})
        ctx = self.context(http)
        own = {b"traceparent": [b"00-1-3-01"]}
        ctx.trace = SimpleNamespace(headers=own)  # type: ignore[assignment]
        response = yield Deferred.fromCoroutine(self.proxy.handle(ctx, KEY))  # type: ignore[arg-type]
        yield response.run(http)
        found = [line for line in self.received.lower().split(b"\r\n") if line.startswith(b"traceparent")]
        self.assertEqual(found, [b"traceparent: 00-1-3-01"])

    @inlineCallbacks
    def test_the_backend_learns_the_way_of_the_request_in_one_header(self) -> Any:
        for upgrade in ({}, {b"connection": [b"Upgrade"], b"upgrade": [b"x"]}):
            self.factory.answered, self.factory.received = False, b""
            self.answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nok")
            headers = {b"x-forwarded-for": [b"192.0.2.1", b"192.0.2.2"], **upgrade}
            http = Http(b"GET", b"/apis/example.com/v1/a", headers)
            http.getClientAddress = lambda: IPv4Address("TCP", "192.0.2.9", 1)  # type: ignore[attr-defined]
            yield self.request(http)
            found = [line for line in self.received.lower().split(b"\r\n") if line.startswith(b"x-forwarded-for")]
            self.assertEqual(found, [b"x-forwarded-for: 192.0.2.1, 192.0.2.2, 192.0.2.9"])

    @inlineCallbacks
    def test_what_the_client_says_of_the_way_is_replaced(self) -> Any:
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        headers = {b"x-forwarded-uri": [b"/elsewhere"], b"x-forwarded-proto": [b"http"], b"audit-id": [b"other"]}
        yield self.request(Http(b"GET", b"/apis/example.com/v1/a%2Fb?x=1", headers))
        found = sorted(
            line
            for line in self.received.lower().split(b"\r\n")
            if line.startswith((b"x-forwarded-uri", b"x-forwarded-proto", b"audit-id"))
        )
        uri = b"x-forwarded-uri: /apis/example.com/v1/a%2fb"
        self.assertEqual(found, [b"audit-id: audit", b"x-forwarded-proto: https", uri])

    @inlineCallbacks
    def test_what_a_browser_may_do_is_not_for_the_backend_to_say(self) -> Any:
        self.answer(b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nX-Own: 1\r\nContent-Length: 0\r\n\r\n")
        response = yield self.request(Http(b"GET", b"/", {}))
        self.assertEqual(list(response.headers), [(b"X-Own", b"1")])

    @inlineCallbacks
    def test_pages_of_a_backend_are_of_no_origin_beside_the_console(self) -> Any:
        self.answer(b"HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=9\r\nContent-Length: 0\r\n\r\n")
        http = Http(b"GET", b"/", {})
        ctx = self.context(http)
        ctx.sandboxed = True
        response = yield Deferred.fromCoroutine(self.proxy.handle(ctx, KEY))  # type: ignore[arg-type]
        yield response.run(http)
        names = [name for name, _ in response.headers]
        self.assertEqual(names, [b"content-security-policy"])
        words = response.headers[0][1].split()
        self.assertEqual((words[0], b"allow-same-origin" in words), (b"sandbox", False))

    @inlineCallbacks
    def test_redirects_are_neither_followed_nor_handed_to_the_client(self) -> Any:
        """CVE-2022-3172: the client would take its credentials along."""
        for headers in ({}, {b"connection": [b"Upgrade"], b"upgrade": [b"x"]}):
            self.factory.answered, self.factory.received = False, b""
            self.answer(b"HTTP/1.1 302 Found\r\nLocation: https://evil.example.com/\r\nContent-Length: 0\r\n\r\n")
            response = yield self.request(Http(b"GET", b"/", headers))
            self.assertEqual(response.status, 502)
            self.assertEqual([name for name, _ in response.headers if name.lower() == b"location"], [])

    @inlineCallbacks
    def test_other_answers_with_a_location_are_no_redirects(self) -> Any:
        for status in (201, 400):
            self.factory.answered, self.factory.received = False, b""
            self.answer(b"HTTP/1.1 %d X\r\nLocation: https://other.example.com/\r\nContent-Length: 0\r\n\r\n" % status)
            response = yield self.request(Http(b"GET", b"/", {}))
            self.assertEqual(response.status, status)

    @inlineCallbacks
    def test_redirects_are_handed_on_where_that_is_asked_for(self) -> Any:
        self.proxy = ReverseProxy(reactor, self.backends, rejects_redirects=False)
        self.addCleanup(self.proxy.close)
        self.answer(b"HTTP/1.1 302 Found\r\nLocation: https://other.example.com/\r\nContent-Length: 0\r\n\r\n")
        response = yield self.request(Http(b"GET", b"/", {}))
        self.assertEqual(response.status, 302)
        self.assertIn((b"Location", b"https://other.example.com/"), list(response.headers))

    @inlineCallbacks
    def test_the_users_uid_is_a_header_unless_its_gate_is_off(self) -> Any:
        self.user = UserInfo("a", uid="u")
        for sends_uid in (True, False):
            self.proxy = ReverseProxy(reactor, self.backends, sends_uid=sends_uid)
            self.factory.answered, self.factory.received = False, b""
            self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            response = yield self.request(Http(b"GET", b"/", {}))
            self.assertEqual(response.status, 200)
            self.assertIn(b"\r\nX-Remote-User: a\r\n", self.received)
            self.assertEqual(b"\r\nX-Remote-Uid: u\r\n" in self.received, sends_uid)

    @inlineCallbacks
    def test_a_server_with_another_name_is_not_believed(self) -> Any:
        self.trust("other.ns.svc")
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        response = yield self.request(Http(b"GET", b"/", {}))
        self.assertEqual(response.status, 503)
        self.assertEqual(self.received, b"")

    @inlineCallbacks
    def test_nobody_there_is_503(self) -> Any:
        number = self.port.getHost().port
        yield self.port.stopListening()
        refused = b"dial tcp 127.0.0.1:%d: connect: connection refused\n" % number
        response = yield self.request(Http(b"GET", b"/", {}))
        self.assertEqual((response.status, response.body), (503, b"error trying to reach service: " + refused))
        self.assertEqual(self.failed, [KEY])
        response = yield self.request(Http(b"GET", b"/", {b"connection": [b"Upgrade"], b"upgrade": [b"SPDY/3.1"]}))
        self.assertEqual((response.status, response.body), (503, b"error dialing backend: " + refused))
        self.assertEqual(self.failed, [KEY, KEY])

    def test_an_unknown_server_is_503(self) -> None:
        response = self.proxy.handle(self.context(Http(b"GET", b"/", {})), "v1.nosuch")
        self.assertEqual((response.status, response.body), (503, b"service unavailable\n"))  # type: ignore[union-attr]

    @inlineCallbacks
    def test_an_upgrade_that_the_backend_refuses_is_an_answer_and_no_pipe(self) -> Any:
        self.answer(b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno")
        http = Http(b"GET", b"/", {b"connection": [b"Upgrade"], b"upgrade": [b"SPDY/3.1"]})
        response = yield self.request(http)
        self.assertEqual(self.failed, [])
        self.assertEqual((response.status, response.body), (403, b"no"))
        self.assertIn(b"\r\nUpgrade: SPDY/3.1\r\n", self.received)

    @inlineCallbacks
    def test_an_identity_that_would_be_read_as_another_is_not_passed_on(self) -> Any:
        """A line break in a name would begin a header of its own."""
        masters = "x\r\nX-Remote-Group: system:masters"
        for user in (
            UserInfo(masters),
            UserInfo("a", uid=masters),
            UserInfo("a", groups=("dev", "x\nX-Remote-Group: system:masters")),
            UserInfo("a", extra={"k": (masters,)}),
            UserInfo("a\x00"),
            UserInfo("a\ud800"),
            UserInfo("admin "),
        ):
            self.user = user
            for headers in ({}, {b"connection": [b"Upgrade"], b"upgrade": [b"SPDY/3.1"]}):
                response = yield self.request(Http(b"GET", b"/", headers))
                self.assertEqual(response.status, 503, user)
                self.assertIn(b"invalid header field value", response.body)
        self.assertEqual(self.received, b"")

    @inlineCallbacks
    def test_a_status_that_is_none_is_503(self) -> Any:
        for code in (b"099", b"999", b"600"):
            for headers in ({}, {b"connection": [b"Upgrade"], b"upgrade": [b"x"]}):
                self.factory.answered, self.factory.received = False, b""
                self.answer(b"HTTP/1.1 " + code + b" Odd\r\nContent-Length: 0\r\n\r\n")
                response = yield self.request(Http(b"GET", b"/", headers))
                self.assertEqual(response.status, 503, code)

    @inlineCallbacks
    def test_a_request_that_goes_in_a_circle_is_not_passed_on_for_ever(self) -> Any:
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        came = [b"10.0.0.1"] * MAX_HOPS
        response = yield self.request(Http(b"GET", b"/", {b"x-forwarded-for": [b", ".join(came)]}))
        self.assertEqual(response.status, 200)
        came.append(b"10.0.0.1")
        http = Http(b"GET", b"/", {b"x-forwarded-for": [b", ".join(came)]})
        refused: Any = self.proxy.handle(self.context(http), KEY)
        self.assertEqual(refused.status, 508)

    @inlineCallbacks
    def test_the_connection_ends_when_nobody_takes_the_answer(self) -> Any:
        """Nobody reads it then, so its end would not even be seen; the backend may go on for ever."""
        for head in (b"200 OK", b"999 Odd", b"302 Found\r\nLocation: /x"):
            self.factory.answered, self.factory.received = False, b""
            self.answer(b"HTTP/1.1 " + head + b"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
            waiting: Any = self.proxy.handle(self.context(Http(b"GET", b"/", {})), KEY)
            response = yield Deferred.fromCoroutine(waiting)
            response.drop()
            connection = self.factory.connections[-1]
            while connection.connected:
                yield deferLater(reactor, 0.01)

    @inlineCallbacks
    def test_a_backend_that_does_not_speak_http_is_503(self) -> Any:
        self.answer(b"hello\r\n\r\n")
        http = Http(b"GET", b"/", {b"connection": [b"Upgrade"], b"upgrade": [b"x"]})
        response = yield self.request(http)
        self.assertEqual(response.status, 503)


class IdentityTests(TestCase):
    def test_every_value_has_its_header(self) -> None:
        user = UserInfo("a", uid="u", groups=("g1", "g2"), extra={"k": ("1", "2")})
        self.assertEqual(
            identity_headers(user),
            [
                (b"X-Remote-User", b"a"),
                (b"X-Remote-Uid", b"u"),
                (b"X-Remote-Group", b"g1"),
                (b"X-Remote-Group", b"g2"),
                (b"X-Remote-Extra-k", b"1"),
                (b"X-Remote-Extra-k", b"2"),
            ],
        )

    def test_keys_of_extra_are_escaped_and_names_are_utf_8(self) -> None:
        user = UserInfo("Jürgen", extra={"a b:c%d/e!#$&'*+-.^_`|~é": ("1",)})
        self.assertEqual(
            identity_headers(user),
            [
                (b"X-Remote-User", b"J\xc3\xbcrgen"),
                (b"X-Remote-Extra-a%20b%3Ac%25d%2Fe!#$&'*+-.^_`|~%C3%A9", b"1"),
            ],
        )


class BackendTests(TestCase):
    def test_a_broken_ca_bundle_is_a_value_error(self) -> None:
        for bundle in (b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
            spec = {"caBundle": base64.b64encode(bundle).decode()}
            with self.assertRaises(ValueError):
                Backends(reactor).set(KEY, [Target("127.0.0.1", 443, NAME)], spec, None)
