"""What clients do not take, or send slowly, has a bound for all of them together."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import orjson
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from kapi.codecs.negotiation import MediaType
from kapi.endpoints import encoding
from kapi.endpoints.writer import LARGE, SliceProducer
from kapi.filters.chain import FilterChain
from kapi.request.pending import MIN_COUNTED_BYTES, STALL_SECONDS, Pending
from kapi.serving.request import APIRequest
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed
from kapi.watchcache.caches import MAX_DECODED_BYTES

MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = {"Accept": "application/vnd.kubernetes.protobuf"}


class Unread(MemoryRequest):
    """A client that takes a slice only when it is told to."""

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer


def filled(api: MemoryAPI) -> None:
    for number in range(8):
        body = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * (LARGE // 6)}}
        assert api.ask("POST", MAPS, body).code == 201


def unread(api: MemoryAPI, headers: dict[str, str] | None = None) -> Unread:
    request = Unread("GET", MAPS, headers)
    api.runner.serve(request)
    api.clock.advance(0)
    return request


def test_an_answer_counts_until_it_is_taken(api: MemoryAPI) -> None:
    filled(api)
    whole = api.ask("GET", MAPS, headers=PROTOBUF).written
    request = unread(api, PROTOBUF)
    pending = api.runner.pending
    assert abs(pending.size - len(whole)) < 100
    producer = request._producer
    while not request.finished:
        producer.resumeProducing()
    assert request.written == whole
    assert pending.size == 0


def test_a_list_that_is_made_as_a_whole_counts_meanwhile(api: MemoryAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else any number of them could begin before the first one is there to be counted."""
    filled(api)
    counted = []
    real = encoding.encode

    def encode(tree: object, media: MediaType) -> bytes:
        counted.append(api.runner.pending.size)
        return real(tree, media)

    monkeypatch.setattr(encoding, "encode", encode)
    assert api.ask("GET", MAPS, headers={"Accept": "application/yaml"}).code == 200
    assert api.ask("GET", f"{MAPS}?limit=1", headers={"Accept": "application/yaml"}).code == 200
    assert counted[0] > LARGE
    assert (counted[1], api.runner.pending.size) == (0, 0)


class Tree(dict[str, Any]):
    """One that can be referred to weakly."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.parametrize("media", ["application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"])
def test_what_they_are_made_of_is_not_there_at_once(
    api: MemoryAPI, monkeypatch: pytest.MonkeyPatch, media: str
) -> None:
    """Sixty lists at a time left the memory of all their objects in pieces."""
    for number in range(200):
        api.ask("POST", MAPS, {"metadata": {"name": f"n{number}"}, "data": {"text": "x" * 8000}})
    trees: WeakSet[Tree] = WeakSet()
    most = 0

    def loads(data: bytes) -> Tree:
        nonlocal most
        tree = Tree(orjson.loads(data))
        trees.add(tree)
        most = max(most, len(trees))
        return tree

    monkeypatch.setattr("kapi.watchcache.entry.json_pieces.loads", loads)
    assert api.ask("GET", MAPS, headers={"Accept": media}).written.count(b"creationTimestamp") == 200
    kept = MAX_DECODED_BYTES // 8000
    assert 10 < most <= kept + 3


def test_lists_of_stored_objects_are_made_while_they_are_taken(api: MemoryAPI) -> None:
    filled(api)
    whole = api.ask("GET", MAPS).written
    requests = [unread(api) for _ in range(20)]
    assert api.runner.pending.size == 0
    for number in range(8):  # what is stored by then is another matter
        api.ask("DELETE", f"{MAPS}/m{number}")
    for request in requests:
        producer = request._producer
        while not request.finished:
            producer.resumeProducing()
        assert request.written == whole
    assert (api.runner.pending.size, api.runner.pending.cut_off) == (0, 0)


def test_a_list_that_is_not_read_counts_the_objects_that_it_keeps(api: MemoryAPI) -> None:
    """Else a client could write and list, write and list, and keep all that was ever stored."""
    filled(api)
    pending, size = api.runner.pending, len(api.ask("GET", MAPS).written)
    first, second = unread(api), unread(api)
    for number in range(8):
        api.ask("PUT", f"{MAPS}/m{number}", {"metadata": {"name": f"m{number}"}, "data": {"a": "y" * (LARGE // 6)}})
    third = unread(api)
    api.clock.advance(STALL_SECONDS)
    pending.look()
    assert abs(pending.size - 2 * size) < size // 10, "two of them keep the same objects"
    pending.limit = size + size // 5
    pending.look()
    assert ([each.gone for each in (first, second, third)], pending.full) == ([True, True, False], False)


def test_other_lists_are_refused_and_the_slowest_cut_off(api: MemoryAPI) -> None:
    filled(api)
    size = len(api.ask("GET", MAPS, headers=PROTOBUF).written)
    api.runner.pending.limit = 2 * size + size // 5
    requests = [unread(api, PROTOBUF) for _ in range(3)]
    assert api.runner.pending.full
    refused = api.ask("GET", MAPS, headers={"Accept": "application/yaml"})
    assert (refused.code, refused.responseHeaders.getRawHeaders("retry-after")) == (429, ["1"])
    assert api.ask("GET", f"{MAPS}?limit=1", headers=PROTOBUF).code == 200
    assert api.ask("GET", MAPS).code == 200
    api.clock.advance(STALL_SECONDS)
    assert unread(api).code == 200
    assert [request.gone for request in requests] == [True, False, False]
    assert not api.runner.pending.full


def test_a_client_that_leaves_leaves_nothing(api: MemoryAPI) -> None:
    filled(api)
    request = unread(api)
    assert isinstance(request._producer, SliceProducer)
    request.disconnect()
    assert api.runner.pending.size == 0


class Channel:
    def __init__(self) -> None:
        self.transport = StringTransport()
        self.transport.abortConnection = self.abort  # type: ignore[method-assign]
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Runner:
    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.served: list[APIRequest] = []

    def serve(self, request: APIRequest) -> None:
        self.served.append(request)


def sending(runner: Runner) -> APIRequest:
    request = type("Request", (APIRequest,), {"runner": runner})(Channel())
    request.gotLength(None)
    return request  # type: ignore[no-any-return]


def test_bodies_count_while_they_are_kept(api: MemoryAPI) -> None:
    runner = Runner(Pending(api.clock.seconds, 10 * MIN_COUNTED_BYTES))
    small, large = sending(runner), sending(runner)
    small.handleContentChunk(b"x" * MIN_COUNTED_BYTES)
    large.handleContentChunk(b"x" * MIN_COUNTED_BYTES)
    large.handleContentChunk(b"x")
    assert runner.pending.size == MIN_COUNTED_BYTES + 1
    large.requestReceived(b"POST", b"/", b"HTTP/1.1")
    assert runner.pending.size == MIN_COUNTED_BYTES + 1
    runner.served.clear()
    del large
    assert runner.pending.size == 0


def test_a_body_that_does_not_come_on_is_cut_off_and_more_of_them_are_refused(api: MemoryAPI) -> None:
    runner = Runner(Pending(api.clock.seconds, 3 * MIN_COUNTED_BYTES))
    slow, quick, last = (sending(runner) for _ in range(3))
    slow.handleContentChunk(b"x" * 2 * MIN_COUNTED_BYTES)
    api.clock.advance(STALL_SECONDS)
    quick.handleContentChunk(b"x" * 2 * MIN_COUNTED_BYTES)
    assert (slow.channel.aborted, quick.channel.aborted) == (True, False)
    quick.handleContentChunk(b"x" * 2 * MIN_COUNTED_BYTES)
    last.handleContentChunk(b"x" * 2 * MIN_COUNTED_BYTES)
    assert (quick.body_refused, last.body_refused, runner.pending.refused) == (False, True, 1)
    assert last.content.read() == b""  # type: ignore[union-attr]


def test_a_refused_body_is_answered_with_429(api: MemoryAPI) -> None:
    request = MemoryRequest("POST", MAPS, {"Content-Type": "application/json"}, b"")
    request.body_refused = True  # type: ignore[attr-defined]
    api.runner.serve(request)
    assert (request.code, request.responseHeaders.getRawHeaders("retry-after")) == (429, ["1"])


def test_a_body_that_goes_on_to_another_server_is_not_read_here(api: MemoryAPI) -> None:
    request = MemoryRequest("POST", MAPS, {"Content-Type": "application/json"}, b"{}")
    request.streamed = object()  # type: ignore[assignment]
    api.runner.serve(request)
    assert (request.code, request.json["reason"]) == (503, "ServiceUnavailable")


class LeftInTheQueue(SynchronousTestCase):
    def test_nothing_is_read_of_a_client_that_has_gone(self) -> None:
        """Its body is closed, which would be an unexpected error."""
        api: MemoryAPI = succeed(MemoryAPI.started())
        turn: Deferred[None] = Deferred()
        api.runner.chain = FilterChain([*api.runner.chain.filters, lambda _: turn], api.runner.chain.handler)
        request = MemoryRequest("POST", MAPS, {"Content-Type": "application/json"}, b'{"metadata":{"name":"a"}}')
        api.runner.serve(request)
        request.disconnect()
        turn.callback(None)
        self.assertEqual((request.written, self.flushLoggedErrors()), (b"", []))
