"""ID tokens of an OpenID Connect provider (upstream: apiserver ``plugin/pkg/authenticator/token/oidc``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kapi import cel
from kapi.authentication.cache import TOKEN_CACHES, TokenCache
from kapi.authentication.interface import Authenticated, AuthenticationError, TokenAnswer
from kapi.authentication.oidc import ALGORITHMS
from kapi.authentication.oidc.configuration import Expressions
from kapi.authentication.oidc.distributed import DistributedClaims
from kapi.authentication.oidc.provider import Provider
from kapi.authentication.oidc.verification import verified_claims
from kapi.authentication.service_account.signed import parse_unverified
from kapi.authentication.static_tokens import for_any_audience
from kapi.cel.types import Value
from kapi.machinery.checkpoint import in_slices
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import quote, value_text
from kapi.machinery.tree import Object, Tree
from kapi.request.user import CREDENTIAL_ID, UserInfo
from kapi.schema.structural.celtypes import unescape


class EscapedNames(dict[str, Value]):
    """A map whose keys expressions write as names: ``claims.example__dot__com`` (upstream: ``oidc.go``, ``unescapeMapper``).

    A name with an escape has no other form.
    """

    __slots__ = ()

    def __getitem__(self, name: str) -> Value:
        return super().__getitem__(_key(name))

    def __contains__(self, name: object) -> bool:
        return super().__contains__(_key(name))


def _key(name: Tree) -> Tree:
    return unescape(name) or name if isinstance(name, str) else name


def with_escaped_names(tree: Tree) -> Tree:
    """A copy of a tree with such maps at every level."""
    if isinstance(tree, dict):
        return EscapedNames((name, with_escaped_names(value)) for name, value in entries(tree))
    return [with_escaped_names(item) for item in elements(tree)] if isinstance(tree, list) else tree


Variables = Mapping[str, Value]
_CACHE_SECONDS = 10.0  # seconds before a verified token is verified again


class OIDCAuthenticator:
    """One ``jwt`` entry.  ``algorithms``: ``--oidc-signing-algs``, which never allows HMAC and "none"."""

    def __init__(
        self,
        provider: Provider,
        entry: Object,
        expressions: Expressions,
        *,
        algorithms: Sequence[str] = ALGORITHMS,
        api_audiences: tuple[str, ...] = (),
        distributed: DistributedClaims | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.provider = provider
        self._distributed = distributed
        self.expressions = expressions
        self._has_expressions = expressions != Expressions()
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
        self._cache: TokenCache[UserInfo] = TokenCache(clock=clock)

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> TokenAnswer | Awaitable[TokenAnswer]:
        parsed = parse_unverified(token)
        if parsed is None or parsed[1].get("iss") != self._issuer:
            return None
        digest = self._cache.digest(token)
        known = self._cache.get(digest)
        if known is not None:
            TOKEN_CACHES.hits += 1
            return for_any_audience(known, self._api_audiences, audiences)
        verified = self.provider.meter.verifying(self._issuer, self._verify(token, audiences, digest))
        return TOKEN_CACHES.fetching(verified)

    async def _verify(self, token: str, audiences: tuple[str, ...], digest: bytes) -> Authenticated | None:
        claims = await verified_claims(token, self.provider, self._audiences, self._algorithms, self._clock())
        if self._distributed is not None:
            claims = dict(claims)
            await self._distributed.expand(claims)
        if self._has_expressions:
            await in_slices  # the cost of the expressions grows with the claims
        user = self._user(claims)
        expires = float(claims["exp"])
        self._cache.put(digest, user, _CACHE_SECONDS, expires)
        return for_any_audience(user, self._api_audiences, audiences, expires)

    def _user(self, claims: Object) -> UserInfo:
        variables = {"claims": with_escaped_names(claims)} if self._has_expressions else {}
        name = self._username(claims, variables)
        groups = self._groups(claims, variables)
        uid = self._uid(claims, variables)
        extra = self._extra(claims, variables)
        for claim, value in self._required.items():
            if claim not in claims:
                raise AuthenticationError(f"oidc: required claim {claim} not present in ID token")
            if claims[claim] != value:
                found = claims[claim]
                text = f"oidc: required claim {claim} value does not match. Got = {value_text(found)}, want = {value}"
                raise AuthenticationError(text)
        for program, message in self.expressions.claim_rules:
            self._require(program, variables, message, "claim validation expression")
        user = UserInfo(name, uid, groups, extra)
        if self.expressions.user_rules:
            tree = {
                "username": name,
                "uid": uid,
                "groups": list(groups),
                "extra": EscapedNames((key, list(values)) for key, values in extra.items()),
            }
            for program, message in self.expressions.user_rules:
                self._require(program, {"user": tree}, message, "user info validation rule")
        return user

    def _username(self, claims: Object, variables: Variables) -> str:
        program = self.expressions.username
        if program is not None:
            value = self._evaluate(program, variables, "username claim expression")
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

    def _groups(self, claims: Object, variables: Variables) -> tuple[str, ...]:
        mapping = self._mappings.get("groups") or {}
        claim = mapping.get("claim", "")
        if claim and claim in claims:
            prefix = mapping.get("prefix") or ""
            values = _strings(_without_nulls(claims[claim]))
            if values is None:
                raise AuthenticationError(f"oidc: parse groups claim {quote(claim)}: not a string or list of strings")
            return tuple(prefix + value for value in values)
        program = self.expressions.groups
        if program is None:
            return ()
        values = _strings(self._evaluate(program, variables, "group claim expression"), skip_empty=True)
        if values is None:
            raise AuthenticationError(
                "oidc: error evaluating group claim expression: expression must return a string or a list of strings"
            )
        return tuple(values)

    def _uid(self, claims: Object, variables: Variables) -> str:
        claim = (self._mappings.get("uid") or {}).get("claim", "")
        if claim:
            value = claims.get(claim)
            if not isinstance(value, str):
                raise AuthenticationError(f"oidc: parse uid claim {quote(claim)}: claim not present")
            return value
        if self.expressions.uid is None:
            return ""
        value = self._evaluate(self.expressions.uid, variables, "uid claim expression")
        if not isinstance(value, str):
            raise AuthenticationError(
                "oidc: error evaluating uid claim expression: uid claim expression must return a string"
            )
        return value

    def _extra(self, claims: Object, variables: Variables) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        if isinstance(claims.get("jti"), str) and claims["jti"]:
            extra[CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        for key, program in self.expressions.extra:
            values = _strings(self._evaluate(program, variables, "extra claim expression"), skip_empty=True)
            if values is None:
                raise AuthenticationError(
                    "oidc: error evaluating extra claim expression: "
                    "expression must return a string or a list of strings"
                )
            if values:
                extra[key] = tuple(values)
        return extra

    @staticmethod
    def _evaluate(program: cel.Program, variables: Variables, what: str) -> Value:
        try:
            return program.evaluate(variables)
        except cel.CelError as error:
            why = f"expression '{program.source}' resulted in error: {error}"
            raise AuthenticationError(f"oidc: error evaluating {what}: {why}") from None

    def _require(self, program: cel.Program, variables: Variables, message: str, what: str) -> None:
        if self._evaluate(program, variables, what) is not True:
            why = f"validation expression '{program.source}' failed: {message}"
            raise AuthenticationError(f"oidc: error evaluating {what}: {why}")


def _without_nulls(value: object) -> object:
    """As Go decodes strings: null is no string, but in a list it is an empty one."""
    if value is None:
        return []
    return ["" if item is None else item for item in value] if isinstance(value, list) else value


def _strings(value: object, skip_empty: bool = False) -> list[str] | None:
    """A string or a list of strings as a list; None for other values."""
    if value is None and skip_empty:
        return []
    if isinstance(value, str):
        return [value] if value or not skip_empty else []
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return [item for item in value if item or not skip_empty]
    return None
