"""Requests during shutdown: counted, answered with Retry-After, or let through.

Upstream: apiserver ``server/filters/with_retry_after.go`` and ``waitgroup.go``.  Health probes and metrics are
answered until the end.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from kapi.filters.chain import Filter
from kapi.machinery.status import ServiceUnavailable
from kapi.request.context import RequestContext
from kapi.request.response import Response

_EXEMPT = ("/readyz", "/livez", "/healthz", "/metrics")
_AGENT = "kube-apiserver/"
_TEXT = b"The apiserver is shutting down, please try again later.\n"


def _exempt(ctx: RequestContext) -> bool:
    return ctx.path.startswith(_EXEMPT) or (ctx.header("user-agent") or "").startswith(_AGENT)


def retry_after(stopping: Callable[[], bool]) -> Filter:
    """Answers 429 and ends the connection while ``stopping()`` is true."""

    def refuse(ctx: RequestContext) -> Response | None:
        if not stopping() or _exempt(ctx):
            return None
        ctx.connection_closing = True
        headers = ((b"connection", b"close"), (b"retry-after", b"5"), (b"x-content-type-options", b"nosniff"))
        return Response(429, _TEXT, b"text/plain; charset=utf-8", headers)

    return refuse


class RequestWaitGroup:
    """Counts running requests.  After ``wait``, which is called at shutdown, no more may be added."""

    def __init__(self) -> None:
        self.count = 0
        self.waiting = False
        self._idle: Deferred[None] = Deferred()

    def add(self) -> bool:
        if self.waiting:
            return False
        self.count += 1
        return True

    def done(self) -> None:
        self.count -= 1
        if self.waiting and not self.count and not self._idle.called:
            self._idle.callback(None)

    def wait(self) -> Deferred[None]:
        """Fires when the last request is answered."""
        self.waiting = True
        if not self.count and not self._idle.called:
            self._idle.callback(None)
        return self._idle


def _refused() -> ServiceUnavailable:
    headers = (("Retry-After", "1"), ("X-Content-Type-Options", "nosniff"))
    return ServiceUnavailable("apiserver is shutting down", headers=headers)


def wait_group(group: RequestWaitGroup) -> Filter:
    """Counts requests that are not long-running; answers 503 to requests after the wait has begun."""

    def join(ctx: RequestContext) -> None:
        if ctx.info is not None and ctx.info.long_running:
            return
        if not group.add():
            if _exempt(ctx):
                return
            raise _refused()
        ctx.finishers.append(leave)

    def leave(ctx: RequestContext, code: int) -> None:
        group.done()

    return join


def watch_termination(group: RequestWaitGroup) -> Filter:
    """Counts watches separately, so that shutdown can end them at a bounded rate and wait for their end."""

    def join(ctx: RequestContext) -> None:
        if ctx.info is None or ctx.info.verb != "watch":
            return
        if not group.add():
            raise _refused()
        ctx.finishers.append(leave)

    def leave(ctx: RequestContext, code: int) -> None:
        group.done()

    return join
