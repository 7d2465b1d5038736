"""Maintains the Endpoints of Services with a selector, a few Services at a time (upstream: ``pkg/controller/endpoint``)."""

from __future__ import annotations

import math
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
_OWN_ANNOTATIONS = (OVER_CAPACITY, service_pods.CHANGED)
BATCH_SECONDS = 0.02  # time in which changes of several pods are collected


def desired_endpoints(
    service: Object, pods: Iterable[Object], existing: Object | None, changed: str = ""
) -> Object | None:
    """The object to create or update; None when it is up to date.  ``changed`` is the time of the change."""
    metadata = service["metadata"]
    labels = {name: value for name, value in entries(metadata, "labels") if name != service_pods.HEADLESS}
    labels[MANAGED_BY] = CONTROLLER
    if service_pods.is_headless(service):
        labels[service_pods.HEADLESS] = ""
    found = subsets(service, pods)
    kept, left_out = truncated(found)
    old = {} if existing is None else existing["metadata"]
    before = old.get("annotations") or {}
    annotations = {name: value for name, value in entries(old, "annotations") if name not in _OWN_ANNOTATIONS}
    if changed:
        annotations[service_pods.CHANGED] = changed
    if left_out:
        annotations[OVER_CAPACITY] = "truncated"
    if existing is not None:
        same = (existing.get("subsets") or []) == kept and (old.get("labels") or {}) == labels
        if same and before.get(OVER_CAPACITY) == annotations.get(OVER_CAPACITY):
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
    """At most MAX_ADDRESSES, of each subset its share, ready ones before others; and whether some were left out."""
    ready, others = (sum(len(subset.get(part, ())) for subset in found) for part in ("addresses", "notReadyAddresses"))
    if ready + others <= MAX_ADDRESSES:
        return found, False
    if ready > MAX_ADDRESSES:
        part, space, count = "addresses", MAX_ADDRESSES, ready
    else:
        part, space, count = "notReadyAddresses", MAX_ADDRESSES - ready, others
    left, kept = space, []
    for subset in found:
        share = math.ceil(len(subset.get(part, ())) / count * space)
        some = subset.get(part, [])[: min(share, left)]
        left -= len(some)
        short = {name: value for name, value in subset.items() if name not in (part, "notReadyAddresses")}
        if some:
            short[part] = some
        if len(short) > ("ports" in short):
            kept.append(short)
    return kept, True


class EndpointsController(QueueController[service_pods.Key]):
    name = "endpoints-controller"
    workers = 5

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._services = client.resource("", "services")
        self._pods = client.resource("", "pods")
        self._endpoints = client.resource("", "endpoints")
        self._times = service_pods.TriggerTimes()
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
            self._times.forget(key)
            return None  # the Endpoints of a Service are deleted with it
        existing = self._endpoints.lister.get(namespace, name)
        pods = self._pods.lister.labelled(selector, namespace)
        obj = desired_endpoints(service, pods, existing, self._times.changed(key, service, pods))
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
