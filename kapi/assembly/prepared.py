"""The stage PrepareRun: health, fixed paths, hooks and filters, and the hooks and routes that a program adds.

Upstream: ``genericapiserver.go``, PrepareRun; sample-apiserver ``pkg/apiserver``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from kapi.assembly.chain import Outgoing
from kapi.assembly.config import CompletedConfig
from kapi.assembly.extension import Extension, Parts
from kapi.assembly.filters import build_handler_chain, flow_control
from kapi.assembly.metrics import install_resource_metrics
from kapi.assembly.policy import Policy
from kapi.assembly.storage import Storage
from kapi.console.pages import install_console
from kapi.endpoints.connect.proxy import is_proxied
from kapi.filters.chain import Filter, FilterChain
from kapi.filters.chain import Handler as FilteredHandler
from kapi.machinery import status
from kapi.observability.log_files import LogFiles
from kapi.observability.metrics import Exposition
from kapi.observability.profiling import Profiling
from kapi.observability.slis import HealthIndicators
from kapi.observability.zpages import install_flagz, install_statusz
from kapi.request.context import RequestContext
from kapi.servers.additions import HookContext
from kapi.servers.aggregator.availability import unavailable_services
from kapi.servers.chain import ServerChain
from kapi.servers.peers import Peers
from kapi.serving.generic import GenericServer
from kapi.serving.health import Check, HealthChecks
from kapi.serving.life import Hooks
from kapi.serving.routes import Index, Version
from kapi.serving.routing import Answer, Handler
from kapi.serving.site import Connections
from kapi.store.redis_store import RedisStore
from kapi.store.storage_size import StorageSize, size_families, store_id
from kapi.watchcache.caches import Caches

#: upstream has separate hooks for these; here their work is done when the informers are synced
_INFORMERS = ("start-apiserver-admission-initializer", "storage-readiness")


@dataclass(frozen=True, slots=True)
class PreparedServer:
    """A complete server, which is not started yet."""

    config: CompletedConfig
    storage: Storage
    policy: Policy
    chain: ServerChain
    site: Connections
    hooks: Hooks
    filters: tuple[Filter, ...]
    extension: Extension | None
    innermost: tuple[Filter, ...]  # behind the filters of programs, too

    def handler_chain(self, before: Sequence[Filter] = (), behind: Sequence[Filter] = ()) -> FilterChain:
        """The filters with the site behind them; ``before`` and ``behind`` come before and after the server's own filters."""
        additions = self.config.given.additions
        before, behind = [*before, *additions.outer_filters], [*behind, *additions.filters]
        handler: FilteredHandler = self.site.answer
        extension = self.extension
        if extension is not None:
            handler = extension.behind_filters(handler)
        if self.config.tracing is not None:
            handler = self.config.tracing.requests.around(handler)
        if extension is None:
            return FilterChain([*before, *self.filters, *behind, *self.innermost], handler)
        own = FilterChain([*self.filters, *behind, *self.innermost], handler)
        return FilterChain(before, extension.before_filters(own.handle, behind))

    def streams_body(self, uri: bytes) -> bool:
        """Whether the body of a request to this target is passed on to another server."""
        return is_proxied(uri) or self.chain.aggregator.is_remote(uri)


def prepare_run(
    config: CompletedConfig,
    storage: Storage,
    policy: Policy,
    chain: ServerChain,
    outgoing: Outgoing,
    extension: Extension | None,
    peers: Peers | None,
) -> PreparedServer:
    """Adds the parts that only the process's own server has, and builds the filters.  Raises ConfigError."""
    options, server, core = config.options, chain.aggregator, chain.core
    site = Connections(server, config.reactor, options.serving.http2_max_streams_per_connection)
    _install_identity(policy, chain)
    _install_informers(config, storage, chain)
    _install_sizes(config, chain)
    if config.tracing is not None:
        core.add_closing_hook("tracing", config.tracing.stop)
    install_resource_metrics(config.metrics, storage.registry, chain.tables, storage.node_ports)
    flow = flow_control(config, storage, core)
    if extension is not None:
        extension.install(Parts(config, storage, policy, chain, outgoing, site, flow))
    install_hooks(config, storage, chain)
    server.seal()
    hooks = Hooks(server.post_start_hooks(), server.hook_steps())
    install_routes(config, storage, server, hooks)
    install_added_routes(config, chain)
    filters = build_handler_chain(
        config, policy.identity, policy.authorization.authorizer, flow, server.serves_resource
    )
    innermost = () if peers is None else (peers.filter,)
    return PreparedServer(config, storage, policy, chain, site, hooks, tuple(filters), extension, innermost)


def _install_identity(policy: Policy, chain: ServerChain) -> None:
    """Serves the issuer's discovery documents."""
    for path, handler in policy.identity.paths.items():
        chain.core.app.route(path, branch=True)(_document(path, handler))


def _document(path: str, handler: Handler) -> Handler:
    """Routes to ``handler`` for a path with or without a slash at its end, and NotFound below the path."""

    def answer(ctx: RequestContext) -> Answer:
        if ctx.path.removesuffix("/") != path:
            raise status.no_such_resource()
        return handler(ctx)

    return answer


def _install_informers(config: CompletedConfig, storage: Storage, chain: ServerChain) -> None:
    authorization, client = config.authorization, storage.registry.client
    services = client.resource("apiregistration.k8s.io", "apiservices").lister
    config.metrics.add(lambda: unavailable_services(services))

    async def follow() -> None:
        authorization.index.follow(client)
        authorization.graph.follow(client)
        await authorization.index.loaded()

    chain.core.add_post_start_hook("generic-apiserver-start-informers", follow, _INFORMERS)


def _install_sizes(config: CompletedConfig, chain: ServerChain) -> None:
    """Adds the sizes of the stores to the metrics.  A hook requests them, so that the first scrape has them."""
    interval = config.options.storage.etcd_db_metric_poll_interval
    stores = config.given.stores if interval > 0 else ()
    sizes = [StorageSize(store.info, config.reactor, interval) for store in stores]
    if sizes:
        config.metrics.add(size_families(sizes))

    async def ask() -> None:
        for size in sizes:
            await size.ask()

    chain.core.add_post_start_hook("storage-object-count-tracker-hook", ask)


def install_routes(config: CompletedConfig, storage: Storage, server: GenericServer, hooks: Hooks) -> None:
    """The fixed paths of the outermost server."""
    options, reactor = config.options, config.reactor
    endpoints = _health(config, storage, server, hooks)
    server.app.include(Index(server.listed_paths))
    server.app.include(Version(options.generic.version))
    features = options.generic.features
    cbor = features["CBORServingAndStorage"]
    if features["ComponentStatusz"]:
        install_statusz(server, options.generic.version.emulated, cbor=cbor)
    if features["ComponentFlagz"]:
        install_flagz(server, dict(options.settings()), cbor)
    for checks in endpoints:
        server.app.route(checks.path, branch=True)(checks.handle)
    server.more_paths.append(lambda: [path for checks in endpoints for path in checks.paths])
    server.app.include(Exposition(config.metrics, resets=options.features.profiling))
    if options.features.enable_console:
        authors = storage.registry.environment.authors
        assert authors is not None  # made with the storage, for the console
        install_console(server, storage.registry, authors)
    if options.control_plane.enable_logs_handler:
        server.app.include(LogFiles())
    if options.features.profiling:
        server.app.include(Profiling(reactor, options.logs))
    server.app.include(HealthIndicators(endpoints, resets=options.features.profiling))


def _health(config: CompletedConfig, storage: Storage, server: GenericServer, hooks: Hooks) -> list[HealthChecks]:
    """/healthz, /livez and /readyz."""
    reactor, store, caches, signals = config.reactor, config.given.store, storage.caches, config.signals
    flags = config.options.storage
    # until then /livez ignores the post-start hooks
    grace_ends = reactor.seconds() + config.options.generic.livez_grace_period

    def after_grace_period(check: Check) -> Check:
        return lambda: "" if reactor.seconds() < grace_ends else check()

    has_plugins = store.encryption is not None and (
        flags.encryption_provider_config_automatic_reload or bool(store.encryption.plugins)
    )
    _, livez, readyz = endpoints = [HealthChecks("/healthz"), HealthChecks("/livez"), HealthChecks("/readyz")]
    for checks in endpoints:
        checks.add("ping", lambda: "")
        checks.add("log", lambda: "")
        checks.add("etcd", store_check(store, flags.etcd_healthcheck_timeout))
        if checks is readyz:
            checks.add("etcd-readiness", store_check(store, flags.etcd_readycheck_timeout))
            for name, check in store.checks().items():
                checks.add(name, check)
            main, *others = caches.parts
            checks.add("informer-sync", lambda: "" if caches.ready else "caches are not loaded")
            checks.add("watch-cache", main.failing)
            checks.note("store-entries", main.store_warnings)
            for number, part in enumerate(others, 1):
                name = f"the store of {config.given.kept_by(part.store)}"
                answers = store_check(config.given.stores[number], flags.etcd_readycheck_timeout, name)
                checks.note(store_id(number), partial(_store_problems, part, name, answers))
        if checks is not livez and has_plugins:  # a restart of the server would not repair a plugin
            checks.add("kms-providers", partial(_encryption_problems, config.given.stores))
        for name in hooks.names:
            check = _hook_check(hooks, name)
            checks.add(f"poststarthook/{name}", after_grace_period(check) if checks is livez else check)
        for name, check in server.health_checks().items():
            checks.add(name, check)
    readyz.add("shutdown", lambda: "process is shutting down" if signals.stopping else "")
    return endpoints


def store_check(store: RedisStore, timeout: float, name: str = "the store") -> Check:
    """A check that the store is connected, and that no command has waited for a reply longer than ``timeout`` seconds."""

    def check() -> str:
        if not store.available:
            return f"{name} is not reachable"
        return "" if store.silence <= timeout else f"{name} does not answer in time"

    return check


def _store_problems(caches: Caches, name: str, answers: Check) -> str:
    """The problems of a store of single resources.  They do not make the server unready, since its other resources are served.

    Reasons are only in the log, since /readyz is public.
    """
    failing = ", ".join(each for each, check in caches.store.checks().items() if check())
    found = (answers(), failing and f"{name} fails {failing}", caches.failing(), caches.store_warnings())
    return "; ".join(filter(None, found))


def _encryption_problems(stores: Iterable[RedisStore]) -> str:
    problems = (store.encryption.problem() for store in stores if store.encryption is not None)
    return "; ".join(dict.fromkeys(filter(None, problems)))


def _hook_check(hooks: Hooks, name: str) -> Callable[[], str]:
    return lambda: hooks.check(name)


def install_hooks(config: CompletedConfig, storage: Storage, chain: ServerChain) -> None:
    """Adds hooks.  Raises ValueError for the name of an existing hook."""
    additions, client = config.given.additions, storage.registry.client

    def context(name: str) -> HookContext:
        return HookContext(client.named(name), config.reactor)

    for name, start in additions.post_start_hooks.items():
        chain.aggregator.add_post_start_hook(name, partial(start, context(name)))
    for name, stop in additions.pre_shutdown_hooks.items():
        chain.aggregator.add_pre_shutdown_hook(name, partial(stop, context(name)))


def install_added_routes(config: CompletedConfig, chain: ServerChain) -> None:
    """Adds routes to the outermost server.  Raises ValueError for a path that a server of the chain serves already."""
    for part in config.given.additions.routes:
        for url in part.app.urls:
            if any(url in app.served for app in chain.aggregator.apps()):
                raise ValueError(f"{url} is served already")
        chain.aggregator.app.include(part)
