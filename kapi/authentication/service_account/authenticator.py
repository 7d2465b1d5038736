"""ServiceAccount tokens: bound ones (KEP-1205) and the legacy ones of Secrets.

Upstream: ``pkg/serviceaccount/claims.go`` and ``legacy.go``.  A token dies with whatever it is bound to.
"""

from __future__ import annotations

import hmac
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kapi.authentication.interface import Authenticated, AuthenticationError, intersect
from kapi.authentication.service_account import names
from kapi.authentication.service_account.keys import KeySet
from kapi.authentication.service_account.signed import Claims, SignedTokens, audiences_of
from kapi.authorization.rbac.policy import quoted_list
from kapi.machinery.field import quote
from kapi.machinery.gvk import GroupResource
from kapi.request.user import UserInfo
from kapi.resources.definition import Lister

Object = dict[str, Any]
LEGACY_ISSUER = "kubernetes/serviceaccount"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
LAST_USED = "kubernetes.io/legacy-token-last-used"
_LEEWAY = 60  # seconds between clocks
_REMEMBERED = 4096
_INVALIDATED = "service account token has been invalidated"
ACCOUNTS, SECRETS, PODS, NODES = (
    GroupResource("", plural) for plural in ("serviceaccounts", "secrets", "pods", "nodes")
)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def check_times(claims: Claims, now: float) -> None:
    """Raises AuthenticationError for a token that is not valid yet or no more; a minute of leeway."""
    expires, begins, issued = (_number(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if begins is not None and now + _LEEWAY < begins:
        raise AuthenticationError("service account token is not valid yet")
    if expires is not None and now - _LEEWAY > expires:
        raise AuthenticationError("service account token has expired")
    if issued is not None and now + _LEEWAY < issued:
        raise AuthenticationError("service account token is issued in the future")


class _ServiceAccountTokens:
    """What both kinds share: issuer, signature, audience."""

    def __init__(
        self,
        issuers: Iterable[str],
        keys: KeySet,
        listers: Mapping[GroupResource, Lister],
        api_audiences: tuple[str, ...],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.signed = SignedTokens(issuers, keys)
        self.listers = listers
        self.api_audiences = api_audiences
        self.clock = clock
        self._users: dict[int, tuple[Claims, UserInfo]] = {}  # id of verified claims -> (they, who they name)

    def _remembered(self, claims: Claims, make: Callable[[], UserInfo]) -> UserInfo:
        """The identity in verified claims, which never changes, made once for claims that are kept."""
        known = self._users.get(id(claims))
        if known is not None and known[0] is claims:
            return known[1]
        user = make()
        if len(self._users) >= _REMEMBERED:
            self._users.clear()
        self._users[id(claims)] = (claims, user)
        return user

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> Authenticated | None:
        claims = self.signed.claims(token)
        if claims is None:
            return None
        own = audiences_of(claims) or self.api_audiences
        wanted = audiences or self.api_audiences
        shared = intersect(own, wanted)
        if not shared and self.api_audiences:
            raise AuthenticationError(
                f"token audiences {quoted_list(own)} is invalid for the target audiences {quoted_list(wanted)}"
            )
        return Authenticated(self._user(token, claims), shared, _number(claims.get("exp")) or 0.0)

    def _user(self, token: str, claims: Claims) -> UserInfo:
        raise NotImplementedError

    def _get(self, resource: GroupResource, namespace: str, name: str) -> Object | None:
        return self.listers[resource].get(namespace, name)

    def _account(self, namespace: str, name: str) -> Object:
        account = self._get(ACCOUNTS, namespace, name)
        if account is None:
            raise AuthenticationError(f"serviceaccounts {quote(name)} not found")
        return account


class BoundTokenAuthenticator(_ServiceAccountTokens):
    """Tokens of the TokenRequest API."""

    def _user(self, token: str, claims: Claims) -> UserInfo:
        now = self.clock()
        check_times(claims, now)
        private = claims.get("kubernetes.io")
        if not isinstance(private, dict):
            private = {}
        namespace = str(private.get("namespace", ""))
        reference = private.get("serviceaccount") or {}
        name, uid = str(reference.get("name", "")), reference.get("uid", "")
        account = self._account(namespace, name)
        if account["metadata"]["uid"] != uid:
            raise AuthenticationError(
                f"service account UID ({account['metadata']['uid']}) does not match claim ({uid})"
            )
        if _deleted(account, now):
            raise AuthenticationError(f"service account {namespace}/{name} has been deleted")

        secret, pod, node = private.get("secret"), private.get("pod"), private.get("node")
        if secret:
            mismatch = "secret UID ({}) does not match service account secret ref claim ({})"
            self._alive(SECRETS, namespace, secret, now, mismatch)
        if pod:
            self._alive(PODS, namespace, pod, now, "pod UID ({}) does not match service account pod ref claim ({})")
        elif node:
            self._alive(NODES, "", node, now, "node UID ({}) does not match service account node ref claim ({})")

        def identity() -> UserInfo:
            extra = _extra(claims.get("jti"), pod, node)
            return UserInfo(names.username(namespace, name), uid=uid, groups=names.groups(namespace), extra=extra)

        return self._remembered(claims, identity)

    def _alive(self, resource: GroupResource, namespace: str, reference: Object, now: float, mismatch: str) -> None:
        obj = self._get(resource, namespace, reference.get("name", ""))
        if obj is None:
            raise AuthenticationError(_INVALIDATED)
        uid, wanted = obj["metadata"]["uid"], reference.get("uid", "")
        if uid != wanted:
            raise AuthenticationError(mismatch.format(uid, wanted))
        if _deleted(obj, now):
            raise AuthenticationError(_INVALIDATED)


def _extra(token_id: Any, pod: Object | None, node: Object | None) -> dict[str, tuple[str, ...]]:
    """What a token tells beside the account: its own id, the pod and the node it was made for."""
    extra: dict[str, tuple[str, ...]] = {}
    if isinstance(token_id, str) and token_id:
        extra[names.CREDENTIAL_ID] = (f"JTI={token_id}",)
    if node:
        extra[names.NODE_NAME] = (node.get("name", ""),)
        if node.get("uid"):
            extra[names.NODE_UID] = (node["uid"],)
    if pod:
        extra[names.POD_NAME] = (pod.get("name", ""),)
        extra[names.POD_UID] = (pod.get("uid", ""),)
    return extra


def _deleted(obj: Object, now: float) -> bool:
    """True when the deletion was asked for, longer ago than clocks may differ."""
    stamp = obj["metadata"].get("deletionTimestamp")
    if not stamp:
        return False
    return _seconds(stamp) < now - _LEEWAY


def _seconds(stamp: str) -> float:
    import calendar

    return float(calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")))


class LegacyTokenAuthenticator(_ServiceAccountTokens):
    """Tokens kept in Secrets of type ``kubernetes.io/service-account-token``; they die with the Secret."""

    def __init__(
        self,
        keys: KeySet,
        listers: Mapping[GroupResource, Lister],
        api_audiences: tuple[str, ...],
        *,
        lookup: bool = True,
        mark_used: Callable[[Object], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__((LEGACY_ISSUER,), keys, listers, api_audiences, clock)
        self.lookup = lookup
        self.mark_used = mark_used  # told of the Secret of every token in use

    def _user(self, token: str, claims: Claims) -> UserInfo:
        if not claims.get("sub"):
            raise AuthenticationError("sub claim is missing")
        values = {}
        for claim, text in (
            ("namespace", "namespace"),
            ("secret.name", "secretName"),
            ("service-account.name", "serviceAccountName"),
            ("service-account.uid", "serviceAccountUID"),
        ):
            value = claims.get(f"{LEGACY_ISSUER.replace('kubernetes/', 'kubernetes.io/')}/{claim}")
            if not value or not isinstance(value, str):
                raise AuthenticationError(f"{text} claim is missing")
            values[text] = value
        namespace, name = values["namespace"], values["serviceAccountName"]
        if names.split_username(str(claims["sub"])) != (namespace, name):
            raise AuthenticationError("sub claim is invalid")
        if self.lookup:
            self._look_up(token, namespace, values["secretName"], name, values["serviceAccountUID"])
        return UserInfo(
            names.username(namespace, name), uid=values["serviceAccountUID"], groups=names.groups(namespace)
        )

    def _look_up(self, token: str, namespace: str, secret_name: str, name: str, uid: str) -> None:
        secret = self._get(SECRETS, namespace, secret_name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            raise AuthenticationError("Token has been invalidated")
        stored = b64decode((secret.get("data") or {}).get("token", ""))
        if not hmac.compare_digest(stored, token.encode("utf-8", "surrogateescape")):
            raise AuthenticationError("Token does not match server's copy")
        account = self._account(namespace, name)
        if account["metadata"].get("deletionTimestamp"):
            raise AuthenticationError(f"ServiceAccount {namespace}/{name} has been deleted")
        if account["metadata"]["uid"] != uid:
            raise AuthenticationError(f"ServiceAccount UID ({account['metadata']['uid']}) does not match claim ({uid})")
        invalid = (secret["metadata"].get("labels") or {}).get(INVALID_SINCE)
        if self.mark_used is not None:
            self.mark_used(secret)
        if invalid:
            raise AuthenticationError(
                f"the token in secret {namespace}/{secret_name} for service account {namespace}/{name} has been marked "
                "invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the "
                f"'{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
            )
