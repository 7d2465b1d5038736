"""Objects at another server, over real sockets: who asks, what is sent, and what becomes of refusals and faults."""

from __future__ import annotations

import base64
import json
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred, inlineCallbacks
from twisted.internet.error import ConnectionDone
from twisted.internet.task import deferLater
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from kapi.machinery import status
from kapi.machinery.gvk import GroupResource, GroupVersion
from kapi.machinery.tree import Object
from kapi.servers.aggregator import objects
from kapi.servers.aggregator.availability import Target
from kapi.servers.aggregator.backend import Backends
from kapi.servers.aggregator.objects import RemoteObjects, RemoteResource, RemoteResources
from tests.certificates import self_signed
from tests.wire.http2_server import options

NAME, GV = "svc.ns.svc", GroupVersion("example.com", "v1")
VERBS = ["create", "delete", "get", "list", "patch", "watch"]
ENTRY = {"resource": "flunders", "responseKind": {"kind": "Flunder"}, "scope": "Namespaced", "verbs": VERBS}


class Answering(Resource):
    """Answers what it is told, and keeps what it was asked."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, Any]] = []
        self.answer: tuple[int, Any] = 200, {}
        self.users: set[str] = set()
        self.open: list[Any] = []

    def render(self, request: Any) -> Any:
        body = request.content.read()
        self.asked.append((request.method.decode(), request.uri.decode(), json.loads(body) if body else None))
        self.users.add(request.getHeader("x-remote-user"))
        request.setResponseCode(self.answer[0])
        if self.answer[1] is None:
            self.open.append(request)
            request.write(b"")
            return NOT_DONE_YET
        return json.dumps(self.answer[1]).encode()


class Lines(SynchronousTestCase):
    """Of a watch."""

    def setUp(self) -> None:
        self.lines = objects._Lines()
        self.transport = StringTransport()
        self.lines.makeConnection(self.transport)

    def next(self) -> bytes | None:
        return self.successResultOf(Deferred.fromCoroutine(self.lines.next()))

    def test_the_server_waits_while_there_is_one_that_was_not_taken(self) -> None:
        self.lines.dataReceived(b"a\n\nb\nc")
        self.assertEqual(self.transport.producerState, "paused")
        self.assertEqual(self.next(), b"a")
        self.assertEqual(self.transport.producerState, "paused")
        self.assertEqual(self.next(), b"b")
        self.assertEqual(self.transport.producerState, "producing")
        waiting = Deferred.fromCoroutine(self.lines.next())
        self.assertNoResult(waiting)
        self.lines.dataReceived(b"d\n")
        self.assertEqual(self.successResultOf(waiting), b"cd")

    def test_what_was_whole_before_the_end_is_taken(self) -> None:
        self.lines.dataReceived(b"a\nb")
        self.lines.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((self.next(), self.next(), self.next()), (b"a", None, None))

    def test_the_end_is_told_to_who_waits(self) -> None:
        waiting = Deferred.fromCoroutine(self.lines.next())
        self.lines.connectionLost(Failure(ConnectionDone()))
        self.assertIsNone(self.successResultOf(waiting))

    def test_who_does_not_wait_any_more_is_told_nothing(self) -> None:
        waiting = Deferred.fromCoroutine(self.lines.next())
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.lines.close()
        self.assertTrue(self.transport.disconnected)
        self.lines.dataReceived(b"a\n")
        self.lines.connectionLost(Failure(ConnectionDone()))


class Objects(TestCase):
    def setUp(self) -> None:
        pem, key = self_signed(NAME)
        self.server = Answering()
        site: Any = Site(self.server)  # type: ignore[no-untyped-call]
        self.port: Any = reactor.listenSSL(0, site, options(pem=pem + key), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(self.port.stopListening)
        self.backends = Backends(reactor)
        self.addCleanup(self.backends.close)
        spec = {"caBundle": base64.b64encode(pem).decode()}
        self.backends.set("v1.example.com", [Target("127.0.0.1", self.port.getHost().port, NAME)], spec, None)
        self.remote: dict[GroupVersion, list[Object]] = {GV: [ENTRY]}
        self.resources = RemoteResources(RemoteObjects(reactor, self.backends), self.remote)
        [self.flunders] = self.resources.all()

    def run_(self, coroutine: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(coroutine)

    @inlineCallbacks
    def test_requests_are_sent_as_ourselves(self) -> Any:
        self.server.answer = 200, {"kind": "Flunder"}
        found = yield self.run_(self.flunders.get("a b", "n"))
        self.assertEqual(found, {"kind": "Flunder"})
        yield self.run_(self.flunders.list("n"))
        yield self.run_(self.flunders.patch("f", {"metadata": {"finalizers": None}}, "n"))
        yield self.run_(self.flunders.delete("f", "n", {"preconditions": {"uid": "u"}}))
        root = "/apis/example.com/v1"
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"}}
        self.assertEqual(
            self.server.asked,
            [
                ("GET", f"{root}/namespaces/n/flunders/a%20b", None),
                ("GET", f"{root}/namespaces/n/flunders?limit=100", None),
                ("PATCH", f"{root}/namespaces/n/flunders/f", {"metadata": {"finalizers": None}}),
                ("DELETE", f"{root}/namespaces/n/flunders/f", options),
            ],
        )
        self.assertEqual(self.server.users, {"system:apiserver"})

    @inlineCallbacks
    def test_the_objects_of_a_namespace_are_deleted_at_once_or_one_by_one(self) -> Any:
        root = "/apis/example.com/v1/namespaces/n"
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        self.remote[GV] = [
            {**ENTRY, "verbs": ["delete", "deletecollection"]},
            {**ENTRY, "resource": "others", "verbs": ["delete", "list"]},
            {**ENTRY, "resource": "nodes", "scope": "Cluster"},
            {**ENTRY, "resource": "readonly", "verbs": ["get", "list"]},
        ]
        self.remote[GroupVersion("example.com", "v2")] = [ENTRY]
        at_once, singly = self.resources.in_namespaces()
        self.server.answer = 200, {"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}
        for resource in (at_once, singly):
            yield self.run_(resource.delete_collection("n", {"propagationPolicy": "Background"}))
        self.assertEqual((yield self.run_(at_once.list("n"))), [])
        self.assertEqual(
            self.server.asked,
            [
                ("DELETE", f"{root}/flunders", options),
                ("GET", f"{root}/others?limit=100", None),
                ("DELETE", f"{root}/others/a", options),
                ("DELETE", f"{root}/others/b", options),
            ],
        )

    def test_namespaces_do_not_wait_for_a_server_that_is_away(self) -> None:
        away = [GV]
        objects = RemoteObjects(reactor, self.backends)
        resources = RemoteResources(objects, self.remote, lambda: away)
        self.assertEqual(resources.in_namespaces(), [])
        away.clear()
        self.assertEqual([one.resource.resource for one in resources.in_namespaces()], ["flunders"])

    @inlineCallbacks
    def test_the_pages_of_a_list_are_one_list(self) -> Any:
        self.server.answer = 200, {"items": [{}], "metadata": {"continue": "x"}}
        waiting = self.run_(self.flunders.list("n"))
        while len(self.server.asked) < 3:
            yield deferLater(reactor, 0.005)  # type: ignore[arg-type]
        self.server.answer = 200, {"items": [{}]}
        found = yield waiting
        self.assertEqual(len(found), len(self.server.asked))
        self.assertEqual({uri.partition("&")[2] for _, uri, _ in self.server.asked[1:]}, {"continue=x"})

    @inlineCallbacks
    def test_a_list_without_end_is_an_error(self) -> Any:
        self.patch(objects, "MAX_PAGES", 3)
        self.server.answer = 200, {"items": [{}], "metadata": {"continue": "x"}}
        error = yield self.assertFailure(self.run_(self.flunders.list("n")), status.StatusError)
        self.assertEqual(error.message, "flunders.example.com: the list has more than 3 pages")
        self.assertEqual(len(self.server.asked), 3)

    @inlineCallbacks
    def test_refusals_are_the_errors_that_they_say(self) -> Any:
        for code, kind in ((404, status.NotFound), (409, status.Conflict), (403, status.StatusError)):
            self.server.answer = code, {"kind": "Status", "message": "no"}
            error = yield self.assertFailure(self.run_(self.flunders.get("f", "n")), kind)
            self.assertEqual((error.code, error.message), (code, "no"))

    @inlineCallbacks
    def test_a_server_that_is_away_is_unavailable(self) -> Any:
        self.backends.remove("v1.example.com")
        yield self.assertFailure(self.run_(self.flunders.get("f", "n")), status.ServiceUnavailable)

    @inlineCallbacks
    def test_events_come_one_by_one_until_the_end(self) -> Any:
        self.server.answer = 200, None
        seen: list[tuple[str, Object]] = []
        watching = self.run_(self.flunders.watch("7", lambda kind, obj: seen.append((kind, obj))))
        while not self.server.open:
            yield deferLater(reactor, 0.01)
        [request] = self.server.open
        for part in (b'{"type":"ADDED","object":{"a":1}}\n{"type":"DEL', b'ETED","object":{"b":2}}\n'):
            request.write(part)
            yield deferLater(reactor, 0.01)
        request.finish()
        yield watching
        self.assertEqual(seen, [("ADDED", {"a": 1}), ("DELETED", {"b": 2})])
        self.assertIn("watch=1&resourceVersion=7", self.server.asked[0][1])

    @inlineCallbacks
    def test_an_error_ends_a_watch_and_its_connection(self) -> Any:
        self.server.answer = 200, None
        watching = self.run_(self.flunders.watch("7", lambda kind, obj: None))
        while not self.server.open:
            yield deferLater(reactor, 0.01)
        [request] = self.server.open
        gone = request.notifyFinish()
        request.write(b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n')
        error = yield self.assertFailure(watching, status.StatusError)
        self.assertEqual(error.code, 410)
        yield self.assertFailure(gone, Exception)

    @inlineCallbacks
    def test_an_event_is_not_read_for_ever(self) -> Any:
        self.patch(objects, "MAX_EVENT_BYTES", 100)
        self.server.answer = 200, None
        watching = self.run_(self.flunders.watch("7", lambda kind, obj: None))
        while not self.server.open:
            yield deferLater(reactor, 0.01)
        [request] = self.server.open
        gone = request.notifyFinish()
        request.write(b"x" * 101)
        yield self.assertFailure(watching, ValueError)
        yield self.assertFailure(gone, Exception)

    def test_what_cannot_be_followed_is_left_alone(self) -> None:
        self.remote[GV] = [{**ENTRY, "verbs": ["get", "list"]}]
        self.assertEqual(self.resources.all(), [])
        self.remote[GV] = [ENTRY]
        self.remote[GroupVersion("example.com", "v2")] = [ENTRY]
        self.assertEqual([one.resource for one in self.resources.all()], [GroupResource("example.com", "flunders")])
        self.assertIsInstance(self.resources.find(GroupVersion("example.com", "v2"), "Flunder"), RemoteResource)
        self.assertIsNone(self.resources.find(GV, "Other"))
