"""Ends some HTTP/2 connections, so that clients reconnect and load spreads (upstream: ``server/filters/goaway.go``)."""

from __future__ import annotations

import random
from collections.abc import Callable

from kapi.filters.chain import Filter
from kapi.request.context import RequestContext
from kapi.request.response import CLOSE


def goaway(chance: float, draw: Callable[[], float] = random.random) -> Filter:
    """``chance`` from 0 to .02 (``--goaway-chance``).  Only HTTP/2 connections are ended, after the answer."""

    def decide(ctx: RequestContext) -> None:
        if draw() < chance:
            end_http2(ctx)

    return decide


def end_http2(ctx: RequestContext) -> None:
    """Ends an HTTP/2 connection after the answer; as upstream, ``Connection: close`` causes GOAWAY."""
    protocol = getattr(ctx.http, "clientproto", b"")
    if protocol in (b"HTTP/2", b"HTTP/2.0") and not ctx.connection_closing:
        ctx.connection_closing = True
        ctx.response_headers.append(CLOSE)
