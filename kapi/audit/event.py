"""The audit event of one request, ``ctx.audit``, to which filters and endpoints report.

Upstream: ``audit/context.go``, audit.k8s.io/v1; apimachinery ``util/net`` SourceIPs for addresses.

Nothing is encoded before a stage is recorded.  A request with the level None costs one policy lookup.

The text of an error may quote the body, and for a patch the whole object.  Unlike upstream, it is not recorded for Secrets.

A read has no effect before its answer is sent.  So its stage RequestReceived is deferred, and recorded together with
ResponseComplete just before the answer.  Answers that are sent together are recorded together (``complete``), with one write to
the log.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import orjson
from msgspec import Raw
from twisted.logger import Logger

from kapi.audit.policy import METADATA, NONE, REQUEST, REQUEST_RESPONSE, AuditConfig
from kapi.audit.raw import one_line, without_managed_fields
from kapi.audit.record import Record
from kapi.audit.sinks import Outcome, Sink
from kapi.audit.wire import Event, encode, reference
from kapi.codecs import json_pieces
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.golang import duration_text
from kapi.machinery.tree import Object
from kapi.request.audit_record import DECISION
from kapi.request.context import RequestContext
from kapi.request.info import confidential
from kapi.request.response import Response, leaves_whole
from kapi.request.user import encoded_user

_MAX_ADDRESS_LENGTH = 256  # characters, with the zone
_MAX_AGENT_LENGTH = 1024  # characters
log = Logger()
_READS = frozenset({"get", "list"})
_BODILESS = _READS | {"watch"}
_NOT_RECORDED = "not recorded: it may quote the body"
_NO_USER = Raw(b"{}")
_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_STATUS_START = b'{"kind":"Status",'
_CLOSED = {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}
_MAX_STATUS_BYTES = 64 * 1024  # a larger answer is not parsed as a Status
#: annotations with parts of bodies, which are recorded only from the level Request on
_BODY_ANNOTATION_PREFIX = "patch.webhook.admission.k8s.io/"
_AUTHORIZATION_ANNOTATIONS = 2  # number of annotations of every request; further ones come from admission
_SLOW_SECONDS = 0.5
_LATENCY_PREFIX = "apiserver.latency.k8s.io/"
_second = (0, "")


def origin(ctx: RequestContext) -> tuple[list[str], str]:
    """(source addresses, user agent) of a request."""
    values = ctx.http.requestHeaders.getRawHeaders
    forwarded, real, agents = values(b"X-Forwarded-For"), values(b"X-Real-Ip"), values(b"User-Agent")
    agent = agents[0] if agents else b""
    peer = getattr(ctx.http.getClientAddress(), "host", "") or ""
    if not forwarded and not real and len(agent) <= _MAX_AGENT_LENGTH:
        return _direct(peer, agent)
    return source_ips(forwarded[0] if forwarded else b"", real[0] if real else b"", peer), _text(agent)


@lru_cache(1024)
def _direct(peer: str, agent: bytes) -> tuple[list[str], str]:
    """``origin`` of a request that does not come through a proxy."""
    return source_ips(b"", b"", peer), _text(agent)


def _text(agent: bytes) -> str:
    text = agent.decode("utf-8", "replace")
    return text if len(text) <= _MAX_AGENT_LENGTH else text[:_MAX_AGENT_LENGTH] + "...TRUNCATED"


def source_ips(forwarded: bytes, real: bytes, peer: str) -> list[str]:
    """The valid addresses of X-Forwarded-For, then X-Real-Ip, then the peer's address, which alone a client cannot forge."""
    found = [address for part in forwarded.decode("latin-1").split(",") if (address := _address(part.strip()))]
    address = _address(real.decode("latin-1"))
    if address and address not in found:
        found.append(address)
    address = _address(peer)
    if address and (not found or found[-1] != address):
        found.append(address)
    return found


def _address(text: str) -> str:
    """The address in its canonical form; "" when ``text`` is not an address."""
    return _canonical(text) if 0 < len(text) <= _MAX_ADDRESS_LENGTH else ""


@lru_cache(4096)
def _canonical(text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


class AuditEvent:
    """The event of ``ctx``.  ``received`` is the time of the request in unix seconds."""

    config: AuditConfig | None = None
    _long_running = False
    _status: Object | None = None
    _request: bytes | None = None
    _response: bytes | None = None
    _reference: Object | None = None  # fields of the request's object that are added to objectRef
    _event: Event | None = None  # as in the last record
    #: the annotations of a deferred RequestReceived
    _deferred: dict[str, str] | None = None
    _started = False
    _panic = ""
    _finished = False

    def __init__(self, ctx: RequestContext, sink: Sink, received: float) -> None:
        self.sink = sink
        self._ctx = ctx
        self._received = received

    @property
    def level(self) -> int:
        """NONE .. REQUEST_RESPONSE; METADATA before the policy was evaluated."""
        return METADATA if self.config is None else self.config.level

    # -- reports of endpoints

    def request_object(self, obj: Object, served: Callable[[Object], Object] = lambda obj: obj) -> None:
        """Takes the decoded body, before it is changed; ``served`` converts it to the version that was sent."""
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            self._reference = {
                name: value for name in ("namespace", "name", "uid", "resourceVersion") if (value := metadata.get(name))
            }
        if self.level >= REQUEST:
            self._request = json_pieces.dumps(self._trimmed(served(obj)))

    def request_patch(self, patch: bytes) -> None:
        """Takes the body of a patch; one that is not JSON is recorded as a string."""
        if self.level >= REQUEST:
            try:
                free_in_steps(json_pieces.loads(patch), len(patch))
            except ValueError:
                patch = orjson.dumps(patch.decode("utf-8", "replace"))
            self._request = one_line(patch)

    def response_object(self, make: Callable[[], Object]) -> None:
        """Takes a function that makes the object of an answer whose bytes are not JSON."""
        if self.level >= REQUEST_RESPONSE:
            self._response = json_pieces.dumps(self._trimmed(make()))

    def panicked(self, error: BaseException) -> None:
        """Records that an unexpected exception ended the request."""
        self._panic = f"APIServer panic'd: {error}"

    def answered(self, response: Response) -> Outcome:
        """Takes the answer: its status, and its body at the level RequestResponse."""
        level = self.level
        if level == NONE:
            return True
        if self._status is None:
            self._status = {"metadata": {}}
        self._status.setdefault("code", response.status)
        body = response.body
        if body and response.content_type.startswith(b"application/json"):
            first = body if isinstance(body, bytes) else body[0]
            if first.startswith(_STATUS_START) and len(first) < _MAX_STATUS_BYTES:
                self._read_status(body if isinstance(body, bytes) else b"".join(body), response.status)
            if level >= REQUEST_RESPONSE and (first.startswith(_STATUS_START) or self._ctx.path.startswith("/api")):
                whole = body if isinstance(body, bytes) else b"".join(body)
                self._response = self._trimmed_bytes(one_line(whole.rstrip()))
        if self._long_running and not self._started and self.config is not None:
            self._started = True
            self.record("ResponseStarted")
        if self.config is not None and self._deferred is not None and not leaves_whole(response):
            return self.sink.process(*self._take_deferred(self.config))
        return True

    def _read_status(self, body: bytes, code: int) -> None:
        try:
            tree = orjson.loads(body)
        except ValueError:
            return
        self._status = {"metadata": {}, **{name: tree[name] for name in _STATUS_FIELDS if name in tree}}
        self._status["code"] = code

    def status_object(self, status: Object) -> None:
        """Takes the Status of an error or a deletion, for any media type of the answer."""
        self._status = {"metadata": {}, **{name: status[name] for name in _STATUS_FIELDS if name in status}}

    # -- stages

    def begin(self, config: AuditConfig, long_running: bool) -> Outcome:
        """Takes the policy's decision, and records or defers RequestReceived.  Returns False when the request must fail."""
        self.config = config
        self._long_running = long_running
        if config.level == NONE or "RequestReceived" in config.omit_stages:
            return True
        info = self._ctx.info
        if self.sink.lenient and not long_running and info is not None and info.verb in _READS:
            self._deferred = dict(self._ctx.annotations)
            return True
        return self.record("RequestReceived", self._received)

    def finish(self, config: AuditConfig | None = None) -> None:
        """Records the end.  ``config`` is given for a request that failed before the policy was evaluated."""
        if self.config is None:
            if config is None or config.level == NONE:
                return
            self.config = config
            self.record("ResponseStarted")
            return
        records = self.last_records()
        if records:
            self.sink.process(*records)

    def last_records(self) -> list[Record]:
        """The records of the last stage; none at a second call."""
        if self._finished or self.level == NONE:
            return []
        self._finished = True
        if self._panic:
            self._status = {
                "metadata": {}, "status": "Failure", "message": self._panic, "reason": "InternalError", "code": 500,
            }  # fmt: skip
            return self._stage("Panic")
        if self._status is None:
            self._status = dict(_CLOSED)
        self._note_latency()
        if self._long_running and not self._started:
            self._started = True
            return self._stage("ResponseStarted") + self._stage("ResponseComplete")
        return self._stage("ResponseComplete")

    def _note_latency(self) -> None:
        """Annotates a slow request with its total seconds, and its seconds in the layers where it waited."""
        ctx = self._ctx
        total = ctx.reactor.seconds() - ctx.received
        if total > _SLOW_SECONDS:
            for layer, seconds in {**(ctx.latencies or {}), "total": total}.items():
                ctx.annotations[_LATENCY_PREFIX + layer] = duration_text(seconds)

    @staticmethod
    def complete(events: Sequence[AuditEvent]) -> Outcome:
        """Records the last stages of events before their complete answers are sent, which must wait for the Deferred, if any.

        Raises nothing; a fault of one event does not affect the others.  ``finish`` ends events without a policy decision.
        """
        records: list[Record] = []
        for event in events:
            try:
                if event.config is not None:
                    records += event.last_records()
            except Exception:
                log.failure("an audit event could not be encoded")
        try:
            if records:
                return events[0].sink.process(*records)
        except Exception:
            log.failure("audit events could not be recorded")
        return True

    def record(self, stage: str, at: float | None = None) -> Outcome:
        """Sends the current state of the event to the back ends.  Returns False when the request must fail."""
        records = self._stage(stage, at)
        return self.sink.process(*records) if records else True

    def _stage(self, stage: str, at: float | None = None) -> list[Record]:
        """The record of a stage, after the record of a deferred RequestReceived."""
        config = self.config
        assert config is not None
        records = self._take_deferred(config)
        if stage not in config.omit_stages:
            event = self._event or self._begin_event(config)
            self._update(event)
            event.stage = stage
            event.stageTimestamp = micro_time(time.time() if at is None else at)
            annotations = self._ctx.annotations
            event.annotations = _shown(annotations, config.level) if annotations else None
            records.append(Record(encode(event), config.level))
        return records

    def _take_deferred(self, config: AuditConfig) -> list[Record]:
        """The record of a deferred RequestReceived, if any."""
        held, self._deferred = self._deferred, None
        if held is None:
            return []
        event = self._event or self._begin_event(config)
        event.stage = "RequestReceived"
        event.annotations = _shown(held, config.level) if held else None
        return [Record(encode(event), config.level)]

    def _begin_event(self, config: AuditConfig) -> Event:
        """The event with all fields that are known at the beginning."""
        ctx, info = self._ctx, self._ctx.info
        user = ctx.original_user or ctx.user
        addresses, agent = origin(ctx)
        received = micro_time(self._received)
        event = self._event = Event(
            kind="Event",
            apiVersion="audit.k8s.io/v1",
            level=config.level_name,
            auditID=ctx.audit_id,
            stage="",
            requestURI=ctx.http.uri.decode("utf-8", "replace"),
            verb=info.verb if info is not None else ctx.method.lower(),
            user=_NO_USER if user is None else encoded_user(user),
            sourceIPs=addresses or None,
            userAgent=agent,
            objectRef=reference(info) if info is not None and info.is_resource else None,
            requestReceivedTimestamp=received,
            stageTimestamp=received,
        )
        return event

    def _update(self, event: Event) -> None:
        """Adds the fields that have become known since the beginning."""
        ctx = self._ctx
        status = self._status
        if status is not None and status.get("message") and self._may_quote():
            status = _without_texts(status)
        event.responseStatus = status
        if ctx.original_user is not None and ctx.user is not None and event.impersonatedUser is None:
            event.impersonatedUser = encoded_user(ctx.user)
            if ctx.impersonation_constraint:
                event.authenticationMetadata = {"impersonationConstraint": ctx.impersonation_constraint}
        if self._reference is not None and ctx.info is not None and ctx.info.is_resource:
            event.objectRef = reference(ctx.info, self._reference)
        if self._request is not None:
            event.requestObject = Raw(self._request)
        if self._response is not None:
            event.responseObject = Raw(self._response)

    def _may_quote(self) -> bool:
        """Whether an error's text may quote a confidential body, which is not read before the request is authorized."""
        info = self._ctx.info
        return (
            info is not None
            and info.is_resource
            and confidential(info.group, info.resource)
            and info.verb not in _BODILESS
            and self._ctx.annotations.get(DECISION) == "allow"
        )

    def _trimmed(self, obj: Object) -> Object:
        """The object, without managedFields if the policy omits them."""
        if self.config is None or not self.config.omit_managed_fields:
            return obj
        if isinstance(obj.get("items"), list):
            return {**obj, "items": [self._trimmed(item) for item in obj["items"] if isinstance(item, dict)]}
        if obj.get("kind") == "Table":
            rows = [
                {**row, "object": self._trimmed(row["object"])} if isinstance(row.get("object"), dict) else row
                for row in obj.get("rows") or ()
            ]
            return {**obj, "rows": rows}
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or "managedFields" not in metadata:
            return obj
        return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}

    def _trimmed_bytes(self, body: bytes) -> bytes:
        return without_managed_fields(body) if self.config is not None and self.config.omit_managed_fields else body


def _shown(annotations: dict[str, str], level: int) -> dict[str, str]:
    if len(annotations) <= _AUTHORIZATION_ANNOTATIONS:
        return annotations
    return {
        name: annotations[name]
        for name in sorted(annotations)
        if level >= REQUEST or not name.startswith(_BODY_ANNOTATION_PREFIX)
    }


def _without_texts(status: Object) -> Object:
    """The Status without texts; code, reason and the object's name stay."""
    details = status.get("details")
    shown = {**status, "message": _NOT_RECORDED}
    if isinstance(details, dict):
        shown["details"] = {name: value for name, value in details.items() if name != "causes"}
    return shown


def micro_time(seconds: float) -> str:
    """Unix seconds as RFC 3339 with microseconds, UTC."""
    global _second
    whole = int(seconds)
    if _second[0] != whole:
        _second = (whole, time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(whole)))
    micros = str(1_000_000 + int((seconds - whole) * 1e6))[1:]  # a third faster than a format with zeros
    return f"{_second[1]}{micros}Z"
