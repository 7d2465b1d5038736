"""Publishes the client CA and the front proxy's settings in ``kube-system/extension-apiserver-authentication``.

Extension API servers authenticate with them.  Upstream: ``pkg/controlplane/controller/clusterauthenticationtrust``.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Sequence

import msgspec
import orjson
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.internet.interfaces import IReactorTime

from kapi.controllers.watching import ConfigMapController
from kapi.machinery import der, pem
from kapi.machinery.status import AlreadyExists, Conflict, Invalid, NotFound, RequestTooLarge
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
_CHECK_SECONDS = 60.0  # between two checks: certificates expire
_SLACK = datetime.timedelta(minutes=5)  # for which an expired certificate is still published
_LISTS = (
    ("requestheader-username-headers", "username_headers"),
    ("requestheader-uid-headers", "uid_headers"),
    ("requestheader-group-headers", "group_headers"),
    ("requestheader-extra-headers-prefix", "extra_prefixes"),
    ("requestheader-allowed-names", "allowed_names"),
)


class TrustedIdentities(msgspec.Struct, frozen=True):
    """Bundles as PEM text.  Without a proxy CA the settings for request headers are left out."""

    client_ca: str = ""
    proxy_ca: str = ""
    username_headers: Sequence[str] = ()
    uid_headers: Sequence[str] = ()
    group_headers: Sequence[str] = ()
    extra_prefixes: Sequence[str] = ()
    allowed_names: Sequence[str] = ()


def joined_bundles(now: datetime.datetime, *bundles: str) -> str:
    """Every certificate that has not expired, once, in order."""
    found: dict[str, None] = {}
    for block in (block for bundle in bundles for block in pem.blocks(bundle.encode())):
        if block.kind != "CERTIFICATE" or block.headers:
            continue
        try:
            certificate = der.certificate(block.der)
            until = certificate.not_valid_after_utc
        except ValueError:
            continue
        if until > now - _SLACK:
            found[certificate.public_bytes(Encoding.PEM).decode()] = None
    return "".join(found)


def _joined(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _parse_list(text: str) -> list[str]:
    try:
        value = orjson.loads(text or "[]")
    except ValueError:
        return []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def merged_data(existing: Object, own: TrustedIdentities, now: datetime.datetime) -> dict[str, str]:
    """The data of other servers joined with this server's: servers may trust different CAs."""
    data: dict[str, str] = existing.get("data") or {}
    merged: dict[str, str] = {}
    client = joined_bundles(now, data.get("client-ca-file", ""), own.client_ca)
    if client:
        merged["client-ca-file"] = client
    proxy = joined_bundles(now, data.get("requestheader-client-ca-file", ""), own.proxy_ca)
    if proxy:
        merged["requestheader-client-ca-file"] = proxy
        for key, attribute in _LISTS:
            values = _joined(_parse_list(data.get(key, "")), getattr(own, attribute))
            merged[key] = json.dumps(values, separators=(",", ":"))
    return merged


class ClusterAuthenticationController(ConfigMapController):
    """``trusted`` returns the trusted identities; ``refresh`` follows each of their changes.  ``clock`` returns unix seconds."""

    name = "start-cluster-authentication-info-controller"
    namespace, map_name = NAMESPACE, NAME

    def __init__(
        self,
        client: Client,
        reactor: IReactorTime,
        trusted: Callable[[], TrustedIdentities],
        clock: Callable[[], float],
    ) -> None:
        self._trusted = trusted
        self._clock = clock
        super().__init__(client, reactor)

    async def _handle(self, key: str) -> float | None:
        existing = self._maps.lister.get(NAMESPACE, NAME)
        now = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
        data = merged_data(existing or {}, self._trusted(), now)
        try:
            if existing is None:
                await self._maps.create({"metadata": {"name": NAME}, "data": data}, NAMESPACE)
            elif (existing.get("data") or {}) != data:
                await self._update({**existing, "data": data})
        except (AlreadyExists, NotFound) as error:  # another server was faster, or the namespace does not exist yet
            raise Conflict(error.message) from None
        return _CHECK_SECONDS

    async def _update(self, obj: Object) -> None:
        try:
            await self._maps.update(obj, NAMESPACE)
        except (Invalid, RequestTooLarge) as error:
            if isinstance(error, RequestTooLarge) or "Too long" in error.message:
                await self._maps.delete(NAME, NAMESPACE)  # each server adds its part again
            raise
