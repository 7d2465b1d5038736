"""Where a service reference leads: the service's cluster IP, or an address somebody configured.

A server without a cluster's network cannot reach cluster IPs: ``--service-address ns/name[:port]=host:port`` settings
map services to addresses, for tests and for programs that run beside kapi.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kapi.resources.definition import Lister

Object = dict[str, Any]


class ServiceError(ValueError):
    """A service that cannot be reached."""


class ServiceResolver:
    """Resolves (namespace, name, port) to (host, port)."""

    def __init__(self, services: Lister | None, addresses: Mapping[str, str] | None = None) -> None:
        self._services = services
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
        if spec.get("clusterIP") in ("None", None, ""):
            raise ServiceError('cannot route to service with ClusterIP "None"')
        if not any(entry.get("port") == port for entry in spec.get("ports") or ()):
            raise ServiceError(f'no service port {port} found for service "{name}"')
        return spec["clusterIP"], port
