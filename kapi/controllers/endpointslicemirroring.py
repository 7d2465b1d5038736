"""Mirrors Endpoints that no controller maintains into EndpointSlices (upstream: ``pkg/controller/endpointslicemirroring``)."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.events import CoreEvent, CoreEventRecorder, reference_to
from kapi.controllers.slices import MANAGED_BY, SERVICE_NAME, Group, Owner, Plan, apply_plan, plan, slices_of
from kapi.controllers.watching import Ends, QueueController
from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object
from kapi.runtime.interface import Client

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP_MIRROR_LABEL, LEADER_ANNOTATION = (
    "endpointslice.kubernetes.io/skip-mirror",
    "control-plane.alpha.kubernetes.io/leader",
)
MAX_MIRRORED = 1000  # the most addresses of a subset
_NOT_COPIED = frozenset(
    ["kubectl.kubernetes.io/last-applied-configuration", "endpoints.kubernetes.io/last-change-trigger-time"]
)
Key = tuple[str, str]  # namespace and name of Endpoints
BATCH_SECONDS = 0.02  # time in which changes are collected


def is_mirrored(endpoints: Object | None, service: Object | None) -> bool:
    """Whether Endpoints belong to a Service without selector, have no label that skips mirroring, and are no lock."""
    if endpoints is None or service is None or (service.get("spec") or {}).get("selector"):
        return False
    metadata = endpoints["metadata"]
    if metadata.get("deletionTimestamp") or (metadata.get("labels") or {}).get(SKIP_MIRROR_LABEL) == "true":
        return False
    return LEADER_ANNOTATION not in (metadata.get("annotations") or {})


def reconciled(endpoints: Object, existing: list[Object]) -> Plan:
    """The changes of the slices of Endpoints."""
    metadata = endpoints["metadata"]
    annotations = metadata.get("annotations") or {}
    owner = Owner(
        kind="Endpoints",
        name=metadata["name"],
        uid=metadata["uid"],
        labels={name: value for name, value in entries(metadata, "labels") if name != SKIP_MIRROR_LABEL},
        annotations={name: value for name, value in annotations.items() if name not in _NOT_COPIED},
        manager=MANAGER,
        headless=False,
        identity=lambda endpoint: str(endpoint["addresses"][0]),
        limit=MAX_MIRRORED,
    )
    return plan(owner, desired_endpoints(endpoints), existing)


def skipped(endpoints: Object) -> int:
    """The number of addresses that are not mirrored, since their subset has too many."""
    counts = [
        sum(len(subset.get(part) or []) for part in ("addresses", "notReadyAddresses"))
        for subset in elements(endpoints, "subsets")
    ]
    return sum(max(0, count - MAX_MIRRORED) for count in counts)


def desired_endpoints(endpoints: Object) -> dict[Group, list[Object]]:
    """The endpoints by family and ports.  Of two equal addresses the ready one counts."""
    found: dict[Group, dict[str, Object]] = {}
    for subset in elements(endpoints, "subsets"):
        ports = [{"name": "", **port} for port in elements(subset, "ports")]
        mirrored = 0
        for part, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in elements(subset, part):
                if mirrored >= MAX_MIRRORED:
                    break
                mirrored += 1
                family = "IPv6" if ":" in address["ip"] else "IPv4"
                found.setdefault(Group.of(family, ports), {}).setdefault(address["ip"], _endpoint(address, ready))
    return {group: list(endpoints.values()) for group, endpoints in found.items()}


def _endpoint(address: Object, ready: bool) -> Object:
    made: Object = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    for name in ("hostname", "nodeName", "targetRef"):
        if address.get(name):
            made[name] = address[name]
    return made


class EndpointSliceMirroringController(QueueController[Key]):
    name = "endpointslice-mirroring-controller"
    reporter = "endpoint-slice-mirroring-controller"  # the component of its events
    workers = 5

    def __init__(self, client: Client, reactor: IReactorTime, recorder: CoreEventRecorder) -> None:
        self._recorder = recorder
        self._endpoints = client.resource("", "endpoints")
        self._services = client.resource("", "services")
        self._slices = client.resource("discovery.k8s.io", "endpointslices")
        super().__init__(reactor)

    def _watches(self) -> Ends:
        watched = (self._endpoints, self._changed), (self._services, self._changed), (self._slices, self._slice_changed)
        return [resource.watch(changed) for resource, changed in watched]

    def _changed(self, event: str, obj: Object, old: Object | None) -> None:
        self._queue.add_after((obj["metadata"]["namespace"], obj["metadata"]["name"]), BATCH_SECONDS)

    def _slice_changed(self, event: str, obj: Object, old: Object | None) -> None:
        labels = obj["metadata"].get("labels") or {}
        if event != "ADDED" and labels.get(MANAGED_BY) == MANAGER and labels.get(SERVICE_NAME):
            self._queue.add_after((obj["metadata"]["namespace"], labels[SERVICE_NAME]), BATCH_SECONDS)

    async def _handle(self, key: Key) -> None:
        namespace, name = key
        endpoints = self._endpoints.lister.get(namespace, name)
        existing = slices_of(self._slices, namespace, name, MANAGER)
        if endpoints is not None and is_mirrored(endpoints, self._services.lister.get(namespace, name)):
            count = skipped(endpoints)
            if count:
                text = f"A max of {MAX_MIRRORED} addresses can be mirrored to EndpointSlices per Endpoints subset. "
                text += f"{count} addresses were skipped"
                event = CoreEvent(reference_to(endpoints), "Warning", "TooManyAddressesToMirror", text)
                await self._recorder.record(event)
            await apply_plan(self._slices, namespace, reconciled(endpoints, existing))
        elif existing:
            await apply_plan(self._slices, namespace, Plan(delete=existing))
