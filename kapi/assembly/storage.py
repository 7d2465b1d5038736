"""The stage Storage: caches, the registry of built-in resources, and encryption at rest with its metrics and reload.

Upstream: BuildGenericConfig, StorageFactory, apiserver ``server/options/encryptionconfig/controller``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twisted.logger import Logger

from kapi.admission.interface import AdmissionChain
from kapi.assembly.config import CompletedConfig
from kapi.authorization.build import Authorization
from kapi.machinery.gvk import GroupResource
from kapi.machinery.reloads import Reloads
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.registry.allocators.ports import NodePorts
from kapi.registry.allocators.services import install as install_allocators
from kapi.registry.environment import DELETE_WORKERS, Authors, Environment
from kapi.registry.guards import install_claim_checks, install_escalation_checks, install_signing_checks
from kapi.registry.registry import Registry
from kapi.resources.definition import Resource
from kapi.servers.additions import APIGroup
from kapi.servers.core.enablement import Enablement, served
from kapi.servers.core.install import AGGREGATOR_GROUP, EXTENSIONS_GROUP, core_rows, register, rows_of, switched_off
from kapi.store.interface import Store
from kapi.watchcache.caches import Caches
from kapi.watchcache.metrics import families
from kapi.watchcache.split_caches import AnyCaches, split

log = Logger()


def install_encryption(config: CompletedConfig) -> None:
    """Registers metrics and the reload; does nothing without ``--encryption-provider-config``."""
    options, stores = config.options, config.given.stores
    encryptions = [store.encryption for store in stores if store.encryption is not None]
    if not encryptions:
        return
    from kapi.store.encryption.configuration import load_encryption  # imported only when it is used

    encryptions[0].register(config.metrics.registry)  # the stores share their counters
    if not options.storage.encryption_provider_config_automatic_reload:
        return
    reloads = Reloads("encryption", config.metrics.registry)
    seen = options.storage.encryption()[1]
    reloads.applied(seen)

    def reload() -> None:
        """Applies a changed file.  An invalid file changes nothing, and is logged each time until it is corrected."""
        nonlocal seen
        try:
            rules, content = options.storage.encryption()
        except ConfigError as error:
            reloads.failed()
            log.error("Not reloading the encryption configuration: {error}", error=str(error))
            return
        if content != seen:
            for encryption in encryptions:
                encryption.replace(rules if encryption is encryptions[0] else load_encryption(content))
            seen = content
            reloads.succeeded(content)
            log.info("Reloaded the encryption configuration")

    config.reloaders.add(reload)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The built-in resources of one server of the chain."""

    groups: frozenset[str]
    rows: list[Resource]  # the enabled resources


@dataclass(frozen=True, slots=True)
class Storage:
    """The registry of all built-in resources.  Nothing has been read from the store yet."""

    registry: Registry
    extensions: BuiltIn
    core: BuiltIn
    aggregator: BuiltIn
    node_ports: NodePorts

    @property
    def caches(self) -> AnyCaches:
        return self.registry.caches

    def serves(self) -> Callable[[str, str, str], bool]:
        """Whether a built-in resource is served, by its group, version and plural."""
        parts = (self.extensions, self.core, self.aggregator)
        names = frozenset((row.group, row.version, row.plural) for part in parts for row in part.rows)
        return lambda group, version, plural: (group, version, plural) in names


def open_storage(config: CompletedConfig) -> Storage:
    """The storage of the process's server."""
    options, store = config.options, config.given.store
    caches = _open_caches(config)
    counted = options.storage.etcd_count_metric_poll_period > 0
    sharded = options.generic.features["ShardedListAndWatch"]
    config.metrics.add(families(caches, counts=counted, sharded=sharded))
    install_encryption(config)
    environment = Environment(
        config.reactor,
        features=options.generic.features,
        allow_privileged=options.control_plane.allow_privileged,
        authorizer=config.authorization.authorizer,
        garbage_collection=options.storage.enable_garbage_collector,
        event_ttl=options.storage.event_ttl,
        min_request_timeout=options.generic.min_request_timeout,
        delete_workers=options.storage.delete_workers or DELETE_WORKERS,
        authors=Authors() if options.features.enable_console else None,
    )
    registry = Registry(store, caches, AdmissionChain(), environment)
    return build_storage(options, registry, config.authorization, config.given.additions.groups)


def _open_caches(config: CompletedConfig) -> AnyCaches:
    store, overrides, reactor = config.given.store, config.given.overrides, config.reactor
    age = config.options.storage.redis_compaction_interval or float("inf")
    if not overrides:
        return Caches(store, reactor, history_age=age, call=config.slices.call)
    main = Caches(
        store, reactor, history_age=age, call=config.slices.call, keeps=lambda resource: resource not in overrides
    )

    def make(other: Store, keeps: Callable[[GroupResource], bool]) -> Caches:
        return Caches(other, reactor, history_age=age, call=config.slices.call, main=main, keeps=keeps)

    return split(main, overrides, make, reactor)


def build_storage(
    options: Options, registry: Registry, authorization: Authorization, groups: Sequence[APIGroup]
) -> Storage:
    """Registers the built-in resources, and those of the program's own ``groups``.  Raises ValueError for a name that is taken.

    Admission comes later, since its plugins use the registry.
    """
    flags = enablement(options)
    extensions = _register(registry, flags, rows_of(EXTENSIONS_GROUP))
    core = _register(registry, flags, core_rows())
    aggregator = _register(registry, flags, rows_of(AGGREGATOR_GROUP))
    registry.stores.off = switched_off(registry)
    if groups:
        from kapi.servers.groups import group_rows  # imports the code for custom resources

        rows = group_rows(groups, extensions.groups | core.groups | aggregator.groups)
        register(registry, rows)
        core = BuiltIn(core.groups | {group.name for group in groups}, [*core.rows, *rows])
    return Storage(registry, extensions, core, aggregator, _install_checks(options, registry, authorization))


def storage_over(storage: Storage, options: Options, registry: Registry, authorization: Authorization) -> Storage:
    """The same resources in another registry of the process, which already has the rows."""
    registry.stores.off = storage.registry.stores.off
    return replace(storage, registry=registry, node_ports=_install_checks(options, registry, authorization))


def _install_checks(options: Options, registry: Registry, authorization: Authorization) -> NodePorts:
    """Installs the allocators and checks that need the registry."""
    ranges = [str(network) for network in options.control_plane.service_ranges]
    node_ports = install_allocators(registry, ranges, options.control_plane.service_node_port_range)
    install_escalation_checks(registry, authorization.escalation)
    install_claim_checks(registry)
    install_signing_checks(registry)
    return node_ports


def enablement(options: Options) -> Enablement:
    generic = options.generic
    return Enablement(
        options.api_enablement.enabled,
        options.api_enablement.setting,
        generic.features,
        generic.version.emulated,
        generic.emulation_forward_compatible,
        generic.runtime_config_emulation_forward_compatible,
    )


def _register(registry: Registry, flags: Enablement, rows: list[Resource]) -> BuiltIn:
    try:
        found = BuiltIn(frozenset(row.group for row in rows), served(rows, flags))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    register(registry, found.rows)
    return found
