"""Keys as upstream's storage would have them, which some of its messages show.

Upstream: ``pkg/kubeapiserver/default_storage_factory_builder.go`` (SpecialDefaultResourcePrefixes), apiserver ``storage/etcd3``.
"""

from __future__ import annotations

from functools import cache

from kapi.machinery import status
from kapi.machinery.field import quote
from kapi.machinery.gvk import GroupResource

#: resources that were stored under another name before
_PREFIXES = {
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "replicationcontrollers"): "controllers",
    ("", "services"): "services/specs",
    ("networking.k8s.io", "ingresses"): "ingress",
}
#: of servers that have their own storage: their keys begin with the group, as those of custom resources do
_BESIDE = frozenset(["apiextensions.k8s.io", "apiregistration.k8s.io"])


@cache
def _built_in() -> frozenset[str]:
    from kapi.resources.catalogue import BUILT_IN  # which knows all resources, of which this is asked seldom

    return frozenset(row.group for row in BUILT_IN) - _BESIDE


def upstream_key(resource: GroupResource, namespace: str, name: str) -> str:
    """Without the prefix of all keys."""
    prefix = _PREFIXES.get(resource)
    if prefix is None:
        prefix = resource.resource if resource.group in _built_in() else f"{resource.group}/{resource.resource}"
    return "/".join(["", prefix, *(part for part in (namespace, name) if part)])


def missing(resource: GroupResource, namespace: str, name: str) -> status.StatusError:
    """That there is no such object; upstream's storage refuses the key of a namespace that leads elsewhere."""
    if namespace in (".", ".."):
        return status.generic(f"invalid key: {quote(upstream_key(resource, namespace, name))}")
    return status.not_found(resource, name)
