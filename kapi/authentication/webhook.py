"""Authentication of tokens by another server: the TokenReview webhook (upstream: apiserver ``plugin/.../token/webhook``).

Requests that need the same answer at the same time share one lookup (upstream: the singleflight group of ``token/cache``): for a
controller with a hundred running requests and one token, the webhook is called once.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.authentication.cache import TOKEN_CACHES, TokenCache
from kapi.authentication.interface import Authenticated, AuthenticationError, TokenAnswer, intersect
from kapi.client.review import ReviewClient, ReviewError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo

if TYPE_CHECKING:
    from kapi.client.endpoint_client import EndpointClient

Answer = TypeVar("Answer")
log = Logger()


class SharedLookups(Generic[Answer]):
    """Lookups that requests share.  A lookup is cancelled when no request waits for it any more."""

    def __init__(self) -> None:
        self._running: dict[bytes, _Lookup[Answer]] = {}

    def ask(self, key: bytes, begin: Callable[[], Awaitable[Answer]]) -> Deferred[Answer]:
        """The answer of the running lookup for ``key``, or of a new lookup that ``begin`` starts."""
        known = self._running.get(key)
        if known is not None:
            return known.wait()
        lookup: _Lookup[Answer] = _Lookup(lambda: self._forget(key, lookup))
        self._running[key] = lookup
        waiting = lookup.wait()

        async def run() -> Answer:
            return await begin()

        lookup.asking = Deferred.fromCoroutine(run())
        lookup.asking.addBoth(self._answered, key, lookup)
        return waiting

    def _answered(self, result: Answer | Failure, key: bytes, lookup: _Lookup[Answer]) -> None:
        self._forget(key, lookup)
        lookup.end(result)

    def _forget(self, key: bytes, lookup: _Lookup[Answer]) -> None:
        if self._running.get(key) is lookup:
            del self._running[key]


class _Lookup(Generic[Answer]):
    """A lookup, and the requests that wait for it.  ``forget`` is called before the lookup is cancelled."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self.asking: Deferred[Answer] | None = None
        self._waiting: dict[Deferred[Answer], None] = {}

    def wait(self) -> Deferred[Answer]:
        waiting: Deferred[Answer] = Deferred(self._left)
        self._waiting[waiting] = None
        TOKEN_CACHES.blocked += 1
        return waiting

    def _left(self, waiting: Deferred[Answer]) -> None:
        if self._waiting.pop(waiting, waiting) is None:
            TOKEN_CACHES.blocked -= 1
        if not self._waiting and self.asking is not None:
            self._forget()
            self.asking.cancel()

    def end(self, result: Answer | Failure) -> None:
        waiting, self._waiting = self._waiting, {}
        TOKEN_CACHES.blocked -= len(waiting)
        for one in waiting:
            if not one.called:  # a request may be cancelled because another got its answer
                one.callback(result)


class WebhookTokenAuthenticator:
    """``ttl``: seconds for which an answer is cached.  While the webhook does not answer, no new token is accepted."""

    def __init__(
        self,
        reactor: IReactorTime,
        client: EndpointClient,
        *,
        version: str = "v1beta1",
        ttl: float = 120.0,
        api_audiences: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
        first_delay: float = 0.5,
    ) -> None:
        self._reviews = ReviewClient(reactor, client, "TokenReview", "token review webhook", first_delay)
        self.version = version
        self.ttl = ttl
        self.api_audiences = api_audiences
        self._cache: TokenCache[Authenticated | str] = TokenCache(clock=clock)
        self._lookups: SharedLookups[Authenticated | None] = SharedLookups()

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> TokenAnswer | Awaitable[TokenAnswer]:
        requested = audiences or self.api_audiences
        digest = self._cache.digest(token, *requested)
        known = self._cache.get(digest)
        if known is not None:
            TOKEN_CACHES.hits += 1
            return _outcome(known)
        return self._lookups.ask(digest, lambda: TOKEN_CACHES.fetching(self._request(token, requested, digest)))

    async def _request(self, token: str, audiences: tuple[str, ...], digest: bytes) -> TokenAnswer:
        review = {
            "kind": "TokenReview",
            "apiVersion": f"authentication.k8s.io/{self.version}",
            "metadata": {},
            "spec": {"token": token, **({"audiences": list(audiences)} if audiences else {})},
            "status": {"user": {}},
        }
        try:
            status = await self._reviews.status(review)
        except ReviewError as error:
            log.error("Failed to make webhook authenticator request: {error}", error=str(error))
            raise AuthenticationError(str(error)) from None
        outcome = self._outcome_of(status, audiences)
        if not isinstance(outcome, str) or not outcome:
            self._cache.put(digest, outcome, self.ttl)  # errors are not cached: they may be temporary
        return _outcome(outcome)

    def _outcome_of(self, status: Object, audiences: tuple[str, ...]) -> Authenticated | str:
        """The user, or the error, which is "" when the webhook does not know the token."""
        given = tuple(status.get("audiences") or ())
        shared = intersect(audiences, given) if given else intersect(audiences, self.api_audiences)
        if audiences and not shared:
            return ""
        if not status.get("authenticated"):
            return str(status.get("error") or "")
        user = status.get("user") or {}
        extra = {str(key): tuple(values or ()) for key, values in (user.get("extra") or {}).items()}
        info = UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra)
        return Authenticated(info, shared)


def _outcome(known: Authenticated | str) -> TokenAnswer:
    if isinstance(known, str):
        if known:
            raise AuthenticationError(known)
        return None
    return known
