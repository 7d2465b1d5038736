"""The stream of one watch: what pauses it and ends it, and what it leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from kapi.endpoints.encoding import MIN_SHARED_BYTES
from kapi.endpoints.options import list_options
from kapi.endpoints.watch import timeout_of
from kapi.endpoints.watch_form import message
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.runtime.sliced import run_by
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.endpoints.test_watch import MAPS, TABLE, put
from tests.filters.requests import request as http_request


class Framed(MemoryRequest):
    """A request whose connection takes events that are framed already, apart in ``framed``; ``kind`` frames them."""

    kind = "chunk"

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.framed: list[bytes] = []

    def chunk_writer(self) -> Any:
        return self.framed.append if self.kind == "chunk" else None


class Messages(Framed):
    kind = "message"

    def message_writer(self) -> Any:
        return self.framed.append


def begun(api: MemoryAPI, query: str = "", headers: dict[str, str] | None = None) -> tuple[MemoryRequest, Any]:
    """A watch and its stream."""
    request = api.ask("GET", f"{MAPS}?watch=1{query}", headers=headers)
    api.turn()
    stream: Any = request.channel.producer
    return request, stream


def framed(api: MemoryAPI, kind: type[Framed], headers: dict[str, str] | None = None) -> Framed:
    request = kind("GET", f"{MAPS}?watch=1", {"User-Agent": "tests/1", **(headers or {})})
    api.runner.serve(request)
    api.turn()
    return request


@pytest.mark.parametrize(
    ("calls", "goes_on"),
    [
        ("", True), ("pause", False), ("pause resume", True), ("hold", False), ("hold release", True),
        ("pause hold resume", False), ("pause hold release", False), ("hold pause release resume", True),
        ("hold pause resume release", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("converting", [False, True])
def test_events_wait_for_the_client_the_server_and_the_batch_before(
    api: MemoryAPI, calls: str, goes_on: bool, converting: bool
) -> None:
    waiting = slices(api)
    put(api, "first", annotations={"a": "x" * 20_000})
    request, stream = begun(api, headers=TABLE)
    if not converting:
        waiting.pop()()
    for call in calls.split():
        getattr(stream, {"pause": "pauseProducing", "resume": "resumeProducing"}.get(call, call))()
    put(api, "second")
    api.turn()
    before = request.written
    if converting:
        assert before == b""
        waiting.pop()()
        api.turn()
        assert request.written.count(b"\n") == 1 + goes_on
    else:
        assert before.count(b"\n") == 1 + goes_on
    for call in ("resumeProducing", "release"):
        getattr(stream, call)()
    api.turn()
    rows = [event["object"]["rows"][0]["cells"][0] for event in request.events]
    assert (rows, waiting) == (["first", "second"], [])


def slices(api: MemoryAPI) -> list[Callable[[], None]]:
    """The computations that wait for their slice; each is called to make it."""
    waiting: list[Callable[[], None]] = []

    def call(work: Callable[[], Any]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred(lambda _: waiting.clear())

        def compute() -> None:
            try:
                done.callback(work())
            except Exception:
                done.errback()

        waiting.append(compute)
        return done

    run_by(api.clock, call)
    return waiting


ENDS: dict[str, Callable[[MemoryRequest, Any], object]] = {
    "client": lambda request, stream: request.disconnect(),
    "server": lambda request, stream: stream.end(),
    "error": lambda request, stream: stream.fail(status.internal("why")),
    "producer": lambda request, stream: stream.stopProducing(),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("large", [False, True])
def test_whatever_ends_it_ends_all_of_it(api: MemoryAPI, end: str, large: bool) -> None:
    """Its watch, its timer, and what is computed for it."""
    waiting = slices(api)
    put(api, "first", annotations={"a": "x" * 20_000} if large else {})
    calls = len(api.clock.getDelayedCalls())
    request, stream = begun(api, "&timeoutSeconds=60", TABLE)
    channel: Any = request.channel
    written = request.written
    assert (len(waiting), written.count(b"\n")) == (int(large), int(not large))
    assert len(api.clock.getDelayedCalls()) == calls + 1
    assert stream in api.runner.watches
    ENDS[end](request, stream)
    assert stream.done.called
    assert (waiting, len(api.clock.getDelayedCalls()), api.runner.watches) == ([], calls, set())
    put(api, "second")
    for call in ("hold", "release", "pauseProducing", "resumeProducing", "end", "stopProducing"):
        getattr(stream, call)()
    stream.fail(status.internal("later"))
    api.turn(90)
    ended = orjson.dumps(status.internal("why").status) + b"}\n" if end == "error" else b""
    assert request.written == written + (b'{"type":"ERROR","object":' + ended if ended else b"")
    assert (bool(request.finished), channel.producer is None) == (end in ("server", "error"), end != "producer")


class Failing(SynchronousTestCase):
    def test_an_event_that_cannot_be_encoded_in_its_slice_ends_the_watch(self) -> None:
        api: MemoryAPI = succeed(MemoryAPI.started())
        waiting = slices(api)
        put(api, "first", annotations={"a": "x" * 20_000})
        request, stream = begun(api, headers=TABLE)
        self.patch(type(stream._form), "encode", lambda *of, **named: 1 / 0)
        waiting.pop()()
        self.assertTrue(request.finished)
        self.assertEqual((request.written, api.runner.watches), (b"", set()))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


@pytest.mark.parametrize("kind", [Framed, Messages])
def test_events_are_framed_for_the_connection(api: MemoryAPI, kind: type[Framed]) -> None:
    def content(frame: bytes) -> bytes:
        if kind is Framed:
            size, _, rest = frame.partition(b"\r\n")
            assert rest.endswith(b"\r\n") and len(rest) == int(size, 16) + 2
            return rest[:-2]
        lines = frame[frame.index(b"{") :]
        assert message(lines, False) == frame
        return lines

    large = "x" * MIN_SHARED_BYTES
    plain, table = framed(api, kind), framed(api, kind, TABLE)
    put(api, "small")
    api.turn()
    api.ask("POST", MAPS, {"metadata": {"name": "large"}, "data": {"large": large}})
    api.turn()
    assert (plain.chunks, table.chunks) == ([], [])
    first, *pieces = plain.framed
    assert len(pieces) == 3  # nothing is copied
    events = [orjson.loads(content(frame)) for frame in (first, b"".join(pieces))]
    assert [event["object"]["metadata"]["name"] for event in events] == ["small", "large"]
    assert events[1]["object"]["data"] == {"large": large}
    tables = [orjson.loads(content(frame))["object"] for frame in table.framed]
    assert [(bool(one["columnDefinitions"]), one["rows"][0]["cells"][0]) for one in tables] == [
        (True, "small"),
        (False, "large"),
    ]


def test_what_is_sent_is_counted_by_its_size_for_each_watch(api: MemoryAPI) -> None:
    """Small and large objects, which are sent in other ways."""
    for _ in range(2):
        begun(api)
    sent = api.registry.stores[GroupResource("", "configmaps")].cache.sent["v1"]
    api.ask("POST", MAPS, {"metadata": {"name": "large"}, "data": {"large": "x" * MIN_SHARED_BYTES}})
    put(api, "small")
    api.turn()
    *counts, total = sent.row
    assert counts[0] == 2 and sum(counts) == 4
    written = begun(api)[0].written
    assert total == 2 * len(written)


@pytest.mark.parametrize(
    ("query", "from_start"),
    [
        ("", True), ("&resourceVersion=0", True), ("&resourceVersion={now}", False),
        ("&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", False),
        ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", False),
        ("&resourceVersion={now}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", True),
    ],
)  # fmt: skip
def test_where_it_begins(api: MemoryAPI, query: str, from_start: bool) -> None:
    put(api, "before")
    now = api.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    request, _ = begun(api, query.format(now=now))
    put(api, "after")
    api.turn()
    names = [event["object"]["metadata"]["name"] for event in request.events]
    assert names == ["before", "after"][not from_start :]


def test_a_name_and_a_namespace_select(api: MemoryAPI) -> None:
    put(api, "a")
    put(api, "b")
    api.ask("POST", MAPS.replace("/n/", "/m/"), {"metadata": {"name": "a"}})
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    for path, wanted in (
        (f"{MAPS}?watch=1", ["n/a", "n/b"]),
        (f"{MAPS}?watch=1&fieldSelector=metadata.name=a", ["n/a"]),
        ("/api/v1/configmaps?watch=1&fieldSelector=metadata.name=a", ["m/a", "n/a"]),
        ("/api/v1/configmaps?watch=1&fieldSelector=metadata.name!=a", ["n/b"]),
        ("/api/v1/namespaces?watch=1", ["/n"]),
        ("/api/v1/watch/namespaces/n?resourceVersion=0", ["/n"]),
    ):
        request = api.ask("GET", path)
        api.turn()
        found = [event["object"]["metadata"] for event in request.events]
        assert [f"{each.get('namespace', '')}/{each['name']}" for each in found] == wanted


@pytest.mark.parametrize(
    ("seconds", "least", "range"),
    [
        (None, 100, (100, 200)), (0, 100, (100, 200)), (1, 100, (1, 1)), (-1, 100, (0, 0)), (None, 0, (math.inf, math.inf)),
        (3, 0, (3, 3)),
    ],
)  # fmt: skip
def test_how_long_it_lasts(
    monkeypatch: pytest.MonkeyPatch, seconds: int | None, least: int, range: tuple[float, float]
) -> None:
    """Upstream: ``nextTimeout`` of ``handlers/get.go``, but that 0 for the least is no limit."""
    for part, wanted in zip((0.0, 1.0), range, strict=True):
        monkeypatch.setattr("random.random", lambda part=part: part)
        query = "" if seconds is None else f"&timeoutSeconds={seconds}"
        assert timeout_of(list_options(http_request(f"{MAPS}?watch=1{query}")), least) == wanted
