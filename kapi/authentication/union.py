"""Authenticators one after another (upstream: apiserver ``request/union``, ``token/union``, ``group``)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from kapi.authentication.interface import (
    Authenticated,
    AuthenticationError,
    Authenticator,
    RequestAnswer,
    TokenAnswer,
    TokenAuthenticator,
    with_authenticated_group,
)
from kapi.request.context import RequestContext
from kapi.request.user import UserInfo

_CACHE_SIZE = 1024
Answer = TypeVar("Answer")


class UnionAuthenticator:
    """The first authenticator that returns a user decides; bad credentials are an error only if no authenticator returns one.

    The user gets the group ``system:authenticated``.  ``anonymous`` is used only without bad credentials.
    """

    def __init__(self, authenticators: Sequence[Authenticator], anonymous: Authenticator | None = None) -> None:
        self.authenticators = tuple(authenticators)
        self.anonymous = anonymous
        self._members: dict[int, tuple[UserInfo, UserInfo]] = {}  # id of a user -> (the user, the user with the group)

    def _member(self, user: UserInfo) -> UserInfo:
        """The user with the group ``system:authenticated``; made once for users that authenticators keep."""
        known = self._members.get(id(user))
        if known is not None and known[0] is user:
            return known[1]
        member = with_authenticated_group(user)
        if len(self._members) >= _CACHE_SIZE:
            self._members.clear()
        self._members[id(user)] = (user, member)
        return member

    def authenticate(self, ctx: RequestContext) -> RequestAnswer | Awaitable[RequestAnswer]:
        errors: list[AuthenticationError] = []
        for position, authenticator in enumerate(self.authenticators, 1):
            try:
                answer = authenticator.authenticate(ctx)
            except AuthenticationError as error:
                errors.append(error)
                continue
            if answer is None:
                continue
            if isinstance(answer, UserInfo):
                return self._member(answer)
            return self._resume(ctx, answer, position, errors)
        return self._end(ctx, errors)

    async def _resume(
        self, ctx: RequestContext, waiting: Awaitable[RequestAnswer], position: int, errors: list[AuthenticationError]
    ) -> RequestAnswer:
        others = (partial(each.authenticate, ctx) for each in self.authenticators[position:])
        answer = await _first(waiting, others, errors)
        if answer is not None:
            return with_authenticated_group(answer)
        last = self._end(ctx, errors)
        return await last if inspect.isawaitable(last) else last

    def _end(self, ctx: RequestContext, errors: list[AuthenticationError]) -> RequestAnswer | Awaitable[RequestAnswer]:
        if errors:
            raise AuthenticationError.joined(errors)
        return None if self.anonymous is None else self.anonymous.authenticate(ctx)


class UnionTokenAuthenticator:
    """A UnionAuthenticator for tokens."""

    def __init__(self, authenticators: Sequence[TokenAuthenticator]) -> None:
        self.authenticators = tuple(authenticators)

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> TokenAnswer | Awaitable[TokenAnswer]:
        errors: list[AuthenticationError] = []
        for position, authenticator in enumerate(self.authenticators, 1):
            try:
                answer = authenticator.authenticate_token(token, audiences)
            except AuthenticationError as error:
                errors.append(error)
                continue
            if answer is None:
                continue
            if isinstance(answer, Authenticated):
                return answer
            others = (partial(each.authenticate_token, token, audiences) for each in self.authenticators[position:])
            return self._resume(answer, others, errors)
        if errors:
            raise AuthenticationError.joined(errors)
        return None

    @staticmethod
    async def _resume(
        waiting: Awaitable[TokenAnswer],
        others: Iterable[Callable[[], TokenAnswer | Awaitable[TokenAnswer]]],
        errors: list[AuthenticationError],
    ) -> TokenAnswer:
        answer = await _first(waiting, others, errors)
        if answer is None and errors:
            raise AuthenticationError.joined(errors)
        return answer


async def _first(
    waiting: Awaitable[Answer | None],
    others: Iterable[Callable[[], Answer | None | Awaitable[Answer | None]]],
    errors: list[AuthenticationError],
) -> Answer | None:
    """The first answer of the authenticator that waits and of those after it; their errors are added to ``errors``."""
    for ask in (lambda: waiting, *others):
        try:
            step = ask()
            answer = await step if inspect.isawaitable(step) else step
            if answer is not None:
                return answer
        except AuthenticationError as error:
            errors.append(error)
    return None
