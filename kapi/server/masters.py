"""Endpoints outside the API that show or change objects whatever roles and admission say: for members of system:masters alone."""

from __future__ import annotations

from kapi.machinery import status
from kapi.request.context import RequestContext
from kapi.request.user import SYSTEM_MASTERS


def require_masters(ctx: RequestContext, message: str) -> None:
    """Raises Forbidden with the message for everybody else."""
    if ctx.user is None or SYSTEM_MASTERS not in ctx.user.groups:
        raise status.Forbidden(message)
