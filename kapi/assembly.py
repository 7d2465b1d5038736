"""What the server is made of, put together from the options: store, registry, admission, the three servers, the filters.

No I/O but reading the files that flags name; nothing runs yet (upstream: cmd/kube-apiserver ``app/server.go``
CreateServerChain).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kapi.admission.chain import build_chain
from kapi.admission.configuration import load_configurations
from kapi.admission.initializer import Initializer
from kapi.admission.interface import AdmissionChain
from kapi.admission.metrics import Meter
from kapi.aggregator.server import AggregatorServer
from kapi.apiextensions.serving import CustomResources
from kapi.audit.build import Auditor
from kapi.audit.build import build as build_auditor
from kapi.authentication.build import AuthenticationSettings, build_authentication
from kapi.authentication.certificates import CertificateAuthority
from kapi.authentication.front_proxy import FrontProxyAuthenticator
from kapi.authentication.service_account.issuer import TokenIssuer
from kapi.authentication.service_account.keys import KeySet, load_signing_key, load_verification_keys
from kapi.authentication.service_account.usage import LegacyTokenUsage
from kapi.authentication.static_tokens import parse_token_file
from kapi.authorization.build import AuthorizationSettings, build_authorization
from kapi.authorization.rbac.bootstrap import reconcile_policy
from kapi.controllers.bootstrap.controller import BootstrapController
from kapi.controllers.bootstrap.leases import LEASES, ServerLeases
from kapi.controllers.builtin import KNOWN, manager_controllers, server_controllers
from kapi.controllers.clusterauthentication.controller import ClusterAuthenticationController
from kapi.controllers.clusterauthentication.reconcile import TrustedIdentities
from kapi.core.handlers import built_in_handlers
from kapi.core.install import AGGREGATOR_GROUP, EXTENSIONS_GROUP, core_rows, install, rows_of
from kapi.endpoints.dispatch import ResourceTable
from kapi.endpoints.issuer_discovery import IssuerDiscovery
from kapi.endpoints.reviews.handlers import review_handlers
from kapi.endpoints.reviews.question import ReviewServices
from kapi.filters.audit import audit, audit_init
from kapi.filters.authentication import authentication
from kapi.filters.authorization import authorization
from kapi.filters.cache_control import cache_control
from kapi.filters.chain import Filter, FilterChain
from kapi.filters.cors import cors
from kapi.filters.deadline import request_deadline
from kapi.filters.goaway import goaway
from kapi.filters.hsts import hsts
from kapi.filters.impersonation import impersonation
from kapi.filters.max_in_flight import max_in_flight
from kapi.filters.priority_and_fairness import priority_and_fairness
from kapi.filters.received import received_timestamp
from kapi.filters.request_info import request_info
from kapi.filters.request_log import request_log
from kapi.filters.shutdown import RequestWaitGroup, retry_after, wait_group, watch_termination
from kapi.filters.warnings import warnings
from kapi.flowcontrol.controller import FlowController
from kapi.flowcontrol.metrics import Meter as FlowMeter
from kapi.flowcontrol.turn import Turn
from kapi.machinery import status
from kapi.options.errors import ConfigError, read_file
from kapi.options.external import ExternalIdentity, ExternalPolicy
from kapi.options.options import Options
from kapi.registry.allocators.install import install as install_allocators
from kapi.registry.environment import Environment
from kapi.registry.escalation import install_escalation_checks
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.server.generic import GenericServer, NotFound
from kapi.server.health import HealthChecks
from kapi.server.lifecycle import Hooks
from kapi.server.metrics import Metrics
from kapi.server.pki import Files
from kapi.server.routes import install_health, install_index, install_metrics, install_version
from kapi.server.slis import install_slis
from kapi.store.errors import UnsuitableStore
from kapi.store.factory import embedded_store, external_store
from kapi.watchcache.caches import Caches
from kapi.watchcache.metrics import families


class Assembly:
    """The parts that run."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.requests = RequestWaitGroup()
        self.watches = RequestWaitGroup()
        self.stopping = False
        self.reloaders: list[Callable[[], None]] = []
        self.caches: Caches
        self.registry: Registry
        self.server: GenericServer
        self.chain: FilterChain
        self.auditor: Auditor | None = None
        self.hooks: Hooks

    def reload(self) -> None:
        for reload in self.reloaders:
            reload()


def assemble(options: Options, reactor: Any, files: Files, advertise: str, port: int) -> Assembly:
    """Raises ConfigError."""
    made = Assembly()
    store = _store(options, reactor)
    made.caches = Caches(store, reactor, history_age=options.storage.redis_compaction_interval or float("inf"))
    made.metrics.add(families(made.caches))
    store.on_request = _observe_store(made)
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
    )
    registry = made.registry = Registry(store, made.caches, AdmissionChain(), environment)
    policy = _authorization(options, reactor, made)
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
    admission = _admission(options, registry, environment, settings, reactor, made.metrics)
    identity = _authentication(options, files, registry, made, f"{advertise}:{port}", reactor)
    handlers.update(built_in_handlers(registry, reactor, options.kubelet.settings()))
    handlers.update(
        review_handlers(
            ReviewServices(
                environment,
                authorizer=policy.authorizer,
                rules=policy.authorizer,
                tokens=identity.tokens,
                issuer=identity.issuer,
                api_audiences=tuple(options.authentication.audiences),
                admission=admission,
                max_token_seconds=int(options.authentication.service_account_max_token_expiration),
                extend_tokens=options.authentication.service_account_extend_token_expiration,
                listers=environment.listers,
            )
        )
    )
    for path, handler in identity.paths.items():
        core.route(path, handler)

    aggregator.aggregate(
        registry.client.named("kube-apiserver"),
        reactor,
        tables=(core.table, aggregator.table, extensions.table),
        address=lambda: f"{options.generic.external_hostname or advertise}:{port}",
        now=environment.now,
        identity=options.aggregator.identity(),
    )
    bootstrap = BootstrapController(
        registry.client.named("kube-apiserver"),
        reactor,
        ranges=ranges,
        address=advertise,
        port=port,
        node_port=options.misc.kubernetes_service_node_port,
        now=environment.now,
        leases=None if store.exclusive else _leases(registry),
        ranges_client=registry.client.named("kubernetes-service-cidr-controller"),
    )
    core.add_post_start_hook("bootstrap-controller", bootstrap.start)
    core.add_pre_shutdown_hook("bootstrap-controller", bootstrap.stop)
    unknown = options.controllers.unknown(KNOWN)
    if unknown:
        raise ConfigError("\n".join(unknown))
    for controller in (
        *server_controllers(registry.client, reactor, node_ports=node_ports, now=environment.now),
        *manager_controllers(
            registry.client,
            reactor,
            enabled=options.controllers.enabled,
            now=environment.now,
            root_ca=lambda: files.ca.read_text(),
        ),
    ):
        core.add_post_start_hook(controller.name, controller.start)
        core.add_pre_shutdown_hook(controller.name, controller.stop)
    published = ClusterAuthenticationController(
        registry.client.named("kube-apiserver"), reactor, lambda: _trusted(options, files)
    )
    core.add_post_start_hook(published.name, published.start)
    core.add_pre_shutdown_hook(published.name, published.stop)
    made.reloaders.append(published.refresh)
    if "RBAC" in options.authorization.modes:
        core.add_post_start_hook("rbac/bootstrap-roles", lambda: reconcile_policy(registry.client))

    async def follow() -> None:
        policy.index.follow(registry.client)
        policy.graph.follow(registry.client)

    core.add_post_start_hook("generic-apiserver-start-informers", follow)
    built_in = frozenset(
        row.group_resource
        for server in (core, aggregator)
        for row in (scope.resource for scope in server.table.scopes())
    )
    custom = CustomResources(registry, extensions.table, registry.client.named("kube-apiserver"), reactor, built_in)
    extensions.add_post_start_hook("start-apiextensions-controllers", custom.start)
    extensions.add_pre_shutdown_hook("stop-apiextensions-controllers", custom.stop)
    made.auditor = _auditor(options, reactor, made)
    flow = _flow_control(options, reactor, made, core)
    _routes(made, store)
    made.chain = FilterChain(
        _filters(options, reactor, made, identity.requests, policy.authorizer, flow), _handler(made)
    )
    return made


def _leases(registry: Registry) -> ServerLeases:
    return ServerLeases(registry.store, registry.caches.cache(LEASES, {}, False), registry.environment.clock)


def _observe_store(made: Assembly) -> Callable[[str, str, float], None]:
    observe = made.metrics.store.observe

    def on_request(operation: str, key: str, seconds: float) -> None:
        group, resource, _ = key.split("/", 2)
        observe((operation, "" if group == "core" else group, resource), seconds)

    return on_request


def _store(options: Options, reactor: Any) -> Any:
    storage = options.storage
    if storage.embedded:
        return embedded_store(Path(storage.data_dir).absolute() / "store", reactor, prefix=storage.redis_prefix)
    if len(storage.redis_servers) > 1:
        raise ConfigError("--redis-servers: one URL is needed; name several Sentinels inside it")
    try:
        return external_store(storage.redis_servers[0], reactor, prefix=storage.redis_prefix)
    except UnsuitableStore as error:
        raise ConfigError(str(error)) from None


def _auditor(options: Options, reactor: Any, made: Assembly) -> Auditor | None:
    try:
        return build_auditor(options.audit, reactor, made.metrics.registry)
    except (OSError, ValueError) as error:
        raise ConfigError(f"audit: {error}") from None


def _authorization(options: Options, reactor: Any, made: Assembly) -> Any:
    external = ExternalPolicy(options.authorization, reactor)
    try:
        built = build_authorization(AuthorizationSettings(external.modes, external.others))
    except ValueError as error:
        raise ConfigError(f"--authorization-mode: {error}") from None
    made.reloaders.append(lambda: external.reload(built.replace))
    return built


def _admission(
    options: Options, registry: Registry, environment: Environment, settings: Any, reactor: Any, metrics: Metrics
) -> Any:
    meter = Meter(metrics.registry)
    initializer = Initializer(
        registry.client.named("kube-apiserver"),
        authorizer=environment.authorizer,
        features=options.generic.features,
        settings={**settings, "meter": meter, "service_addresses": options.admission.service_addresses},
        reactor=reactor,
    )
    try:
        chain = build_chain(
            initializer,
            enable=options.admission.enable_admission_plugins,
            disable=options.admission.disable_admission_plugins,
            configurations=load_configurations(options.admission.admission_control_config_file),
            meter=meter,
        )
    except ValueError as error:
        raise ConfigError(f"admission: {error}") from None
    registry.admission = chain
    for store in registry.stores.values():
        store.admission = chain
    return chain


class Identity:
    """Who is asked who somebody is."""

    def __init__(self, requests: Any, tokens: Any, issuer: TokenIssuer | None, paths: dict[str, Any]) -> None:
        self.requests = requests
        self.tokens = tokens
        self.issuer = issuer
        self.paths = paths


def _trusted(options: Options, files: Files) -> TrustedIdentities:
    """What extension API servers may rely on, as the files are now."""
    flags = options.authentication

    def bundle(path: str, flag: str) -> str:
        return read_file(path, flag).decode() if path else ""

    return TrustedIdentities(
        files.ca.read_text() + bundle(flags.client_ca_file, "client-ca-file"),
        bundle(flags.requestheader_client_ca_file, "requestheader-client-ca-file"),
        flags.requestheader_username_headers or ["X-Remote-User"],
        flags.requestheader_uid_headers,
        flags.requestheader_group_headers or ["X-Remote-Group"],
        flags.requestheader_extra_headers_prefix or ["X-Remote-Extra-"],
        flags.requestheader_allowed_names,
    )


def _authority(path: str, flag: str, made: Assembly, more: bytes = b"") -> CertificateAuthority:
    def bundle() -> bytes:
        return read_file(path, flag) + b"\n" + more if path else more

    try:
        authority = CertificateAuthority(bundle())
    except ValueError as error:
        raise ConfigError(f"--{flag}: {path}: {error}") from None
    seen = [bundle()]

    def reload() -> None:
        try:
            content = bundle()
            if content != seen[0]:
                authority.reload(content)
                seen[0] = content
        except (ConfigError, ValueError):
            return  # a bundle that is being replaced: the next look will find it whole

    made.reloaders.append(reload)
    return authority


def _authentication(
    options: Options, files: Files, registry: Registry, made: Assembly, address: str, reactor: Any
) -> Identity:
    flags = options.authentication
    external = ExternalIdentity(flags, reactor)
    made.reloaders.append(external.reload)
    usage = LegacyTokenUsage(registry.client.named("kube-apiserver"))
    made.server.add_post_start_hook("start-legacy-token-tracking-controller", usage.record_start)
    generated = files.ca.read_bytes()
    settings = AuthenticationSettings(
        client_ca=_authority(flags.client_ca_file, "client-ca-file", made, generated),
        issuers=flags.issuers,
        lookup_tokens=flags.service_account_lookup,
        bootstrap_tokens=flags.enable_bootstrap_token_auth,
        api_audiences=tuple(flags.audiences),
        anonymous=external.anonymous,
        anonymous_paths=external.anonymous_paths,
        external=external.tokens,
        listers=registry.environment.listers,
        mark_used=usage,
    )
    if flags.requestheader_client_ca_file:
        settings.front_proxy = FrontProxyAuthenticator(
            _authority(flags.requestheader_client_ca_file, "requestheader-client-ca-file", made),
            flags.requestheader_allowed_names,
            flags.requestheader_username_headers or ["X-Remote-User"],
            flags.requestheader_uid_headers,
            flags.requestheader_group_headers or ["X-Remote-Group"],
            flags.requestheader_extra_headers_prefix or ["X-Remote-Extra-"],
        )
    if flags.token_auth_file:
        try:
            text = read_file(flags.token_auth_file, "token-auth-file").decode()
            settings.static_tokens = parse_token_file(text)
        except ValueError as error:
            raise ConfigError(f"--token-auth-file: {error}") from None
    signing = flags.service_account_signing_key_file or str(files.service_account_key)
    try:
        issuer = TokenIssuer(flags.issuers[0], load_signing_key(read_file(signing, "service-account-signing-key-file")))
        keys = [
            key
            for path in flags.service_account_key_file
            for key in load_verification_keys(read_file(path, "service-account-key-file"))
        ]
    except ValueError as error:
        raise ConfigError(f"service account keys: {error}") from None
    settings.keys = KeySet([issuer.verification_key, *keys])
    built = build_authentication(settings)
    paths: dict[str, Any] = {}
    try:
        documents = IssuerDiscovery(flags.issuers[0], flags.service_account_jwks_uri, address, settings.keys.keys)
        paths = dict(documents.paths)
    except ValueError:
        pass  # an issuer that is no https URL has no discovery, as upstream
    return Identity(built.requests, built.tokens, issuer, paths)


def _routes(made: Assembly, store: Any) -> None:
    server = made.server
    hooks = made.hooks = Hooks(server.post_start_hooks())
    endpoints = [HealthChecks("/healthz"), HealthChecks("/livez"), HealthChecks("/readyz")]
    for checks in endpoints:
        checks.add("ping", lambda: "")
        checks.add("log", lambda: "")
        checks.add("etcd", lambda: "" if store.available else "the store is not reachable")
        if checks.path == "/readyz":
            checks.add("etcd-readiness", lambda: "" if store.available else "the store is not reachable")
            checks.add("informer-sync", lambda: "" if made.caches.ready else "caches are not loaded")
        for name in hooks.pending:
            checks.add(f"poststarthook/{name}", _hook_check(hooks, name))
        for name, check in server.health_checks().items():
            checks.add(name, check)
    endpoints[2].add("shutdown", lambda: "process is shutting down" if made.stopping else "")
    install_index(server)
    install_version(server)
    install_health(server, endpoints)
    install_metrics(server, made.metrics)
    install_slis(server, endpoints)


def _hook_check(hooks: Hooks, name: str) -> Callable[[], str]:
    return lambda: hooks.check(name)


def _flow_control(options: Options, reactor: Any, made: Assembly, core: GenericServer) -> Filter | None:
    """Priority and fairness, or the plain in-flight limits; None when there is no limit at all."""
    generic = options.generic
    reads, writes = generic.max_requests_inflight, generic.max_mutating_requests_inflight
    if not options.features.enable_priority_and_fairness or not reads + writes:
        return max_in_flight(reads, writes) if reads or writes else None
    controller = FlowController(reactor, reads + writes, FlowMeter(made.metrics.registry), Turn(reactor))

    async def follow() -> None:
        controller.start(made.registry.client)

    async def stop() -> None:
        controller.stop()

    core.add_post_start_hook("priority-and-fairness-config-consumer", follow)
    core.add_pre_shutdown_hook("priority-and-fairness-config-consumer", stop)
    caches = made.caches
    return priority_and_fairness(controller, caches.find, reactor, default_wait=generic.request_timeout / 4)


def _filters(
    options: Options, reactor: Any, made: Assembly, authenticator: Any, authorizer: Any, flow: Filter | None
) -> list[Filter]:
    """In upstream's order (DefaultBuildHandlerChain)."""
    generic = options.generic
    metrics = made.metrics

    def count(into: dict[str, int]) -> Callable[[str], None]:
        def add(result: str) -> None:
            into[result] = into.get(result, 0) + 1

        return add

    authenticated, authorized = count(metrics.authentication), count(metrics.authorization)
    auditor = made.auditor
    filters: list[Filter] = [
        *([audit_init(auditor)] if auditor is not None else []),
        request_info,
        received_timestamp(reactor.seconds),
        metrics.filter(made.server.serves_resource),
        request_log(reactor.seconds, verbose=options.logs.v >= 3),
    ]
    if generic.shutdown_send_retry_after:
        filters.append(retry_after(lambda: made.stopping))
    if generic.strict_transport_security_directives:
        filters.append(hsts(generic.strict_transport_security_directives))
    filters.append(cache_control)
    if generic.goaway_chance:
        filters.append(goaway(generic.goaway_chance))
    filters += [
        watch_termination(made.watches),
        wait_group(made.requests),
        request_deadline(generic.request_timeout),
        warnings,
    ]
    if generic.cors_allowed_origins:
        filters.append(cors(generic.cors_allowed_origins))
    filters += [
        authentication(authenticator, lambda ctx, result: authenticated(result)),
        *([audit(auditor)] if auditor is not None else []),
        impersonation(authorizer, constrained=generic.features.get("ConstrainedImpersonation", True)),
        *([flow] if flow is not None else []),
        authorization(authorizer, lambda decision, seconds: authorized(decision)),
    ]
    return filters


def _handler(made: Assembly) -> Callable[[RequestContext], Response | Awaitable[Response]]:
    server = made.server

    def handle(ctx: RequestContext) -> Response | Awaitable[Response]:
        answer = server.handle(ctx)
        if answer is None:
            raise status.no_such_resource()
        return answer

    return handle
