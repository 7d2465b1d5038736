"""What spans say of requests."""

from __future__ import annotations

import contextlib
import time

import pytest

from kapi.request.response import Response
from kapi.request.user import UserInfo
from tests.filters.requests import request

pytest.importorskip("opentelemetry")  # an extra of the package

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kapi.filters.tracing import RequestTracing, _attributes, _verb_attributes, span_name


@pytest.mark.parametrize(
    ("uri", "name", "scope"),
    [
        ("/api/v1/pods", "GET /api/v1/pods", "cluster"),
        ("/api/v1/nodes/n", "GET /api/v1/nodes/{:name}", "resource"),
        ("/api/v1/namespaces/x/pods", "GET /api/v1/namespaces/{:namespace}/pods", "namespace"),
        ("/api/v1/namespaces/x/pods/p/log",
         "GET /api/v1/namespaces/{:namespace}/pods/{:name}/log", "resource"),
        ("/apis/apps/v1/namespaces/x/deployments/d",
         "GET /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}", "resource"),
        ("/healthz", "GET", ""),
    ],
)  # fmt: skip
def test_the_name_of_a_span_has_no_names_of_objects(uri: str, name: str, scope: str) -> None:
    ctx = request(uri)
    assert span_name("GET", ctx.info) == name
    if scope:
        found = _verb_attributes(ctx)
        assert (found["scope"], found["url"], found["method"]) == (scope, uri, "GET")
        assert ctx.info is not None and found["resource"] == ctx.info.resource
    assert span_name("GET", None) == "GET"


def test_texts_of_clients_are_shortened() -> None:
    agent = "a" * 2000
    ctx = request("/api/v1/namespaces/x/pods/" + "p" * 2000, headers={"user-agent": agent})
    ctx.audit_id = "i" * 100
    for found in (_attributes(ctx), _verb_attributes(ctx)):
        assert len(found["audit-id"]) == 64
        assert {len(found[name]) for name in ("user_agent.original", "user-agent", "http.target", "url.path", "url")
                if name in found} == {1024}  # fmt: skip


PARENT = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"


class Traced:
    """One request by ``user``, which takes its way through a step, its verb and a call."""

    def __init__(self, uri: str, user: UserInfo | None, code: int = 200, problem: Exception | None = None) -> None:
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracing = RequestTracing(provider.get_tracer("test"), lambda: 107.5)
        ctx = request(uri, headers={"traceparent": PARENT}, user=user)
        ctx.received = 100.0
        before = time.time_ns()
        tracing.filter(ctx)
        self.late = (before - 7_500_000_000, time.time_ns() - 7_500_000_000)
        assert ctx.trace is not None
        tracing.step("step", lambda ctx: None)(ctx)
        self.answer = tracing.around(lambda ctx: Response(200, b"{}"))(ctx)
        with contextlib.suppress(ValueError), ctx.trace.call("call", {"a": 1}) as call:
            self.headers = call.headers
            call.event("sent")
            if problem is not None:
                raise problem
        for finish in ctx.finishers:
            finish(ctx, code)
        self.ended = [each.name for each in exporter.get_finished_spans()]
        self.spans = {each.name: each for each in exporter.get_finished_spans()}

    def parent(self, name: str) -> str:
        parent = self.spans[name].parent
        return next(
            (each.name for each in self.spans.values() if parent and each.context.span_id == parent.span_id), ""
        )


PODS, SECRET = "/api/v1/namespaces/x/pods", "/api/v1/namespaces/x/secrets/s"
ROOT = "GET /api/v1/namespaces/{:namespace}/pods"


@pytest.mark.parametrize("group", ["system:masters", "system:monitoring", "", None])
def test_spans_of_administrators_and_monitors_alone_are_below_those_of_their_clients(group: str | None) -> None:
    found = Traced(PODS, None if group is None else UserInfo("u", groups=(group,)))
    root = found.spans[ROOT]
    assert root.kind is SpanKind.SERVER
    if group:
        assert root.parent is not None and (root.parent.span_id, root.links) == (int("b" * 16, 16), ())
    else:
        (link,) = root.links
        assert (root.parent, link.context.trace_id) == (None, int("a" * 32, 16))
    assert found.late[0] <= root.start_time <= found.late[1]


def test_spans_end_with_the_request_the_innermost_first() -> None:
    found = Traced(PODS, None)
    assert found.ended == ["call", "List", "step", ROOT]
    assert [found.parent(name) for name in found.ended] == ["List", "step", ROOT, ""]
    assert found.answer.body == b"{}"  # type: ignore[union-attr]
    call = found.spans["call"]
    assert (call.kind, dict(call.attributes or {}), [event.name for event in call.events]) == (
        SpanKind.CLIENT, {"a": 1}, ["sent"],
    )  # fmt: skip
    assert found.headers[b"traceparent"][0].decode().split("-")[2] == f"{call.context.span_id:016x}"
    assert (found.spans["List"].attributes or {})["resource"] == "pods"


@pytest.mark.parametrize("uri", ["/healthz", f"{PODS}?watch=1"])
def test_only_verbs_of_resources_have_a_span_and_watches_have_none(uri: str) -> None:
    assert Traced(uri, None).ended[:2] == ["call", "step"]


@pytest.mark.parametrize(("code", "status"), [(499, StatusCode.UNSET), (500, StatusCode.ERROR)])
def test_faults_of_the_server_are_errors(code: int, status: StatusCode) -> None:
    root = Traced(PODS, None, code).spans[ROOT]
    assert (root.status.status_code, (root.attributes or {})["http.response.status_code"]) == (status, code)


@pytest.mark.parametrize(("uri", "told"), [(PODS, "x" * 1024), (SECRET, None)])
def test_an_error_of_a_call_is_told_unless_it_may_quote_what_is_confidential(uri: str, told: str | None) -> None:
    status = Traced(uri, None, problem=ValueError("x" * 2000)).spans["call"].status
    assert (status.status_code, status.description or None) == (StatusCode.ERROR, told)
    assert Traced(uri, None).spans["call"].status.status_code is StatusCode.UNSET


def test_what_has_no_trace_is_not_traced() -> None:
    tracing = RequestTracing(TracerProvider().get_tracer("test"), lambda: 0.0)
    assert tracing.step("step", lambda ctx: None)(request()) is None
    assert tracing.around(lambda ctx: Response(200, b"{}"))(request()).body == b"{}"  # type: ignore[union-attr]


@pytest.mark.parametrize(("received", "late"), [(0.0, 0.0), (99.75, 0.25), (100.0, 0.0), (101.0, 0.0)])
def test_the_span_begins_when_the_request_came(received: float, late: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000_000)
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ctx = request(PODS)
    ctx.received = received
    RequestTracing(provider.get_tracer("test"), lambda: 100.0).filter(ctx)
    ctx.finishers[0](ctx, 200)
    (span,) = exporter.get_finished_spans()
    assert span.start_time == 5_000_000_000 - int(late * 1e9)
