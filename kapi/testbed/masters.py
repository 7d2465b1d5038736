"""Endpoints that bypass authorization and admission are only for members of system:masters."""

from __future__ import annotations

from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.user import SYSTEM_MASTERS


def require_masters(ctx: RequestContext, message: str) -> None:
    """Raises Forbidden with ``message`` for a user who is not a member."""
    if ctx.user is None or SYSTEM_MASTERS not in ctx.user.groups:
        raise status.Forbidden(message)
