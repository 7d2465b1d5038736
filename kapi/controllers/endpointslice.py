"""Maintains the EndpointSlices of Services with a selector, a few Services at a time.

Changes of the slices by other clients are reverted.
Upstream: ``pkg/controller/endpointslice``, ``k8s.io/endpointslice`` ``reconciler.go``, KEP-752.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    service: Object, pods: Iterable[Object], nodes: Mapping[str, Object], existing: Iterable[Object], changed: str = ""
) -> Plan:
    """The changes of the slices of a Service.  ``changed`` is the time of the change."""
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


def unknown_node(service: Object, pods: Iterable[Object], nodes: Mapping[str, Object]) -> str:
    """The name of a pod that is left out since its node does not exist; "" for none."""
    if (service.get("spec") or {}).get("publishNotReadyAddresses"):
        return ""
    chosen = service_pods.selected(service, pods)
    return next((str(pod["metadata"]["name"]) for pod in chosen if _is_shown(pod) and not _on_node(pod, nodes)), "")


def _is_shown(pod: Object) -> bool:
    state = pod.get("status") or {}
    return not service_pods.has_ended(pod) and bool(state.get("podIP") or state.get("podIPs"))


def _on_node(pod: Object, nodes: Mapping[str, Object]) -> bool:
    return (pod.get("spec") or {}).get("nodeName") in nodes


def desired_endpoints(
    service: Object, pods: Iterable[Object], nodes: Mapping[str, Object]
) -> dict[Group, list[Object]]:
    """The endpoints by family and ports; each family has a group even without endpoints."""
    found: dict[Group, list[Object]] = {}
    tolerant = bool((service.get("spec") or {}).get("publishNotReadyAddresses"))
    chosen = [
        pod for pod in service_pods.selected(service, pods) if _is_shown(pod) and (tolerant or _on_node(pod, nodes))
    ]
    for family in families(service):
        empty = True
        for pod in chosen:
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
        await apply_plan(self._slices, namespace, reconciled(service, pods, nodes, existing, changed))
        left_out = unknown_node(service, pods, nodes)
        if left_out:  # its node may come
            raise Conflict(f"skipping Pod {left_out} for Service {namespace}/{name}: its Node is not found")


def _manager_of(old: Object | None) -> str | None:
    return None if old is None else (old["metadata"].get("labels") or {}).get(MANAGED_BY)
