"""Makes ServiceAccount tokens (upstream: ``pkg/serviceaccount/claims.go``; KEP-1205 bound tokens).

A signer may have new keys since the last fetch (upstream: ``externaljwt/plugin/keycache.go``, GetPublicKeys).
"""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Self, TypeVar

from twisted.logger import Logger

from kapi.authentication.interface import TokenAnswer, TokenAuthenticator
from kapi.authentication.service_account.keys import PrivateKey, VerificationKey
from kapi.authentication.service_account.names import username
from kapi.authentication.service_account.signed import UnknownKey
from kapi.codecs import json_pieces
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.importing import import_in_thread
from kapi.machinery.tree import Object

_LIBRARY = "jwt"
#: a token, or an awaitable of it
Signed = TypeVar("Signed")
log = Logger()


def _reference(obj: Object) -> Object:
    metadata = obj["metadata"]
    reference = {"name": metadata["name"]}
    if metadata.get("uid"):
        reference["uid"] = metadata["uid"]
    return reference


def issuer_of(issuer: str, realm: str) -> str:
    """The issuer of a logical cluster's tokens: a server that trusts the process's issuer must not accept them."""
    return f"{issuer.rstrip('/')}/realms/{realm}" if realm else issuer


class SigningError(Exception):
    """A token could not be signed.  ``code`` is gRPC's name of the outcome of a call to an external signer."""

    code = "unknown-non-grpc"

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code or self.code


class Issuer(Generic[Signed]):
    """Makes tokens of one issuer; a subclass signs them."""

    def __init__(self, issuer: str, clock: Callable[[], float] = time.time) -> None:
        self.issuer = issuer
        self._clock = clock

    @property
    def max_seconds(self) -> int:
        """The longest lifetime of a token; 0 for no limit."""
        return 0

    def of_realm(self, realm: str, clock: Callable[[], float]) -> Self:
        """The same issuer for the ServiceAccounts of another store, with another clock (unix seconds)."""
        other = copy.copy(self)
        other._clock, other.issuer = clock, issuer_of(self.issuer, realm)
        return other

    def sign(self, payload: bytes) -> Signed:
        """Raises SigningError."""
        raise NotImplementedError

    def issue(
        self,
        account: Object,
        audiences: Sequence[str],
        seconds: int,
        *,
        pod: Object | None = None,
        node: Object | None = None,
        secret: Object | None = None,
        warn_after: int = 0,
    ) -> tuple[Signed, str]:
        """(token, its id) for a ServiceAccount, valid for ``seconds``, bound to at most one pod, node or secret.

        A pod's token also names its node.  ``warn_after`` (seconds from now) marks a token whose use is to be reported.
        """
        now, token_id = int(self._clock()), str(uuid.uuid4())
        metadata = account["metadata"]
        bound: Object = {"namespace": metadata["namespace"]}
        for kind, obj in (("node", node), ("pod", pod), ("secret", secret)):
            if obj is not None:
                bound[kind] = _reference(obj)
        bound["serviceaccount"] = _reference(account)
        if warn_after:
            bound["warnafter"] = now + warn_after
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": token_id,
            "kubernetes.io": bound,
            "nbf": now,
            "sub": username(metadata["namespace"], metadata["name"]),
        }
        token = self.sign(json_pieces.dumps(claims))  # a client may name 200,000 audiences
        checkpoint()
        return token, token_id


class TokenIssuer(Issuer[str]):
    """Signs with one key, for one issuer."""

    def __init__(self, issuer: str, key: PrivateKey, clock: Callable[[], float] = time.time) -> None:
        super().__init__(issuer, clock)
        self._key = key
        self.verification_key = VerificationKey.of(key.public_key())
        self._algorithm = self.verification_key.signing_algorithm

    def sign(self, payload: bytes) -> str:
        import_in_thread(_LIBRARY)  # with the first token
        import jwt

        headers = {"kid": self.verification_key.key_id, "typ": None}
        return jwt.api_jws.encode(payload, self._key, algorithm=self._algorithm, headers=headers)


class RefreshingTokens:
    """Fetches the keys again for a token of an unknown key, and then authenticates the token again."""

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
            log.error("Looking for the key of a token: {error}", error=str(error))
            raise unknown from None
        answer = self._tokens.authenticate_token(token, audiences)
        return await answer if isinstance(answer, Awaitable) else answer
