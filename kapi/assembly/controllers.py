"""The controllers, and the hooks that start and stop them."""

from __future__ import annotations

from collections.abc import Callable

from kapi.assembly.chain import Outgoing
from kapi.assembly.client_certificates import ReloadedFiles
from kapi.assembly.config import CompletedConfig
from kapi.assembly.identity import trusted
from kapi.assembly.storage import Storage
from kapi.authorization.rbac.bootstrap import reconcile_policy
from kapi.controllers.bootstrap import BootstrapController
from kapi.controllers.builtin import KNOWN, Controller, manager_controllers, server_controllers
from kapi.controllers.clusterauthentication import ClusterAuthenticationController
from kapi.controllers.coordinatedelection import CANDIDATES, CONTROLLER, GROUP, CoordinatedElection
from kapi.controllers.defaultservicecidr import CONTROLLER as RANGES
from kapi.controllers.garbagecollector.places import Places
from kapi.controllers.identity import COLLECTION as IDENTITY_COLLECTION
from kapi.controllers.identity import IdentityController
from kapi.controllers.leaderelection import LeaderElection
from kapi.controllers.legacytokentracking import LegacyTokenTrackingController
from kapi.controllers.serverleases import LEASES, PEER_LEASES, PeerEndpointController, ServerLeases
from kapi.controllers.storageversions import GROUP as STORAGE_VERSIONS
from kapi.controllers.storageversions import PLURAL, StorageVersionController
from kapi.machinery.gvk import GroupResource
from kapi.machinery.server_id import server_id
from kapi.machinery.time import stamp_micros
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.process.reactor import Reactor
from kapi.registry.registry import Registry
from kapi.runtime.persistent import Persistent
from kapi.servers.aggregator.backend import Backends
from kapi.servers.chain import ServerChain
from kapi.servers.peers import Peers
from kapi.wire.egress import CONTROL_PLANE

POLICY_HOOK = "rbac/bootstrap-roles"
#: upstream has separate hooks for these parts of one hook here
_BOOTSTRAP = (
    "scheduling/bootstrap-system-priority-classes",
    "start-kubernetes-service-cidr-controller",
    "start-system-namespaces-controller",
)


def install_controllers(config: CompletedConfig, storage: Storage, chain: ServerChain) -> None:
    """Adds hooks for the controllers to the core server.  Raises ConfigError for unknown names in --controllers."""
    core = chain.core
    options, reactor, given, registry = config.options, config.reactor, config.given, storage.registry
    now = registry.environment.now
    publishes = options.control_plane.endpoint_reconciler_type != "none"
    bootstrap = BootstrapController(
        registry.client.named("kube-apiserver"),
        reactor,
        ranges=[str(network) for network in options.control_plane.service_ranges],
        address=given.advertise,
        port=given.port,
        node_port=options.control_plane.kubernetes_service_node_port,
        now=now,
        leases=_leases(registry, reactor, LEASES) if publishes and not registry.store.exclusive else None,
        publishes=publishes,
        ranges_client=registry.client.named(RANGES),
    )
    core.add_post_start_hook("bootstrap-controller", bootstrap.start, _BOOTSTRAP)
    core.add_pre_shutdown_hook("bootstrap-controller", bootstrap.stop)
    unknown = options.controllers.unknown(KNOWN)
    if unknown:
        raise ConfigError("\n".join(unknown))
    own, clock = registry.client.named("kube-apiserver"), registry.environment.clock
    published = ClusterAuthenticationController(own, reactor, lambda: trusted(options, given.files), clock)
    config.reloaders.add(published.refresh)
    tracking = LegacyTokenTrackingController(own, reactor, clock)

    has_namespaces = registry.client.has("", "namespaces")
    places = None
    if options.storage.enable_garbage_collector:
        places = Places(
            registry, chain.tables, registry.client.named("kube-controller-manager"), chain.aggregator.remotes
        )

    def make() -> list[Controller]:
        return manager_controllers(
            registry.client,
            reactor,
            enabled=options.controllers.enabled,
            now=now,
            root_ca=lambda: given.files.ca.read_text(),
            caches=storage.caches,
            places=places,
            call=config.slices.call,
            extended_resources=options.generic.features["DRAExtendedResource"],
            elsewhere=chain.aggregator.remotes,
        )

    for controller in (
        *server_controllers(registry.client, reactor, node_ports=storage.node_ports, now=now),
        *_elected(options, reactor, registry, make),
        *([published, tracking] if has_namespaces and registry.client.has("", "configmaps") else ()),
    ):
        core.add_post_start_hook(controller.name, controller.start)
        core.add_closing_hook(controller.name, controller.stop)
    has_leases = has_namespaces and registry.client.has("coordination.k8s.io", "leases")
    if options.generic.features["APIServerIdentity"] and has_leases:
        identity = IdentityController(registry.client.named("kube-apiserver"), reactor, registry.environment.clock)
        core.add_post_start_hook(identity.name, identity.start, (IDENTITY_COLLECTION,))
        core.add_pre_shutdown_hook("stop-kube-apiserver-identity-lease-controller", identity.stop)
        if options.generic.features["StorageVersionAPI"] and registry.client.has(STORAGE_VERSIONS, PLURAL):
            versions = StorageVersionController(
                registry.client.named("kube-apiserver"),
                reactor,
                now,
                dict(registry.rows),  # without custom resources, which come later
                lambda: (row for table in chain.tables for row in table.resources()),
            )
            core.add_post_start_hook(versions.name, versions.start)
            core.add_closing_hook(versions.name, versions.stop)
    if options.generic.features["CoordinatedLeaderElection"] and has_leases and registry.client.has(GROUP, CANDIDATES):
        election = _coordination(options, reactor, registry)
        core.add_post_start_hook(election.name, election.start)
        core.add_closing_hook(election.name, election.stop)
    policy = Persistent(
        POLICY_HOOK, lambda: reconcile_policy(registry.client, options.generic.gates, policy.progress), reactor
    )
    core.add_post_start_hook(POLICY_HOOK, policy.start)
    core.add_closing_hook(POLICY_HOOK, policy.stop)


def install_peers(config: CompletedConfig, storage: Storage, chain: ServerChain, outgoing: Outgoing) -> Peers | None:
    """Tells other servers of this one; with --peer-ca-file, what passes requests on to others.  Raises ConfigError."""
    options, reactor, registry = config.options, config.reactor, storage.registry
    if not options.generic.features["UnknownVersionInteroperabilityProxy"]:
        return None
    server, given = server_id(), config.given
    leases = None if registry.store.exclusive else _leases(registry, reactor, PEER_LEASES, server)
    endpoint = PeerEndpointController(leases, reactor, options.aggregator.peer_address(given.advertise, given.port))
    chain.core.add_post_start_hook(endpoint.name, endpoint.start)
    chain.core.add_pre_shutdown_hook(endpoint.name, endpoint.stop)
    if not options.aggregator.peer_ca_file:
        return None
    authorities = ReloadedFiles(options.aggregator.peer_authorities)
    config.reloaders.add(authorities.reload)
    peers = Peers(
        registry.client,
        reactor,
        server=server,
        addresses=dict if leases is None else leases.servers,
        serves=chain.aggregator.serves_resource,
        backends=Backends(reactor, given.egress, CONTROL_PLANE),
        identity=outgoing.proxy_identity,
        authorities=authorities,
    )
    peers.changed = chain.aggregator.merge_discovery(peers.merge)
    chain.core.add_post_start_hook(peers.name, peers.start, peers.steps)
    chain.core.add_closing_hook(peers.name, peers.stop)
    return peers


def _elected(
    options: Options, reactor: Reactor, registry: Registry, make: Callable[[], list[Controller]]
) -> list[Controller]:
    """The controllers of ``make``, behind a leader election: one of several servers runs them.

    A server with an exclusive store needs no election.  Without Leases there is no election: each server runs them.
    """
    wanted = options.controllers
    if registry.store.exclusive or not wanted.leader_elect or not registry.client.has("coordination.k8s.io", "leases"):
        return make()
    election = LeaderElection(
        registry.client.named("kube-controller-manager"),
        reactor,
        namespace=wanted.leader_elect_resource_namespace,
        lease=wanted.leader_elect_resource_name,
        now=lambda: stamp_micros(registry.environment.clock()),
        make=make,
        timing=wanted.election,
    )
    return [election]


def _coordination(options: Options, reactor: Reactor, registry: Registry) -> Controller:
    """The controller that elects leaders from LeaseCandidates; one of several servers runs it."""
    client, clock = registry.client.named(CONTROLLER), registry.environment.clock

    def make() -> CoordinatedElection:
        return CoordinatedElection(client, reactor, clock)

    if registry.store.exclusive:
        return make()
    return LeaderElection(
        client,
        reactor,
        namespace="kube-system",
        lease=CONTROLLER,
        now=lambda: stamp_micros(clock()),
        make=lambda: [make()],
        timing=options.control_plane.coordination,
        name=CoordinatedElection.name,
    )


def _leases(registry: Registry, reactor: Reactor, kind: GroupResource, server: str = "") -> ServerLeases:
    cache = registry.caches.cache(kind, {}, namespaced=False)
    return ServerLeases(registry.store, cache, registry.environment.clock, reactor.seconds, server)
