"""What the server is made of, put together from the options: store, registry, admission, the three servers, the filters.

No I/O but reading the files that flags name; nothing runs yet (upstream: cmd/kube-apiserver ``app/server.go``
CreateServerChain).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kapi.admission.interface import AdmissionChain
from kapi.admission.metrics import Meter as AdmissionMeter
from kapi.aggregator.metrics import unavailable_services
from kapi.aggregator.server import AggregatorServer
from kapi.apiextensions.serving import CustomResources
from kapi.assembly.client_certificates import kubelet_settings, proxy_identity
from kapi.assembly.clusters import Shared, install_clusters
from kapi.assembly.controllers import install_controllers
from kapi.assembly.encryption import install_encryption
from kapi.assembly.filters import auditor, filters, flow_control
from kapi.assembly.identity import authentication
from kapi.assembly.metrics import install_metrics as install_process_metrics
from kapi.assembly.metrics import install_resource_metrics
from kapi.assembly.parts import Assembly
from kapi.assembly.policy import admission, authorization
from kapi.assembly.tracing import install_tracing
from kapi.client.work import run_by
from kapi.core.handlers import built_in_handlers
from kapi.core.install import AGGREGATOR_GROUP, EXTENSIONS_GROUP, core_rows, install, rows_of
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.reviews.handlers import review_handlers
from kapi.endpoints.reviews.question import ReviewServices
from kapi.filters.chain import Filter, FilterChain, Handler
from kapi.filters.metrics import IdentityMeter
from kapi.machinery import status
from kapi.options.options import Options
from kapi.registry.allocators.install import install as install_allocators
from kapi.registry.claim_status import install_claim_checks
from kapi.registry.environment import Environment
from kapi.registry.escalation import install_escalation_checks
from kapi.registry.policy_parameters import install_parameter_checks, resolver
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.delegation import Handler as Way
from kapi.server.fault_injection import FaultInjection
from kapi.server.generic import GenericServer
from kapi.server.health import Check, HealthChecks
from kapi.server.lifecycle import Hooks
from kapi.server.not_found import NotFound
from kapi.server.pki import Files
from kapi.server.profiling import install_profiling
from kapi.server.routes import install_health, install_index, install_metrics, install_version, nothing
from kapi.server.settled import Settled
from kapi.server.slices import Slices
from kapi.server.slis import install_slis
from kapi.server.zpages import install_flagz, install_statusz
from kapi.store.redis_store import RedisStore
from kapi.watchcache.caches import Caches

#: what is followed from the start, and counted, is there when the informers are
_INFORMERS = ("start-apiserver-admission-initializer", "storage-object-count-tracker-hook", "storage-readiness")


def assemble(options: Options, reactor: Any, files: Files, store: RedisStore, advertise: str, port: int) -> Assembly:
    """Raises ConfigError."""
    made = Assembly()
    made.slices = Slices(reactor)
    call = store.call = made.slices.call
    run_by(reactor, call)
    made.caches = Caches(
        store, reactor, history_age=options.storage.redis_compaction_interval or float("inf"), call=call
    )
    install_process_metrics(options, made, store, reactor)
    store.observe(_observe_store(made))
    install_encryption(options, made, store)
    settings = {
        "allow_privileged": options.misc.allow_privileged,
        "service_cluster_ip_range": options.misc.service_cluster_ip_range,
        "service_node_port_range": options.misc.service_node_port_range,
        "default_not_ready_toleration_seconds": options.admission.default_not_ready_toleration_seconds,
        "default_unreachable_toleration_seconds": options.admission.default_unreachable_toleration_seconds,
    }
    environment = Environment(
        features=options.generic.features,
        options=settings,
        garbage_collection=options.storage.enable_garbage_collector,
        event_ttl=options.storage.event_ttl,
        min_request_timeout=options.generic.min_request_timeout,
    )
    registry = made.registry = Registry(store, made.caches, AdmissionChain(), environment)
    policy = authorization(options, reactor, made)
    environment.authorizer = policy.authorizer

    handlers: dict[str, Any] = {}
    extensions = GenericServer("apiextensions-apiserver", NotFound(), ResourceTable(handlers))
    core = GenericServer("kube-apiserver", extensions, ResourceTable(handlers))
    aggregator = made.server = AggregatorServer(core, ResourceTable(handlers))
    enabled = options.api_enablement.enabled
    for server, rows in (
        (extensions, rows_of(EXTENSIONS_GROUP)),
        (core, core_rows()),
        (aggregator, rows_of(AGGREGATOR_GROUP)),
    ):
        server.fixed_groups = frozenset(row.group for row in rows)
        install(server.table, registry, [row for row in rows if enabled(row.group, row.version, row.plural)])

    ranges = [str(network) for network in options.misc.service_ranges]
    node_ports = install_allocators(registry, ranges, options.misc.service_node_port_range)
    install_escalation_checks(registry, policy.escalation)
    install_claim_checks(registry)
    tables = (core.table, aggregator.table, extensions.table)
    install_resource_metrics(made, tables, node_ports)
    install_parameter_checks(registry, resolver(lambda: (one.resource for table in tables for one in table.scopes())))
    admission_meter = AdmissionMeter(made.metrics.registry)
    plugins, conversion = admission(options, registry, environment, settings, reactor, admission_meter)
    identity = authentication(options, files, registry, made, f"{advertise}:{port}", reactor)
    kubelets = kubelet_settings(options, made)
    handlers.update(built_in_handlers(registry, reactor, kubelets))
    handlers.update(
        review_handlers(
            ReviewServices(
                environment,
                authorizer=policy.authorizer,
                rules=policy.authorizer,
                tokens=identity.tokens,
                issuer=identity.issuer,
                api_audiences=tuple(options.authentication.audiences),
                admission=plugins,
                max_token_seconds=int(options.authentication.service_account_max_token_expiration),
                extend_tokens=options.authentication.service_account_extend_token_expiration,
                listers=environment.listers,
            )
        )
    )
    for path, handler in identity.paths.items():
        core.route(path, handler)
        core.route(path + "/", handler, listed=False)
        core.route_below(path, nothing)

    proxy = proxy_identity(options, made)
    aggregator.aggregate(
        registry.client.named("kube-apiserver"),
        reactor,
        tables=tables,
        address=lambda: f"{options.generic.external_hostname or advertise}:{port}",
        now=environment.now,
        identity=proxy,
        rejects_redirects=options.aggregator.aggregator_reject_forwarding_redirect,
    )
    services = registry.client.resource("apiregistration.k8s.io", "apiservices").lister
    made.metrics.add(lambda: unavailable_services(services))
    install_controllers(options, reactor, made, core, files, advertise, port, node_ports, tables, aggregator.remotes)

    policy.index.call = call

    async def follow() -> None:
        policy.index.follow(registry.client)
        policy.graph.follow(registry.client)
        await policy.index.loaded()

    core.add_post_start_hook("generic-apiserver-start-informers", follow, _INFORMERS)
    built_in = frozenset(
        row.group_resource
        for server in (core, aggregator)
        for row in (scope.resource for scope in server.table.scopes())
    )
    custom = CustomResources(
        registry, extensions.table, registry.client.named("kube-apiserver"), reactor, built_in, conversion.post
    )
    extensions.add_post_start_hook(
        "start-apiextensions-controllers", custom.start, ("start-apiextensions-informers", "crd-informer-synced")
    )
    extensions.add_closing_hook("stop-apiextensions-controllers", custom.stop)
    made.auditor = auditor(options, reactor, made)
    install_tracing(options, reactor, made, core)
    flow = flow_control(options, reactor, made, core)
    meter = IdentityMeter(made.metrics.registry)
    clusters = None
    if options.features.enable_logical_clusters:
        shared = Shared(
            options, reactor, files, advertise, port, made, settings, policy.settings, identity, proxy, kubelets,
            admission_meter, meter, flow,
        )  # fmt: skip
        clusters = install_clusters(shared, core)
    install_routes(made, store, reactor, options)
    Settled(made.caches, made.requests, reactor).install(core)
    chain = filters(options, reactor, made, identity, policy.authorizer, flow, meter, aggregator.serves_resource)
    faults = None
    if options.features.enable_fault_injection:
        faults = FaultInjection(reactor)
        faults.install(core)

    def chain_by(way: Way, before: Sequence[Filter] = (), behind: Sequence[Filter] = ()) -> FilterChain:
        handler = _handler(way)
        if faults is not None:
            handler = faults.around(handler)
        if made.tracing is not None:
            handler = made.tracing.around(handler)
        whole = FilterChain([*before, *chain, *behind], handler)
        return whole if clusters is None else FilterChain((), clusters.before(whole.handle))

    made.chain_by = chain_by
    made.chain = chain_by(made.server.handle)
    return made


def _observe_store(made: Assembly) -> Callable[[str, str, float], None]:
    observe = made.metrics.store.observe

    def on_request(operation: str, key: str, seconds: float) -> None:
        group, resource, _ = key.split("/", 2)
        observe(seconds, operation, "" if group == "core" else group, resource)

    return on_request


def install_routes(made: Assembly, store: Any, reactor: Any, options: Options) -> None:
    server = made.server
    patient_until = (
        reactor.seconds() + options.generic.livez_grace_period
    )  # so long /livez does not ask what runs at the start

    def patient(check: Check) -> Check:
        return lambda: "" if reactor.seconds() < patient_until else check()

    hooks = made.hooks = Hooks(server.post_start_hooks(), server.hook_steps())
    endpoints = [HealthChecks("/healthz"), HealthChecks("/livez"), HealthChecks("/readyz")]
    for checks in endpoints:
        checks.add("ping", lambda: "")
        checks.add("log", lambda: "")
        checks.add("etcd", lambda: "" if store.available else "the store is not reachable")
        if checks.path == "/readyz":
            checks.add("etcd-readiness", lambda: "" if store.available else "the store is not reachable")
            for name, check in store.checks().items():
                checks.add(name, check)
            checks.add("informer-sync", lambda: "" if made.caches.ready else "caches are not loaded")
            checks.add("watch-cache", made.caches.failing)
            checks.note("store-entries", made.caches.oddities)
        if store.encryption is not None:
            checks.add("kms-providers", store.encryption.problem)
        for name in hooks.names:
            check = _hook_check(hooks, name)
            checks.add(f"poststarthook/{name}", patient(check) if checks.path == "/livez" else check)
        for name, check in server.health_checks().items():
            checks.add(name, check)
    endpoints[2].add("shutdown", lambda: "process is shutting down" if made.stopping else "")
    install_index(server)
    install_version(server)
    if options.generic.features["ComponentStatusz"]:
        install_statusz(server)
    if options.generic.features["ComponentFlagz"]:
        install_flagz(server, dict(options.settings()))
    install_health(server, endpoints)
    install_metrics(server, made.metrics)
    if options.features.profiling:
        install_profiling(server, reactor, options.logs)
    install_slis(server, endpoints)


def _hook_check(hooks: Hooks, name: str) -> Callable[[], str]:
    return lambda: hooks.check(name)


def _handler(way: Way) -> Handler:
    def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
        answer = way(ctx)
        if answer is None:
            raise status.no_such_resource()
        return answer

    return handle
