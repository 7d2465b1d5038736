"""What extension API servers need to know about authentication (upstream: ``clusterauthenticationtrust``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

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
    """Bundles as PEM text.  Without a proxy CA nothing is said of request headers."""

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


def _listed(text: str) -> list[str]:
    try:
        value = json.loads(text or "[]")
    except ValueError:
        return []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def wanted_data(existing: Object, own: TrustedIdentities) -> dict[str, str]:
    """The data: what other servers put there, and our own.  One of several servers may trust another CA."""
    data: dict[str, str] = existing.get("data") or {}
    wanted: dict[str, str] = {}
    client = joined_bundles(data.get("client-ca-file", ""), own.client_ca)
    if client:
        wanted["client-ca-file"] = client
    proxy = joined_bundles(data.get("requestheader-client-ca-file", ""), own.proxy_ca)
    if proxy:
        wanted["requestheader-client-ca-file"] = proxy
        for key, attribute in _LISTS:
            values = _joined(_listed(data.get(key, "")), getattr(own, attribute))
            if values or key != "requestheader-uid-headers":
                wanted[key] = json.dumps(values, separators=(",", ":"))
    return wanted
