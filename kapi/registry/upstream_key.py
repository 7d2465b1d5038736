"""Keys of objects in upstream's storage, which some messages contain.

Upstream: ``pkg/kubeapiserver/default_storage_factory_builder.go`` (SpecialDefaultResourcePrefixes), apiserver ``storage/etcd3``.
"""

from __future__ import annotations

from functools import cache

from kapi.machinery import status
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupResource

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
