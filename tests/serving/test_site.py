"""The connections of a port: from the handshake to the end, and at the stop of the server."""

from __future__ import annotations

import resource
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from kapi.serving import site as module
from kapi.serving.connections import HANDSHAKE_TIMEOUT, ConnectionErrors, max_connections
from kapi.serving.generic import _group_of
from kapi.serving.http1 import Channel
from kapi.serving.http2 import Http2
from kapi.serving.listen import raise_file_limit
from kapi.serving.site import Connections, Negotiator


class Transport:
    def __init__(self, negotiated: bytes | None = None, established: bool = True, problem: Any = None) -> None:
        self.negotiatedProtocol, self.established, self.problem = negotiated, established, problem
        self.calls: list[str] = []

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self.producer = producer

    def unregisterProducer(self) -> None: ...

    def write(self, data: bytes) -> None: ...

    def getPeer(self) -> Any:
        return SimpleNamespace(host="192.0.2.1")

    def loseConnection(self) -> None:
        self.calls.append("lose")

    def abortConnection(self) -> None:
        self.calls.append("abort")

    def end(self) -> None:
        self.calls.append("end")


class Bench:
    """A port at 1,000 seconds of the reactor."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.clock.advance(1000.0)
        outermost: Any = SimpleNamespace(resource=lambda: None)
        self.site = Connections(outermost, self.clock, **options)
        self.looks = 0
        runner: Any = SimpleNamespace(
            pending=SimpleNamespace(look=self.look, full=False), unflushed=None, turn=None, reactor=self.clock
        )
        self.site.runner = runner
        self.site.requestFactory = None  # type: ignore[assignment]

    def look(self) -> None:
        self.looks += 1

    def connect(self, **options: Any) -> Negotiator:
        made = self.site.buildProtocol(None)
        assert made is not None
        made.makeConnection(Transport(**options))  # type: ignore[arg-type]
        return made


def calls(connection: Negotiator) -> list[str]:
    return connection.transport.calls  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("negotiated", "kind"), [(b"h2", Http2), (b"http/1.1", Channel), (None, Channel)])
def test_the_first_bytes_make_the_channel_that_was_negotiated(negotiated: bytes | None, kind: type) -> None:
    bench = Bench()
    connection = bench.connect(negotiated=negotiated)
    assert bench.site.open == bench.site.watched == {connection}
    assert connection.quiet_since() == 1000.0
    connection.dataReceived(b"P" if negotiated == b"h2" else b"G")
    channel = connection.channel
    assert isinstance(channel, kind) and channel.owner is bench.site
    assert bench.site.watched == {channel} and connection.transport.producer is channel  # type: ignore[attr-defined]
    bench.site.closed(connection)
    assert bench.site.open == bench.site.watched == set()


def test_a_handshake_has_a_time() -> None:
    bench = Bench()
    connection = bench.connect()
    connection.sweep(1000.0 + HANDSHAKE_TIMEOUT - 0.5)
    assert calls(connection) == []
    connection.sweep(1000.0 + HANDSHAKE_TIMEOUT)
    assert calls(connection) == ["abort"]
    connection.transport = None  # type: ignore[assignment]
    connection.sweep(1e6)


@pytest.mark.parametrize(
    ("established", "problem", "counted", "told"),
    [(True, None, 0, {}), (True, "x", 0, {}), (False, None, 1, {}), (False, "x", 1, {("handshake",): 1})],
)
@pytest.mark.parametrize("first", [False, True])
def test_a_handshake_that_fails_is_counted(
    established: bool, problem: Any, counted: int, told: dict[Any, int], first: bool
) -> None:
    bench = Bench()
    connection = bench.connect(established=established, problem=problem)
    if first:
        connection.dataReceived(b"G")
    connection.connectionLost()
    assert bench.site.handshake_errors.rows[()] == (0 if first else counted)
    assert bench.site.errors.counter.rows == ({} if first else told)
    assert bench.site.open == set()


def test_deadlines_are_looked_at_each_second_some_connections_at_a_time() -> None:
    bench = Bench()
    swept: list[tuple[float, int]] = []
    for number in range(300):
        bench.site.watched.add(SimpleNamespaceWith(number, swept))  # type: ignore[arg-type]
    bench.site.startFactory()
    assert len(swept) == 128
    bench.clock.advance(0)
    assert len(swept) == 300
    assert {seconds for seconds, _ in swept} == {1000.0} and len({number for _, number in swept}) == 300
    swept.clear()
    bench.clock.advance(1.0)
    bench.clock.advance(0)
    assert {seconds for seconds, _ in swept} == {1001.0} and bench.looks == 2
    swept.clear()
    bench.clock.advance(5.1)
    assert (swept, bench.looks) == ([], 2), "the process was busy"
    bench.site.stopFactory()
    bench.clock.advance(5.0)
    assert swept == []


class SimpleNamespaceWith:
    def __init__(self, number: int, swept: list[tuple[float, int]]) -> None:
        self.number, self.swept = number, swept

    def sweep(self, now: float) -> None:
        self.swept.append((now, self.number))


def test_a_connection_that_fails_or_is_gone_is_looked_at_no_more() -> None:
    bench, swept = Bench(), []  # type: ignore[var-annotated]

    class Failing(SimpleNamespaceWith):
        def sweep(self, now: float) -> None:
            super().sweep(now)
            raise ValueError("a fault")

    failing, sound, gone = Failing(1, swept), SimpleNamespaceWith(2, swept), SimpleNamespaceWith(3, swept)
    bench.site.watched |= {failing, sound}  # type: ignore[arg-type]
    bench.site._unswept = [failing, sound, gone]  # type: ignore[list-item]
    bench.site._sweep_some()
    assert sorted(number for _, number in swept) == [1, 2] and bench.site.watched == {sound}


@pytest.mark.parametrize(("most", "count", "accepted"), [(2, 1, True), (2, 2, False), (0, 0, False)])
def test_there_are_no_more_connections_than_descriptors(
    most: int, count: int, accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "max_connections", lambda: most)
    bench = Bench()
    for _ in range(count):
        bench.connect()
    assert bench.site.full is not accepted
    assert (bench.site.buildProtocol(SimpleNamespace(host="a")) is not None) is accepted
    assert bench.site.errors.counter.rows == ({} if accepted else {("full",): 1})


@pytest.mark.parametrize(("given", "streams"), [(0, 100), (7, 7)])
def test_the_streams_of_a_connection(given: int, streams: int) -> None:
    assert Bench(max_streams=given).site.max_streams == streams
    assert Bench().site.max_streams == 100


# -- the stop


class Quiet(Channel):
    """A channel that has been quiet since some time."""

    endless = False

    def __init__(self, since: float) -> None:
        self.since, self.closed = since, 0

    @property
    def quiet_since(self) -> float:
        return self.since

    def close_when_idle(self) -> None:
        self.closed += 1


def test_connections_that_were_just_used_may_bring_another_request() -> None:
    bench = Bench()
    channels = []
    for since in (998.0, 998.1, float("inf"), float("-inf")):
        connection = bench.connect()
        connection.channel = Quiet(since)
        channels.append(connection.channel)
    fresh = bench.connect()
    old = bench.connect()
    old._since = 990.0
    done: list[Any] = []
    bench.site.close_idle().addCallback(done.append)
    assert [channel.closed for channel in channels] == [1, 0, 0, 1]
    assert [channel.leave_soon for channel in channels] == [False, True, True, False]
    assert (calls(old), calls(fresh), bench.site.closing) == (["lose"], [], True)
    bench.clock.advance(0.9)
    assert done == []
    bench.clock.advance(0.1)
    assert [channel.closed for channel in channels] == [2, 1, 1, 2] and len(done) == 1
    assert calls(fresh) == ["lose"]


def test_without_such_connections_the_stop_does_not_wait() -> None:
    bench = Bench()
    connection = bench.connect()
    connection.channel = Quiet(900.0)
    done: list[Any] = []
    bench.site.close_idle().addCallback(done.append)
    assert len(done) == 1 and connection.channel.closed == 1


@pytest.mark.parametrize("order", ["written", "closed", "endless"])
def test_the_stop_waits_until_all_is_sent(order: str) -> None:
    bench = Bench()
    first, second = bench.connect(), bench.connect()
    first.channel = Quiet(0.0)
    done: list[Any] = []
    bench.site.all_closed().addCallback(done.append)
    second.writeConnectionLost()
    assert done == []
    if order == "written":
        first.writeConnectionLost()
    elif order == "closed":
        first.channel = None
        first.connectionLost()
    else:
        first.channel.endless = True
        bench.site._check_closed()
    assert len(done) == 1
    bench.site._check_closed()
    bench.site.abort_all()
    assert calls(second) == ["end"]
    assert calls(first) == {"written": ["end"], "closed": [], "endless": ["abort"]}[order]


def test_the_stop_waits_for_nothing_when_nothing_is_open() -> None:
    bench = Bench()
    done: list[Any] = []
    bench.site.all_closed().addCallback(done.append)
    assert len(done) == 1


# -- faults of clients


def test_one_line_tells_of_the_faults_of_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, lines = ConnectionErrors(), []  # type: ignore[var-annotated]
    monkeypatch.setattr(
        ConnectionErrors, "_log", staticmethod(lambda reason, burst: lines.append((reason, burst.count)))
    )
    errors.add("request", "a", "first", 100.0)
    errors.add("request", "b", "second", 105.0)
    errors.add("timeout", "c", "third", 105.0)
    errors.sweep(109.9)
    assert lines == []
    errors.sweep(110.0)
    assert lines == [("request", 2)]
    errors.add("request", "d", "fourth", 111.0)
    errors.flush()
    assert lines[1:] == [("timeout", 1), ("request", 1)]
    errors.flush()
    assert len(lines) == 3 and errors.counter.rows == {("request",): 3, ("timeout",): 1}


@pytest.mark.parametrize(
    ("path", "known", "short", "found"),
    [
        ("/a", True, True, "known"), ("/a", True, False, "tree"), ("/a", False, True, "tree"), ("//a", True, True, "known"),
        ("//a", False, True, "end"), ("//a", True, False, "end"),
    ],
)  # fmt: skip
def test_where_the_resource_of_a_path_is_found(path: str, known: bool, short: bool, found: str) -> None:
    site = Bench().site
    site.resource, site.short_cut = "tree", short  # type: ignore[assignment]
    site.__dict__["_look_up"] = SimpleNamespace(find=lambda asked: "known" if known else None)
    site._outermost = SimpleNamespace(end=lambda: "end")  # type: ignore[assignment]
    assert site.getResourceFor(SimpleNamespace(context=SimpleNamespace(path=path))) == found  # type: ignore[arg-type, comparison-overlap]


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/api", ""), ("/api/v1/pods", ""), ("/apis", None), ("/apis/", None), ("/apis/apps", "apps"),
        ("/apis/apps/v1/deployments/d", "apps"), ("/version", None), ("/apix/apps", None),
    ],
)  # fmt: skip
def test_the_group_of_a_path(path: str, group: str | None) -> None:
    assert _group_of(path) == group


@pytest.mark.parametrize(("soft", "hard", "told"), [(1024, 4096, [(4096, 4096)]), (4096, 4096, [])])
@pytest.mark.parametrize("refused", [False, True])
def test_the_limit_of_open_files_is_raised_as_far_as_it_goes(
    soft: int, hard: int, told: list[tuple[int, int]], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[int, int]] = []

    def set_limit(kind: int, limit: tuple[int, int]) -> None:
        limits.append(limit)
        if refused:
            raise ValueError("not permitted")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    raise_file_limit()
    assert limits == told


@pytest.mark.parametrize(
    ("files", "most"),
    [(1024, 896), (384, 256), (383, 256), (300, 200), (3, 2), (resource.RLIM_INFINITY, sys.maxsize)],
)
def test_some_descriptors_are_kept_for_other_uses(files: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (files, files))
    assert max_connections() == most
