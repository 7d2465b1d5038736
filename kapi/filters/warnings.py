"""Warnings for the client (upstream: apiserver ``endpoints/filters/warning.go``; KEP-1693).

``ctx.warn`` collects them, each text once; the response writer puts them into ``Warning`` headers, within bounds.
This filter clears them, so that a request starts without any.
"""

from __future__ import annotations

from kapi.request.context import RequestContext


def warnings(ctx: RequestContext) -> None:
    ctx.warnings.clear()
