"""Which requests run as long as they like: watches, logs, and what is proxied or upgraded.

Upstream: apiserver ``server/filters/longrunning.go``.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.request.context import RequestContext

LongRunning = Callable[[RequestContext], bool]
_VERBS = frozenset({"watch", "proxy"})
_SUBRESOURCES = frozenset({"attach", "exec", "proxy", "log", "portforward"})


def long_running(ctx: RequestContext) -> bool:
    """True for requests without deadline, wait group and in-flight limit."""
    info = ctx.info
    if info is None:
        return False
    if info.is_resource:
        return info.verb in _VERBS or info.subresource in _SUBRESOURCES
    return info.path.startswith("/debug/pprof/")
