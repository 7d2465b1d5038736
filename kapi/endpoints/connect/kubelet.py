"""The address of a node's kubelet, and the container that a request is about.

Upstream: ``pkg/kubelet/client/kubelet_client.go``, ``pkg/registry/core/pod/strategy.go`` (locations).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kapi.endpoints.connect.transport import TLS, Target
from kapi.machinery import status
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry import read
from kapi.registry.resource_store import ResourceStore
from kapi.resources.definition import Resource

_NODES = GroupResource("", "nodes")
ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")


class KubeletSettings(msgspec.Struct):
    """The ``--kubelet-*`` flags; ``timeout`` in seconds.  ``tls`` is replaced when its files change."""

    tls: TLS = TLS()
    port: int = 10250
    address_types: Sequence[str] = ADDRESS_TYPES
    timeout: float = 5.0
    bytes_per_second: int = 0  # of a tunnel, in each direction; 0 is no limit


class Kubelets:
    """Finds the kubelet of a node in the watch cache; ``nodes`` is None when nodes are switched off."""

    def __init__(self, nodes: ResourceStore | None, settings: KubeletSettings) -> None:
        self._nodes = nodes
        self.settings = settings

    async def target(self, node: str, path: bytes, query: bytes = b"", resource: Resource | None = None) -> Target:
        """Raises NotFound for an unknown node, and a plain error for one without a usable address.

        ``resource`` is that of the request, which upstream's error names instead of nodes.
        """
        if self._nodes is None:
            raise status.not_found(_NODES, node)
        entry = await read.get(self._nodes, "", node, resource=resource)
        state = entry.object.get("status") or {}
        port = ((state.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or self.settings.port
        host = self._address(state.get("addresses") or [])
        return Target("https", host, port, path, query, self.settings.tls)

    def _address(self, addresses: list[Object]) -> str:
        for kind in self.settings.address_types:
            for address in addresses:
                if address.get("type") == kind and address.get("address"):
                    return str(address["address"])
        known = " ".join(f"{{{address.get('type', '')} {address.get('address', '')}}}" for address in addresses)
        raise status.generic(f"no preferred addresses found; known addresses: [{known}]")


def container_of(pod: Object, name: str) -> str:
    """The container with the name, or without a name the only one.  Raises BadRequest when there is none, or several."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    names = [
        container.get("name", "")
        for part in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(part) or ()
    ]
    if name:
        if name not in names:
            raise status.bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    regular = spec.get("containers") or []
    if len(regular) == 1:
        return str(regular[0].get("name", ""))
    choice = f", choose one of: [{' '.join(names)}]" if regular else ""
    raise status.bad_request(f"a container name must be specified for pod {pod_name}{choice}")
