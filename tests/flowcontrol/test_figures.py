"""What priority and fairness tells of itself: metrics, and looks into the queues."""

from __future__ import annotations

import inspect
from typing import Any

from twisted.internet.defer import Deferred

from kapi.filters.priority_and_fairness import priority_and_fairness
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.dumps import dump_levels, dump_queues, dump_requests
from kapi.request.response import Response
from tests.filters.requests import request
from tests.flowcontrol.controller_kit import ADMIN, ALICE, controller


def started(answer: Any) -> Deferred[Any]:
    """What a filter waits for, as a chain runs it."""
    assert inspect.iscoroutine(answer)
    return Deferred.fromCoroutine(answer)


def test_waiting_and_being_turned_away() -> None:
    made = controller(total=2)
    level = made.levels["global-default"]
    level.set_current(1)
    clock = made._reactor
    check = priority_and_fairness(made, lambda resource: None, clock)
    first = request("/api/v1/pods", user=ALICE)
    assert check(first) is None
    answers: list[Any] = []
    second = request("/api/v1/pods", user=ALICE)
    second.deadline, second.received = clock.seconds() + 40, clock.seconds()
    waiting = started(check(second))
    waiting.addCallback(answers.append)
    clock.advance(9.9)
    assert answers == []
    clock.advance(0.2)
    (answer,) = answers
    assert isinstance(answer, Response)
    assert (answer.status, answer.body) == (429, b"Too many requests, please try again later.\n")
    assert dict(answer.headers)[b"retry-after"] == b"1"
    assert made.meter.rejections == {("global-default", "global-default", "time-out"): 1}
    assert round(second.waited, 6) == 10.1, "a service level does not count it"
    third = started(check(request("/api/v1/pods", user=ALICE)))
    third.addCallback(answers.append)
    first.finishers[0](first, 200)
    assert answers[1] is None
    assert check(request("/api/v1/pods", user=ADMIN)) is None, "admins are exempt"


def test_metrics_have_upstreams_names() -> None:
    made = controller()
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    ctx = request("/api/v1/pods", user=ALICE)
    check(ctx)
    ctx.finishers[0](ctx, 200)
    families = {family.name: family for family in made.meter.collect()}
    assert families["apiserver_flowcontrol_nominal_limit_seats"].samples[0].labels == {"priority_level": "catch-all"}
    dispatched = families["apiserver_flowcontrol_dispatched_requests"].samples
    assert [(sample.labels, sample.value) for sample in dispatched] == [
        ({"priority_level": "global-default", "flow_schema": "global-default"}, 1)
    ]
    assert families["apiserver_flowcontrol_request_wait_duration_seconds"].samples[-1].value == 0


def test_what_passes_at_once_is_counted_as_what_waits_is() -> None:
    made = controller()
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    here = ("global-default", "global-default")
    for count in (2, 4):
        for _ in range(2):
            ctx = request("/api/v1/pods", user=ALICE)
            assert check(ctx) is None
            ctx.finishers[0](ctx, 200)
        for _ in range(2):  # looking changes nothing
            assert made.meter.dispatches == {here: count}
            assert samples(made, "dispatched_requests_total") == {here: count}
            assert samples(made, "work_estimated_seats_count") == {here: count}
            assert samples(made, "work_estimated_seats_sum") == {here: count}
            assert samples(made, "work_estimated_seats_bucket")[(*here, "1")] == count
            assert samples(made, "request_wait_duration_seconds_count") == {(*here, "true"): count}
            assert samples(made, "request_wait_duration_seconds_bucket")[(*here, "true", "0")] == count


def samples(made: FlowController, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(sample.labels.values()): sample.value
        for family in made.meter.collect()
        for sample in family.samples
        if sample.name == "apiserver_flowcontrol_" + name
    }


def crowded() -> FlowController:
    """One runs, one watch begins, one waits."""
    made = controller()
    made._reactor.advance(1_700_000_000.25)
    made.levels["global-default"].set_current(1)
    check = priority_and_fairness(made, lambda resource: None, made._reactor)
    assert check(request("/api/v1/namespaces/x/pods/p", user=ALICE)) is None
    started(check(request("/apis/apps/v1/deployments", user=ALICE)))
    assert check(request("/api/v1/pods?watch=1", user=ADMIN)) is None
    return made


def test_what_waits_and_runs_is_told_by_level_and_schema() -> None:
    made = crowded()
    here = ("global-default", "global-default")
    assert samples(made, "current_executing_requests") == {("exempt", "exempt"): 1, here: 1}
    assert samples(made, "current_executing_seats") == {("exempt", "exempt"): 1, here: 1}
    assert samples(made, "current_inqueue_requests") == {here: 1}
    assert samples(made, "request_queue_length_after_enqueue_count") == {here: 1}
    made.adjust()
    assert samples(made, "target_seats")[("global-default",)] == made.levels["global-default"].lower


def test_the_kind_of_a_request_is_told_when_it_ends() -> None:
    made = crowded()
    for level in made.levels.values():
        for running in list(level.queues.running):
            level.queues.finish(running)
    assert samples(made, "request_execution_seconds_count") == {
        ("exempt", "exempt", "watch"): 1,
        ("global-default", "global-default", "regular"): 1,
    }


def test_a_look_into_the_queues() -> None:
    made = crowded()
    levels = dump_levels(made).splitlines()
    assert levels[0].split() == [
        "PriorityLevelName,", "ActiveQueues,", "IsIdle,", "IsQuiescing,", "WaitingRequests,", "ExecutingRequests,",
        "DispatchedRequests,", "RejectedRequests,", "TimedoutRequests,", "CancelledRequests",
    ]  # fmt: skip
    rows = {line.split(",")[0]: [cell.strip() for cell in line.split(",")[1:]] for line in levels[1:]}
    assert rows["global-default"] == ["1", "false", "false", "1", "1", "1", "0", "0", "0"]
    assert rows["catch-all"] == ["0", "true", "false", "0", "0", "0", "0", "0", "0"]
    queues = [line for line in dump_queues(made).splitlines() if line.startswith("global-default,")]
    assert len(queues) == 128
    assert sum(int(line.split(",")[2]) for line in queues) == 1
    assert sum(int(line.split(",")[4]) for line in queues) == 1


def test_of_very_many_queues_the_used_ones_are_shown() -> None:
    made = crowded()
    level = made.levels["global-default"]
    level.queues.reconfigure(10_000_000, 2, 50)
    queues = [line for line in dump_queues(made).splitlines() if line.startswith("global-default,")]
    assert [int(line.split(",")[2]) for line in queues] == [1]


def test_a_look_at_the_requests() -> None:
    made = crowded()
    plain = dump_requests(made, lambda seconds: seconds, False).splitlines()
    assert plain[0].endswith("StartTime") and len(plain) == 4
    head, *rows = dump_requests(made, lambda seconds: seconds, True).splitlines()
    assert head.endswith("SubResource")
    cells = [[cell.strip() for cell in row.split(",")] for row in rows]
    by_verb = {row[11]: row for row in cells}
    assert sorted(by_verb) == ["get", "list", "watch"]
    waiting = by_verb["list"]
    assert waiting[0] == waiting[1] == "global-default" and int(waiting[2]) >= 0 and waiting[3] == "0"
    assert waiting[5:10] == ["2023-11-14T22:13:20.25Z", "1", "0", "0s", "0001-01-01T00:00:00Z"]
    assert waiting[10:] == ["alice", "list", "/apis/apps/v1/deployments", "", "", "apps/v1", "deployments", ""]
    assert by_verb["get"][3] == "-1" and by_verb["get"][12:15] == ["/api/v1/namespaces/x/pods/p", "x", "p"]
    assert by_verb["watch"][2] == "-1", "the exempt level has no queues"
