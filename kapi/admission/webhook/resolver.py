"""The address of a service reference: the service's cluster IP, or a configured one.

A server without a cluster's network cannot reach cluster IPs: ``--service-address ns/name[:port]=host:port`` settings
map services to addresses, for tests and for programs that run next to kapi.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from kapi.machinery.tree import Object
from kapi.resources.definition import Lister

_SERVICE_LABEL = "kubernetes.io/service-name"


class ServiceError(ValueError):
    """A service that cannot be reached."""


class ServiceResolver:
    """Resolves (namespace, name, port) to (host, port)."""

    def __init__(
        self, services: Lister | None, addresses: Mapping[str, str] | None = None, slices: Lister | None = None
    ) -> None:
        """``slices``: a lister of EndpointSlices, whose endpoints are then used instead of the cluster IP."""
        self._services = services
        self._slices = slices
        self._addresses = dict(addresses or {})

    def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """Raises ServiceError."""
        given = self._addresses.get(f"{namespace}/{name}:{port}") or self._addresses.get(f"{namespace}/{name}")
        if given:
            host, _, number = given.rpartition(":")
            return host.strip("[]"), int(number)
        service = None if self._services is None else self._services.get(namespace, name)
        if service is None:
            raise ServiceError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        kind = spec.get("type") or "ClusterIP"
        if kind == "ExternalName":
            return spec.get("externalName", ""), port
        if kind not in ("ClusterIP", "NodePort", "LoadBalancer"):
            raise ServiceError(f'unsupported service type "{kind}"')
        if self._slices is not None:
            return self._endpoint(self._slices, service, port)
        if spec.get("clusterIP") in ("None", None, ""):
            raise ServiceError('cannot route to service with ClusterIP "None"')
        if not any(entry.get("port") == port for entry in spec.get("ports") or ()):
            raise ServiceError(f'no service port {port} found for service "{name}"')
        return spec["clusterIP"], port

    @staticmethod
    def _endpoint(slices: Lister, service: Object, port: int) -> tuple[str, int]:
        """One of the ready endpoints (upstream: kube-aggregator ``pkg/apiserver/resolvers.go``, ResolveEndpoint)."""
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        entry = next((one for one in service["spec"].get("ports") or () if one.get("port") == port), None)
        if entry is None:
            raise ServiceError(f'no service port {port} found for service "{name}"')
        found: list[tuple[str, int]] = []
        for item in slices.list(namespace):
            if (item["metadata"].get("labels") or {}).get(_SERVICE_LABEL) != name:
                continue
            numbers = [
                one["port"] for one in item.get("ports") or () if (one.get("name") or "") == entry.get("name", "")
            ]
            found += [
                (address, number)
                for endpoint in item.get("endpoints") or ()
                if (endpoint.get("conditions") or {}).get("ready") is not False
                for address in endpoint.get("addresses") or ()
                for number in numbers
            ]
        if not found:
            raise ServiceError(f'no endpoints available for service "{name}"')
        return random.choice(found)
