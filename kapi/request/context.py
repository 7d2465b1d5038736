"""The state of one request, passed from filter to filter and to the endpoint.

All state of a request is here: there are no thread locals and no service locator.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from kapi.machinery import warnings
from kapi.machinery.status import StatusError, out_of_time
from kapi.process.reactor import RequestReactor
from kapi.process.shares import Flow
from kapi.request.audit_record import AuditRecord
from kapi.request.bodies import BodySizes
from kapi.request.http import HTTPRequest
from kapi.request.info import RequestInfo
from kapi.request.pending import Pending
from kapi.request.trace import Trace
from kapi.request.user import UserInfo, tenant

Finisher = Callable[["RequestContext", int], None]


class Stream(Protocol):
    """The open connection of a watch to its client."""

    def hold(self) -> None:
        """Stops writing; events are kept."""

    def release(self) -> None:
        """Writes the kept events, and continues writing."""

    def end(self) -> None:
        """Ends the watch as at its timeout, since the server shuts down."""

    def fail(self, error: StatusError) -> None:
        """Ends the watch with an ERROR event."""


class Streams(Protocol):
    """A collection of open watches, such as a set."""

    def add(self, stream: Stream, /) -> None: ...

    def discard(self, stream: Stream, /) -> None: ...


#: the most seconds that count for work between two waits: if it took longer, the thread probably waited for a processor
_MAX_PIECE_SECONDS = 0.005


class RequestContext:
    """One request.  ``http`` is the twisted.web Request (or the in-memory one of the tests)."""

    __slots__ = (
        "http",
        "method",
        "path",
        "query",
        "info",
        "user",
        "original_user",
        "cluster",
        "audit_id",
        "audit",
        "warnings",
        "received",
        "deadline",
        "late",
        "engaged",
        "committed",
        "passed_on",
        "sandboxed",
        "interrupt",
        "flow",
        "no_protobuf",
        "cbor",
        "waited",
        "latencies",
        "_worked",
        "_resumed",
        "response_headers",
        "finishers",
        "annotations",
        "connection_closing",
        "reactor",
        "watches",
        "pending",
        "trace",
        "bodies",
        "dry_run",
        "field_validation",
        "seats",
        "release_seats",
        "impersonation_constraint",
        "answer",
    )

    reactor: RequestReactor  # set by the server

    def __init__(self, http: HTTPRequest, method: str, path: str, query: dict[str, list[str]]) -> None:
        self.http = http
        self.method = method  # upper case
        self.path = path  # decoded, without query
        self.query = query  # decoded names and values, in order
        self.info: RequestInfo | None = None  # set by the request-info filter
        self.user: UserInfo | None = None  # the effective user: after impersonation the impersonated one
        self.original_user: UserInfo | None = None  # the authenticated user, when impersonating
        self.cluster = ""  # the logical cluster of the request
        self.audit_id = ""
        self.audit: AuditRecord | None = None  # None when the request is not audited
        self.warnings: list[str] = []  # texts for Warning headers, without code and quotes
        self.received = 0.0  # reactor.seconds() at arrival
        self.deadline = 0.0  # absolute, in reactor seconds; 0 = none
        self.late: Callable[[], StatusError] = out_of_time  # makes the error of a request at its deadline
        self.engaged = False  # the computation has called ``engage``: it may take long
        self.committed = False  # the computation has changed shared state, and must run to its end
        self.sandboxed = False  # a page of another server must not act as a page of this server
        self.passed_on = False  # another server executes the request, so it can be cancelled here
        self.interrupt: BaseException | None = None  # the error that ends the computation at its next checkpoint
        self.flow: Flow | None = None  # the flow for which the thread's time is counted; set by priority and fairness
        self.no_protobuf = False  # it is a custom resource
        self.cbor = False  # the endpoint supports CBOR (feature gate CBORServingAndStorage)
        self.waited = 0.0  # seconds spent waiting in queues and for webhooks
        self.latencies: dict[str, float] | None = None  # seconds by layer, for layers in which the request waited
        self._worked = 0.0
        self._resumed = perf_counter()
        self.response_headers: list[tuple[bytes, bytes]] = []  # added to the answer
        #: called once with this context and the status code, after the answer; no closures, since a watch keeps them for long
        self.finishers: list[Finisher] = []
        self.annotations: dict[str, str] = {}  # audit annotations
        self.connection_closing = False
        self.watches: Streams | None = None  # the server's watches, which it ends at its stop
        self.pending: Pending | None = None  # the server's count of bytes that wait for clients
        self.trace: Trace | None = None  # only with tracing
        self.bodies: BodySizes | None = None  # counts the size of the request's body
        self.dry_run = ""  # the value of the metrics label
        self.field_validation: str | None = None  # as sent by the client, for metrics; None when absent
        self.seats: object = None  # its ``kapi.flowcontrol.queue.Request``, while it holds seats
        #: called with this context when the request needs no seats any more: a watch has begun, or an answer waits to be recorded
        self.release_seats: Callable[[RequestContext], None] | None = None
        self.impersonation_constraint = ""  # the impersonation mode, for the audit event
        # of the resource that is being rendered: a response, an awaitable of it, or a Failure
        self.answer: object = None

    def pause(self) -> None:
        """Records that the request begins to wait."""
        self._worked += self._piece()

    def resume(self) -> None:
        """Records that the request continues after a wait."""
        self._resumed = perf_counter()

    def worked(self) -> float:
        """Seconds of the thread's time that the request has used; call it only while the request runs."""
        return self._worked + self._piece()

    def _piece(self) -> float:
        return min(perf_counter() - self._resumed, _MAX_PIECE_SECONDS)

    def add_wait(self, layer: str, seconds: float) -> None:
        """Adds seconds in which the request waited in a queue or for a webhook."""
        self.waited += seconds
        self.add_latency(layer, seconds)

    def add_latency(self, layer: str, seconds: float) -> None:
        """Adds seconds of a layer, for the audit event of a slow request."""
        if self.latencies is None:
            self.latencies = {}
        self.latencies[layer] = self.latencies.get(layer, 0.0) + seconds

    def host_user(self) -> UserInfo | None:
        """The effective user; in a logical cluster the one whom the process itself has authenticated, or the cluster."""
        return tenant(self.cluster, self.original_user or self.user) if self.cluster else self.user

    def header(self, name: str) -> str | None:
        """The first value of a request header, or None."""
        value = self.http.getHeader(name)
        return value if value is None or isinstance(value, str) else value.decode("utf-8", "replace")

    def first(self, name: str, default: str = "") -> str:
        """The first value of a query option."""
        values = self.query.get(name)
        return values[0] if values else default

    def drop_response_header(self, name: bytes) -> None:
        """Removes a header that a filter has set (``name`` in lower case), since the handler sets its own."""
        self.response_headers = [header for header in self.response_headers if header[0] != name]

    def shrink(self) -> None:
        """Frees memory that is not needed any more once a long answer has begun."""
        self.query = {}
        self.response_headers = []
        shrink = getattr(self.http, "shrink", None)
        if shrink is not None:
            shrink()

    def warn(self, text: str) -> None:
        """Adds a warning header, once per text."""
        warnings.add(self.warnings, text)
