"""Auditing around the chain.

Upstream: apiserver ``filters/audit.go``, ``filters/authn_audit.go``, ``filters/audit_init.go``.

``audit_init`` is the first filter and sets ``ctx.audit``; ``audit`` comes after authentication and evaluates the policy.  A
request that fails between the two (no credentials, a bad timeout) is recorded with the single stage ResponseStarted.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from kapi.audit.build import Auditor
from kapi.audit.event import AuditEvent
from kapi.audit.policy import NONE
from kapi.filters.chain import Filter
from kapi.machinery import status
from kapi.request.context import RequestContext


def audit_init(auditor: Auditor) -> Filter:
    """Begins the event and makes sure that it ends."""

    def begin(ctx: RequestContext) -> None:
        ctx.audit = AuditEvent(ctx, auditor.sink, auditor.clock())
        ctx.finishers.append(finish)

    def finish(ctx: RequestContext, code: int) -> None:
        event = ctx.audit
        ctx.audit = None  # breaks a reference cycle, so that freeing needs no garbage collection
        if not isinstance(event, AuditEvent):
            return  # not audited
        if event.config is None and ctx.info is not None:
            event.finish(auditor.policy.evaluate(ctx.info, ctx.host_user()))
        else:
            event.finish()

    return begin


def audit(auditor: Auditor) -> Filter:
    """Evaluates the policy and records RequestReceived.  Raises InternalError when a strict back end fails."""

    def refuse() -> status.StatusError:
        auditor.meter.rejected += 1
        return status.internal("failed to store audit event")

    async def wait(waiting: Deferred[bool]) -> None:
        if not await waiting:
            raise refuse()

    def check(ctx: RequestContext) -> None | Deferred[None]:
        event = ctx.audit
        assert isinstance(event, AuditEvent) and ctx.info is not None
        config = auditor.policy.evaluate(ctx.info, ctx.host_user())
        auditor.meter.level(config.level_name)
        processed = event.begin(config, ctx.info.long_running)
        if config.level == NONE:
            ctx.audit = None  # later filters and ``finish`` have nothing to do
        if processed is True:
            return None
        if isinstance(processed, Deferred):
            return Deferred.fromCoroutine(wait(processed))
        raise refuse()

    return check
