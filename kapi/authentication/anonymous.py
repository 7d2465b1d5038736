"""The anonymous user (upstream: apiserver ``request/anonymous``)."""

from __future__ import annotations

from collections.abc import Iterable

from kapi.request.context import RequestContext
from kapi.request.user import ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo

ANONYMOUS_USER = UserInfo(ANONYMOUS, groups=(ALL_UNAUTHENTICATED,))


class AnonymousAuthenticator:
    """Accepts whoever shows no credentials; with ``paths``, only there."""

    def __init__(self, paths: Iterable[str] | None = None) -> None:
        self.paths = None if paths is None else frozenset(paths)

    def authenticate(self, ctx: RequestContext) -> UserInfo | None:
        if self.paths is not None and ctx.path not in self.paths:
            return None
        return ANONYMOUS_USER
