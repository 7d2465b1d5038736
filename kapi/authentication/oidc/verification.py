"""Signature, issuer, audience and times of an ID token (OpenID Connect Core 1.0, section 3.1.3.7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kapi.authentication.interface import AuthenticationError
from kapi.authentication.oidc.provider import Provider
from kapi.authentication.service_account.signed import parse_unverified, signed_claims
from kapi.machinery.field import quote
from kapi.machinery.tree import Object

if TYPE_CHECKING:
    import jwt

_EC_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_NOT_BEFORE_LEEWAY_SECONDS = 300


async def verified_claims(
    token: str, provider: Provider, audiences: Collection[str], algorithms: Collection[str], now: float
) -> Object:
    """The claims of a token of the provider.  ``now`` in unix seconds.  Raises AuthenticationError."""
    parsed = parse_unverified(token)
    if parsed is None:
        raise AuthenticationError("oidc: verify token: malformed jwt")
    algorithm, key_id = parsed[0].get("alg"), parsed[0].get("kid")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise AuthenticationError(f"oidc: verify token: unexpected signature algorithm {quote(str(algorithm))}")
    keys = await provider.keys_for(key_id if isinstance(key_id, str) else "", algorithm)
    claims = _signed_claims(token, algorithm, keys)
    _check(claims, provider.issuer, audiences, now)
    return claims


def _signed_claims(token: str, algorithm: str, keys: Sequence[jwt.PyJWK]) -> Object:
    for key in keys:
        if not _fits(key, algorithm):
            continue
        claims = signed_claims(token, key.key, (algorithm,))
        if claims is not None:
            return claims
    raise AuthenticationError("oidc: verify token: failed to verify signature: failed to verify id token signature")


def _fits(key: jwt.PyJWK, algorithm: str) -> bool:
    """A key verifies only the algorithms of its own kind, curve and declaration."""
    tree = key._jwk_data
    if tree.get("alg") not in (None, algorithm):
        return False
    if algorithm in _EC_CURVES:
        return bool(tree.get("kty") == "EC" and tree.get("crv") == _EC_CURVES[algorithm])
    return bool(tree.get("kty") == "RSA")


def _check(claims: Object, issuer: str, expected: Collection[str], now: float) -> None:
    if claims.get("iss") != issuer:
        raise AuthenticationError("oidc: verify token: id token issued by a different provider")
    given = claims.get("aud")
    audiences = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    if not any(audience in expected for audience in audiences if isinstance(audience, str)):
        raise AuthenticationError("oidc: verify token: oidc: expected audience in the token is missing")
    expires = claims.get("exp")
    if not isinstance(expires, (int, float)) or isinstance(expires, bool) or expires < now:
        raise AuthenticationError("oidc: verify token: oidc: token is expired")
    begins = claims.get("nbf")
    if isinstance(begins, (int, float)) and now + _NOT_BEFORE_LEEWAY_SECONDS < begins:
        raise AuthenticationError("oidc: verify token: oidc: current time before the nbf (not before) time")
