"""Maintains the EndpointSlices of Services with a selector, a few Services at a time.

Changes of the slices by other clients are reverted.
Upstream: ``pkg/controller/endpointslice``, ``k8s.io/endpointslice`` ``reconciler.go``, KEP-752.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from twisted.internet.interfaces import IReactorTime

from kapi.controllers import service_pods
from kapi.controllers.slices import MANAGED_BY, SERVICE_NAME, Group, Owner, Plan, apply_plan, plan, slices_of
from kapi.controllers.watching import Ends, QueueController
from kapi.machinery.status import Conflict
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

MANAGER = "endpointslice-controller.k8s.io"
_ZONE = "topology.kubernetes.io/zone"
_CLOSE = ("PreferClose", "PreferSameZone", "PreferSameNode")
_TOPOLOGY_MODES = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
BATCH_SECONDS = 0.02  # time in which changes of several pods are collected


def reconciled(
    service: Object, pods: Sequence[Object], nodes: Mapping[str, Object], existing: Iterable[Object], changed: str = ""
) -> Plan:
    """The changes of the slices of a Service with endpoints of these pods.  ``changed`` is the time of the change."""
    metadata = service["metadata"]
    owner = Owner(
        kind="Service",
        name=metadata["name"],
        uid=metadata["uid"],
        labels=metadata.get("labels") or {},
        annotations={},
        manager=MANAGER,
        headless=service_pods.is_headless(service),
        identity=lambda endpoint: str((endpoint.get("targetRef") or {}).get("uid", "")),
    )
    made = plan(owner, desired_endpoints(service, pods, nodes), existing)
    made.create = [_annotated(one, changed) for one in made.create]
    made.update = [_annotated(one, changed) for one in made.update]
    return made


def _annotated(one: Object, changed: str) -> Object:
    metadata = one["metadata"]
    annotations = {**(metadata.get("annotations") or {}), service_pods.CHANGED: changed}
    if not changed:
        del annotations[service_pods.CHANGED]
    return {**one, "metadata": {**metadata, "annotations": annotations}}


def _has_endpoint(pod: Object) -> bool:
    state = pod.get("status") or {}
    return not service_pods.has_ended(pod) and bool(state.get("podIP") or state.get("podIPs"))


def endpoint_pods(
    service: Object, pods: Iterable[Object], nodes: Mapping[str, Object]
) -> tuple[list[Object], list[Object]]:
    """The pods that have endpoints, and those that have none since their node does not exist."""
    with_address = [pod for pod in service_pods.selected(service, pods) if _has_endpoint(pod)]
    if (service.get("spec") or {}).get("publishNotReadyAddresses"):
        return with_address, []
    found: tuple[list[Object], list[Object]] = ([], [])
    for pod in with_address:
        found[(pod.get("spec") or {}).get("nodeName") not in nodes].append(pod)
    return found


def desired_endpoints(
    service: Object, pods: Sequence[Object], nodes: Mapping[str, Object]
) -> dict[Group, list[Object]]:
    """The endpoints by family and ports; each family has a group even without endpoints."""
    found: dict[Group, list[Object]] = {}
    for family in families(service):
        empty = True
        for pod in pods:
            ips = service_pods.addresses(pod, family)
            if ips:
                group = Group.of(family, service_pods.ports_of(service, pod))
                found.setdefault(group, []).append(_endpoint(service, pod, ips, nodes))
                empty = False
        if empty:
            found[Group.of(family, [])] = []
    return found


def families(service: Object) -> list[str]:
    spec = service.get("spec") or {}
    return spec.get("ipFamilies") or ["IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"]


def _endpoint(service: Object, pod: Object, ips: list[str], nodes: Mapping[str, Object]) -> Object:
    serving, terminating = service_pods.is_ready(pod), service_pods.is_going(pod)
    tolerant = bool((service.get("spec") or {}).get("publishNotReadyAddresses"))
    made: Object = {
        "addresses": ips,
        "conditions": {
            "ready": tolerant or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": service_pods.reference_to(pod),
    }
    hostname = service_pods.hostname_for(pod, service)
    if hostname:
        made["hostname"] = hostname
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        made["nodeName"] = node
        zone = (((nodes.get(node) or {}).get("metadata") or {}).get("labels") or {}).get(_ZONE)
        if zone:
            made["zone"] = zone
    hints = _hints(service, made)
    if hints:
        made["hints"] = hints
    return made


def _hints(service: Object, endpoint: Object) -> Object:
    """Where the traffic to an endpoint should come from (upstream: ``endpointslice/trafficdist``)."""
    distribution = (service.get("spec") or {}).get("trafficDistribution")
    annotations = service["metadata"].get("annotations") or {}
    mode = next((annotations[name] for name in _TOPOLOGY_MODES if name in annotations), "")
    if distribution not in _CLOSE or mode in ("Auto", "auto") or not endpoint["conditions"]["ready"]:
        return {}
    found: Object = {}
    if endpoint.get("zone"):
        found["forZones"] = [{"name": endpoint["zone"]}]
    if distribution == "PreferSameNode" and endpoint.get("nodeName"):
        found["forNodes"] = [{"name": endpoint["nodeName"]}]
    return found


class EndpointSliceController(QueueController[service_pods.Key]):
    name = "endpointslice-controller"
    workers = 5

    def __init__(self, client: Client, reactor: IReactorTime) -> None:
        self._services = client.resource("", "services")
        self._pods = client.resource("", "pods")
        self._nodes = client.resource("", "nodes")
        self._slices = client.resource("discovery.k8s.io", "endpointslices")
        self._times = service_pods.TriggerTimes()
        super().__init__(reactor)
        self._follower = service_pods.ServiceFollower(client, self._enqueue)

    def _watches(self) -> Ends:
        self._follower.start()
        return [self._slices.watch(self._slice_changed), self._follower.stop]

    def _enqueue(self, key: service_pods.Key) -> None:
        self._queue.add_after(key, BATCH_SECONDS)

    def _slice_changed(self, event: str, obj: Object, old: Object | None) -> None:
        labels = obj["metadata"].get("labels") or {}
        if event != "ADDED" and MANAGER in (labels.get(MANAGED_BY), _manager_of(old)):
            name = labels.get(SERVICE_NAME) or ((old or obj)["metadata"].get("labels") or {}).get(SERVICE_NAME)
            if name:
                self._enqueue((obj["metadata"]["namespace"], name))

    async def _handle(self, key: service_pods.Key) -> None:
        namespace, name = key
        service = self._services.lister.get(namespace, name)
        selector = None if service is None else service_pods.selector_of(service)
        if service is None or selector is None or service["metadata"].get("deletionTimestamp"):
            self._times.forget(key)
            return  # the slices of a Service are deleted with it
        pods = self._pods.lister.labelled(selector, namespace)
        nodes = {node["metadata"]["name"]: node for node in self._nodes.lister.list()}
        existing = slices_of(self._slices, namespace, name, MANAGER)
        changed = self._times.changed(key, service, pods)
        chosen, left_out = endpoint_pods(service, pods, nodes)
        await apply_plan(self._slices, namespace, reconciled(service, chosen, nodes, existing, changed))
        if left_out:  # their nodes may come
            pod = left_out[0]["metadata"]["name"]
            raise Conflict(f"skipping Pod {pod} for Service {namespace}/{name}: its Node is not found")


def _manager_of(old: Object | None) -> str | None:
    return None if old is None else (old["metadata"].get("labels") or {}).get(MANAGED_BY)
