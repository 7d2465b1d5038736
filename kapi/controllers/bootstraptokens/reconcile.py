"""When a token's Secret is to be deleted, and how ``cluster-info`` is signed (upstream: ``cluster-bootstrap/token``).

A signature is a JWS with its payload left out: whoever knows the token can tell that the kubeconfig is the cluster's.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable

import orjson

from kapi.machinery.time import TimeError, seconds_of, time
from kapi.machinery.tree import Object

TYPE = "bootstrap.kubernetes.io/token"
SECRET_NAMESPACE, PUBLIC_NAMESPACE, CLUSTER_INFO = "kube-system", "kube-public", "cluster-info"
_PREFIX, _SIGNATURE, _CONTENT = "bootstrap-token-", "jws-kubeconfig-", "kubeconfig"
_ID, _SECRET = re.compile(r"[a-z0-9]{6}"), re.compile(r"[a-z0-9]{16}")


def is_token(secret: Object) -> bool:
    return secret.get("type") == TYPE


def expires(secret: Object) -> float | None:
    """Unix seconds; None for never; 0 for a malformed time, with which authentication refuses the token, too."""
    text = value(secret, "expiration")
    if not text:
        return None
    try:
        moment = time(text)
    except TimeError:
        return 0.0
    return seconds_of(moment) if moment else 0.0


def value(secret: Object, key: str) -> str:
    try:
        return base64.b64decode((secret.get("data") or {}).get(key) or "").decode()
    except ValueError:
        return ""


def signing_key(secret: Object, now: float) -> tuple[str, str] | None:
    """The token's id and secret, if it may sign."""
    token, key, end = value(secret, "token-id"), value(secret, "token-secret"), expires(secret)
    if not is_token(secret) or secret["metadata"].get("deletionTimestamp"):
        return None
    if secret["metadata"]["name"] != _PREFIX + token or not _ID.fullmatch(token) or not _SECRET.fullmatch(key):
        return None
    if value(secret, "usage-bootstrap-signing") != "true" or (end is not None and end <= now):
        return None
    return token, key


def signed(info: Object, secrets: Iterable[Object], now: float) -> Object | None:
    """The data of ``cluster-info`` with a signature by each token, and no others; None when they are up to date."""
    data = info.get("data") or {}
    content = data.get(_CONTENT)
    if content is None:
        return None
    keys = [key for key in (signing_key(secret, now) for secret in secrets) if key is not None]
    updated = {name: text for name, text in data.items() if not name.startswith(_SIGNATURE)}
    updated.update({_SIGNATURE + token: signature(content, token, key) for token, key in sorted(keys)})
    return None if updated == data else updated


def signature(content: str, token: str, key: str) -> str:
    """JWS (RFC 7515), HS256, compact, with a detached payload."""
    header = _encoded(orjson.dumps({"alg": "HS256", "kid": token}))
    digest = hmac.new(key.encode(), header + b"." + _encoded(content.encode()), hashlib.sha256).digest()
    return f"{header.decode()}..{_encoded(digest).decode()}"


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
