"""Spans of requests by OpenTelemetry's SDK (upstream: apiserver ``endpoints/filters/traces.go``, ``filterlatency``).

For administrators and monitors the span of a request is a child of the client's span.  Other clients could force sampling by
``traceparent``, so their span is a root with a link to the client's span.  Filters and verbs have child spans; all end with the
request.  This module is imported only with ``--tracing-config-file``.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kapi.filters.chain import Filter, Handler, MaybeResponse
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.info import RequestInfo, confidential
from kapi.request.response import Response

_PROPAGATOR = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
_FIELDS = ("traceparent", "tracestate", "baggage")
_TRUSTED = frozenset(["system:masters", "system:monitoring"])
#: verb -> upstream's name of its span; watches have no such span
_VERBS = {
    "get": "Get",
    "list": "List",
    "create": "Create",
    "update": "Update",
    "patch": "Patch",
    "delete": "Delete",
    "deletecollection": "Delete",
}
_MAX_TEXT = 1024  # characters from a client in an attribute


def _headers(context: Context) -> dict[bytes, list[bytes]]:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, context)
    return {name.encode(): [value.encode()] for name, value in carrier.items()}


class _Call:
    def __init__(self, span: Span, context: Context, withholds: bool) -> None:
        self._span = span
        self._withholds = withholds  # whether texts of errors are left out, which may quote a confidential body
        self.headers = _headers(set_span_in_context(span, context))

    def event(self, name: str) -> None:
        self._span.add_event(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if value is not None:
            self._span.set_status(Status(StatusCode.ERROR, "" if self._withholds else str(value)[:_MAX_TEXT]))
        self._span.end()


class RequestTrace:
    """The open spans of a request, the innermost last."""

    __slots__ = ("_context", "_spans", "_tracer", "_withholds")

    def __init__(self, tracer: Tracer, span: Span, context: Context, withholds: bool) -> None:
        self._tracer = tracer
        self._withholds = withholds
        self._spans = [span]
        self._context = set_span_in_context(span, context)

    @property
    def headers(self) -> dict[bytes, list[bytes]]:
        return _headers(self._context)

    def begin(self, name: str, attributes: Mapping[str, str | int]) -> None:
        if self._spans[0].is_recording():
            span = self._tracer.start_span(name, self._context, attributes=attributes)
            self._spans.append(span)
            self._context = set_span_in_context(span, self._context)

    def call(self, name: str, attributes: Mapping[str, str | int]) -> _Call:
        span = self._tracer.start_span(name, self._context, SpanKind.CLIENT, attributes)
        return _Call(span, self._context, self._withholds)

    def end(self, code: int) -> None:
        root = self._spans[0]
        root.set_attribute("http.response.status_code", code)
        if code >= 500:
            root.set_status(Status(StatusCode.ERROR))
        for span in reversed(self._spans):
            span.end()


class RequestTracing:
    """The tracing filter, and wrappers that add spans.  ``seconds`` is the clock of ``ctx.received``."""

    def __init__(self, tracer: Tracer, seconds: Callable[[], float]) -> None:
        self._tracer = tracer
        self._seconds = seconds

    def filter(self, ctx: RequestContext) -> None:
        """Begins the request's span.  Comes after authentication, since its parent depends on the user."""
        carrier = {name: value for name in _FIELDS if (value := ctx.header(name)) is not None}
        came = _PROPAGATOR.extract(carrier, Context())
        context, links = came, ()
        user = ctx.user
        if user is None or _TRUSTED.isdisjoint(user.groups):
            given = get_current_span(came).get_span_context()
            links = (Link(given),) if given.is_valid else ()  # type: ignore[assignment]
            context = set_span_in_context(_NO_SPAN, came)
        late = max(0.0, self._seconds() - ctx.received) if ctx.received else 0.0
        span = self._tracer.start_span(
            span_name(ctx.method, ctx.info),
            context,
            SpanKind.SERVER,
            _attributes(ctx),
            links,
            time.time_ns() - int(late * 1e9),
        )
        info = ctx.info
        ctx.trace = RequestTrace(self._tracer, span, came, info is not None and confidential(info.group, info.resource))
        ctx.finishers.append(_end)

    def step(self, name: str, step: Filter) -> Filter:
        """Wraps ``step`` so that it begins a span ``name``."""

        def traced(ctx: RequestContext) -> MaybeResponse | Awaitable[MaybeResponse]:
            trace = ctx.trace
            if trace is not None:
                trace.begin(name, {})
            return step(ctx)

        return traced

    def around(self, handler: Handler) -> Handler:
        """Wraps ``handler`` so that it begins the span of its verb."""

        def traced(ctx: RequestContext) -> Response | Awaitable[Response]:
            trace, info = ctx.trace, ctx.info
            name = _VERBS.get(info.verb) if info is not None and info.is_resource else None
            if trace is not None and name is not None:
                trace.begin(name, _verb_attributes(ctx))
            return handler(ctx)

        return traced


_NO_SPAN = get_current_span(Context())  # the parent of a root


def _end(ctx: RequestContext, code: int) -> None:
    trace = ctx.trace
    if trace is not None:
        trace.end(code)


def span_name(method: str, info: RequestInfo | None) -> str:
    """The method and the pattern of the path, so that there are few different names."""
    if info is None or not info.is_resource:
        return method
    parts = ["apis" if info.group else "api", info.group, info.version]
    parts += ["namespaces/{:namespace}"] if info.namespace else []
    parts += [info.resource, "{:name}" if info.name else "", info.subresource]
    return f"{method} /" + "/".join(filter(None, parts))


def _attributes(ctx: RequestContext) -> Object:
    target = ctx.http.uri.decode("latin-1")
    return {
        "http.request.method": ctx.method,
        "http.target": target[:_MAX_TEXT],
        "url.scheme": "https",
        "url.path": ctx.path[:_MAX_TEXT],
        "user_agent.original": (ctx.header("user-agent") or "")[:_MAX_TEXT],
        "audit-id": ctx.audit_id[:64],
    }


def _verb_attributes(ctx: RequestContext) -> Object:
    info = ctx.info
    assert info is not None
    return {
        "audit-id": ctx.audit_id[:64],
        "method": ctx.method,
        "resource": info.resource,
        "scope": "resource" if info.name else "namespace" if info.namespace else "cluster",
        "url": ctx.path[:_MAX_TEXT],
        "user-agent": (ctx.header("user-agent") or "")[:_MAX_TEXT],
    }
