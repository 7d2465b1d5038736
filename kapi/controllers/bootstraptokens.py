"""Deletes bootstrap tokens that have expired, and signs the kubeconfig in ``kube-public/cluster-info`` with the others.

A signature is a JWS without its payload: a client that knows the token can verify that the kubeconfig is the cluster's.
Upstream: ``pkg/controller/bootstrap`` (``tokencleaner.go``, ``bootstrapsigner.go``), ``cluster-bootstrap/token``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable

import orjson
from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status
from kapi.machinery.time import TimeError, seconds_of, time
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

TYPE = "bootstrap.kubernetes.io/token"
SECRET_NAMESPACE, PUBLIC_NAMESPACE, CLUSTER_INFO = "kube-system", "kube-public", "cluster-info"
_PREFIX, _SIGNATURE, _CONTENT = "bootstrap-token-", "jws-kubeconfig-", "kubeconfig"
_ID, _SECRET = re.compile(r"[a-z0-9]{6}"), re.compile(r"[a-z0-9]{16}")


def is_token(secret: Object) -> bool:
    return secret.get("type") == TYPE


def expires(secret: Object) -> float | None:
    """Unix seconds; None without expiration; 0 for a malformed time, with which authentication also refuses the token."""
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
    """The data of ``cluster-info`` with exactly one signature by each token; None when they are up to date."""
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


class TokenCleaner(QueueController[str]):
    name = "token-cleaner-controller"

    def __init__(self, client: Client, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._secrets = client.resource("", "secrets")
        self._now = now
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [self._secrets.watch(self._changed, namespace=SECRET_NAMESPACE)]

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED" and is_token(obj):
            self._queue.add(obj["metadata"]["name"])

    async def _handle(self, name: str) -> float | None:
        try:
            secret = await self._secrets.get(name, SECRET_NAMESPACE)
            end = expires(secret)
            if not is_token(secret) or end is None:
                return None
            left = end - seconds_of(self._now())
            if left > 0:
                return left
            preconditions = {"uid": secret["metadata"]["uid"], "resourceVersion": secret["metadata"]["resourceVersion"]}
            await self._secrets.delete(name, SECRET_NAMESPACE, {"preconditions": preconditions})
        except status.NotFound:
            return None
        return None


class BootstrapSigner(QueueController[str]):
    name = "bootstrap-signer-controller"
    workers = 1

    def __init__(self, client: Client, reactor: IReactorTime, now: Callable[[], str]) -> None:
        self._secrets = client.resource("", "secrets")
        self._maps = client.resource("", "configmaps")
        self._now = now
        super().__init__(reactor)

    def _watches(self) -> Ends:
        return [
            self._maps.watch(self._info_changed, namespace=PUBLIC_NAMESPACE, name=CLUSTER_INFO),
            self._secrets.watch(self._secret_changed, namespace=SECRET_NAMESPACE),
        ]

    def _info_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if event != "DELETED":
            self._queue.add(CLUSTER_INFO)

    def _secret_changed(self, event: str, obj: Object, old: Object | None) -> None:
        if is_token(obj):
            self._queue.add(CLUSTER_INFO)

    async def _handle(self, name: str) -> float | None:
        """Signs with all tokens.  Returns the seconds until the next token expires, when its signature has to be removed."""
        try:
            info = await self._maps.get(CLUSTER_INFO, PUBLIC_NAMESPACE)
            secrets = [secret for secret in await self._secrets.list(SECRET_NAMESPACE) if is_token(secret)]
            now = seconds_of(self._now())
            data = signed(info, secrets, now)
            if data is not None:
                await self._maps.update({**info, "data": data}, PUBLIC_NAMESPACE)
        except status.NotFound:
            return None
        ends = [end for end in map(expires, secrets) if end is not None and end > now]
        return min(ends) - now if ends else None
