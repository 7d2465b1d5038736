"""Authentication: who makes the request, or 401 (upstream: apiserver ``filters/authentication.go``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.logger import Logger

from kapi.authentication.interface import AuthenticationError, Authenticator, RequestAnswer
from kapi.filters.chain import Filter
from kapi.machinery.status import Unauthorized
from kapi.request.context import RequestContext
from kapi.request.headers import remove_header
from kapi.request.user import UserInfo

_log = Logger()
#: called with the request and "success", "failure" or "error"
Recorder = Callable[[RequestContext, str], None]


def authentication(authenticator: Authenticator | None, record: Recorder | None = None) -> Filter:
    """Sets ``ctx.user``.  Raises Unauthorized, which tells nothing of why; without authenticator everybody passes."""

    def accept(ctx: RequestContext, user: RequestAnswer) -> None:
        if user is None:
            raise refuse(ctx, "failure", "")
        ctx.user = user
        remove_header(ctx, "Authorization")
        if record is not None:
            record(ctx, "success")

    def refuse(ctx: RequestContext, outcome: str, text: str) -> Unauthorized:
        if text:
            _log.debug("Unable to authenticate the request: {error}", error=text, audit_id=ctx.audit_id)
        if record is not None:
            record(ctx, outcome)
        return Unauthorized()

    async def wait(ctx: RequestContext, waiting: Awaitable[RequestAnswer]) -> None:
        try:
            user = await waiting
        except AuthenticationError as error:
            raise refuse(ctx, "error", str(error)) from None
        accept(ctx, user)

    def check(ctx: RequestContext) -> None | Awaitable[None]:
        if authenticator is None:
            return None
        try:
            answer = authenticator.authenticate(ctx)
        except AuthenticationError as error:
            raise refuse(ctx, "error", str(error)) from None
        if answer is None or isinstance(answer, UserInfo):
            accept(ctx, answer)
            return None
        return wait(ctx, answer)

    return check
