"""The state of one request, handed from filter to filter and to the endpoint.

It is the only thing that travels with a request: no thread locals, no service locator.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from kapi.machinery import warnings
from kapi.machinery.status import StatusError
from kapi.request.audit_record import AuditRecord
from kapi.request.bodies import BodySizes
from kapi.request.flow import Flow
from kapi.request.http import HTTPRequest
from kapi.request.info import RequestInfo
from kapi.request.pending import Pending
from kapi.request.reactor import RequestReactor
from kapi.request.trace import Trace
from kapi.request.user import UserInfo

Finisher = Callable[["RequestContext", int], None]


class Stream(Protocol):
    """A watch's way to its client."""

    def hold(self) -> None:
        """Nothing is written from now on."""

    def release(self) -> None:
        """What has come meanwhile is written, then what comes."""

    def end(self) -> None:
        """Ends it properly: the server is shutting down."""

    def fail(self, error: StatusError) -> None:
        """Its last event is an error."""


class Streams(Protocol):
    """Where watches that are under way are kept: a set, for one."""

    def add(self, stream: Stream, /) -> None: ...

    def discard(self, stream: Stream, /) -> None: ...


#: seconds of work without a wait that are held against a request: in more, the thread itself has waited for a processor
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
        "audit_id",
        "audit",
        "warnings",
        "received",
        "deadline",
        "engaged",
        "committed",
        "passed_on",
        "interrupt",
        "flow",
        "no_protobuf",
        "waited",
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
        "watch_started",
        "impersonation_constraint",
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
        self.audit_id = ""
        self.audit: AuditRecord | None = None  # None when the request is not audited
        self.warnings: list[str] = []  # texts for Warning headers, without code and quotes
        self.received = 0.0  # reactor.seconds() at arrival
        self.deadline = 0.0  # absolute, in reactor seconds; 0 = none
        self.engaged = False  # its computation may take long
        self.committed = False  # it has changed what others see, and runs to its end
        self.passed_on = False  # another server does it: nothing here is torn apart when it is given up
        self.interrupt: BaseException | None = None  # why its computation is to end at the next checkpoint
        self.flow: Flow | None = None  # for whom the thread works, once priority and fairness has found it
        self.no_protobuf = False  # the resource is a custom one
        self.waited = 0.0  # seconds for which others were waited for: queues and webhooks
        self._worked = 0.0
        self._resumed = perf_counter()
        self.response_headers: list[tuple[bytes, bytes]] = []  # added to whatever answers
        #: called once with this and the status code when the answer is out; shared functions, as a watch keeps them long
        self.finishers: list[Finisher] = []
        self.annotations: dict[str, str] = {}  # audit annotations
        self.connection_closing = False
        self.watches: Streams | None = None  # the server's, to be ended when it stops
        self.pending: Pending | None = None  # the server's count of what waits for clients
        self.trace: Trace | None = None  # only with tracing
        self.bodies: BodySizes | None = None  # where the size of its body is counted
        self.dry_run = ""  # as metrics name it
        self.field_validation: str | None = None  # as the client wrote it, for metrics; None when it did not
        self.seats: object = None  # what it holds seats with: priority and fairness knows what that is
        #: called with this when the watch is under way, for from then on it holds no seats
        self.watch_started: Callable[[RequestContext], None] | None = None
        self.impersonation_constraint = ""  # by which permission its user is impersonated

    def pause(self) -> None:
        """The request begins to wait."""
        self._worked += self._piece()

    def resume(self) -> None:
        """The request goes on."""
        self._resumed = perf_counter()

    def worked(self) -> float:
        """Seconds of the thread's time that the request has had, asked while it is at work."""
        return self._worked + self._piece()

    def _piece(self) -> float:
        return min(perf_counter() - self._resumed, _MAX_PIECE_SECONDS)

    def add_wait(self, seconds: float) -> None:
        """Some seconds were not this server's."""
        self.waited += seconds

    def header(self, name: str) -> str | None:
        """The first value of a request header, or None."""
        value = self.http.getHeader(name)
        return value if value is None or isinstance(value, str) else value.decode("utf-8", "replace")

    def first(self, name: str, default: str = "") -> str:
        """The first value of a query option."""
        values = self.query.get(name)
        return values[0] if values else default

    def drop_response_header(self, name: bytes) -> None:
        """Takes back what a filter has set (``name`` in lower case): the handler says it itself."""
        self.response_headers = [header for header in self.response_headers if header[0] != name]

    def shrink(self) -> None:
        """The answer has begun and will take long: lets go of what only its beginning needed."""
        self.query = {}
        self.response_headers = []
        shrink = getattr(self.http, "shrink", None)
        if shrink is not None:
            shrink()

    def warn(self, text: str) -> None:
        """Adds a warning header, once per text."""
        warnings.add(self.warnings, text)
