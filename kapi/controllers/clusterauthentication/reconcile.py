"""The settings that extension API servers need for authentication (upstream: ``clusterauthenticationtrust``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec
import orjson

from kapi.machinery.pem import certificates
from kapi.machinery.tree import Object

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
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


def joined_bundles(*bundles: str) -> str:
    """Every certificate once, in order."""
    found = dict.fromkeys(block for bundle in bundles for block in certificates(bundle))
    return "".join(block + "\n" for block in found)


def _joined(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _parse_list(text: str) -> list[str]:
    try:
        value = orjson.loads(text or "[]")
    except ValueError:
        return []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def merged_data(existing: Object, own: TrustedIdentities) -> dict[str, str]:
    """The data of other servers joined with those of this one: one of several servers may trust another CA."""
    data: dict[str, str] = existing.get("data") or {}
    merged: dict[str, str] = {}
    client = joined_bundles(data.get("client-ca-file", ""), own.client_ca)
    if client:
        merged["client-ca-file"] = client
    proxy = joined_bundles(data.get("requestheader-client-ca-file", ""), own.proxy_ca)
    if proxy:
        merged["requestheader-client-ca-file"] = proxy
        for key, attribute in _LISTS:
            values = _joined(_parse_list(data.get(key, "")), getattr(own, attribute))
            if values or key != "requestheader-uid-headers":
                merged[key] = json.dumps(values, separators=(",", ":"))
    return merged
