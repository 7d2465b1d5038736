"""Verified claims of a JWT (upstream: ``pkg/serviceaccount/jwt.go``).

A signature is a pure function of token and keys, so verified tokens are remembered (bounded, by digest, never the token
itself); whether the claims still hold is decided on every request.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Iterable
from typing import Any

import orjson

from kapi.authentication.interface import AuthenticationError
from kapi.authentication.metrics import TOKEN_CACHES
from kapi.authentication.service_account.keys import KeySet, VerificationKey
from kapi.machinery.tree import Object

Claims = Object
_CACHE_SIZE = 4096
_MAX_TOKEN = 64 * 1024  # characters


def unverified(token: str) -> tuple[Claims, Claims] | None:
    """(header, claims) as the token says, or None when it is no compact JWT.  Nothing of it may be trusted."""
    if len(token) > _MAX_TOKEN:
        return None
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        header, claims = (orjson.loads(_decode(part)) for part in parts[:2])
    except (binascii.Error, ValueError):
        return None
    return (header, claims) if isinstance(header, dict) and isinstance(claims, dict) else None


def _decode(part: str) -> bytes:
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


_ONLY_THE_SIGNATURE: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


def signed_claims(token: str, key: Any, algorithms: Iterable[str]) -> Claims | None:
    """The claims that a key has signed by one of the algorithms; None when it has not.  What they say is not judged."""
    import jwt  # with the first token

    try:
        claims: Claims = jwt.decode(token, key, algorithms=list(algorithms), options=_ONLY_THE_SIGNATURE)
    except jwt.PyJWTError:
        return None
    return claims


class UnknownKey(AuthenticationError):
    """A token names a key that is not there."""


class SignedTokens:
    """Tokens of some issuers, verified by some keys."""

    def __init__(self, issuers: Iterable[str], keys: KeySet) -> None:
        self.issuers = frozenset(issuers)
        self.keys = keys
        self._known: dict[bytes, Claims] = {}
        self._known_by = keys.keys  # which may become others

    def claims(self, token: str) -> Claims | None:
        """The verified claims; None when the token is of another issuer.  Raises AuthenticationError."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        if self._known_by is not self.keys.keys:
            self._known.clear()
            self._known_by = self.keys.keys
        known = self._known.get(digest)
        if known is not None:
            TOKEN_CACHES.hits += 1
            return known
        parsed = unverified(token)
        if parsed is None or parsed[1].get("iss") not in self.issuers:
            return None
        key_id = parsed[0].get("kid")
        candidates = self.keys.candidates(key_id if isinstance(key_id, str) else "")
        if not candidates:
            raise UnknownKey("invalid signature, no keys found")
        began, verified = time.monotonic(), None
        try:
            verified = self._verified(token, digest, candidates)
        finally:
            TOKEN_CACHES.missed(time.monotonic() - began, verified is not None)
        return verified

    def _verified(self, token: str, digest: bytes, candidates: Iterable[VerificationKey]) -> Claims:
        for key in candidates:
            claims = signed_claims(token, key.key, key.algorithms)
            if claims is None:
                continue
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[digest] = claims
            return claims
        raise AuthenticationError("go-jose/go-jose: error in cryptographic primitive")


def audiences_of(claims: Claims) -> tuple[str, ...]:
    """``aud`` may be a string or a list."""
    value = claims.get("aud")
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
