"""Bootstrap tokens: ``id.secret`` in Secrets of kube-system (upstream: ``authenticator/token/bootstrap``)."""

from __future__ import annotations

import hmac
import re
import time
from base64 import b64decode
from collections.abc import Callable

from kapi.authentication.interface import Authenticated
from kapi.authentication.static_tokens import for_any_audience
from kapi.machinery.time import TimeError, seconds_of
from kapi.machinery.time import time as rfc3339
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from kapi.resources.definition import Lister

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_NAMESPACE = "kube-system"
_TYPE = "bootstrap.kubernetes.io/token"
_DEFAULT_GROUP = "system:bootstrappers"


class BootstrapTokenAuthenticator:
    """``secrets`` reads Secrets; a token with an invalid Secret is unknown."""

    def __init__(
        self, secrets: Lister, api_audiences: tuple[str, ...] = (), clock: Callable[[], float] = time.time
    ) -> None:
        self.secrets = secrets
        self.api_audiences = api_audiences
        self._clock = clock

    def authenticate_token(self, token: str, audiences: tuple[str, ...] = ()) -> Authenticated | None:
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        token_id, secret_part = match.groups()
        secret = self.secrets.get(_NAMESPACE, f"bootstrap-token-{token_id}")
        if secret is None or secret["metadata"].get("deletionTimestamp") or secret.get("type") != _TYPE:
            return None
        data = secret.get("data") or {}
        if not hmac.compare_digest(_value(data, "token-secret"), secret_part.encode()):
            return None
        if _value(data, "token-id") != token_id.encode() or _value(data, "usage-bootstrap-authentication") != b"true":
            return None
        expires = _expiration(_value(data, "expiration").decode("utf-8", "replace"))
        if expires is not None and expires <= self._clock():
            return None
        groups = _groups(_value(data, "auth-extra-groups").decode("utf-8", "replace"))
        if groups is None:
            return None
        user = UserInfo(f"system:bootstrap:{token_id}", groups=groups)
        return for_any_audience(user, self.api_audiences, audiences, expires or 0.0)


def _value(data: Object, key: str) -> bytes:
    return b64decode(data.get(key) or "")


def _expiration(text: str) -> float | None:
    """Unix seconds; None when the token does not expire; 0 (long ago) for an invalid time."""
    if not text:
        return None
    try:
        moment = rfc3339(text)
    except TimeError:
        return 0.0
    return seconds_of(moment) if moment else 0.0


def _groups(text: str) -> tuple[str, ...] | None:
    groups = {_DEFAULT_GROUP}
    for group in text.split(",") if text else ():
        if not _GROUP.fullmatch(group):
            return None
        groups.add(group)
    return tuple(sorted(groups))
