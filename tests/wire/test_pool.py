"""Which idle connections are used again, and for how long they are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from kapi.request.streamed_body import StreamedBody
from kapi.wire import pool as module
from kapi.wire.answer import BadAnswer
from kapi.wire.http2 import pool as http2
from kapi.wire.http2.client import Http2Client, Unprocessed
from kapi.wire.http2.pool import NegotiatingPool
from kapi.wire.pool import FRESH_SECONDS, MAX_IDLE, MAX_IDLE_SECONDS, Pool
from tests.wire.http2_peer import Arriving


class Idle:
    """A connection that notes how it ends."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.ends: list[str] = []
        self.transport: Any = SimpleNamespace(loseConnection=lambda: self.ends.append("lose"))
        self.streams: dict[int, Any] = {}
        self.left = 0
        self.free = True

    def abort(self) -> None:
        self.ends.append("abort")

    def leave(self) -> None:
        self.left += 1

    def takes(self) -> bool:
        return self.free


def pool(seconds: float = MAX_IDLE_SECONDS) -> tuple[Any, Clock]:
    clock = Clock()
    clock.advance(1000.0)
    return Pool(clock, lambda factory: Deferred(), seconds), clock


def test_limits_are_those_of_upstreams_transport() -> None:
    assert (MAX_IDLE, MAX_IDLE_SECONDS, http2.HANDSHAKE_SECONDS) == (25, 90.0, 10.0)


def test_idle_connections_end_after_their_time() -> None:
    found, clock = pool()
    first, second = Idle(), Idle()
    found.free(first)
    clock.advance(14.0)
    found.free(second)
    for end in (75.0, 90.0):  # a look each 15 seconds
        clock.pump([1.0] * int(end + 1000.0 - clock.seconds()))
        assert (first.ends, second.ends) == ([], [])
    clock.pump([1.0] * 15)
    assert (first.ends, second.ends, found.idle) == (["lose"], ["lose"], [])
    assert clock.getDelayedCalls() == []


def test_a_connection_that_was_used_between_two_looks_stays() -> None:
    found, clock = pool(20.0)
    first = Idle()
    found.free(first)
    clock.advance(15.0)
    assert found._kept() is first
    clock.advance(1.0)
    found.free(first)
    assert first.idle_since == 1016.0
    clock.advance(14.0)
    clock.advance(6.0)
    assert first.ends == [] and len(clock.getDelayedCalls()) == 1
    clock.advance(9.0)
    assert first.ends == ["lose"]


@pytest.mark.parametrize(
    ("seconds", "unread", "used"),
    [(0.0, True, True), (0.9, True, True), (1.0, True, False), (1.0, False, True), (9.0, False, True)],
)
def test_the_last_used_connection_is_used_first_unless_its_server_has_closed_it(
    seconds: float, unread: bool, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FRESH_SECONDS == 1.0
    found, clock = pool()
    old, new = Idle(), Idle()
    monkeypatch.setattr(module, "has_unread_data", lambda transport: unread and transport is new.transport)
    for each in (old, new):
        found.free(each)
    clock.advance(seconds)
    assert found._kept() is (new if used else old)
    assert new.ends == ([] if used else ["abort"]) and old.ends == []
    assert found.idle == ([old] if used else [])
    found.idle.clear()
    assert found._kept() is None


def test_no_more_than_a_number_are_kept() -> None:
    found, _ = pool()
    kept = [Idle() for _ in range(MAX_IDLE)]
    for each in kept:
        found.free(each)
    more = Idle()
    found.free(more)
    assert (more.ends, found.idle) == (["lose"], kept)
    found.lost(kept[0])
    found.lost(more)
    assert found.idle == kept[1:]


def test_connections_that_are_used_once_are_not_kept() -> None:
    found, clock = pool(0.0)
    used = Idle()
    found.free(used)
    assert (used.ends, found.idle, clock.getDelayedCalls()) == (["lose"], [], [])


@pytest.mark.parametrize("open_ones", [0, 1])
def test_the_end_of_a_pool_waits_for_what_is_open(open_ones: int) -> None:
    found, clock = pool()
    idle, busy = Idle(), Idle()
    found.free(idle)
    found.open |= {busy} if open_ones else set()
    done: list[object] = []
    for _ in range(2):
        found.close().addCallback(lambda _: done.append("closed"))
    assert idle.ends == ["lose"] and clock.getDelayedCalls() == []
    assert len(done) == (0 if open_ones else 2)
    if open_ones:
        found.free(busy)
        assert busy.ends == ["lose"] and found.idle == []
        found.gone(busy)
    found.gone(Idle())
    assert len(done) == 2


def test_old_credentials_are_not_used_again() -> None:
    found, _ = pool()
    idle = Idle()
    found.free(idle)
    found.forget()
    assert (idle.ends, found.idle) == (["abort"], [])


@pytest.mark.parametrize(
    ("method", "body", "again"),
    [
        (b"GET", None, True), (b"HEAD", None, True), (b"GET", b"", False), (b"GET", b"x", False), (b"POST", None, False),
        (b"DELETE", b"x", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bad", [True, False])
def test_what_may_be_repeated_is_sent_again_when_an_idle_connection_has_ended(
    method: bytes, body: bytes | None, again: bool, bad: bool
) -> None:
    found, _ = pool()
    dials: list[Any] = []
    found._connect = lambda factory: dials.append(factory) or Deferred()
    asked: list[tuple[bytes, bool]] = []
    idle: Any = Idle()

    def ask(data: bytes, first: Deferred[Any], bodiless: bool) -> None:
        asked.append((data, bodiless))
        first.errback(BadAnswer("no HTTP") if bad else ConnectionLost())

    idle.ask = ask
    found.free(idle)
    failures: list[Any] = []
    found.send_head(method, method + b" / HTTP/1.1\r\n", body).addErrback(failures.append)
    framing = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
    assert asked == [(method + b" / HTTP/1.1\r\n" + framing + b"\r\n" + (body or b""), method == b"HEAD")]
    assert len(dials) == (again and not bad) and len(failures) == 1 - len(dials)


@pytest.mark.parametrize(
    ("idle_seconds", "length", "framing"),
    [
        (90.0, None, b""), (0.0, None, b"Connection: close\r\n"),
        (90.0, 5, b"Connection: close\r\nContent-Length: 5\r\n"), (0.0, 5, b"Connection: close\r\nContent-Length: 5\r\n"),
        (90.0, -1, b"Connection: close\r\nTransfer-Encoding: chunked\r\n"),
    ],
)  # fmt: skip
def test_a_connection_is_used_once_for_a_body_that_arrives_or_where_none_is_kept(
    idle_seconds: float, length: int | None, framing: bytes
) -> None:
    transport = StringTransport()

    def connect(factory: Any) -> Deferred[Any]:
        made = factory.buildProtocol(None)
        made.makeConnection(transport)
        return succeed(made)

    found = Pool(Clock(), connect, idle_seconds)
    body = None if length is None else StreamedBody(Arriving(), None if length < 0 else length, b"")
    found.send_head(b"GET", b"GET / HTTP/1.1\r\n", body)
    assert transport.value() == b"GET / HTTP/1.1\r\n" + framing + b"\r\n"


def test_a_pool_that_ends_sends_nothing_again() -> None:
    found, _ = pool()
    idle: Any = Idle()
    waiting: list[Deferred[Any]] = []
    idle.ask = lambda data, first, bodiless: waiting.append(first)
    found.free(idle)
    failures: list[Any] = []
    found.send_head(b"GET", b"GET / HTTP/1.1\r\n").addErrback(failures.append)
    found.open.add(idle)
    found.close()
    waiting[0].errback(ConnectionLost())
    assert failures[0].type is ConnectionLost


# -- HTTP/2


def negotiating() -> tuple[Any, Clock]:
    clock = Clock()
    clock.advance(1000.0)
    return NegotiatingPool(clock, lambda factory: Deferred()), clock


@pytest.mark.parametrize(
    ("since", "streams", "unread", "takes", "used"),
    [
        (999.5, 0, True, True, True), (999.0, 0, True, True, False), (999.0, 1, True, True, True), (0.0, 0, False, True, True),
        (999.5, 0, False, False, False), (999.5, 1, False, False, False),
    ],
)  # fmt: skip
def test_a_shared_connection_is_used_that_takes_requests_and_is_not_closed(
    since: float, streams: int, unread: bool, takes: bool, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "has_unread_data", lambda transport: unread)
    found, _ = negotiating()
    shared = Idle()
    shared.idle_since, shared.free = since, takes
    shared.streams = {1: None} if streams else {}
    found._shared.append(shared)
    assert found._usable() is (shared if used else None)
    assert shared.left == (takes and not used)


@pytest.mark.parametrize(
    ("idle", "busy", "leaves"), [(MAX_IDLE, 0, 0), (MAX_IDLE, 1, 0), (MAX_IDLE + 1, 0, 1), (MAX_IDLE + 1, 3, 1)]
)
def test_no_more_idle_shared_connections_are_kept(idle: int, busy: int, leaves: int) -> None:
    found, _ = negotiating()
    found._shared += [Idle() for _ in range(idle + busy)]
    for each in found._shared[:busy]:
        each.streams = {1: None}
    last = found._shared[-1]
    found.rests(last)
    assert last.left == leaves
    for _ in range(2):
        found.leaving(last)
    assert last not in found._shared


@pytest.mark.parametrize(("told", "expected"), [(0, 1), (1, 1), (7, 7)])
def test_a_new_connection_is_expected_to_take_at_least_one_request(told: int, expected: int) -> None:
    found, clock = negotiating()
    found.allows(told)
    for _ in range(expected):
        found.send_head(b"GET", b"GET / HTTP/1.1\r\n").addErrback(lambda why: None)
    assert len(found._dials) == 1
    found.send_head(b"GET", b"GET / HTTP/1.1\r\n").addErrback(lambda why: None)
    assert [len(dial.waiting) for dial in found._dials] == [expected, 1]


def test_a_connection_that_takes_long_to_be_made_is_joined_by_no_more_requests() -> None:
    found, clock = negotiating()
    for seconds, dials in ((0.0, 1), (0.9, 1), (0.1, 2), (0.5, 2)):
        clock.advance(seconds)
        found.send_head(b"GET", b"GET / HTTP/1.1\r\n")
        assert len(found._dials) == dials
    assert [len(dial.waiting) for dial in found._dials] == [2, 2]


@pytest.mark.parametrize("body", [None, b"x"])
def test_an_unprocessed_request_is_sent_again_at_longer_and_longer_intervals(body: bytes | None) -> None:
    found, clock = negotiating()
    sent: list[float] = []
    shared: Any = Idle()

    def ask(head: bytes, body: bytes | None, first: Deferred[Any], bodiless: bool) -> Any:
        sent.append(clock.seconds() - 1000.0)
        first.errback(Unprocessed("later"))
        return SimpleNamespace(abort=lambda: None)

    shared.ask = ask
    found._shared.append(shared)
    failures: list[Any] = []
    found.send_head(b"PUT", b"PUT / HTTP/1.1\r\n", body).addErrback(failures.append)
    clock.pump([0.5] * 1000)
    assert sent == [0.0, 0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0]
    assert [str(failure.value) for failure in failures] == ["later"] and failures[0].type is BadAnswer


def test_the_protocol_of_the_last_handshake_is_expected_of_the_next_one() -> None:
    found, _ = negotiating()
    assert isinstance(found._choose(b"h2"), Http2Client) and not found._http1
    for chosen in (b"http/1.1", None):
        assert not isinstance(found._choose(chosen), Http2Client) and found._http1
