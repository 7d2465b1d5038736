"""Authentication: determines the user of a request, or answers 401 (upstream: apiserver ``filters/authentication.go``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from twisted.logger import Logger

from kapi.authentication.interface import AuthenticationError, Authenticator, RequestAnswer
from kapi.filters.chain import Filter
from kapi.filters.goaway import end_http2
from kapi.machinery.status import Unauthorized, unauthorized
from kapi.request.context import RequestContext
from kapi.request.headers import any_header_with_prefix, remove_header, remove_headers_with_prefix
from kapi.request.user import ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo

log = Logger()
#: called with "success", "failure" or "error", the seconds it took, and the user's name
Recorder = Callable[[str, float, str], None]


class ProxyHeaders(NamedTuple):
    """Headers in which an authenticating proxy names the user; from any other client they are ignored."""

    names: tuple[str, ...] = ("X-Remote-User", "X-Remote-Uid", "X-Remote-Group")
    prefixes: tuple[str, ...] = ("X-Remote-Extra-",)

    def remove(self, ctx: RequestContext) -> None:
        for name in self.names:
            remove_header(ctx, name)
        for prefix in self.prefixes:
            remove_headers_with_prefix(ctx, prefix)


STANDARD_HEADERS = ProxyHeaders()


def _keep(ctx: RequestContext) -> None:
    """The action without mitigation: leaves the connection open."""


def authentication(
    authenticator: Authenticator | None,
    record: Recorder | None = None,
    proxy_headers: ProxyHeaders = STANDARD_HEADERS,
    public: Collection[str] = (),
    *,
    mitigation: bool = True,
) -> Filter:
    """Sets ``ctx.user``.  Raises Unauthorized, which does not tell the reason.  Without an authenticator every request passes.

    Removes credentials, the standard proxy headers and ``proxy_headers`` from the request.  With ``mitigation`` an HTTP/2
    connection ends after a request of an anonymous client (CVE-2023-44487), but not after one for a ``public`` path: a browser
    loads a page's files together, before its user logs in.
    """
    end = end_http2 if mitigation else _keep

    def accept(ctx: RequestContext, user: RequestAnswer, started: float) -> None:
        if user is None:
            raise refuse(ctx, "failure", "", started)
        ctx.user = user
        remove_header(ctx, "Authorization")
        if any_header_with_prefix(ctx, b"X-Remote-"):
            STANDARD_HEADERS.remove(ctx)
        if proxy_headers is not STANDARD_HEADERS:
            proxy_headers.remove(ctx)
        if (user.name == ANONYMOUS or ALL_UNAUTHENTICATED in user.groups) and ctx.path not in public:
            end(ctx)
        if record is not None:
            record("success", time.perf_counter() - started, user.name)

    def refuse(ctx: RequestContext, outcome: str, text: str, started: float) -> Unauthorized:
        if text:
            log.debug("Unable to authenticate the request: {error}", error=text, audit_id=ctx.audit_id)
        if record is not None:
            record(outcome, time.perf_counter() - started, "")
        end(ctx)
        return unauthorized()

    async def wait(ctx: RequestContext, waiting: Awaitable[RequestAnswer], started: float) -> None:
        try:
            user = await waiting
        except AuthenticationError as error:
            raise refuse(ctx, "error", str(error), started) from None
        finally:
            ctx.add_latency("authentication", time.perf_counter() - started)
        accept(ctx, user, started)

    def check(ctx: RequestContext) -> None | Awaitable[None]:
        if authenticator is None:
            return None
        started = time.perf_counter()
        try:
            answer = authenticator.authenticate(ctx)
        except AuthenticationError as error:
            raise refuse(ctx, "error", str(error), started) from None
        if answer is None or isinstance(answer, UserInfo):
            accept(ctx, answer, started)
            return None
        return wait(ctx, answer, started)

    return check
