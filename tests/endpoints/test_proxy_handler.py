"""What a backend is sent and what of its response the client gets, over connections that are played by the test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.error import ConnectingCancelledError, ConnectionDone, ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from kapi.endpoints.proxy_handler import Destination, NotPassedOn, NotUpgraded, ProxyHandler
from kapi.request.response import HijackedResponse
from kapi.request.user import UserInfo
from kapi.wire.answer import Answer
from kapi.wire.head import BadHead
from tests.endpoints.connect.test_tunnels import Http, Transport
from tests.filters.requests import request

SANDBOX = (b"content-security-policy", b"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts")
PLAIN = b"text/plain; charset=utf-8"
UPGRADE: dict[str, str | list[str]] = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.sent: tuple[Any, ...] = ()
        self.answers: Any = None
        self.refuses: Exception | None = None
        self.backend = Transport()

    def destination(self, **more: Any) -> Destination:
        def send(*of: Any) -> Deferred[Answer]:
            self.sent = of
            return succeed(self.answers) if isinstance(self.answers, Answer) else fail(self.answers)

        def connect(factory: Any) -> Deferred[Any]:
            if self.refuses is not None:
                return fail(self.refuses)
            self.tunnel = factory.buildProtocol(None)
            self.tunnel.makeConnection(self.backend)
            return succeed(self.tunnel)

        ends = {"connect": lambda: SimpleNamespace(connect=connect), "pool": lambda: SimpleNamespace(send=send)}
        return Destination(b"/x?y=z", b"pod", ("10.0.0.1", 80), **ends, **more)

    def context(self, method: str = "GET", headers: Any = None, sandboxed: bool = False) -> Any:
        ctx: Any = request(method=method, headers={"X-Own": "1", "Authorization": "secret", **(headers or {})})
        http = Http()
        ctx.http.__dict__.update(channel=http, method=method.encode(), gone=False, streamed=None)
        self.client = http.transport
        ctx.sandboxed = sandboxed
        return ctx

    def handled(self, ctx: Any, to: Destination, **options: Any) -> Deferred[Any]:
        handling: Deferred[Any] = Deferred.fromCoroutine(ProxyHandler(Clock(), **options).handle(ctx, to))
        return handling


class Requests(Case):
    def answer(self, code: int = 200, **headers: str) -> Answer:
        self.answers = Answer((b"HTTP", 1, 1), code, b"", Headers())
        for name, value in headers.items():
            self.answers.headers.addRawHeader(name.replace("_", "-"), value)
        self.answers.begin(StringTransport(), lambda: None)
        made: Answer = self.answers
        return made

    def test_what_the_backend_is_sent(self) -> None:
        self.answer()
        user = UserInfo("me", groups=("g",))
        more = ((b"X-More", b"m"), (b"x-own", b"2"))
        to = self.destination(user=user, forwarded=((b"X-Forwarded-Uri", b"/u"),), more=more)
        ctx = self.context()
        self.successResultOf(self.handled(ctx, to))
        method, uri, headers, body = self.sent
        self.assertEqual((method, uri, body, ctx.passed_on), (b"GET", b"/x?y=z", None, True))
        self.assertEqual(
            headers,
            [
                (b"Host", b"pod"),
                (b"X-Remote-User", b"me"),
                (b"X-Remote-Group", b"g"),
                (b"X-Forwarded-Uri", b"/u"),
                *more,
            ],
        )
        self.successResultOf(self.handled(self.context("POST"), self.destination()))
        self.assertEqual(self.sent, (b"POST", b"/x?y=z", [(b"Host", b"pod"), (b"X-Own", b"1")], b""))

    def test_which_headers_come_back(self) -> None:
        given = {
            "x-a": "1", "location": "/there", "connection": "close", "keep_alive": "1", "transfer-encoding": "chunked",
            "te": "x", "trailer": "x", "upgrade": "x", "content-length": "3", "proxy-authenticate": "x", "alt-svc": "x",
            "access-control-allow-origin": "*", "access-control-allow-credentials": "true", "x-audit": "1", "nel": "x",
            "access-control-allow-methods": "x", "access-control-allow-headers": "x", "strict-transport-security": "x",
            "clear-site-data": "x", "report-to": "x", "content-type": "text/html",
        }  # fmt: skip
        origin = ["Alt-Svc", "Nel", "Strict-Transport-Security", "Clear-Site-Data", "Report-To"]
        for sandboxed, kept in (
            (False, ["X-A", "Location", *origin]),
            (True, ["X-A", "Location", SANDBOX[0].decode()]),
        ):
            self.answer(302, **given)
            to = self.destination(not_back=frozenset([b"x-audit"]), relocated=lambda where: b"/proxy" + where)
            response = self.successResultOf(self.handled(self.context(sandboxed=sandboxed), to))
            found = dict(response.headers)
            self.assertEqual({name.decode().lower() for name in found}, {name.lower() for name in kept})
            self.assertEqual((response.status, response.content_type), (302, b"text/html"))
            self.assertEqual(
                next(value for name, value in found.items() if name.lower() == b"location"), b"/proxy/there"
            )
        self.answer()
        self.assertEqual(self.successResultOf(self.handled(self.context(), self.destination())).content_type, b"")

    def test_where_redirects_are_rejected(self) -> None:
        for code, location, rejected in (
            (299, "/x", False), (300, "/x", True), (302, "/x", True), (399, "/x", True), (400, "/x", False), (302, "", False),
            (304, None, False),
        ):  # fmt: skip
            self.answer(code, **({} if location is None else {"location": location}))
            response = self.successResultOf(self.handled(self.context(), self.destination(), rejects_redirects=True))
            self.assertEqual(response.status, 502 if rejected else code)
            if rejected:
                self.assertEqual(
                    (response.body, response.content_type, response.headers),
                    (
                        b"the backend attempted to redirect this request, which is not permitted",
                        PLAIN,
                        ((b"x-content-type-options", b"nosniff"),),
                    ),
                )
            self.assertEqual(self.answers._over, rejected)
            self.answer(code, **({} if location is None else {"location": location}))
            self.assertEqual(self.successResultOf(self.handled(self.context(), self.destination())).status, code)

    def test_codes_that_are_none(self) -> None:
        for code, valid in ((199, False), (200, True), (599, True), (600, False)):
            self.answer(code)
            handling = self.handled(self.context(), self.destination())
            if valid:
                self.assertEqual(self.successResultOf(handling).status, code)
            else:
                error = self.failureResultOf(handling, NotPassedOn).value
                self.assertEqual(str(error), f"error trying to reach service: invalid status code {code}")
                self.assertTrue(self.answers._over)

    def test_why_there_is_no_response(self) -> None:
        for cause, text, fault in (
            (ConnectionRefusedError(), "dial tcp 10.0.0.1:80: connect: connection refused", True),
            (BadHead("net/http: invalid header field name"), "net/http: invalid header field name", False),
        ):
            self.answers = cause
            error: Any = self.failureResultOf(self.handled(self.context(), self.destination()), NotPassedOn).value
            self.assertEqual((str(error), error.is_backends_fault), (f"error trying to reach service: {text}", fault))
        for gone in (CancelledError(), ConnectingCancelledError(None)):
            self.answers = gone
            self.failureResultOf(self.handled(self.context(), self.destination()), CancelledError)


class Upgrades(Case):
    def test_what_the_backend_is_sent(self) -> None:
        for method, length in (("GET", b""), ("POST", b"Content-Length: 0\r\n")):
            self.setUp()
            ctx = self.context(method, UPGRADE)
            to = self.destination(forwarded=((b"X-Forwarded-Uri", b"/u"),), more=((b"X-More", b"m"),))
            handling = self.handled(ctx, to)
            lines = b"Host: pod\r\nX-Own: 1\r\nX-More: m\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n" + length
            self.assertEqual(self.backend.value(), method.encode() + b" /x?y=z HTTP/1.1\r\n" + lines + b"\r\n")
            self.assertEqual((ctx.passed_on, ctx.response_headers), (True, [(b"connection", b"close")]))
            upgraded = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n"
            self.tunnel.dataReceived(upgraded)
            self.assertIsInstance(self.successResultOf(handling), HijackedResponse)
            self.assertEqual(self.client.value(), upgraded)

    def refused(self, head: str, sandboxed: bool = False, **options: Any) -> Deferred[Any]:
        self.setUp()
        handling = self.handled(self.context(headers=UPGRADE, sandboxed=sandboxed), self.destination(), **options)
        self.tunnel.dataReceived(f"HTTP/1.1 {head}\r\nContent-Length: 2\r\n\r\nno".encode())
        return handling

    def test_a_refusal_is_the_backends_own_response(self) -> None:
        for code, valid in ((200, False), (399, False), (400, True), (403, True), (599, True), (600, False)):
            handling = self.refused(f"{code} Text\r\nContent-Type: text/x\r\nX-Other: 1")
            if valid:
                response = self.successResultOf(handling)
                found = (response.status, response.body, response.content_type, response.headers)
                self.assertEqual(found, (code, b"no", b"text/x", ()))
            else:
                error: Any = self.failureResultOf(handling, NotUpgraded).value
                text = f"invalid upgrade response: status code {code}"
                self.assertEqual((str(error), error.is_backends_fault), (text, True))
        self.assertEqual(self.successResultOf(self.refused("403 No")).content_type, PLAIN)
        self.assertEqual(self.successResultOf(self.refused("403 No", sandboxed=True)).headers, (SANDBOX,))

    def test_a_redirect_is_one_where_they_are_rejected(self) -> None:
        for location, options, rejected in (
            ("/x", {"rejects_redirects": True}, True), ("", {"rejects_redirects": True}, False), ("/x", {}, False),
        ):  # fmt: skip
            handling = self.refused(f"302 Found\r\nLocation: {location}", **options)
            if rejected:
                self.assertEqual(self.successResultOf(handling).status, 502)
            else:
                self.failureResultOf(handling, NotUpgraded)

    def test_a_backend_that_is_not_there_or_goes(self) -> None:
        self.refuses = ConnectionRefusedError()
        handling = self.handled(self.context(headers=UPGRADE), self.destination())
        error = self.failureResultOf(handling, NotUpgraded).value
        text = "error dialing backend: dial tcp 10.0.0.1:80: connect: connection refused"
        self.assertEqual(str(error), text)
        self.setUp()
        handling = self.handled(self.context(headers=UPGRADE), self.destination())
        self.tunnel.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(str(self.failureResultOf(handling, NotUpgraded).value), "EOF")

    def test_one_that_is_given_up_is_no_fault(self) -> None:
        self.refuses = CancelledError()
        self.failureResultOf(self.handled(self.context(headers=UPGRADE), self.destination()), CancelledError)
        self.setUp()
        handling = self.handled(self.context(headers=UPGRADE), self.destination())
        handling.cancel()
        self.failureResultOf(handling, CancelledError)
        self.assertTrue(self.backend.aborted)
