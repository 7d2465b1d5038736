"""RESTClient against a server that says, byte for byte, what a test wants it to say."""

from __future__ import annotations

from typing import Any

import orjson
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import TestCase

from kapi.client.config import Config, ConfigError, Impersonation
from kapi.client.errors import ConnectionFailed, RequestTimeout, UnexpectedAnswer
from kapi.client.limiter import NO_ANSWER, Backoff, TokenBucket
from kapi.client.rest import RESTClient
from kapi.client.session import Session, connect, parse_warnings
from kapi.machinery import status
from tests.waiting import accepted_ended
from tests.wire.script import scripted

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + b'{"a": 1}'


def answer(code: int, body: bytes, *more: bytes) -> bytes:
    head = [b"HTTP/1.1 %d Some" % code, b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


class RESTCase(TestCase):
    def setUp(self) -> None:
        self.server = scripted()
        self.port = reactor.listenTCP(0, self.server, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.config = Config(host=f"http://127.0.0.1:{self.port.getHost().port}", qps=0)
        self.warnings_seen: list[Any] = []
        self.client = self.make()

    def make(self, **changes: Any) -> RESTClient:
        session = Session.for_config(
            self.config.replace(**changes), reactor, warnings=lambda *what: self.warnings_seen.append(what)
        )
        self.addCleanup(session.close)
        return RESTClient(session, "/api/v1")

    async def tearDown(self) -> None:
        for connection in self.server.connections:
            connection.transport.abortConnection()
        if self.port.connected:
            await self.port.stopListening()
        await accepted_ended()

    def will(self, *pieces: bytes | None) -> None:
        self.server.script.append(pieces)

    @property
    def lines(self) -> list[str]:
        """The first lines of the requests so far."""
        return [head.decode().split("\r\n")[0] for head, _ in self.server.requests]

    async def test_path_query_and_body(self) -> None:
        self.will(OK)
        request = self.client.put().namespace("n").resource("pods").name("a:b").subresource("status")
        tree = await request.param("dryRun", "All").param("force", True).param("limit", None).body({"x": "ü"}).do()
        self.assertEqual(tree, {"a": 1})
        head, body = self.server.requests[0][0].decode(), self.server.requests[0][1]
        self.assertEqual(self.lines, ["PUT /api/v1/namespaces/n/pods/a:b/status?dryRun=All&force=true HTTP/1.1"])
        self.assertEqual(body, '{"x":"ü"}'.encode())
        self.assertIn("Content-Type: application/json", head)

    async def test_a_base_path_and_whole_paths(self) -> None:
        client = self.make(host=self.config.host + "/proxy/")
        self.will(OK)
        self.will(OK)
        await client.get().resource("nodes").do()
        await client.get().abs_path("/version?a=b").param("c", 1).do()
        self.assertEqual(self.lines, ["GET /proxy/api/v1/nodes HTTP/1.1", "GET /proxy/version?a=b&c=1 HTTP/1.1"])

    def test_names_are_one_segment(self) -> None:
        for bad in ("a/b", "..", ".", "%2f"):
            with self.assertRaises(ValueError):
                self.client.get().name(bad)
        with self.assertRaises(ValueError):
            self.client.get().name("")

    async def test_connections_are_kept(self) -> None:
        for _ in range(3):
            self.will(OK)
            await self.client.get().resource("pods").do()
        self.assertEqual(len(self.server.connections), 1)

    async def test_a_server_that_starts_anew_is_followed(self) -> None:
        """A kept connection that is dead is noticed before a request is written, whatever the verb."""
        self.will(OK)
        await self.client.get().resource("pods").do()
        number = self.port.getHost().port
        for connection in self.server.connections:
            connection.transport.abortConnection()
        await self.port.stopListening()
        self.port = reactor.listenTCP(number, self.server, interface="127.0.0.1")  # type: ignore[attr-defined]
        await deferLater(reactor, 0)  # type: ignore[arg-type]
        self.will(OK)
        self.assertEqual(await self.client.post().resource("pods").body({}).do(), {"a": 1})

    async def test_a_broken_get_is_asked_again_and_a_post_is_not(self) -> None:
        self.will(None)
        self.will(OK)
        self.assertEqual(await self.client.get().resource("pods").do(), {"a": 1})
        self.will(None)
        with self.assertRaises(ConnectionFailed):
            await self.client.post().resource("pods").body({}).do()
        self.assertEqual(len(self.server.requests), 3)

    async def test_nobody_listens(self) -> None:
        await self.port.stopListening()
        with self.assertRaises(ConnectionFailed) as caught:
            await self.client.get().resource("pods").do()
        self.assertIn("Connection refused", str(caught.exception))

    async def test_each_reason_has_its_class(self) -> None:
        for kind in (status.NotFound, status.Conflict, status.AlreadyExists, status.Invalid, status.Expired):
            tree = kind("why", details={"name": "n", "causes": [{"field": "f"}]}).status
            self.will(answer(kind.code, status_bytes(tree)))
            with self.assertRaises(kind) as caught:
                await self.client.get().resource("pods").do()
            error: Any = caught.exception
            self.assertIs(type(error), kind)
            self.assertEqual((error.message, error.code, error.details["causes"]), ("why", kind.code, [{"field": "f"}]))

    async def test_answers_that_are_no_status(self) -> None:
        self.will(answer(404, b"404 page not found"))
        with self.assertRaises(status.NotFound) as caught:
            await self.client.get().resource("pods").do()
        self.assertEqual(caught.exception.message, "the server could not find the requested resource (get pods)")
        self.will(answer(502, b"<html>"))
        with self.assertRaises(status.StatusError) as other:
            await self.client.get().resource("pods").do()
        self.assertEqual(other.exception.code, 502)
        self.will(answer(200, b"<html>"))
        with self.assertRaises(UnexpectedAnswer):
            await self.client.get().resource("pods").do()

    async def test_what_may_be_tried_again_is(self) -> None:
        """429 and 5xx, of any verb, when the answer says when"""
        self.will(answer(429, b"", b"Retry-After: 0"))
        self.will(answer(503, b"", b"Retry-After: 0"))
        self.will(OK)
        self.assertEqual(await self.client.post().resource("pods").body({}).do(), {"a": 1})
        self.will(answer(503, b""))
        with self.assertRaises(status.ServiceUnavailable):
            await self.client.get().resource("pods").do()
        self.will(
            answer(503, b"", b"Retry-After: Fri, 31 Dec 1999 23:59:59 GMT")
        )  # a date is not read, as in client-go
        with self.assertRaises(status.ServiceUnavailable):
            await self.client.get().resource("pods").do()
        for _ in range(3):
            self.will(answer(429, status_bytes(status.too_many_requests("busy", 1).status), b"Retry-After: 0"))
        with self.assertRaises(status.TooManyRequests) as caught:
            await self.client.get().resource("pods").retries(2).do()
        self.assertEqual(caught.exception.retry_after, 1)

    async def test_the_wait_is_the_servers(self) -> None:
        clock = Clock()
        session = Session(clock, connect(self.config, reactor))
        self.addCleanup(session.close)
        self.will(answer(429, b"", b"Retry-After: 7"))
        self.will(OK)
        running = Deferred.fromCoroutine(RESTClient(session).get().abs_path("/x").do())
        while not clock.getDelayedCalls():
            await deferLater(reactor, 0.001)  # type: ignore[arg-type]
        clock.advance(6.9)
        self.assertEqual(len(self.server.requests), 1)
        clock.advance(0.2)
        self.assertEqual(await running, {"a": 1})

    async def test_a_server_that_fails_is_asked_later(self) -> None:
        """by all clients of a session, when the configuration says so."""
        clock = Clock()
        config = self.config.replace(backoff_base=2.0)
        session = Session.for_config(config, clock, transport=connect(self.config, reactor))  # type: ignore[arg-type]
        self.addCleanup(session.close)
        self.will(answer(503, b""))
        self.will(OK)
        with self.assertRaises(status.ServiceUnavailable):
            await RESTClient(session).get().abs_path("/x").do()
        running = Deferred.fromCoroutine(RESTClient(session).get().abs_path("/y").do())
        self.assertEqual([call.getTime() for call in clock.getDelayedCalls() if call.getTime() < 10], [2.0])
        self.assertEqual(len(self.server.requests), 1)
        clock.advance(2.0)
        self.assertEqual(await running, {"a": 1})

    async def test_warnings(self) -> None:
        self.will(answer(200, b"{}", b'Warning: 299 - "it is \\"old\\""', b'Warning: 299 - "two"'))
        await self.client.get().resource("pods").do()
        self.assertEqual(self.warnings_seen, [(299, "-", 'it is "old"'), (299, "-", "two")])
        self.assertEqual(parse_warnings("nonsense"), [])

    async def test_who_asks(self) -> None:
        client = self.make(
            user_agent="me/1", impersonate=Impersonation("jane", groups=("a", "b"), extra={"x/y": ("1",)})
        )
        self.will(OK)
        await client.get().resource("pods").do()
        head = self.server.requests[0][0].decode()
        for line in (
            "User-Agent: me/1",
            "Impersonate-User: jane",
            "Impersonate-Group: b",
            "Impersonate-Extra-x%2Fy: 1",
        ):
            self.assertIn(line, head)
        with self.assertRaises(ConfigError):
            self.make(impersonate=Impersonation(groups=("a",)))

    async def test_new_credentials_after_a_401(self) -> None:
        class Renewed:
            token = b"old"

            async def headers(self) -> Any:
                return [(b"Authorization", self.token)]

            async def certificate(self) -> None:
                return None

            def rejected(self) -> bool:
                self.token = b"new"
                return True

        client = self.make(credentials=Renewed())
        self.will(answer(401, b""))
        self.will(OK)
        await client.get().resource("pods").do()
        self.assertIn(b"Authorization: new", self.server.requests[1][0])
        self.will(answer(401, b""))
        self.will(answer(401, b""))
        with self.assertRaises(status.Unauthorized):
            await client.get().resource("pods").do()
        self.will(answer(401, b""))
        self.will(OK)
        self.assertEqual(await client.get().resource("pods").retries(0).do(), {"a": 1})

    async def test_a_request_has_a_time(self) -> None:
        with self.assertRaises(RequestTimeout):
            await self.client.get().resource("pods").timeout(0.05).do()
        await self.server.connections[0].lost

    async def test_cancelling_ends_the_connection(self) -> None:
        running = Deferred.fromCoroutine(self.client.get().resource("pods").do())
        while not self.server.requests:
            await deferLater(reactor, 0.001)  # type: ignore[arg-type]
        running.cancel()
        await self.assertFailure(running, CancelledError)
        await self.server.connections[0].lost

    async def test_a_watch(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        lines = b'{"type":"ADDED","object":{"n":1}}\n{"type":"MODIFIED","object":{"n":2}}\n{"ty'
        self.will(head, b"%x\r\n%s\r\n" % (len(lines), lines))
        watch = await self.client.get().resource("pods").watch()
        self.assertEqual(self.lines, ["GET /api/v1/pods?watch=true HTTP/1.1"])
        self.assertEqual([(await watch.next()), (await watch.next())], [("ADDED", {"n": 1}), ("MODIFIED", {"n": 2})])
        rest = (
            b'pe":"DELETED","object":{}}\n{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
        )
        self.server.connections[0].transport.write(b"%x\r\n%s\r\n" % (len(rest), rest))
        self.assertEqual(await watch.next(), ("DELETED", {}))
        with self.assertRaises(status.Expired):
            await watch.next()
        await self.server.connections[0].lost

    async def test_a_watch_that_is_closed_ends_its_connection(self) -> None:
        self.will(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        watch = await self.client.get().resource("pods").watch()
        waiting = Deferred.fromCoroutine(watch.next())
        watch.close()
        self.assertIsNone(await waiting)
        await self.server.connections[0].lost

    async def test_a_watch_that_ends_leaves_its_connection_to_others(self) -> None:
        self.will(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        watch = await self.client.get().resource("pods").watch()
        self.assertEqual([event async for event in watch], [])
        self.will(OK)
        await self.client.get().resource("pods").do()
        self.assertEqual(len(self.server.connections), 1)

    async def test_a_watch_that_breaks(self) -> None:
        self.will(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", None)
        watch = await self.client.get().resource("pods").watch()
        with self.assertRaises(ConnectionFailed):
            await watch.next()

    async def test_a_slow_reader_makes_the_server_wait(self) -> None:
        self.will(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        stream = await self.client.get().resource("pods").stream()
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        for _ in range(200):
            self.server.connections[0].transport.write(piece)
        while not stream._paused:
            await deferLater(reactor, 0.001)  # type: ignore[arg-type]
        self.assertLess(stream._size, 2 * 1024 * 1024)
        size = 0
        while size < 200 * 65536:
            size += len(await stream.read())
        stream.close()


class BackoffCase(TestCase):
    def waits(self, backoff: Backoff, clock: Clock) -> float:
        """How long the next request waits."""
        began = clock.seconds()
        waiting = Deferred.fromCoroutine(backoff.wait())
        while not waiting.called:
            clock.advance(0.5)
        return clock.seconds() - began

    def test_each_failure_makes_the_next_wait_longer(self) -> None:
        """up to a bound, and any other answer ends it."""
        clock = Clock()
        backoff = Backoff(clock, 1.0, 5.0)
        self.assertEqual(self.waits(backoff, clock), 0.0)
        found = []
        for code in (429, 500, 503, NO_ANSWER, 504):
            backoff.answered(code)
            found.append(self.waits(backoff, clock))
        self.assertEqual(found, [1.0, 2.0, 4.0, 5.0, 5.0])
        backoff.answered(404)
        self.assertEqual(self.waits(backoff, clock), 0.0)
        backoff.answered(500)
        clock.advance(11)
        backoff.answered(500)
        self.assertEqual(self.waits(backoff, clock), 1.0, "the last failure is long ago")

    def test_waits_that_make_no_sense(self) -> None:
        for first, longest in ((0.0, 1.0), (2.0, 1.0)):
            with self.assertRaises(ValueError):
                Backoff(Clock(), first, longest)


class TokenBucketCase(TestCase):
    def test_a_burst_and_then_the_rate(self) -> None:
        clock = Clock()
        bucket = TokenBucket(clock, 2.0, 3)
        passed: list[int] = []
        for number in range(6):
            Deferred.fromCoroutine(bucket.wait()).addCallback(lambda _, number=number: passed.append(number))
        self.assertEqual(passed, [0, 1, 2])
        clock.advance(0.5)
        self.assertEqual(passed, [0, 1, 2, 3])
        clock.advance(0.5)
        clock.advance(0.5)
        self.assertEqual(passed, [0, 1, 2, 3, 4, 5])

    def test_who_goes_away_leaves_its_token(self) -> None:
        clock = Clock()
        bucket = TokenBucket(clock, 1.0, 1)
        bucket.reserve()
        waiting = Deferred.fromCoroutine(bucket.wait())
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        clock.advance(1)
        self.assertEqual(bucket.reserve(), 0.0)


def status_bytes(tree: Any) -> bytes:
    return orjson.dumps(tree)
