"""The audit event of one request while it is under construction: ``ctx.audit``.

Upstream: ``audit/context.go``, audit.k8s.io/v1.

Nothing is encoded before a stage is recorded; a request that the policy does not want costs one policy lookup.  What is the
same in all stages is encoded once.

A read from memory hands its two stages over together, just before its answer goes out: nobody can have seen anything of it
earlier, and the log is written once instead of twice.
"""

from __future__ import annotations

import time
from typing import Any

import orjson

from kapi.audit.policy import METADATA, NONE, REQUEST, REQUEST_RESPONSE, AuditConfig
from kapi.audit.record import Record
from kapi.audit.sinks import Outcome, Sink
from kapi.audit.source import source_ips, user_agent
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.request.user import user_tree

Object = dict[str, Any]

_READS = frozenset({"get", "list"})
_SMALL = 64 * 1024  # bytes of an answer that is out as soon as it is written
_EVENT = b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"'
_STATUS_FIELDS = ("status", "message", "reason", "details", "code")
_STATUS_START = b'{"kind":"Status",'
_CLOSED = {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}
_MAX_STATUS = 64 * 1024  # bytes of an answer that is looked at for a Status
#: annotations that show parts of bodies: for those who are to see bodies
_OF_BODIES = "patch.webhook.admission.k8s.io/"


class AuditEvent:
    """``received`` is unix seconds."""

    __slots__ = (
        "_ctx", "_received", "_long_running", "config", "_sink", "_status", "_request", "_response", "_reference",
        "_started", "_panic", "_fixed", "_held", "_over",
    )  # fmt: skip

    def __init__(self, ctx: RequestContext, sink: Sink, received: float) -> None:
        self._ctx = ctx
        self._sink = sink
        self._received = received
        self._long_running = False
        self.config: AuditConfig | None = None
        self._status: Object | None = None
        self._request: bytes | None = None
        self._response: bytes | None = None
        self._reference: Object | None = None  # what the request's object adds to objectRef
        self._started = False
        self._panic = ""
        self._fixed: tuple[Any, bytes] | None = None  # the fields that stay the same in all stages, and while what is
        self._held: Record | None = None  # goes to the back ends with the one that follows
        self._over = False

    @property
    def level(self) -> int:
        """NONE .. REQUEST_RESPONSE; METADATA until the policy was asked."""
        return METADATA if self.config is None else self.config.level

    # -- what the endpoints tell

    def request_object(self, obj: Object) -> None:
        """The decoded body, before anything changes it."""
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
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
        """The answer is about to be written."""
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
        if self._held is not None:
            if type(response) is Response and isinstance(body, bytes) and len(body) <= _SMALL:
                self.finish()
            else:
                self._let_go()

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
        if config.level == NONE:
            return True
        info = self._ctx.info
        hold = self._sink.lenient and not long_running and info is not None and info.verb in _READS
        return self.record("RequestReceived", self._received, hold)

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._sink.process(held)

    def finish(self, config: AuditConfig | None = None) -> None:
        """The answer is out.  ``config`` is given for a request that failed before the policy was asked."""
        if self.config is None:
            if config is None or config.level == NONE:
                return
            self.config = config
            self.record("ResponseStarted")
            return
        if self.config.level == NONE or self._over:
            return
        self._over = True
        if self._panic:
            self._status = {
                "metadata": {}, "status": "Failure", "message": self._panic, "reason": "InternalError", "code": 500,
            }  # fmt: skip
            self.record("Panic")
            return
        if self._status is None:
            self._status = dict(_CLOSED)
        if self._long_running and not self._started:
            self._started = True
            self.record("ResponseStarted")
        self.record("ResponseComplete")

    def record(self, stage: str, at: float | None = None, hold: bool = False) -> Outcome:
        """Hands the event as it is now to the back ends.  False when one failed that must not."""
        config = self.config
        assert config is not None
        if stage in config.omit_stages:
            return True
        ctx = self._ctx
        received = micro_time(self._received)
        parts = [
            _EVENT, config.level_name.encode(), b'","auditID":', orjson.dumps(ctx.audit_id),
            b',"stage":"', stage.encode(), b'",', self._described(),
        ]  # fmt: skip
        if self._status is not None:
            parts += (b',"responseStatus":', orjson.dumps(self._status))
        if self._request is not None:
            parts += (b',"requestObject":', self._request)
        if self._response is not None:
            parts += (b',"responseObject":', self._response)
        parts += (
            b',"requestReceivedTimestamp":"', received,
            b'","stageTimestamp":"', received if at == self._received else micro_time(time.time() if at is None else at),
        )  # fmt: skip
        annotations = sorted(ctx.annotations.items())
        if config.level < REQUEST:
            annotations = [item for item in annotations if not item[0].startswith(_OF_BODIES)]
        parts += (b'","annotations":', orjson.dumps(dict(annotations)), b"}") if annotations else (b'"}',)
        record = Record(b"".join(parts), config.level)
        if hold:
            self._held = record
            return True
        held, self._held = self._held, None
        return self._sink.process(record) if held is None else self._sink.process(held, record)

    def _described(self) -> bytes:
        """The fields from ``requestURI`` to ``objectRef``, encoded anew only when something was learned since."""
        ctx = self._ctx
        known = (ctx.original_user, ctx.user, self._reference)
        if self._fixed is None or self._fixed[0] != known:
            self._fixed = known, orjson.dumps(self._describe())[1:-1]
        return self._fixed[1]

    def _describe(self) -> Object:
        ctx, info = self._ctx, self._ctx.info
        user = ctx.original_user or ctx.user
        tree: Object = {
            "requestURI": ctx.http.uri.decode("utf-8", "replace"),
            "verb": info.verb if info is not None else ctx.method.lower(),
            "user": {} if user is None else user_tree(user),
        }
        if ctx.original_user is not None and ctx.user is not None:
            tree["impersonatedUser"] = user_tree(ctx.user)
            constraint = ctx.extra.get("impersonation_constraint")
            if constraint:
                tree["authenticationMetadata"] = {"impersonationConstraint": constraint}
        addresses = source_ips(ctx)
        if addresses:
            tree["sourceIPs"] = addresses
        agent = user_agent(ctx)
        if agent:
            tree["userAgent"] = agent
        if info is not None and info.is_resource:
            tree["objectRef"] = _reference({
                **(self._reference or {}),
                "resource": info.resource, "apiGroup": info.group, "apiVersion": info.version, "subresource": info.subresource,
                **{key: value for key, value in (("namespace", info.namespace), ("name", info.name)) if value},
            })  # fmt: skip
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


_REFERENCE = ("resource", "namespace", "name", "uid", "apiGroup", "apiVersion", "resourceVersion", "subresource")


def _reference(values: Object) -> Object:
    return {name: value for name in _REFERENCE if (value := values.get(name))}


_second = (0, b"")


def micro_time(seconds: float) -> bytes:
    """Unix seconds as RFC 3339 with microseconds, UTC."""
    global _second
    whole = int(seconds)
    if _second[0] != whole:
        _second = (whole, time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(whole)).encode())
    return b"%b%06dZ" % (_second[1], (seconds - whole) * 1e6)
