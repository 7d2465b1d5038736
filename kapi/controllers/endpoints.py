"""Maintains the Endpoints of Services with a selector, a few Services at a time (upstream: ``pkg/controller/endpoint``)."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from twisted.internet.interfaces import IReactorTime

from kapi.controllers import service_pods
from kapi.controllers.watching import Ends, QueueController
from kapi.machinery import status
from kapi.machinery.each import entries
from kapi.machinery.tree import Object, Tree
from kapi.runtime.interface import Client

MAX_ADDRESSES = 1000  # addresses of one object; an annotation shows that further addresses are left out
MANAGED_BY, CONTROLLER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
BATCH_SECONDS = 0.02  # time in which changes of several pods are collected


def desired_endpoints(service: Object, pods: Iterable[Object], existing: Object | None) -> Object | None:
    """The object to create or update; None when it is up to date."""
    metadata = service["metadata"]
    labels = {name: value for name, value in entries(metadata, "labels") if name != service_pods.HEADLESS}
    labels[MANAGED_BY] = CONTROLLER
    if service_pods.is_headless(service):
        labels[service_pods.HEADLESS] = ""
    found = subsets(service, pods)
    kept, left_out = truncated(found)
    old = {} if existing is None else existing["metadata"]
    annotations = {name: value for name, value in entries(old, "annotations") if name != OVER_CAPACITY}
    if left_out:
        annotations[OVER_CAPACITY] = "truncated"
    if existing is not None:
        same = (existing.get("subsets") or []) == kept and (old.get("labels") or {}) == labels
        if same and (old.get("annotations") or {}) == annotations:
            return None
        return _given(existing, metadata=_given(old, labels=labels, annotations=annotations), subsets=kept)
    return _given(metadata=_given(name=metadata["name"], labels=labels, annotations=annotations), subsets=kept)


def _given(base: Object | None = None, **fields: Tree) -> Object:
    """``base`` with these fields, except empty ones, which a client in Go does not send."""
    return {name: value for name, value in {**(base or {}), **fields}.items() if value or name not in fields}


def subsets(service: Object, pods: Iterable[Object]) -> list[Object]:
    """Addresses grouped by their ports, the ready ones separate from the others."""
    spec = service.get("spec") or {}
    family = (spec.get("ipFamilies") or ["IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"])[0]
    tolerant = bool(spec.get("publishNotReadyAddresses"))
    groups: dict[bytes, Object] = {}
    for pod in service_pods.selected(service, pods):
        found = service_pods.addresses(pod, family)
        if not found or service_pods.has_ended(pod) or (service_pods.is_going(pod) and not tolerant):
            continue
        address: Object = {"ip": found[0], "targetRef": service_pods.reference_to(pod)}
        if (pod.get("spec") or {}).get("nodeName"):
            address["nodeName"] = pod["spec"]["nodeName"]
        hostname = service_pods.hostname_for(pod, service)
        if hostname:
            address["hostname"] = hostname
        ports = service_pods.ports_of(service, pod)
        if not ports and spec.get("ports"):
            continue  # the pod has none of the ports of the Service
        ports.sort(key=lambda port: (str(port["name"]), int(port["port"]), str(port["protocol"])))
        group = groups.setdefault(orjson.dumps(ports), {"ports": ports})
        group.setdefault("addresses" if tolerant or service_pods.is_ready(pod) else "notReadyAddresses", []).append(
            address
        )
    return [_subset(groups[key]) for key in sorted(groups)]


def _subset(group: Object) -> Object:
    made = {}
    for name in ("addresses", "notReadyAddresses"):
        if group.get(name):
            made[name] = sorted(group[name], key=lambda address: (str(address["ip"]), str(address["targetRef"]["uid"])))
    if group["ports"]:
        made["ports"] = [_named(port) for port in group["ports"]]
    return made


def _named(port: Object) -> Object:
    return {name: value for name, value in port.items() if name != "name" or value}


def truncated(found: list[Object]) -> tuple[list[Object], bool]:
    """The first addresses, ready ones before others; and whether some were left out."""
    left = MAX_ADDRESSES
    count = sum(len(subset.get(part, ())) for subset in found for part in ("addresses", "notReadyAddresses"))
    if count <= left:
        return found, False
    kept = [{name: value for name, value in subset.items() if name == "ports"} for subset in found]
    for part in ("addresses", "notReadyAddresses"):
        for subset, short in zip(found, kept, strict=True):
            some = subset.get(part, [])[:left]
            if some:
                short[part] = some
                left -= len(some)
    return [subset for subset in kept if len(subset) > ("ports" in subset)], True


class EndpointsController(QueueController[service_pods.Key]):
    name = "endpoints-controller"
    workers = 5

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._services = client.resource("", "services")
        self._pods = client.resource("", "pods")
        self._endpoints = client.resource("", "endpoints")
        super().__init__(reactor)
        self._follower = service_pods.ServiceFollower(client, lambda key: self._queue.add_after(key, BATCH_SECONDS))

    def _watches(self) -> Ends:
        self._follower.start()
        return [self._follower.stop]

    async def _handle(self, key: service_pods.Key) -> float | None:
        namespace, name = key
        service = self._services.lister.get(namespace, name)
        selector = None if service is None else service_pods.selector_of(service)
        if service is None or selector is None:
            return None  # the Endpoints of a Service are deleted with it
        existing = self._endpoints.lister.get(namespace, name)
        obj = desired_endpoints(service, self._pods.lister.labelled(selector, namespace), existing)
        if obj is None:
            return None
        try:
            if existing is None:
                await self._endpoints.create(obj, namespace)
            else:
                await self._endpoints.update(obj, namespace)
        except status.NotFound:
            return None  # the Service has just been deleted
        except status.Forbidden as error:
            if not status.is_namespace_ending(error):
                raise
        except status.AlreadyExists:
            return BATCH_SECONDS
        return None
