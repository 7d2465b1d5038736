"""The stream of one watch: what pauses it and ends it, and what it leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

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

Kind = TypeVar("Kind", bound=MemoryRequest)
CALLS = {"pause": "pauseProducing", "resume": "resumeProducing", "hold": "hold", "release": "release"}


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


def framed(api: MemoryAPI, kind: type[Kind], headers: dict[str, str] | None = None, query: str = "") -> Kind:
    request = kind("GET", f"{MAPS}?watch=1{query}", {"User-Agent": "tests/1", **(headers or {})})
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
@pytest.mark.parametrize("calls_before", [False, True])
def test_events_wait_for_the_client_and_the_server(
    api: MemoryAPI, calls: str, goes_on: bool, calls_before: bool
) -> None:
    request, stream = begun(api)
    if not calls_before:
        put(api, "first")
        api.turn()
    for call in calls.split():
        getattr(stream, CALLS[call])()
    if calls_before:
        put(api, "first")
    put(api, "second")
    api.turn()
    assert len(request.events) == (2 if goes_on else int(not calls_before))
    for call in ("resumeProducing", "release"):
        getattr(stream, call)()
    api.turn()
    assert [event["object"]["metadata"]["name"] for event in request.events] == ["first", "second"]


@pytest.mark.parametrize(("calls", "goes_on"), [("", True), ("pause", False), ("pause resume", True), ("hold", False)])
@pytest.mark.parametrize("converting", [False, True])
def test_events_wait_for_the_batch_before(api: MemoryAPI, calls: str, goes_on: bool, converting: bool) -> None:
    waiting = slices(api)
    put(api, "first", annotations={"a": "x" * 20_000})
    request, stream = begun(api, headers=TABLE)
    if not converting:
        waiting.pop()()
    for call in calls.split():
        getattr(stream, CALLS[call])()
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


@pytest.mark.parametrize("kind", [MemoryRequest, Framed, Messages])
def test_a_table_that_begins_later_names_its_columns_too(api: MemoryAPI, kind: type[MemoryRequest]) -> None:
    """Beside one that gets the same event without them."""
    before = framed(api, kind, TABLE)
    put(api, "a")
    api.turn()
    now = api.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    after = framed(api, kind, TABLE, f"&resourceVersion={now}")
    put(api, "b")
    api.turn()

    def columns(request: MemoryRequest) -> list[bool]:
        frames = request.framed if isinstance(request, Framed) else request.written.splitlines()
        return [b'"columnDefinitions":[{' in each for each in frames]

    assert (columns(before), columns(after)) == ([True, False], [True])


def test_what_was_encoded_for_one_is_not_encoded_again(api: MemoryAPI) -> None:
    """Not even in its turn: the second watch has read nothing meanwhile."""
    waiting = slices(api)
    (first, _), (second, paused) = begun(api, headers=TABLE), begun(api, headers=TABLE)
    for name in ("headers", "large"):
        if name == "large":
            paused.pauseProducing()
        put(api, name, annotations={"a": "x" * 20_000})
        api.turn()
        while waiting:
            waiting.pop()()
            api.turn()
    paused.resumeProducing()
    api.turn()
    assert (second.written, waiting, second.written.count(b"\n")) == (first.written, [], 2)


def test_a_version_that_is_not_reached_is_waited_for_only_with_its_objects(api: MemoryAPI) -> None:
    put(api, "a")
    match = "&resourceVersionMatch=NotOlderThan&resourceVersion=999999&sendInitialEvents="
    objects, changes = (begun(api, f"{match}{value}")[0] for value in ("true", "false"))
    assert (objects.startedWriting, changes.startedWriting) == (False, True)
    for _ in range(40):
        api.turn(0.1)
    assert [event["object"]["reason"] for event in objects.events] == ["Timeout"]
    assert objects.events[0]["object"]["message"].startswith("Timeout: Too large resource version: 999999, current: ")
    assert (bool(objects.finished), changes.written, bool(changes.finished)) == (True, b"", False)


def test_one_that_lasts_for_ever_has_no_timer(api: MemoryAPI) -> None:
    api.environment.min_request_timeout = 0
    calls = len(api.clock.getDelayedCalls())
    begun(api)
    assert len(api.clock.getDelayedCalls()) == calls


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")]
)
def test_rows_include_what_is_asked_for(api: MemoryAPI, include: str, kind: str) -> None:
    put(api, "a")
    query = f"&includeObject={include}" if include else ""
    [event] = begun(api, query, TABLE)[0].events
    assert event["object"]["rows"][0]["object"]["kind"] == kind
    [plain] = begun(api, query)[0].events
    assert plain["object"]["kind"] == "ConfigMap"


def test_without_rows_what_they_include_is_not_looked_at(api: MemoryAPI) -> None:
    put(api, "a")
    query = "&includeObject=Nonsense"
    assert begun(api, query)[0].code == 200
    refused = api.ask("GET", f"{MAPS}?watch=1{query}", headers=TABLE)
    assert (refused.code, refused.json["message"]) == (
        400,
        "Unable to convert to Table as requested: includeObject: Invalid value: "
        "\"Nonsense\": must be 'Metadata', 'Object', 'None', or empty",
    )


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
