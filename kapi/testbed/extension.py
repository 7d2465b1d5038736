"""Adds the testbed to a server: ``/kapi/settled``, recent changes, and what its two flags switch on."""

from __future__ import annotations

from collections.abc import Sequence

from kapi.assembly.extension import Parts
from kapi.assembly.policy import without_webhook_credentials
from kapi.filters.chain import Filter, Handler
from kapi.options.flags import FlagSet, switch
from kapi.options.global_flags import ProcessOptions
from kapi.store.interface import CREATED, DELETED, UPDATED, Change
from kapi.testbed.cluster_chain import Shared, shared_scopes
from kapi.testbed.cluster_template import install_clusters
from kapi.testbed.clusters import Clusters
from kapi.testbed.fault_injection import FaultInjection
from kapi.testbed.past_reads import PastReads
from kapi.testbed.settled import Settled
from kapi.watchcache.caches import Caches
from kapi.watchcache.event import ADDED, MODIFIED
from kapi.watchcache.event_log import LoggedEvent

_KINDS = {ADDED: CREATED, MODIFIED: UPDATED}


class RecentChanges:
    """The recent changes of the store that ``caches`` follow."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    @property
    def newest(self) -> int:
        """The revision of the last change."""
        return self._caches.revision

    def changes(self, since: int, until: int) -> list[Change]:
        """The changes after ``since``, up to ``until``, oldest first.  Raises Compacted when some of them have been dropped."""
        return [_change(logged) for logged in self._caches.between(since, until)]


def _change(logged: LoggedEvent) -> Change:
    resource, event = logged.cache.resource, logged.event
    entry = event.entry
    key = f"{resource.group or 'core'}/{resource.resource}/{entry.namespace}/{entry.name}"
    return Change(event.revision, _KINDS.get(event.kind, DELETED), key, entry.data)


class TestbedOptions(FlagSet):
    """The flags that ``--testbed`` adds."""

    title = "Kapi"

    enable_fault_injection = switch(False, "Serve /kapi/faults: faults on command.")
    enable_logical_clusters = switch(False, "Serve /clusters: clusters of their own in this process, in memory.")

    def __init__(self, processes: ProcessOptions) -> None:
        super().__init__()
        self._processes = processes

    def validate(self) -> list[str]:
        if self.enable_logical_clusters and self._processes.workers > 1:
            return ["--enable-logical-clusters: a logical cluster is in the memory of one process; --workers must be 1"]
        return []


class Testbed:
    """The extension ``kapi.assembly.extension`` of one server."""

    def __init__(self) -> None:
        self._faults: FaultInjection | None = None
        self._past: PastReads | None = None
        self.clusters: Clusters | None = None
        self._options: TestbedOptions

    def flags(self, processes: ProcessOptions) -> FlagSet:
        self._options = TestbedOptions(processes)
        return self._options

    def install(self, parts: Parts) -> None:
        options, core, config, storage = self._options, parts.chain.core, parts.config, parts.storage
        if options.enable_logical_clusters:
            self._past = PastReads(parts.chain.tables, RecentChanges(storage.caches.parts[0]))
            core.app.include(self._past)
            shared = Shared(
                config,
                storage,
                parts.policy,
                parts.chain,
                parts.outgoing,
                parts.site,
                parts.flow,
                shared_scopes(storage),
                without_webhook_credentials(parts.policy.configurations),
                options.enable_fault_injection,
            )
            self.clusters = install_clusters(shared, core)
        if options.enable_fault_injection:
            self._faults = FaultInjection(config.reactor)
            core.app.include(self._faults)
        core.app.include(Settled(storage.caches, config.signals.requests, config.reactor))

    def behind_filters(self, handler: Handler) -> Handler:
        for part in (self._past, self._faults):
            if part is not None:
                handler = part.around(handler)
        return handler

    def before_filters(self, handler: Handler, behind: Sequence[Filter]) -> Handler:
        return handler if self.clusters is None else self.clusters.around(handler, behind)
