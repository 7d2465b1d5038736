"""The interface of authenticators (upstream: apiserver ``pkg/authentication/authenticator``).

A request authenticator returns a UserInfo, or None for "no opinion"; a token authenticator returns an Authenticated or None.
Bad credentials raise AuthenticationError, whose text goes to TokenReview and the debug log, never to a 401.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple, Protocol, Union

import msgspec

from kapi.machinery.golang import aggregate
from kapi.request.context import RequestContext
from kapi.request.user import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo


class Notes(NamedTuple):
    """Reports about credentials: audit annotations, and warnings to the client."""

    annotations: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


NO_NOTES = Notes()


class AuthenticationError(Exception):
    """The request has invalid credentials.  The text contains no secret."""

    def __init__(self, *texts: str, notes: Notes = NO_NOTES) -> None:
        self.texts = texts
        self.notes = notes
        super().__init__(aggregate(texts))

    @classmethod
    def joined(cls, errors: Sequence[AuthenticationError]) -> AuthenticationError:
        """The errors of several authenticators as one error."""
        notes = Notes(
            tuple(note for error in errors for note in error.notes.annotations),
            tuple(text for error in errors for text in error.notes.warnings),
        )
        return cls(*(text for error in errors for text in error.texts), notes=notes)


class Authenticated(msgspec.Struct, frozen=True):
    """A token's user, and the requested audiences for which the token is valid."""

    user: UserInfo
    audiences: tuple[str, ...] = ()
    expires: float = 0.0  # unix seconds after which the result is not valid; 0 = unknown
    notes: Notes = NO_NOTES


TokenAnswer = Union[Authenticated, None]
RequestAnswer = Union[UserInfo, None]


class TokenAuthenticator(Protocol):
    """``audiences`` are the requested ones; empty means the audiences of this API server."""

    def authenticate_token(
        self, token: str, audiences: tuple[str, ...] = ()
    ) -> TokenAnswer | Awaitable[TokenAnswer]: ...


class Authenticator(Protocol):
    def authenticate(self, ctx: RequestContext) -> RequestAnswer | Awaitable[RequestAnswer]: ...


def intersect(left: Iterable[str], right: Iterable[str]) -> tuple[str, ...]:
    """The elements of both, in the order of ``right``."""
    known = set(left)
    return tuple(item for item in right if item in known)


def with_authenticated_group(user: UserInfo) -> UserInfo:
    """The user with the group ``system:authenticated``, unless it is anonymous."""
    if user.name == ANONYMOUS or ALL_AUTHENTICATED in user.groups or ALL_UNAUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, ALL_AUTHENTICATED), user.extra)
