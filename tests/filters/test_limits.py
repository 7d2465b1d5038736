"""Too many requests at once: by plain limits, and by priority and fairness."""

from __future__ import annotations

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kapi.filters.max_in_flight import max_in_flight
from kapi.filters.priority_and_fairness import _time_to_wait, priority_and_fairness
from kapi.flowcontrol.concurrency import Concurrency
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import UserInfo
from tests.filters.requests import request
from tests.flowcontrol.controller_kit import ADMIN, ALICE, controller

PODS, POD = "/api/v1/namespaces/x/pods", "/api/v1/namespaces/x/pods/p"
READS = [("GET", PODS), ("GET", POD)]
WRITES = [("POST", PODS), ("PUT", POD), ("PATCH", POD), ("DELETE", POD), ("DELETE", PODS)]
LONG = [("GET", PODS + "?watch=1"), ("GET", POD + "/log"), ("POST", POD + "/exec"), ("GET", POD + "/proxy")]


class Limited:
    """Requests that pass the plain limits ``reads`` and ``writes``."""

    def __init__(self, reads: int, writes: int) -> None:
        self.check = max_in_flight(reads, writes)

    def begin(self, method: str, uri: str, user: UserInfo | None = ALICE) -> RequestContext | None:
        """None if it is refused."""
        ctx = request(uri, method, user=user)
        answer = self.check(ctx)
        if answer is None:
            return ctx
        assert isinstance(answer, Response)
        assert (answer.status, answer.body) == (429, b"Too many requests, please try again later.\n")
        assert answer.content_type == b"text/plain; charset=utf-8"
        assert list(answer.headers) == [(b"retry-after", b"1"), (b"x-content-type-options", b"nosniff")]
        return None


def end(ctx: RequestContext | None) -> None:
    assert ctx is not None
    for finish in ctx.finishers:
        finish(ctx, 200)


@pytest.mark.parametrize(("limits", "limited", "others"), [((2, 1), READS, WRITES), ((1, 2), WRITES, READS)])
def test_reads_and_writes_have_limits_of_their_own(
    limits: tuple[int, int], limited: list[tuple[str, str]], others: list[tuple[str, str]]
) -> None:
    for kind in limited:
        at = Limited(*limits)
        first, second = at.begin(*kind), at.begin(*kind)
        assert first is not None and second is not None
        assert [at.begin(*each) for each in limited] == [None] * len(limited)
        assert all(at.begin(*each) for each in LONG), "what lasts long is not limited"
        other = at.begin(*others[0])
        assert other is not None and at.begin(*others[0]) is None
        end(first)
        assert at.begin(*kind) is not None and at.begin(*kind) is None
        end(other)
        assert at.begin(*others[1]) is not None and at.begin(*others[0]) is None


def test_a_limit_of_0_is_none() -> None:
    reads, writes = Limited(0, 1), Limited(1, 0)
    assert all(reads.begin(*READS[0]) for _ in range(3)) and all(writes.begin(*WRITES[0]) for _ in range(3))
    assert reads.begin(*WRITES[0]) is not None and reads.begin(*WRITES[1]) is None
    assert writes.begin(*READS[0]) is not None and writes.begin(*READS[1]) is None


@pytest.mark.parametrize(("user", "passes"), [(ADMIN, True), (ALICE, False), (UserInfo("x"), False), (None, False)])
def test_masters_are_never_refused_and_take_no_place_of_others(user: UserInfo | None, passes: bool) -> None:
    at = Limited(1, 1)
    first = at.begin(*READS[0])
    more = at.begin(*READS[0], user)
    assert (more is not None) is passes
    end(first)
    if more is not None:  # it is not counted, neither now nor at its end
        second = at.begin(*READS[0])
        assert second is not None
        end(more)
        assert at.begin(*READS[0]) is None
        end(second)
    within = at.begin(*READS[0], ADMIN)
    assert within is not None and at.begin(*READS[0]) is None, "below the limit they are counted"


@pytest.mark.parametrize(
    ("deadline", "received", "default", "seconds"),
    [
        (0.0, 100.0, 15.0, 15.0), (0.0, 100.0, 59.0, 59.0), (0.0, 100.0, 61.0, 60.0),
        (140.0, 100.0, 15.0, 10.0), (140.0, 0.0, 15.0, 7.5), (99.0, 100.0, 15.0, 0.0), (100.0, 100.0, 15.0, 0.0),
        (340.0, 100.0, 15.0, 60.0), (344.0, 100.0, 15.0, 60.0), (336.0, 100.0, 15.0, 59.0),
    ],
)  # fmt: skip
def test_the_time_in_a_queue_is_a_quarter_of_that_until_the_deadline(
    deadline: float, received: float, default: float, seconds: float
) -> None:
    ctx, clock = request(), Clock()
    clock.advance(110.0)
    ctx.deadline, ctx.received = deadline, received
    assert _time_to_wait(ctx, default, clock) == seconds


@pytest.mark.parametrize(("method", "uri"), [*READS, *WRITES, *LONG, ("GET", "/version")])
def test_what_lasts_long_takes_no_seat_unless_it_is_a_watch(method: str, uri: str) -> None:
    made = controller()
    counted = Concurrency()
    check: Any = priority_and_fairness(made, lambda resource: None, made._reactor, concurrency=counted)
    ctx = request(uri, method, user=ALICE)
    assert check(ctx) is None
    assert ctx.info is not None
    watch = ctx.info.verb == "watch"
    seats = list(chain.from_iterable(level.queues.running for level in made.levels.values()))
    assert len(seats) == (not ctx.info.long_running or watch)
    assert bool(ctx.response_headers) is bool(seats)
    assert bool(ctx.release_seats) is bool(seats) and len(ctx.finishers) == len(seats)
    assert [counted.executing[kind].now for kind in ("readOnly", "mutating")] == [int(watch), 0]
    for _ in range(2):
        end(ctx)
        assert [counted.executing[kind].now for kind in ("readOnly", "mutating")] == [0, 0]
    assert not any(level.queues.running for level in made.levels.values()) and ctx.seats is None


def test_a_request_without_a_deadline_waits_a_quarter_of_the_usual_one() -> None:
    made = controller(total=2)
    made.levels["global-default"].set_current(1)
    check: Any = priority_and_fairness(made, lambda resource: None, made._reactor)
    assert check(request(PODS, user=ALICE)) is None
    answers: list[Any] = []
    Deferred.fromCoroutine(check(request(PODS, user=ALICE))).addCallback(answers.append)
    made._reactor.advance(14.9)
    assert answers == []
    made._reactor.advance(0.2)
    assert answers[0].status == 429


@pytest.mark.parametrize(
    ("method", "uri", "counted"),
    [(method, uri, True) for method, uri in WRITES[:-1]]  # not for the deletion of a collection, as upstream
    + [
        ("DELETE", PODS, False),
        ("GET", POD, False),
        ("GET", PODS, False),
        ("POST", "/version", False),
        ("GET", PODS + "?watch=1", False),
    ],
)
def test_the_watches_of_writes_are_counted(method: str, uri: str, counted: bool) -> None:
    made = controller()
    cache: Any = SimpleNamespace(watches=7, __len__=lambda: 0)
    check: Any = priority_and_fairness(made, lambda resource: cache if counted else None, made._reactor)
    check(request(uri, method, user=ALICE))
    found = [
        (sample.value, sample.labels)
        for family in made.meter.collect()
        for sample in family.samples
        if sample.name == "apiserver_flowcontrol_watch_count_samples_sum"
    ]
    assert found == [(7.0, {"priority_level": "global-default", "flow_schema": "global-default"})] * counted
