"""The endpoints that are not plain objects, by the name that a catalogue row gives them."""

from __future__ import annotations

from typing import Any

from kapi.endpoints.componentstatuses import ComponentStatuses
from kapi.endpoints.dispatch import Endpoint
from kapi.endpoints.pods.binding import Binding
from kapi.endpoints.pods.eviction import Eviction
from kapi.endpoints.scale import scale
from kapi.machinery.gvk import GroupResource
from kapi.registry.registry import Registry


def built_in_handlers(registry: Registry, reactor: Any) -> dict[str, Endpoint]:
    """Needs the pods and budgets to be in the registry."""
    pods = registry.stores[GroupResource("", "pods")]
    binding = Binding(pods)
    return {
        "scale": scale,
        "binding": binding,
        "bindings": binding,
        "componentstatuses": ComponentStatuses(reactor, lambda: registry.store.available),
        "eviction": Eviction(pods, registry.client.named("kube-apiserver")),
    }
