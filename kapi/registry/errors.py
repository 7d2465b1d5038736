"""The one translation of store errors into API errors (upstream: apiserver ``storage/errors`` and ``storeerr``).

Some messages contain the key of an object in upstream's storage
(``pkg/kubeapiserver/default_storage_factory_builder.go`` SpecialDefaultResourcePrefixes, apiserver ``storage/etcd3``).
"""

from __future__ import annotations

from functools import cache

from kapi.machinery import status
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource
from kapi.store.errors import (
    Compacted,
    KeyExists,
    KeyMissing,
    ObjectTooLarge,
    OutcomeUnknown,
    Outdated,
    RevisionConflict,
    StoreError,
    StoreUnavailable,
)

#: resources whose prefix is a former name
_PREFIXES = {
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "replicationcontrollers"): "controllers",
    ("", "services"): "services/specs",
    ("networking.k8s.io", "ingresses"): "ingress",
}
#: groups of servers with a storage of their own: their keys begin with the group, as those of custom resources
_OTHER_SERVERS = frozenset(["apiextensions.k8s.io", "apiregistration.k8s.io"])


def interpret(error: StoreError, resource: GroupResource, name: str) -> status.StatusError:
    """The API error for a store error."""
    if isinstance(error, KeyExists):
        return status.already_exists(resource, name)
    if isinstance(error, KeyMissing):
        return status.not_found(resource, name)
    if isinstance(error, (RevisionConflict, Outdated)):
        return status.conflict(resource, name, status.OPTIMISTIC_LOCK)
    if isinstance(error, Compacted):
        return status.expired("The provided continue parameter is too old or the resource version is too old.")
    if isinstance(error, ObjectTooLarge):
        size = f"{resource} {quote(name)} would be stored with {error.size} bytes, managed fields included"
        details = {"name": name, "group": resource.group, "kind": resource.resource}
        return status.RequestTooLarge(
            f"Request entity too large: {size}: limit is {error.limit}",
            details={key: value for key, value in details.items() if value},
        )
    if isinstance(error, OutcomeUnknown):  # without Retry-After: only the client knows whether it may try again
        return status.Timeout(f"Timeout: {error}")
    if isinstance(error, StoreUnavailable):
        return status.service_unavailable(f"the store is not available: {error}", retry_after=1)
    return status.internal(error)


@cache
def _built_in() -> frozenset[str]:
    from kapi.resources.catalogue import BUILT_IN  # imports every resource, so only when it is needed

    return frozenset(row.group for row in BUILT_IN) - _OTHER_SERVERS


def upstream_key(resource: GroupResource, namespace: str, name: str) -> str:
    """The key without the prefix ``/registry``."""
    prefix = _PREFIXES.get(resource)
    if prefix is None:
        prefix = resource.resource if resource.group in _built_in() else f"{resource.group}/{resource.resource}"
    return "/".join(["", prefix, *(part for part in (namespace, name) if part)])


def missing(resource: GroupResource, namespace: str, name: str) -> status.StatusError:
    """The NotFound error of an object; for the namespaces "." and ".." upstream's storage has another error."""
    if namespace in (".", ".."):
        return status.generic(f"invalid key: {quote(upstream_key(resource, namespace, name))}")
    return status.not_found(resource, name)
