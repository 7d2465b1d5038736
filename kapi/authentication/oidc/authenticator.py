"""ID tokens of an OpenID Connect provider (upstream: apiserver ``plugin/pkg/authenticator/token/oidc``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import jwt

from kapi import cel
from kapi.authentication.cache import ExpiringCache
from kapi.authentication.interface import Authenticated, AuthenticationError, TokenAnswer
from kapi.authentication.oidc.configuration import Expressions
from kapi.authentication.oidc.provider import Provider
from kapi.authentication.service_account.signed import unverified
from kapi.authentication.static_tokens import for_any_audience
from kapi.machinery.field import quote
from kapi.request.user import UserInfo

Object = dict[str, Any]
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
_EC_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_TTL = 10.0  # seconds a verified token is believed without verifying it again


class OIDCAuthenticator:
    """One ``jwt`` entry.  ``algorithms`` are those of ``--oidc-signing-algs``; HMAC and "none" are never among them."""

    def __init__(
        self,
        provider: Provider,
        entry: Object,
        expressions: Expressions,
        *,
        algorithms: Sequence[str] = ALGORITHMS,
        api_audiences: tuple[str, ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.provider = provider
        self.expressions = expressions
        issuer = entry["issuer"]
        self._issuer: str = issuer["url"]
        self._audiences = frozenset(issuer["audiences"])
        self._mappings: Object = entry.get("claimMappings") or {}
        self._required = {
            rule["claim"]: rule.get("requiredValue", "")
            for rule in entry.get("claimValidationRules") or ()
            if rule.get("claim")
        }
        self._algorithms = frozenset(algorithms) & frozenset(ALGORITHMS)
        self._api_audiences = api_audiences
        self._clock = clock
        self._cache: ExpiringCache[UserInfo] = ExpiringCache(clock=clock)

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> TokenAnswer | Awaitable[TokenAnswer]:
        parsed = unverified(token)
        if parsed is None or parsed[1].get("iss") != self._issuer:
            return None
        digest = self._cache.digest(token)
        known = self._cache.get(digest)
        if known is not None:
            return for_any_audience(known, self._api_audiences, audiences)
        return self._verify(token, parsed[0], audiences, digest)

    async def _verify(
        self, token: str, header: Object, audiences: tuple[str, ...], digest: bytes
    ) -> Authenticated | None:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._algorithms:
            raise AuthenticationError(f"oidc: verify token: unexpected signature algorithm {quote(str(algorithm))}")
        keys = await self.provider.keys_for(key_id if isinstance(key_id, str) else "", str(algorithm))
        claims = self._claims(token, str(algorithm), keys)
        self._check(claims)
        user = self._user(claims)
        expires = float(claims["exp"])
        self._cache.put(digest, user, _TTL, expires)
        return for_any_audience(user, self._api_audiences, audiences, expires)

    def _claims(self, token: str, algorithm: str, keys: Sequence[jwt.PyJWK]) -> Object:
        for key in keys:
            if not _fits(key, algorithm):
                continue
            try:
                claims: Object = jwt.decode(
                    token,
                    key.key,
                    algorithms=[algorithm],
                    options={
                        "verify_exp": False,
                        "verify_nbf": False,
                        "verify_iat": False,
                        "verify_aud": False,
                        "verify_iss": False,
                        "verify_sub": False,
                        "verify_jti": False,
                    },
                )
            except jwt.PyJWTError:
                continue
            return claims
        raise AuthenticationError("oidc: verify token: failed to verify signature: failed to verify id token signature")

    def _check(self, claims: Object) -> None:
        """Issuer, audience and times of a token whose signature is good."""
        if claims.get("iss") != self._issuer:
            raise AuthenticationError("oidc: verify token: id token issued by a different provider")
        given = claims.get("aud")
        audiences = {given} if isinstance(given, str) else set(given) if isinstance(given, list) else set()
        if self._audiences.isdisjoint(audiences):
            raise AuthenticationError("oidc: verify token: oidc: expected audience in the token is missing")
        expires, now = claims.get("exp"), self._clock()
        if not isinstance(expires, (int, float)) or isinstance(expires, bool) or expires < now:
            raise AuthenticationError("oidc: verify token: oidc: token is expired")
        begins = claims.get("nbf")
        if isinstance(begins, (int, float)) and now + 300 < begins:
            raise AuthenticationError("oidc: verify token: oidc: current time before the nbf (not before) time")

    def _user(self, claims: Object) -> UserInfo:
        name = self._username(claims)
        groups = self._groups(claims)
        uid = self._uid(claims)
        extra = self._extra(claims)
        for claim, value in self._required.items():
            if claim not in claims:
                raise AuthenticationError(f"oidc: required claim {claim} not present in ID token")
            if claims[claim] != value:
                raise AuthenticationError(f"oidc: required claim {claim} value does not match")
        for program, message in self.expressions.claim_rules:
            self._require(program, {"claims": claims}, message, "claim validation expression")
        user = UserInfo(name, uid, groups, extra)
        if self.expressions.user_rules:
            tree = {
                "username": name,
                "uid": uid,
                "groups": list(groups),
                "extra": {key: list(values) for key, values in extra.items()},
            }
            for program, message in self.expressions.user_rules:
                self._require(program, {"user": tree}, message, "user info validation rule")
        return user

    def _username(self, claims: Object) -> str:
        program = self.expressions.username
        if program is not None:
            value = self._evaluate(program, claims, "username claim expression")
            if not isinstance(value, str):
                raise AuthenticationError(
                    "oidc: error evaluating username claim expression: username claim expression must return a string"
                )
            if not value:
                raise AuthenticationError("oidc: empty username via CEL expression is not allowed")
            return value
        mapping = self._mappings.get("username") or {}
        claim = mapping.get("claim", "")
        value = claims.get(claim)
        if not isinstance(value, str):
            raise AuthenticationError(f"oidc: parse username claims {quote(claim)}: claim not present")
        if claim == "email" and claims.get("email_verified", True) is not True:
            raise AuthenticationError("oidc: email not verified")
        return (mapping.get("prefix") or "") + value

    def _groups(self, claims: Object) -> tuple[str, ...]:
        mapping = self._mappings.get("groups") or {}
        claim = mapping.get("claim", "")
        if claim and claim in claims:
            prefix = mapping.get("prefix") or ""
            values = _strings(claims[claim])
            if values is None:
                raise AuthenticationError(f"oidc: parse groups claim {quote(claim)}: not a string or list of strings")
            return tuple(prefix + value for value in values)
        program = self.expressions.groups
        if program is None:
            return ()
        values = _strings(self._evaluate(program, claims, "group claim expression"), skip_empty=True)
        if values is None:
            raise AuthenticationError(
                "oidc: error evaluating group claim expression: expression must return a string or a list of strings"
            )
        return tuple(values)

    def _uid(self, claims: Object) -> str:
        claim = (self._mappings.get("uid") or {}).get("claim", "")
        if claim:
            value = claims.get(claim)
            if not isinstance(value, str):
                raise AuthenticationError(f"oidc: parse uid claim {quote(claim)}: claim not present")
            return value
        if self.expressions.uid is None:
            return ""
        value = self._evaluate(self.expressions.uid, claims, "uid claim expression")
        if not isinstance(value, str):
            raise AuthenticationError(
                "oidc: error evaluating uid claim expression: uid claim expression must return a string"
            )
        return value

    def _extra(self, claims: Object) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        if isinstance(claims.get("jti"), str) and claims["jti"]:
            extra[CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        for key, program in self.expressions.extra:
            values = _strings(self._evaluate(program, claims, "extra claim expression"), skip_empty=True)
            if values is None:
                raise AuthenticationError(
                    "oidc: error evaluating extra claim expression: "
                    "expression must return a string or a list of strings"
                )
            if values:
                extra[key] = tuple(values)
        return extra

    @staticmethod
    def _evaluate(program: cel.Program, claims: Object, what: str) -> Any:
        try:
            return program.evaluate({"claims": claims})
        except cel.CelError as error:
            raise AuthenticationError(f"oidc: error evaluating {what}: {error}") from None

    @staticmethod
    def _require(program: cel.Program, variables: Mapping[str, Any], message: str, what: str) -> None:
        try:
            passed = program.evaluate(variables)
        except cel.CelError as error:
            raise AuthenticationError(f"oidc: error evaluating {what}: {error}") from None
        if passed is not True:
            raise AuthenticationError(f"oidc: error evaluating {what}: {message or 'validation expression failed'}")


def _fits(key: jwt.PyJWK, algorithm: str) -> bool:
    """A key verifies only the algorithms of its own kind, curve and declaration."""
    tree = key._jwk_data
    if tree.get("alg") not in (None, algorithm):
        return False
    if algorithm in _EC_CURVES:
        return bool(tree.get("kty") == "EC" and tree.get("crv") == _EC_CURVES[algorithm])
    return bool(tree.get("kty") == "RSA")


def _strings(value: Any, skip_empty: bool = False) -> list[str] | None:
    """A string or a list of strings as a list; None for anything else."""
    if value is None and skip_empty:
        return []
    if isinstance(value, str):
        return [value] if value or not skip_empty else []
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return [item for item in value if item or not skip_empty]
    return None
