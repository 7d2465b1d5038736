"""The audit event of one request while it is under construction: ``ctx.audit``.

Upstream: ``audit/context.go``, audit.k8s.io/v1.

Nothing is encoded before a stage is recorded; a request that the policy does not want costs one policy lookup.  What is the
same in all stages is encoded once.

A read hands its two stages over together, just before its answer leaves: nobody can have seen anything of it earlier.
Answers that leave together are recorded together (``complete``), so that the log is written once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from twisted.logger import Logger

from kapi.audit.policy import METADATA, NONE, REQUEST, REQUEST_RESPONSE, AuditConfig
from kapi.audit.record import Record
from kapi.audit.sinks import Outcome, Sink
from kapi.audit.source import origin
from kapi.request.context import RequestContext
from kapi.request.info import RequestInfo
from kapi.request.response import Response, leaves_whole
from kapi.request.user import UserInfo, encoded_user

Object = dict[str, Any]
log = Logger()

_READS = frozenset({"get", "list"})
_NOTHING: Object = {}
_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_STATUS_START = b'{"kind":"Status",'
_CLOSED = {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}
_MAX_STATUS = 64 * 1024  # bytes of an answer that is looked at for a Status
#: annotations that show parts of bodies: for those who are to see bodies
_OF_BODIES = "patch.webhook.admission.k8s.io/"
_OF_AUTHORIZATION = 2  # annotations that every request has before those of admission come


class AuditEvent:
    """``received`` is unix seconds."""

    config: AuditConfig | None = None
    _long_running = False
    _status: Object | None = None
    _request: bytes | None = None
    _response: bytes | None = None
    _reference: Object | None = None  # what the request's object adds to objectRef
    _question: Object | None = None  # what was asked, as far as it is known
    _asker: UserInfo | None = None  # who has impersonated the user, as of then
    #: the annotations of a RequestReceived that goes to the back ends with the stage that follows
    _held: dict[str, str] | None = None
    _started = False
    _panic = ""
    _over = False

    def __init__(self, ctx: RequestContext, sink: Sink, received: float) -> None:
        self.sink = sink
        self._ctx = ctx
        self._received = received

    @property
    def level(self) -> int:
        """NONE .. REQUEST_RESPONSE; METADATA until the policy was asked."""
        return METADATA if self.config is None else self.config.level

    # -- what the endpoints tell

    def request_object(self, obj: Object) -> None:
        """The decoded body, before anything changes it."""
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            self._question = None
            self._reference = {
                name: value for name in ("namespace", "name", "uid", "resourceVersion") if (value := metadata.get(name))
            }
        if self.level >= REQUEST:
            self._request = orjson.dumps(self._trimmed(obj))

    def request_patch(self, patch: bytes) -> None:
        """The body of a patch; what is no JSON is recorded as a string."""
        if self.level >= REQUEST:
            try:
                orjson.loads(patch)
            except ValueError:
                patch = orjson.dumps(patch.decode("utf-8", "replace"))
            self._request = patch

    def response_object(self, obj: Object) -> None:
        """The object of the answer, in case its bytes are no JSON."""
        if self.level >= REQUEST_RESPONSE:
            self._response = orjson.dumps(self._trimmed(obj))

    def panicked(self, error: BaseException) -> None:
        """Something that nobody expected ended the request."""
        self._panic = f"APIServer panic'd: {error}"

    def answered(self, response: Response) -> None:
        """The answer is known."""
        if self.level == NONE:
            return
        if self._status is None:
            self._status = {"metadata": {}, "code": response.status}
        body = response.body
        json = response.content_type.startswith(b"application/json")
        if json and body:
            first = body if isinstance(body, bytes) else body[0]
            if first.startswith(_STATUS_START) and len(first) < _MAX_STATUS:
                self._read_status(b"".join(body) if isinstance(body, list) else body, response.status)
            if self.level >= REQUEST_RESPONSE:
                whole = body if isinstance(body, bytes) else b"".join(body)
                self._response = self._trimmed_bytes(whole.rstrip())
        if self._long_running and not self._started and self.config is not None:
            self._started = True
            self.record("ResponseStarted")
        if self._held is not None and not leaves_whole(response):
            self.sink.process(*self._let_go(micro_time(self._received)))

    def _read_status(self, body: bytes, code: int) -> None:
        try:
            tree = orjson.loads(body)
        except ValueError:
            return
        self._status = {"metadata": {}, **{name: tree[name] for name in _STATUS_FIELDS if name in tree}}
        self._status["code"] = code

    def error(self, status: Object) -> None:
        """The Status of an error, whatever form it is answered in."""
        self._status = {"metadata": {}, **{name: status[name] for name in _STATUS_FIELDS if name in status}}

    # -- stages

    def begin(self, config: AuditConfig, long_running: bool) -> Outcome:
        """The policy has spoken; records RequestReceived.  False when that failed and must not."""
        self.config = config
        self._long_running = long_running
        info = self._ctx.info
        if config.level == NONE or "RequestReceived" in config.omit_stages:
            return True
        if self.sink.lenient and not long_running and info is not None and info.verb in _READS:
            self._held = dict(self._ctx.annotations)
            return True
        return self.record("RequestReceived", self._received)

    def finish(self, config: AuditConfig | None = None) -> None:
        """The answer is out.  ``config`` is given for a request that failed before the policy was asked."""
        if self.config is None:
            if config is None or config.level == NONE:
                return
            self.config = config
            self.record("ResponseStarted")
            return
        records = self.last()
        if records:
            self.sink.process(*records)

    def last(self) -> list[Record]:
        """What is left to be recorded at the end."""
        if self._over or self.level == NONE:
            return []
        self._over = True
        if self._panic:
            self._status = {
                "metadata": {}, "status": "Failure", "message": self._panic, "reason": "InternalError", "code": 500,
            }  # fmt: skip
            return self._stage("Panic")
        if self._status is None:
            self._status = dict(_CLOSED)
        if self._long_running and not self._started:
            self._started = True
            return self._stage("ResponseStarted") + self._stage("ResponseComplete")
        return self._stage("ResponseComplete")

    def record(self, stage: str, at: float | None = None) -> Outcome:
        """Hands the event as it is now to the back ends.  False when one failed that must not."""
        records = self._stage(stage, at)
        return self.sink.process(*records) if records else True

    def _stage(self, stage: str, at: float | None = None) -> list[Record]:
        """Its record, behind that of the RequestReceived that was held."""
        config, ctx = self.config, self._ctx
        assert config is not None
        received = micro_time(self._received)
        records = [] if self._held is None else self._let_go(received)
        if stage in config.omit_stages:
            return records
        if self._question is None or self._asker is not ctx.original_user:
            self._ask(ctx.original_user)
        tree = {**self._question, "stage": stage}  # type: ignore[dict-item]
        if self._status is not None:
            tree["responseStatus"] = self._status
        if self._request is not None:
            tree["requestObject"] = orjson.Fragment(self._request)
        if self._response is not None:
            tree["responseObject"] = orjson.Fragment(self._response)
        tree["requestReceivedTimestamp"] = received
        tree["stageTimestamp"] = received if at == self._received else micro_time(time.time() if at is None else at)
        if ctx.annotations:
            tree["annotations"] = _shown(ctx.annotations, config.level)
        records.append(Record(orjson.dumps(tree), config.level))
        return records

    def _let_go(self, received: str) -> list[Record]:
        """The RequestReceived that was held: before anybody could be impersonated."""
        held, self._held = self._held, None
        config = self.config
        if held is None or config is None:
            return []
        tree = self._ask(None)
        if self._ctx.original_user is None:
            tree = dict(tree)  # it is the question of later stages as well
        tree["stage"] = "RequestReceived"
        tree["requestReceivedTimestamp"] = tree["stageTimestamp"] = received
        if held:
            tree["annotations"] = _shown(held, config.level)
        return [Record(orjson.dumps(tree), config.level)]

    def _ask(self, original: UserInfo | None) -> Object:
        """Notes the fields up to ``objectRef``.  ``original`` is who has impersonated the user."""
        ctx, info = self._ctx, self._ctx.info
        assert self.config is not None
        user = ctx.original_user or ctx.user
        tree: Object = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": self.config.level_name,
            "auditID": ctx.audit_id,
            "stage": "",
            "requestURI": ctx.http.uri.decode("utf-8", "replace"),
            "verb": info.verb if info is not None else ctx.method.lower(),
            "user": {} if user is None else encoded_user(user),
        }
        if original is not None and ctx.user is not None:
            tree["impersonatedUser"] = encoded_user(ctx.user)
            constraint = ctx.extra.get("impersonation_constraint")
            if constraint:
                tree["authenticationMetadata"] = {"impersonationConstraint": constraint}
        addresses, agent = origin(ctx)
        if addresses:
            tree["sourceIPs"] = addresses
        if agent:
            tree["userAgent"] = agent
        if info is not None and info.is_resource:
            tree["objectRef"] = self._refer(info)
        self._question, self._asker = tree, original
        return tree

    def _refer(self, info: RequestInfo) -> Object:
        learned = self._reference or _NOTHING
        tree = {"resource": info.resource}
        for name, value in (("namespace", info.namespace), ("name", info.name)):
            if value or (value := learned.get(name, "")):
                tree[name] = value
        if "uid" in learned:
            tree["uid"] = learned["uid"]
        if info.group:
            tree["apiGroup"] = info.group
        tree["apiVersion"] = info.version
        if "resourceVersion" in learned:
            tree["resourceVersion"] = learned["resourceVersion"]
        if info.subresource:
            tree["subresource"] = info.subresource
        return tree

    def _trimmed(self, obj: Object) -> Object:
        """Without managedFields when the policy says so."""
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
        if self.config is None or not self.config.omit_managed_fields or b'"managedFields"' not in body:
            return body
        return orjson.dumps(self._trimmed(orjson.loads(body)))


def _shown(annotations: dict[str, str], level: int) -> orjson.Fragment:
    if level < REQUEST and len(annotations) > _OF_AUTHORIZATION:
        annotations = {name: text for name, text in annotations.items() if not name.startswith(_OF_BODIES)}
    return orjson.Fragment(orjson.dumps(annotations, option=orjson.OPT_SORT_KEYS))


def complete(events: Sequence[AuditEvent]) -> None:
    """Their answers are about to leave, whole: records their ends.  Raises nothing; a fault concerns one of them.

    Those that the policy was not asked about end later.
    """
    records: list[Record] = []
    for event in events:
        try:
            if event.config is not None:
                records += event.last()
        except Exception:
            log.failure("an audit event could not be encoded")
    try:
        if records:
            events[0].sink.process(*records)
    except Exception:
        log.failure("audit events could not be recorded")


_second = (0, "")


def micro_time(seconds: float) -> str:
    """Unix seconds as RFC 3339 with microseconds, UTC."""
    global _second
    whole = int(seconds)
    if _second[0] != whole:
        _second = (whole, time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(whole)))
    micros = str(1_000_000 + int((seconds - whole) * 1e6))[1:]  # a third faster than a format with zeros
    return f"{_second[1]}{micros}Z"
