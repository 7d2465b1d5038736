"""Availability of the server behind an APIService: decisions without I/O, and its metric.

Upstream: kube-aggregator ``status/remote``, ``status/metrics``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import Metric

from kapi.machinery.meters import counter, metric_family
from kapi.machinery.tree import Object
from kapi.resources.apiregistration import available_condition, condition, is_available, local_available
from kapi.resources.definition import Lister

SERVICE_LABEL = "kubernetes.io/service-name"


class Verdict(NamedTuple):
    """The ``Available`` condition without its transition time."""

    status: str
    reason: str
    message: str


class Target(NamedTuple):
    """An address and port for requests, and the name that the server's certificate must have."""

    host: str
    port: int
    name: str


PASSED = Verdict("True", "Passed", "all checks passed")
UNREACHABLE = "FailedDiscoveryCheck"  # the reason when the server itself fails
LOSSES = counter("aggregator_unavailable_apiservice_total")


def server_name(service: Object) -> str:
    return f"{service['name']}.{service['namespace']}.svc"


def check(reference: Object, service: Object | None, slices: Iterable[Object]) -> Verdict | None:
    """The verdict that follows from the objects; None when only a request to the server can tell.

    ``reference`` is ``spec.service``; ``slices`` are the EndpointSlices of the Service.
    """
    name, namespace = reference["name"], reference["namespace"]
    if service is None:
        return Verdict("False", "ServiceNotFound", f'service/{name} in "{namespace}" is not present')
    type_ = service["spec"].get("type", "ClusterIP")
    if type_ == "ExternalName":
        return None
    number = reference.get("port", 443)
    port = next((port for port in service["spec"].get("ports") or () if port.get("port") == number), None)
    if type_ != "ClusterIP":  # these are not checked, only resolved
        text = f'no service port {number} found for service "{name}"'
        return Verdict("False", UNREACHABLE, text) if port is None else None
    if port is None:
        return Verdict(
            "False", "ServicePortError", f'service/{name} in "{namespace}" is not listening on port {number}'
        )
    found = list(slices)
    if not found:
        return Verdict("False", "EndpointsNotFound", f'cannot find endpointslices for service/{name} in "{namespace}"')
    if not any(True for _ in addresses(found, port)):
        text = (
            f'endpointslices for service/{name} in "{namespace}" have no addresses with port name '
            f'"{port.get("name", "")}"'
        )
        return Verdict("False", "MissingEndpoints", text)
    return None


def addresses(slices: Iterable[Object], port: Object) -> Iterable[tuple[str, int]]:
    """Ready addresses that serve a port of the Service."""
    for item in slices:
        numbers = [
            entry.get("port") for entry in item.get("ports") or () if entry.get("name", "") == port.get("name", "")
        ]
        number = next((number for number in numbers if number is not None), None)
        if number is None:
            continue
        for endpoint in item.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready", True) is not False:
                yield from ((address, number) for address in endpoint.get("addresses") or ())


def resolve(reference: Object, service: Object | None, slices: Iterable[Object]) -> tuple[Target, ...]:
    """The targets for requests: the ready endpoints (kube-proxy may not run here), else the cluster IP."""
    if service is None:
        return ()
    number = reference.get("port", 443)
    name = server_name(reference)
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return (Target(spec.get("externalName", ""), number, name),)
    port = next((port for port in spec.get("ports") or () if port.get("port") == number), None)
    if port is None:
        return ()
    found = tuple(dict.fromkeys(Target(host, real, name) for host, real in addresses(slices, port)))
    address = spec.get("clusterIP", "")
    return found or ((Target(address, number, name),) if address and address != "None" else ())


def updated_status(obj: Object, verdict: Verdict, now: str) -> Object | None:
    """The APIService with the condition set, or None when it has it already."""
    old = available_condition(obj)
    if obj["spec"].get("service") is None:
        new = local_available(now)
    else:
        new = condition(*verdict, now)
    if old is not None and all(old.get(key) == new[key] for key in ("status", "reason", "message")):
        return None
    if old is not None and old.get("status") == new["status"]:
        new["lastTransitionTime"] = old.get("lastTransitionTime", now)
    kept = (obj.get("status") or {}).get("conditions") or []
    conditions = [*kept, new] if old is None else [new if item is old else item for item in kept]
    return {**obj, "status": {**(obj.get("status") or {}), "conditions": conditions}}


def unavailable_services(lister: Lister) -> Iterator[Metric]:
    """One series for each APIService of ``lister``."""
    family = metric_family("aggregator_unavailable_apiservice")
    for service in lister.list():
        family.add_metric([service["metadata"]["name"]], 0.0 if is_available(service) else 1.0)
    yield family
