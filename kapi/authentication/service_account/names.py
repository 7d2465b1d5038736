"""Names and groups of service accounts (upstream: apiserver ``authentication/serviceaccount/util.go``)."""

from __future__ import annotations

from kapi.machinery.names import dns_label, dns_subdomain

PREFIX = "system:serviceaccount:"
ALL_GROUP = "system:serviceaccounts"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
NODE_NAME = "authentication.kubernetes.io/node-name"
NODE_UID = "authentication.kubernetes.io/node-uid"
ISSUED_CREDENTIAL_ID = "authentication.kubernetes.io/issued-credential-id"


def username(namespace: str, name: str) -> str:
    return f"{PREFIX}{namespace}:{name}"


def groups(namespace: str) -> tuple[str, str]:
    return (ALL_GROUP, f"{ALL_GROUP}:{namespace}")


def split_username(user: str) -> tuple[str, str] | None:
    """(namespace, name) of a service account's user name; None for other names."""
    if not user.startswith(PREFIX):
        return None
    parts = user[len(PREFIX) :].split(":")
    if len(parts) != 2 or dns_label(parts[0]) or dns_subdomain(parts[1]):
        return None
    return parts[0], parts[1]
