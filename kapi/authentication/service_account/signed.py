"""Verified claims of a JWT (upstream: ``pkg/serviceaccount/jwt.go``).

Whether a signature is valid depends only on token and keys, so verified tokens are cached (bounded, by digest, never the token
itself).  The claims are checked on every request.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import time
from collections.abc import Iterable
from typing import Any

import orjson

from kapi.authentication.cache import TOKEN_CACHES
from kapi.authentication.interface import AuthenticationError
from kapi.authentication.service_account.keys import KeySet, VerificationKey
from kapi.client.typed import Check, WrongType, list_of, string, struct
from kapi.machinery.tree import Object

Claims = Object
_CACHE_SIZE = 4096
_MAX_TOKEN_LENGTH = 64 * 1024  # characters

_MAX_SECONDS = 2.0**63  # a time is an int64 upstream


def numeric_date(value: object, path: str) -> None:
    """A number of unix seconds."""
    if value.__class__ not in (int, float) or not -_MAX_SECONDS <= value < _MAX_SECONDS:
        raise WrongType(f"json: cannot unmarshal {path}: it is no time")


def audience(value: object, path: str) -> None:
    """One audience, or a list of them."""
    if not isinstance(value, str):
        _STRINGS(value, path)


_STRINGS = list_of(string)
_PUBLIC: dict[str, Check] = {
    "iss": string,
    "sub": string,
    "aud": audience,
    "exp": numeric_date,
    "nbf": numeric_date,
    "iat": numeric_date,
    "jti": string,
}
_REFERENCE = struct("serviceaccount.ref", name=string, uid=string)
_PRIVATE = struct(
    "serviceaccount.kubernetes",
    namespace=string,
    serviceaccount=_REFERENCE,
    pod=_REFERENCE,
    node=_REFERENCE,
    secret=_REFERENCE,
    warnafter=numeric_date,
)
_CLAIMS = struct("jwt.Claims", **_PUBLIC, **{"kubernetes.io": _PRIVATE})


def parse_unverified(token: str) -> tuple[Claims, Claims] | None:
    """(header, claims) of the token, not verified; None for a text that is not a compact JWT."""
    if len(token) > _MAX_TOKEN_LENGTH:
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


_SIGNATURE_ONLY: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


def signed_claims(token: str, key: Any, algorithms: Iterable[str]) -> Claims | None:
    """The claims, if they are signed by a key with one of the algorithms, else None.  The claims themselves are not checked."""
    import jwt  # imported with the first token

    try:
        claims: Claims = jwt.decode(token, key, algorithms=list(algorithms), options=_SIGNATURE_ONLY)
    except jwt.PyJWTError:
        return None
    return claims


class UnknownKey(AuthenticationError):
    """A token names an unknown key."""


class SignedTokens:
    """Verifies the tokens of ``issuers`` by ``keys``."""

    def __init__(self, issuers: Iterable[str], keys: KeySet) -> None:
        self.issuers = frozenset(issuers)
        self.keys = keys
        self._verified_claims: dict[bytes, Claims] = {}
        self._verified_by = keys.keys  # the keys of the cached results, since a reload replaces them

    def claims(self, token: str) -> Claims | None:
        """The verified claims; None when the token is of another issuer.  Raises AuthenticationError."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        if self._verified_by is not self.keys.keys:
            self._verified_claims.clear()
            self._verified_by = self.keys.keys
        known = self._verified_claims.get(digest)
        if known is not None:
            TOKEN_CACHES.hits += 1
            return known
        parsed = parse_unverified(token)
        if parsed is None:
            return None
        issuer = parsed[1].get("iss")
        if not isinstance(issuer, str) or issuer not in self.issuers:
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
            try:
                _CLAIMS(claims, "claims")
            except WrongType as error:
                raise AuthenticationError(str(error)) from None
            if len(self._verified_claims) >= _CACHE_SIZE:
                self._verified_claims.clear()
            self._verified_claims[digest] = claims
            return claims
        raise AuthenticationError("go-jose/go-jose: error in cryptographic primitive")


def audiences_of(claims: Claims) -> tuple[str, ...]:
    """The audiences; ``aud`` may be a string or a list."""
    value = claims.get("aud")
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
