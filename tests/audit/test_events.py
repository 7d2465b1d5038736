"""Events of requests that go through the audit filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from kapi.audit.event import AuditEvent
from kapi.filters.audit import audit
from kapi.machinery import status
from kapi.process.slices import Slices
from kapi.request.response import Response
from kapi.request.user import UserInfo
from tests.audit.audit_kit import Bench
from tests.turns import one_turn


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    entries: list[Any] = []
    globalLogPublisher.addObserver(entries.append)
    yield entries
    globalLogPublisher.removeObserver(entries.append)


def test_the_fields_of_both_stages() -> None:
    bench = Bench()
    ctx = bench.begin(
        headers={"User-Agent": "test/1", "X-Forwarded-For": "192.0.2.7, nonsense", "X-Real-Ip": "192.0.2.7"}
    )
    ctx.annotations |= {"c": "3", "b": "2", "a": "1"}
    bench.finish(ctx, Response(200, b'{"kind":"Pod"}'))
    first, last = bench.sink.events
    assert first == {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "the-id",
        "stage": "RequestReceived",
        "requestURI": "/api/v1/namespaces/x/pods/p?pretty=true", "verb": "get",
        "user": {
            "username": "alice", "uid": "7", "groups": ["dev", "system:authenticated"],
            "extra": {"a": ["1", "x"], "b": ["2"]},
        },
        "sourceIPs": ["192.0.2.7", "10.1.2.3"], "userAgent": "test/1",
        "objectRef": {"resource": "pods", "namespace": "x", "name": "p", "apiVersion": "v1"},
        "requestReceivedTimestamp": "2023-11-14T22:13:20.250000Z", "stageTimestamp": "2023-11-14T22:13:20.250000Z",
    }  # fmt: skip
    assert last["stage"] == "ResponseComplete"
    assert last["responseStatus"] == {"metadata": {}, "code": 200}
    assert list(last["annotations"].items()) == [("a", "1"), ("b", "2"), ("c", "3")]
    assert list(last) == [
        "kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user", "sourceIPs", "userAgent",
        "objectRef",
        "responseStatus", "requestReceivedTimestamp", "stageTimestamp", "annotations",
    ]  # fmt: skip


def test_a_read_is_recorded_in_one_go_before_its_answer_leaves() -> None:
    bench = Bench(lenient=True)
    ctx = bench.begin()
    ctx.audit.answered(Response(200, b'{"kind":"Pod"}'))
    assert bench.sink.calls == []
    AuditEvent.complete([ctx.audit])
    assert (bench.sink.calls, bench.stages) == ([2], ["RequestReceived", "ResponseComplete"])
    bench.finish(ctx, None)
    assert bench.sink.calls == [2]


def test_answers_that_leave_together_are_recorded_together() -> None:
    bench = Bench({"level": "None", "verbs": ["delete"]}, {"level": "Metadata"}, lenient=True)
    read, write, unwanted = bench.begin(), bench.begin(method="PUT"), bench.begin(method="DELETE")
    refused = bench.begin(user=None)  # before the policy was asked
    assert bench.sink.calls == [1]
    contexts = (read, write, refused)
    for ctx in contexts:
        ctx.audit.answered(Response(200, b"{}"))
    assert unwanted.audit is None
    AuditEvent.complete([ctx.audit for ctx in contexts])
    assert (bench.sink.calls, bench.stages[1:]) == (
        [1, 3],
        ["RequestReceived", "ResponseComplete", "ResponseComplete"],
    )
    for ctx in contexts:
        bench.finish(ctx, None)
    assert (bench.sink.calls, bench.stages[-1]) == ([1, 3, 1], "ResponseStarted")


def test_an_event_that_cannot_be_encoded_takes_no_other_along(logs: list[Any]) -> None:
    bench = Bench(lenient=True)
    good, bad = bench.begin(), bench.begin()
    bad.annotations["a"] = "\ud800"
    for ctx in (bad, good):
        ctx.audit.answered(Response(200, b"{}"))
    AuditEvent.complete([bad.audit, good.audit])
    assert bench.stages == ["RequestReceived", "ResponseComplete"]
    assert [entry["log_format"] for entry in logs] == ["an audit event could not be encoded"]


def test_a_panic_is_recorded_before_its_answer_leaves() -> None:
    bench = Bench(lenient=True)
    ctx = bench.begin()
    ctx.audit.panicked(RuntimeError("oh"))
    ctx.audit.answered(Response(500, b"{}"))
    AuditEvent.complete([ctx.audit])
    assert bench.stages == ["RequestReceived", "Panic"]
    assert bench.sink.events[1]["responseStatus"]["message"] == "APIServer panic'd: oh"


def test_who_came_to_be_impersonated_is_told_only_by_the_later_stage() -> None:
    bench = Bench(lenient=True)
    ctx = bench.begin()
    ctx.original_user, ctx.user = ctx.user, UserInfo("bob")
    bench.finish(ctx, Response(200, b"{}"))
    first, last = bench.sink.events
    assert "impersonatedUser" not in first
    assert (first["user"]["username"], last["user"]["username"]) == ("alice", "alice")
    assert last["impersonatedUser"] == {"username": "bob"}


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_a_write_is_recorded_before_it_happens(method: str) -> None:
    bench = Bench(lenient=True)
    ctx = bench.begin(method=method)
    assert bench.stages == ["RequestReceived"]
    bench.finish(ctx, Response(200, b"{}"))
    assert bench.sink.calls == [1, 1]


def test_a_read_whose_answer_takes_time_is_recorded_before_it_begins_and_when_it_is_out() -> None:
    bench = Bench(lenient=True)
    ctx = bench.begin("/api/v1/pods")
    ctx.audit.answered(Response(200, [b"{}"] * 3))
    assert bench.stages == ["RequestReceived"]
    bench.finish(ctx, None)
    assert bench.stages == ["RequestReceived", "ResponseComplete"]


def test_a_read_that_nobody_answers_is_recorded_all_the_same() -> None:
    bench = Bench(lenient=True)
    bench.finish(bench.begin(), None)
    assert bench.stages == ["RequestReceived", "ResponseComplete"]


def test_an_error_is_recorded_with_its_status() -> None:
    bench = Bench(omitStages=["RequestReceived"])
    ctx = bench.begin()
    error = status.NotFound('pods "p" not found', details={"name": "p", "kind": "pods"})
    ctx.audit.status_object(error.status)
    bench.finish(ctx, Response(404, b"kind: Status", b"application/yaml"))
    assert bench.stages == ["ResponseComplete"]
    assert bench.sink.events[0]["responseStatus"] == {
        "metadata": {}, "status": "Failure", "message": 'pods "p" not found', "reason": "NotFound",
        "details": {"name": "p", "kind": "pods"}, "code": 404,
    }  # fmt: skip


def test_a_status_as_the_answer_of_a_delete() -> None:
    bench = Bench()
    ctx = bench.begin(method="DELETE")
    body = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"p","kind":"pods"}}'
    bench.finish(ctx, Response(200, body))
    assert bench.sink.events[1]["responseStatus"] == {
        "metadata": {}, "status": "Success", "details": {"name": "p", "kind": "pods"}, "code": 200,
    }  # fmt: skip


OBJ = {
    "kind": "ConfigMap", "apiVersion": "v1",
    "metadata": {"name": "c", "uid": "u", "resourceVersion": "5", "managedFields": [{"manager": "m"}]},
    "data": {"k": "v"},
}  # fmt: skip


def test_levels_say_which_bodies_are_kept() -> None:
    for level, kept in (
        ("Metadata", []),
        ("Request", ["requestObject"]),
        ("RequestResponse", ["requestObject", "responseObject"]),
    ):
        bench = Bench({"level": level})
        ctx = bench.begin("/api/v1/namespaces/x/configmaps", "POST")
        ctx.audit.request_object(OBJ)
        ctx.audit.response_object(lambda: {"other": 1})
        bench.finish(ctx, Response(201, [b'{"kind":"ConfigMap",', b'"data":{}}\n']))
        last = bench.sink.events[-1]
        assert [name for name in ("requestObject", "responseObject") if name in last] == kept
        assert list(last["objectRef"].items()) == [
            ("resource", "configmaps"), ("namespace", "x"), ("name", "c"), ("uid", "u"), ("apiVersion", "v1"),
            ("resourceVersion", "5"),
        ]  # fmt: skip
        if level == "RequestResponse":
            assert last["requestObject"] == OBJ
            assert last["responseObject"] == {"kind": "ConfigMap", "data": {}}


def test_a_secret_above_metadata_level_only_where_the_policy_says() -> None:
    rules = [{"level": "Metadata", "resources": [{"resources": ["secrets"]}]}, {"level": "RequestResponse"}]
    bench = Bench(*rules)
    ctx = bench.begin("/api/v1/namespaces/x/secrets", "POST")
    ctx.audit.request_object({"kind": "Secret", "metadata": {}, "data": {"password": "aHVudGVyMg=="}})
    ctx.audit.request_patch(b'{"data":{"password":"aHVudGVyMg=="}}')
    bench.finish(ctx, Response(201, b'{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}'))
    assert b"aHVudGVyMg" not in b"".join(bench.sink.raw)


def test_managed_fields_are_left_out() -> None:
    bench = Bench({"level": "RequestResponse"}, omitManagedFields=True)
    ctx = bench.begin("/api/v1/configmaps", "GET")
    ctx.audit.request_object(OBJ)
    listed = {"kind": "ConfigMapList", "metadata": {}, "items": [OBJ, OBJ]}
    bench.finish(ctx, Response(200, orjson.dumps(listed)))
    assert b"managedFields" not in b"".join(bench.sink.raw)
    assert len(bench.sink.events[-1]["responseObject"]["items"]) == 2
    table = {"kind": "Table", "rows": [{"cells": [1], "object": OBJ}, {"cells": [2], "object": None}]}
    ctx = bench.begin("/api/v1/configmaps", "GET")
    bench.finish(ctx, Response(200, orjson.dumps(table)))
    assert b"managedFields" not in bench.sink.raw[-1]


def test_what_is_left_of_an_answer_without_managed_fields() -> None:
    """What the objects have beside them, in their order, whatever else has a member of that name."""
    trimmed = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"managedFields": "mine", "u": "\u2028 \u00e9"}}
    whole = {**trimmed, "metadata": {"name": "x", "managedFields": [{"manager": "m"}]}}
    for answer, kept in (
        (whole, trimmed),
        ({"kind": "L", "metadata": {}, "items": [whole, whole]}, {"kind": "L", "metadata": {}, "items": [trimmed] * 2}),
        (
            {"kind": "Table", "rows": [{"cells": [1], "object": whole}, {"cells": [2], "object": None}]},
            {"kind": "Table", "rows": [{"cells": [1], "object": trimmed}, {"cells": [2], "object": None}]},
        ),
        ({"kind": "O", "managedFields": 1}, {"kind": "O", "managedFields": 1}),
    ):
        for indent in (None, orjson.OPT_INDENT_2):
            bench = Bench({"level": "RequestResponse"}, omitManagedFields=True)
            bench.finish(bench.begin(), Response(200, orjson.dumps(answer, option=indent)))
            assert bench.sink.raw[-1].count(b"\n") == 0
            assert orjson.dumps(bench.sink.events[-1]["responseObject"]) == orjson.dumps(kept)


@pytest.mark.parametrize("level", ["Request", "RequestResponse"])
def test_an_event_is_one_line_whatever_form_the_bodies_have(level: str) -> None:
    bench = Bench({"level": level})
    ctx = bench.begin(method="PATCH")
    ctx.audit.request_patch(b'{\n "a":\r\n "b\\nc"\n}')
    bench.finish(ctx, Response(200, b'{\n  "kind": "Pod"\n}\n'))
    assert b"\n" not in bench.sink.raw[-1]
    assert bench.sink.events[-1]["requestObject"] == {"a": "b\nc"}
    assert bench.sink.events[-1].get("responseObject") == ({"kind": "Pod"} if level == "RequestResponse" else None)


def test_a_long_patch_is_looked_at_in_steps() -> None:
    bench = Bench({"level": "Request"})
    ctx = bench.begin(method="PATCH")
    patch = orjson.dumps({"data": {f"k{number}": "x" * 100 for number in range(5000)}})
    clock = Clock()
    done, turns = Slices(clock, length=-1.0).call(ctx.audit.request_patch, patch), 0
    while not done.called:
        one_turn(clock)
        turns += 1
    assert turns > 5


def test_a_patch_is_kept_as_it_came() -> None:
    bench = Bench({"level": "Request"})
    for patch, kept in ((b'{"a": 1}', {"a": 1}), (b"a: 1\n", "a: 1\n")):
        ctx = bench.begin(method="PATCH")
        ctx.audit.request_patch(patch)
        bench.finish(ctx, Response(200, b"{}"))
        assert bench.sink.events[-1]["requestObject"] == kept


def test_names_of_a_logical_cluster_do_not_choose_the_level() -> None:
    """A policy names users of the process; a ServiceAccount of such a name is made in any cluster."""
    quiet = "system:serviceaccount:kube-system:controller"
    bench = Bench({"level": "None", "users": [quiet]}, {"level": "Metadata"})
    user = UserInfo(quiet, groups=("system:serviceaccounts",))
    for cluster, stages in (("", 0), ("own", 2)):
        ctx = bench.begin(user=None)
        ctx.user, ctx.cluster = user, cluster
        audit(bench.auditor)(ctx)
        bench.finish(ctx, Response(200, b"{}"))
        assert len(bench.stages) == stages
    assert bench.sink.events[0]["user"]["username"] == quiet


@pytest.mark.parametrize(("seconds", "slow"), [(0.5, False), (0.75, True)])
def test_a_slow_request_says_where_it_waited(seconds: float, slow: bool) -> None:
    bench = Bench()
    ctx = bench.begin(method="POST")
    ctx.add_wait("mutating-webhook", 0.25)
    ctx.add_wait("mutating-webhook", 0.125)
    ctx.add_latency("authorization", 0.0625)
    bench.clock.advance(seconds)
    bench.finish(ctx, Response(201, b"{}"))
    received, complete = (event.get("annotations") or {} for event in bench.sink.events)
    prefix = "apiserver.latency.k8s.io/"
    noted = {"authorization": "62.5ms", "mutating-webhook": "375ms", "total": "750ms"}
    assert complete == ({prefix + layer: text for layer, text in noted.items()} if slow else {})
    assert not received
    assert ctx.waited == 0.375


def test_what_panics_has_no_latency() -> None:
    bench = Bench()
    ctx = bench.begin(method="POST")
    bench.clock.advance(2)
    ctx.audit.panicked(ValueError("x"))
    bench.finish(ctx, Response(500, b""))
    assert "annotations" not in bench.sink.events[-1]
