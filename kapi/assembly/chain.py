"""The stage New: the resources of the chain's servers (upstream: cmd/kube-apiserver ``app/server.go``, CreateServerChain)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kapi.assembly.config import CompletedConfig
from kapi.assembly.policy import Policy
from kapi.assembly.storage import Storage
from kapi.endpoints.connect.kubelet import KubeletSettings
from kapi.endpoints.dispatch import Endpoint, ResourceTable
from kapi.endpoints.reviews.handlers import review_handlers
from kapi.endpoints.reviews.posted_review import ReviewServices
from kapi.registry.policy_parameters import install_parameter_checks, resolver
from kapi.servers.aggregator.server import Aggregation
from kapi.servers.apiextensions.serving import CustomResources
from kapi.servers.chain import ServerChain, create_server_chain
from kapi.servers.core.handlers import built_in_handlers
from kapi.servers.core.install import install
from kapi.serving.generic import Delegate
from kapi.wire.tls.trust import Identity


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Settings for connections to other servers: kubelets, and the servers of APIServices."""

    kubelets: KubeletSettings
    proxy_identity: Callable[[], Identity | None]


def build_chain(
    config: CompletedConfig,
    storage: Storage,
    policy: Policy,
    outgoing: Outgoing,
    end: Delegate | None = None,
    table: ResourceTable | None = None,
) -> ServerChain:
    """The chain with all resources installed.  Raises ConfigError.

    ``table`` already has the core server's resources; without it they are installed into a new one.
    """
    handlers = _handlers(config, storage, policy, outgoing)
    cbor = config.options.generic.features["CBORServingAndStorage"]
    chain = create_server_chain(handlers, table=table, end=end, cbor=cbor)
    if table is not None:
        table.handlers, table.cbor = handlers, cbor
    for server, built_in in (
        (chain.extensions, storage.extensions),
        (chain.core, storage.core),
        (chain.aggregator, storage.aggregator),
    ):
        server.fixed_groups = built_in.groups
        if server.table is not table:
            install(server.table, storage.registry, built_in.rows)

    registry, tables = storage.registry, chain.tables
    install_parameter_checks(registry, resolver(lambda: (row for table in tables for row in table.resources())))
    aggregation = Aggregation(
        tables=tables,
        address=config.external_address,
        now=registry.environment.now,
        identity=outgoing.proxy_identity,
        rejects_redirects=config.options.aggregator.aggregator_reject_forwarding_redirect,
        sends_uid=config.options.generic.features["RemoteRequestHeaderUID"],
        spread=config.options.control_plane.enable_aggregator_routing,
        release=config.options.generic.version.emulated,
        enums=config.options.generic.features["OpenAPIEnums"],
        egress=config.given.egress,
    )
    chain.aggregator.aggregate(registry.client, config.reactor, aggregation)
    _install_custom_resources(config, storage, policy, chain)
    return chain


def _handlers(config: CompletedConfig, storage: Storage, policy: Policy, outgoing: Outgoing) -> dict[str, Endpoint]:
    """The special endpoints by name."""
    authentication, environment = config.options.authentication, storage.registry.environment
    reviews = ReviewServices(
        environment,
        authorizer=policy.authorization.authorizer,
        rules=policy.authorization.authorizer,
        tokens=policy.identity.tokens,
        issuer=policy.identity.issuer,
        anonymous=policy.identity.settings.anonymous and policy.identity.settings.anonymous_paths is None,
        api_audiences=tuple(authentication.audiences),
        admission=policy.admission,
        max_token_seconds=int(authentication.service_account_max_token_expiration),
        extend_tokens=authentication.service_account_extend_token_expiration,
        listers=environment.listers,
    )
    return {
        **built_in_handlers(storage.registry, config.reactor, outgoing.kubelets, config.given.egress),
        **review_handlers(reviews),
    }


def _install_custom_resources(config: CompletedConfig, storage: Storage, policy: Policy, chain: ServerChain) -> None:
    """Serves custom resources on the last server, unless their definitions are switched off."""
    registry, extensions = storage.registry, chain.extensions
    client = registry.client
    if not client.has("apiextensions.k8s.io", "customresourcedefinitions"):
        return
    servers = (chain.core, chain.aggregator, extensions)
    built_in = [row for server in servers for row in server.table.resources()]
    custom = CustomResources(registry, extensions.table, client, config.reactor, built_in, policy.conversion.post)
    extensions.add_post_start_hook(
        "start-apiextensions-controllers", custom.start, ("start-apiextensions-informers", "crd-informer-synced")
    )
    extensions.add_closing_hook("stop-apiextensions-controllers", custom.stop)
