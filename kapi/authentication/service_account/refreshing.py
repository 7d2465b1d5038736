"""Tokens of keys that may have come since the last look (upstream: ``externaljwt/plugin/keycache.go``, GetPublicKeys)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.logger import Logger

from kapi.authentication.interface import TokenAnswer, TokenAuthenticator
from kapi.authentication.service_account.issuer import SigningError
from kapi.authentication.service_account.signed import UnknownKey

_log = Logger()


class RefreshingTokens:
    """Asks for the keys when a token names one that is not known, and judges it again."""

    def __init__(self, tokens: TokenAuthenticator, refresh: Callable[[], Awaitable[None]]) -> None:
        self._tokens, self._refresh = tokens, refresh

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> TokenAnswer | Awaitable[TokenAnswer]:
        try:
            return self._tokens.authenticate_token(token, audiences)
        except UnknownKey as error:
            return self._again(token, audiences, error)

    async def _again(self, token: str, audiences: tuple[str, ...], unknown: UnknownKey) -> TokenAnswer:
        try:
            await self._refresh()
        except SigningError as error:
            _log.error("Looking for the key of a token: {error}", error=str(error))
            raise unknown from None
        answer = self._tokens.authenticate_token(token, audiences)
        return await answer if isinstance(answer, Awaitable) else answer
