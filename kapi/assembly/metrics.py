"""Registers the metrics of all packages (upstream: component-base ``metrics/legacyregistry``).

Metrics that exist once in a process are defined in the module that they measure, or in the module ``metrics`` of its package.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from prometheus_client.registry import Collector

from kapi.authentication.cache import TOKEN_CACHES
from kapi.cel.environment import COMPILATION, EVALUATION
from kapi.client import metrics as client
from kapi.controllers.servicerepair import FAILURES
from kapi.endpoints.discovery.handler import AGGREGATIONS, MERGED, MERGED_AGAIN, WITHOUT_PEERS
from kapi.endpoints.dispatch import ResourceTable
from kapi.machinery.gvk import GroupResource
from kapi.observability import zpages
from kapi.observability.metrics import Metrics, Shape, build_families, store_requests
from kapi.options.options import Options
from kapi.registry.allocators import allocation as allocators
from kapi.registry.allocators.addresses import addresses_in_use
from kapi.registry.allocators.ports import NodePorts
from kapi.registry.client import SELF_REQUESTS
from kapi.registry.registry import Registry
from kapi.resources.certificates import certificatesigningrequests
from kapi.runtime import workqueue
from kapi.schema.managedfields import TIMESTAMP_COMPARISON
from kapi.schema.structural.correlation import RATCHETING
from kapi.servers import peers
from kapi.servers.aggregator.availability import LOSSES
from kapi.servers.apiextensions import conversion
from kapi.store.encryption import kms_metrics
from kapi.wire.tls import faults as tls_faults

_PROCESS_COLLECTORS: tuple[Collector, ...] = (
    workqueue.METRICS,
    TOKEN_CACHES,
    COMPILATION,
    EVALUATION,
    TIMESTAMP_COMPARISON,
    RATCHETING,
    AGGREGATIONS,
    WITHOUT_PEERS,
    MERGED,
    MERGED_AGAIN,
    SELF_REQUESTS,
    LOSSES,
    FAILURES,
    certificatesigningrequests.HONORED,
    certificatesigningrequests.REQUESTED,
    kms_metrics.DATA_KEY_SECONDS,
    kms_metrics.DATA_KEY_FAILURES,
    kms_metrics.CACHE_MISSES,
    *allocators.COLLECTORS,
    *client.COLLECTORS,
    *conversion.COLLECTORS,
    *peers.COLLECTORS,
    *tls_faults.COLLECTORS,
)


def build_metrics(options: Options) -> Metrics:
    """The metrics of the process."""
    metrics = Metrics()
    if options.metrics.disabled_metrics or options.metrics.labels:
        metrics.shape = Shape(options.metrics.disabled_metrics, options.metrics.labels)
    for collector in _PROCESS_COLLECTORS:
        metrics.registry.register(collector)
    metrics.add(lambda: build_families(options.generic.features, options.generic.version))
    metrics.add(lambda: store_requests(metrics.store))
    return metrics


def install_resource_metrics(
    metrics: Metrics, registry: Registry, tables: Iterable[ResourceTable], ports: NodePorts
) -> None:
    """Adds the metrics of the served resources."""
    tables = tuple(tables)

    def deprecated(group: str, version: str, resource: str) -> str | None:
        for table in tables:
            scope = table.scope(group, version, resource)
            if scope is not None:
                return scope.resource.removed_in if scope.resource.deprecated else None
        return "" if group == zpages.GROUP and zpages.VERSIONS.get(version) else None

    metrics.requests.deprecated = deprecated
    addresses = registry.caches.cache(GroupResource("networking.k8s.io", "ipaddresses"))
    metrics.add(partial(addresses_in_use, registry.client, addresses))
    metrics.add(ports.in_use)
