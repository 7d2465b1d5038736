"""Authentication of tokens by another server: the TokenReview webhook (upstream: apiserver ``plugin/.../token/webhook``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from kapi.authentication.cache import ExpiringCache
from kapi.authentication.interface import Authenticated, AuthenticationError, TokenAnswer, intersect
from kapi.authentication.metrics import TOKEN_CACHES
from kapi.authentication.shared_lookups import SharedLookups
from kapi.client.review import ReviewClient, ReviewError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo

if TYPE_CHECKING:
    from kapi.client.https import HTTPSClient

_log = Logger()


class WebhookTokenAuthenticator:
    """``ttl``: seconds for which an answer is cached.  While the webhook does not answer, no new token is accepted."""

    def __init__(
        self,
        reactor: IReactorTime,
        client: HTTPSClient,
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
        self._cache: ExpiringCache[Authenticated | str] = ExpiringCache(clock=clock)
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
            _log.error("Failed to make webhook authenticator request: {error}", error=str(error))
            raise AuthenticationError(str(error)) from None
        outcome = self._outcome_of(status, audiences)
        if not isinstance(outcome, str) or not outcome:
            self._cache.put(digest, outcome, self.ttl)  # errors are not cached: they may be temporary
        return _outcome(outcome)

    def _outcome_of(self, status: Object, audiences: tuple[str, ...]) -> Authenticated | str:
        """The user; or the error, "" when the webhook does not know the token."""
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
