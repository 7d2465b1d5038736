"""The stage Policy: authentication and admission (upstream: BuildGenericConfig)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kapi.admission.chain import build_chain
from kapi.admission.configuration import load_configurations
from kapi.admission.initializer import Initializer, Settings
from kapi.admission.interface import AdmissionChain
from kapi.admission.webhook.calls import shared_client
from kapi.admission.webhook.client import WebhookClient
from kapi.assembly.config import CompletedConfig
from kapi.assembly.identity import Identity, build_identity
from kapi.assembly.storage import Storage
from kapi.authorization.build import Authorization
from kapi.machinery.tree import Object, Tree
from kapi.options.errors import ConfigError

#: plugins whose configuration contains credentials
_WEBHOOKS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
_POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")


@dataclass(frozen=True, slots=True)
class Policy:
    """Authentication, authorization and admission."""

    identity: Identity
    authorization: Authorization
    admission: AdmissionChain
    conversion: WebhookClient  # calls the conversion webhooks of custom resources
    configurations: Mapping[str, Tree]  # of admission plugins


def build_policy(config: CompletedConfig, storage: Storage) -> Policy:
    """The policy of the process's server.  Raises ConfigError."""
    return complete_policy(config, storage, build_identity(config, storage.registry), config.authorization)


def complete_policy(
    config: CompletedConfig,
    storage: Storage,
    identity: Identity,
    authorization: Authorization,
    configurations: Mapping[str, Tree] | None = None,
) -> Policy:
    """Builds admission, and makes the registry use it.  Raises ConfigError.

    ``configurations`` belong to plugins; None: they are read from the file of --admission-control-config-file.
    """
    options, registry = config.options, storage.registry
    initializer = Initializer(
        registry.client.named("kube-apiserver"),
        authorizer=authorization.authorizer,
        features=options.generic.features,
        settings=Settings(
            not_ready_toleration=options.admission.default_not_ready_toleration_seconds,
            unreachable_toleration=options.admission.default_unreachable_toleration_seconds,
            service_addresses=options.admission.service_addresses,
            routes_to_endpoints=options.control_plane.enable_aggregator_routing,
        ),
        meter=config.admission_meter,
        reactor=config.reactor,
        egress=config.given.egress,
        serves=storage.serves(),
    )
    try:
        of_process = configurations is None
        if configurations is None:
            configurations = load_configurations(options.admission.admission_control_config_file)
        chain = build_chain(
            initializer,
            enable=options.admission.enable_admission_plugins,
            disable=options.admission.disable_admission_plugins,
            configurations=configurations,
            meter=config.admission_meter,
        )
        conversion = shared_client(initializer, _webhook_configuration(configurations))
    except ValueError as error:
        raise ConfigError(f"admission: {error}") from None
    if of_process:
        for plugin in chain.plugins:
            config.reloaders.add(plugin.reload)
    registry.admit_by(chain)
    return Policy(identity, authorization, chain, conversion, configurations)


def without_webhook_credentials(configurations: Mapping[str, Tree]) -> Object:
    """The configurations without the webhook plugins, whose credentials must not be sent to webhooks of a logical cluster.

    The server's manifest files do not apply to logical clusters either.
    """
    return {name: given for name, given in configurations.items() if name not in (*_WEBHOOKS, *_POLICIES)}


def _webhook_configuration(configurations: Mapping[str, Tree]) -> Tree:
    """The configuration for conversion webhooks, taken from a webhook plugin, the mutating one first."""
    return next((configurations[name] for name in _WEBHOOKS if configurations.get(name)), None)
