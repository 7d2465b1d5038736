"""Stages of an event, and who writes them: streams, panics, identities, back ends."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kapi.audit.event import AuditEvent
from kapi.endpoints.writer import write
from kapi.filters.audit import audit, audit_init
from kapi.machinery import status
from kapi.request.response import SLICE, Response, StreamResponse
from kapi.request.user import UserInfo
from tests.audit.audit_kit import ALICE, Bench
from tests.filters.requests import request


def test_a_watch_starts_before_it_completes() -> None:
    bench = Bench()
    ctx = bench.begin("/api/v1/pods?watch=true")

    async def run(http: Any) -> None:
        pass

    ctx.audit.answered(StreamResponse(run))
    assert bench.stages == ["RequestReceived", "ResponseStarted"]
    bench.finish(ctx, None)
    assert bench.stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]


def test_a_client_with_the_whole_of_a_long_answer_finds_it_recorded() -> None:
    """The last bytes leave after the record: a program that reads the log after its answer has the event."""
    bench = Bench(omitStages=["RequestReceived"])
    ctx = bench.begin("/api/v1/pods")
    sent: list[tuple[bytes, list[str]]] = []

    producers: list[Any] = []
    http = ctx.http
    http.gone = False
    http.setResponseCode = http.begin = http.unregisterProducer = http.finish = lambda *_: None
    http.registerProducer = lambda producer, streaming: producers.append(producer)
    http.write = lambda data: sent.append((data[:1], bench.stages))
    response = Response(200, [b"a" * SLICE, b"b" * SLICE, b"c"])
    ctx.audit.answered(response)
    written = write(ctx, response)
    for _ in range(3):
        producers[0].resumeProducing()
    assert written.called
    bench.finish(ctx, None)
    assert sent == [(b"a", []), (b"b", []), (b"c", ["ResponseComplete"])]
    assert bench.stages == ["ResponseComplete"]
    assert bench.sink.events[0]["responseStatus"]["code"] == 200


def test_a_client_that_goes_away() -> None:
    bench = Bench()
    bench.finish(bench.begin(), None)
    assert bench.sink.events[-1]["responseStatus"] == {
        "metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200,
    }  # fmt: skip


def test_a_panic_has_its_own_stage() -> None:
    bench = Bench()
    ctx = bench.begin()
    ctx.audit.panicked(ValueError("boom"))
    bench.finish(ctx, Response(500, b"{}"))
    assert bench.stages == ["RequestReceived", "Panic"]
    assert bench.sink.events[-1]["responseStatus"]["message"] == "APIServer panic'd: boom"


def test_failed_authentication_is_recorded_by_itself() -> None:
    bench = Bench()
    ctx = bench.begin(user=None)
    ctx.audit.status_object(status.unauthorized().status)
    bench.finish(ctx, Response(401, b"{}"))
    assert bench.stages == ["ResponseStarted"]
    event = bench.sink.events[0]
    assert (event["user"], event["responseStatus"]["code"], event["responseStatus"]["reason"]) == (
        {},
        401,
        "Unauthorized",
    )


def test_what_the_policy_does_not_want_leaves_no_trace() -> None:
    bench = Bench({"level": "None"})
    ctx = bench.begin()
    assert ctx.audit is None
    bench.finish(ctx, Response(200, b"{}"))
    bench.finish(bench.begin(user=None), Response(401, b"{}"))
    assert bench.sink.events == []
    assert bench.meter.levels == {"None": 1}


def test_both_identities_of_an_impersonated_request() -> None:
    bench = Bench(omitStages=["RequestReceived"])
    ctx = bench.begin()
    ctx.original_user, ctx.user = ctx.user, UserInfo("bob", groups=("g",))
    ctx.impersonation_constraint = "impersonate:user-info"
    bench.finish(ctx, Response(200, b"{}"))
    event = bench.sink.events[0]
    assert (event["user"]["username"], event["impersonatedUser"]) == ("alice", {"username": "bob", "groups": ["g"]})
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}


def test_the_policy_is_asked_once_and_for_the_authenticated_user() -> None:
    bench = Bench({"level": "Metadata", "users": ["alice"]}, {"level": "None"}, omitStages=["RequestReceived"])
    ctx = bench.begin()
    ctx.original_user, ctx.user = ctx.user, UserInfo("bob")
    bench.finish(ctx, Response(200, b"{}"))
    assert bench.stages == ["ResponseComplete"] and bench.meter.levels == {"Metadata": 1}
    early = bench.begin(user=None, info=False)
    bench.finish(early, Response(500, b"{}"))
    assert bench.stages == ["ResponseComplete"], "nothing is known of it"


def test_a_strict_back_end_that_fails_refuses_the_request() -> None:
    bench = Bench(outcome=False)
    with pytest.raises(status.InternalError, match="failed to store audit event"):
        bench.begin()
    assert bench.meter.rejected == 1


@pytest.mark.parametrize("stored", [True, False])
def test_a_back_end_that_makes_the_request_wait(stored: bool) -> None:
    outcome: Deferred[bool] = Deferred()
    bench = Bench(outcome=outcome)
    ctx = request()
    ctx.http.uri = b"/"
    ctx.http.getClientAddress = lambda: None
    ctx.user = ALICE
    audit_init(bench.auditor)(ctx)
    waiting = audit(bench.auditor)(ctx)
    assert isinstance(waiting, Deferred)
    assert not waiting.called
    failures: list[object] = []
    waiting.addErrback(lambda why: failures.append(why.value.message))
    outcome.callback(stored)
    assert waiting.called and bench.meter.rejected == (not stored)
    assert failures == ([] if stored else ["Internal error occurred: failed to store audit event"])


def test_an_event_is_gone_when_its_request_is() -> None:
    """Without the garbage collector's help: that would cost more than the event."""
    gc.collect()
    gc.disable()
    try:
        before = [thing for thing in gc.get_objects() if isinstance(thing, AuditEvent)]
        bench = Bench()
        bench.finish(bench.begin(), Response(200, b"{}"))
        assert [thing for thing in gc.get_objects() if isinstance(thing, AuditEvent)] == before
    finally:
        gc.enable()


def test_legacy_lines() -> None:
    bench = Bench()
    lines: list[str] = []
    bench.sink.process = lambda *records: lines.extend([record.legacy() for record in records]) or True  # type: ignore[func-returns-value,method-assign]
    bench.finish(bench.begin(headers={"User-Agent": 'a "b"'}), Response(200, b"{}"))
    assert lines[1] == (
        '2023-11-14T22:13:20.25Z AUDIT: id="the-id" stage="ResponseComplete" ip="10.1.2.3" method="get" user="alice" '
        'groups="\\"dev\\",\\"system:authenticated\\"" as="<self>" asgroups="<lookup>" user-agent="a \\"b\\"" '
        'namespace="x" '
        'uri="/api/v1/namespaces/x/pods/p?pretty=true" response="200"'
    )


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("level", "shown"), [("Metadata", ["m"]), ("Request", ["m", "p"])])
def test_patches_of_webhooks_are_for_those_who_may_see_bodies(level: str, shown: list[str], method: str) -> None:
    bench = Bench({"level": level})
    ctx = bench.begin(method=method)
    ctx.annotations |= {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}
    ctx.annotations["mutation.webhook.admission.k8s.io/round_0_index_0"] = "m"
    ctx.annotations["patch.webhook.admission.k8s.io/round_0_index_0"] = "p"
    bench.finish(ctx, Response(200))
    assert list(bench.sink.events[-1]["annotations"].values()) == ["allow", "", *shown]
