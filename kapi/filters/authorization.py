"""Authorization: checks that the user may do this, or answers 403 (upstream: apiserver ``filters/authorization.go``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from twisted.logger import Logger

from kapi.authorization.forbidden import refused
from kapi.authorization.interface import Attributes, Authorizer, Decision, Verdict
from kapi.endpoints.errors import internal_error
from kapi.filters.chain import Filter
from kapi.request.audit_record import DECISION
from kapi.request.context import RequestContext
from kapi.request.response import Response

log = Logger()
REASON = "authorization.k8s.io/reason"
#: called with the decision ("allowed", "denied", "no-opinion", "error") and the seconds it took
Recorder = Callable[[str, float], None]
_REFUSALS = {Decision.DENY: "denied", Decision.NO_OPINION: "no-opinion"}


def authorization(authorizer: Authorizer, record: Recorder | None = None) -> Filter:
    """Raises Forbidden unless the authorizer allows the request; annotates the audit event in both cases.

    Answers 500 when an authorizer failed and none allowed it.
    """

    def judge(ctx: RequestContext, attributes: Attributes, verdict: Verdict, started: float) -> Response | None:
        allowed = verdict.decision is Decision.ALLOW
        if record is not None:
            outcome = "allowed" if allowed else "error" if verdict.error else _REFUSALS[verdict.decision]
            record(outcome, time.perf_counter() - started)
        annotations = ctx.annotations
        if allowed:
            annotations[DECISION] = "allow"
            annotations[REASON] = verdict.reason
            return None
        if verdict.error:
            annotations[REASON] = "internal error"
            log.error("Authorization failed: {error}", error=verdict.error, audit_id=ctx.audit_id)
            return internal_error(ctx, verdict.error)
        annotations[DECISION] = "forbid"
        annotations[REASON] = verdict.reason
        raise refused(attributes, verdict.reason)

    async def wait(
        ctx: RequestContext, attributes: Attributes, waiting: Awaitable[Verdict], started: float
    ) -> Response | None:
        verdict = await waiting
        ctx.add_latency("authorization", time.perf_counter() - started)
        return judge(ctx, attributes, verdict, started)

    def check(ctx: RequestContext) -> Response | None | Awaitable[Response | None]:
        started = time.perf_counter()
        attributes = attributes_of(ctx)
        verdict = authorizer.authorize(attributes)
        if isinstance(verdict, Verdict):
            return judge(ctx, attributes, verdict, started)
        return wait(ctx, attributes, verdict, started)

    return check


def attributes_of(ctx: RequestContext) -> Attributes:
    """The attributes of the request, for its effective user (upstream: GetAuthorizerAttributes)."""
    info, user = ctx.info, ctx.user
    assert info is not None and user is not None
    attributes = Attributes(
        user=user,
        verb=info.verb,
        is_resource=info.is_resource,
        path=info.path,
        group=info.group,
        version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
    )
    if info.field_selector or info.label_selector:
        attributes.read_selectors(info.field_selector, info.label_selector)
    return attributes
