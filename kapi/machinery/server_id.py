"""The name of an API server, for its Lease, for its instance in traces, and hashed for metrics (upstream: ``NewConfig``)."""

from __future__ import annotations

import base64
import hashlib
import os

from kapi.machinery.meters import hashed

KUBE_APISERVER = "kube-apiserver"
IDENTITY_LABEL = "apiserver.kubernetes.io/identity"  # of the Leases of servers, with KUBE_APISERVER


def server_id(host: str = "") -> str:
    """``apiserver-`` and a hash of the host's name, "" for this host; each part is hashed with its length before it."""
    parts = ((host or os.uname().nodename).encode(), KUBE_APISERVER.encode())
    data = b"".join(len(part).to_bytes(2, "big") + part for part in parts)
    return "apiserver-" + base64.b32encode(hashlib.sha256(data).digest()[:16]).decode().rstrip("=").lower()


def server_id_hash() -> str:
    """The label ``apiserver_id_hash`` of this server."""
    return hashed(server_id())
