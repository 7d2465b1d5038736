"""Signature, issuer, audience and times of an ID token (OpenID Connect Core 1.0, section 3.1.3.7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kapi.authentication.interface import AuthenticationError
from kapi.authentication.oidc.provider import Provider, SigningKey
from kapi.authentication.service_account.signed import audience, numeric_date, parse_unverified, signed_claims
from kapi.client.typed import WrongType, string, string_map, struct
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.each import costly
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object

_NOT_BEFORE_LEEWAY_SECONDS = 300
_MAX_KEYS_AT_ONCE = 8  # keys that are tried without a pause
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


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
    wanted = key_id if isinstance(key_id, str) else ""
    known = provider.known_keys(wanted)
    claims = await _signed_claims(token, algorithm, known)
    if claims is None:
        claims = await _signed_claims(token, algorithm, await provider.newer_keys(wanted, known))
    if claims is None:
        raise AuthenticationError("oidc: verify token: failed to verify signature: failed to verify id token signature")
    _check(claims, provider.issuer, audiences, now)
    return claims


async def _signed_claims(token: str, algorithm: str, keys: Sequence[SigningKey]) -> Object | None:
    """The claims, if they are signed by one of the keys."""
    if len(keys) > _MAX_KEYS_AT_ONCE:
        await in_slices  # a token without a key id is tried with every key
    for key in costly(keys):
        if key.fits(algorithm) and key.public is not None:
            claims = signed_claims(token, key.public, (algorithm,))
            if claims is not None:
                return claims
    return None


def _time(value: object, path: str) -> None:
    """A number of seconds, which may be a text."""
    numeric_date(float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value, path)


def _sources(value: object, path: str) -> None:
    if not isinstance(value, dict):
        raise WrongType(f"json: cannot unmarshal {path}: it is no object")
    for each in value.values():
        if each is not None:
            _SOURCE(each, path)


_SOURCE = struct("oidc.claimSource", endpoint=string, access_token=string)
_ID_TOKEN = struct(
    "oidc.idToken",
    iss=string,
    sub=string,
    aud=audience,
    exp=_time,
    iat=_time,
    nbf=_time,
    nonce=string,
    at_hash=string,
    _claim_names=string_map,
    _claim_sources=_sources,
)


def _check(claims: Object, issuer: str, expected: Collection[str], now: float) -> None:
    try:
        _ID_TOKEN(claims, "idToken")
    except WrongType as error:
        raise AuthenticationError(f"oidc: verify token: oidc: failed to unmarshal claims: {error}") from None
    if claims.get("iss") != issuer:
        raise AuthenticationError("oidc: verify token: id token issued by a different provider")
    given = claims.get("aud") or ()
    if not any(each in expected for each in ((given,) if isinstance(given, str) else given)):
        raise AuthenticationError("oidc: verify token: oidc: expected audience in the token is missing")
    expires, begins = claims.get("exp"), claims.get("nbf")
    if expires is None or float(expires) < now:
        raise AuthenticationError("oidc: verify token: oidc: token is expired")
    if begins is not None and now + _NOT_BEFORE_LEEWAY_SECONDS < float(begins):
        raise AuthenticationError("oidc: verify token: oidc: current time before the nbf (not before) time")
