"""Bearer tokens: the Authorization header and the WebSocket subprotocol of browsers.

Upstream: apiserver ``request/bearertoken`` and ``request/websocket``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable

from kapi.authentication.interface import (
    NO_NOTES,
    Authenticated,
    AuthenticationError,
    Notes,
    RequestAnswer,
    TokenAnswer,
    TokenAuthenticator,
)
from kapi.request.context import RequestContext
from kapi.request.headers import all_headers, first_header
from kapi.request.user import UserInfo

INVALID_TOKEN = "invalid bearer token"
_EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"
_PROTOCOL_PREFIX = "base64url.bearer.authorization.k8s.io."


class _TokenRequests:
    def __init__(self, tokens: TokenAuthenticator) -> None:
        self.tokens = tokens

    def _token(self, ctx: RequestContext) -> str:
        raise NotImplementedError

    def _accepted(self, ctx: RequestContext) -> None:
        """Takes the token out of the request."""

    def authenticate(self, ctx: RequestContext) -> RequestAnswer | Awaitable[RequestAnswer]:
        token = self._token(ctx)
        if not token:
            return None
        try:
            answer = self.tokens.authenticate_token(token)
        except AuthenticationError as error:
            raise _refused(ctx, error) from None
        if answer is None or isinstance(answer, Authenticated):
            return self._user(ctx, answer)
        return self._wait(ctx, answer)

    async def _wait(self, ctx: RequestContext, waiting: Awaitable[TokenAnswer]) -> UserInfo:
        try:
            answer = await waiting
        except AuthenticationError as error:
            raise _refused(ctx, error) from None
        return self._user(ctx, answer)

    def _user(self, ctx: RequestContext, answer: Authenticated | None) -> UserInfo:
        if answer is None:
            raise AuthenticationError(INVALID_TOKEN)
        self._accepted(ctx)
        _copy_notes(ctx, answer.notes)
        return answer.user


def _copy_notes(ctx: RequestContext, notes: Notes) -> None:
    if notes is not NO_NOTES:
        ctx.annotations.update(notes.annotations)
        for text in notes.warnings:
            ctx.warn(text)


def _refused(ctx: RequestContext, error: AuthenticationError) -> AuthenticationError:
    _copy_notes(ctx, error.notes)
    return AuthenticationError(INVALID_TOKEN, *error.texts)


class BearerAuthenticator(_TokenRequests):
    """``Authorization: Bearer <token>``; other schemes are ignored.  The filter removes the header."""

    def _token(self, ctx: RequestContext) -> str:
        header = first_header(ctx, "Authorization")
        token = bearer_token(header)
        if not token and header[:8].lower() == "bearer  ":
            ctx.warn(_EXTRA_SPACE)
        return token


def bearer_token(header: str) -> str:
    """The token in the value of an Authorization header; "" for another scheme and after two spaces."""
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


class WebSocketAuthenticator(_TokenRequests):
    """``Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.<token>, <the protocol of the endpoint>``."""

    def _token(self, ctx: RequestContext) -> str:
        if first_header(ctx, "Upgrade").lower() != "websocket":
            return ""
        token, others = "", False
        for protocol in self._protocols(ctx):
            if not protocol.startswith(_PROTOCOL_PREFIX):
                others = True
            elif token:
                raise AuthenticationError("multiple bearer tokens in Sec-WebSocket-Protocol")
            else:
                token = self._decode(protocol[len(_PROTOCOL_PREFIX) :])
        if token and not others:
            raise AuthenticationError("missing additional subprotocol")
        return token

    @staticmethod
    def _protocols(ctx: RequestContext) -> list[str]:
        values = ",".join(all_headers(ctx, "Sec-WebSocket-Protocol"))
        return [value.strip() for value in values.split(",") if value.strip()]

    @staticmethod
    def _decode(text: str) -> str:
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            return data.decode("utf-8")
        except (binascii.Error, ValueError):
            raise AuthenticationError("invalid base64.bearer.authorization token encoding") from None

    def _accepted(self, ctx: RequestContext) -> None:
        rest = [protocol for protocol in self._protocols(ctx) if not protocol.startswith(_PROTOCOL_PREFIX)]
        ctx.http.requestHeaders.setRawHeaders(b"sec-websocket-protocol", [",".join(rest).encode()])
