"""All controllers of the process, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from twisted.internet.interfaces import IReactorTime

from kapi.controllers.bootstraptokens import BootstrapSigner, TokenCleaner
from kapi.controllers.clusterroleaggregation import MANAGER, ClusterRoleAggregationController
from kapi.controllers.endpoints import EndpointsController
from kapi.controllers.endpointslice import EndpointSliceController
from kapi.controllers.endpointslicemirroring import EndpointSliceMirroringController
from kapi.controllers.events import CoreEventRecorder
from kapi.controllers.flowschemas import CONSUMER, PRODUCER, FlowSchemaController
from kapi.controllers.flowschemas import GROUP as FLOW_CONTROL
from kapi.controllers.garbagecollector.controller import GarbageCollector
from kapi.controllers.garbagecollector.places import Places
from kapi.controllers.namespaces import Elsewhere, NamespaceController
from kapi.controllers.podgc import PodGarbageCollector
from kapi.controllers.resourcequota import ResourceQuotaController
from kapi.controllers.rootca import RootCAController
from kapi.controllers.serviceaccounts import ServiceAccountController
from kapi.controllers.servicecidrs import ServiceCIDRController
from kapi.controllers.servicerepair import ServiceRepairController
from kapi.controllers.ttlafterfinished import TTLAfterFinishedController
from kapi.controllers.volumeprotection import ClaimProtectionController, VolumeProtectionController
from kapi.machinery.gvk import GroupResource
from kapi.process.driver import Call
from kapi.registry.allocators.ports import NodePorts
from kapi.runtime.interface import Client
from kapi.watchcache.split_caches import AnyCaches


class NamedClient(Client, Protocol):
    """A client that can write under other names."""

    def named(self, manager: str) -> Client: ...


class Controller(Protocol):
    name: str

    async def start(self) -> None: ...

    def stop(self) -> Awaitable[None] | None: ...


_MANAGED = (
    NamespaceController, ServiceAccountController, ResourceQuotaController, RootCAController, ServiceCIDRController,
    ClusterRoleAggregationController, GarbageCollector, ClaimProtectionController, VolumeProtectionController,
    PodGarbageCollector, TTLAfterFinishedController, TokenCleaner, BootstrapSigner, EndpointsController,
    EndpointSliceController, EndpointSliceMirroringController,
)  # fmt: skip
#: the names that ``--controllers`` accepts
KNOWN = frozenset(controller.name for controller in _MANAGED)


def server_controllers(
    client: NamedClient, reactor: IReactorTime, *, node_ports: NodePorts, now: Callable[[], str]
) -> list[Controller]:
    """The controllers that upstream's API server runs itself: always enabled."""
    producer = client.named(PRODUCER)
    made: list[Controller] = [ServiceRepairController(client, node_ports, reactor, now)]
    if producer.has(FLOW_CONTROL, "flowschemas") and producer.has(FLOW_CONTROL, "prioritylevelconfigurations"):
        made.append(FlowSchemaController(producer, client.named(CONSUMER), reactor, now))
    return made


def manager_controllers(
    client: NamedClient,
    reactor: IReactorTime,
    *,
    enabled: Callable[[str], bool],
    now: Callable[[], str],
    root_ca: Callable[[], str],
    caches: AnyCaches,
    places: Places | None,
    call: Call,
    extended_resources: bool,
    elsewhere: Elsewhere | None = None,
) -> list[Controller]:
    """The controllers of upstream's controller manager that the documented behaviour of the API depends on.

    Without ``places`` there is no garbage collector; ``call`` runs long computations.
    """
    own = client.named("kube-controller-manager")
    made: list[Controller] = [
        NamespaceController(own, reactor, now, elsewhere=elsewhere),
        ServiceAccountController(own, reactor),
        ServiceCIDRController(client.named("service-cidr-controller"), reactor, now),
        ResourceQuotaController(own, reactor, extended_resources=extended_resources),
        RootCAController(own, reactor, root_ca),
        ClusterRoleAggregationController(client.named(MANAGER), reactor),
        ClaimProtectionController(own, reactor),
        VolumeProtectionController(own, reactor),
        PodGarbageCollector(own, caches.cache(GroupResource("", "pods")), reactor, now, call),
        TTLAfterFinishedController(own, reactor, now),
        TokenCleaner(own, reactor, now),
        BootstrapSigner(own, reactor, now),
        EndpointsController(own, reactor),
    ]
    if own.has("discovery.k8s.io", "endpointslices"):
        mirroring = CoreEventRecorder(own, EndpointSliceMirroringController.reporter, now)
        made += [EndpointSliceController(own, reactor), EndpointSliceMirroringController(own, reactor, mirroring)]
    if places is not None:
        recorder = CoreEventRecorder(own, GarbageCollector.name, now)
        made.append(GarbageCollector(caches, places, reactor, recorder, call))
    return [controller for controller in made if enabled(controller.name)]
