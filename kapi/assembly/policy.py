"""Who may do what: the authorizer, and the admission chain."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from kapi.admission.chain import build_chain
from kapi.admission.configuration import load_configurations
from kapi.admission.initializer import Initializer
from kapi.admission.metrics import Meter
from kapi.admission.webhook.calls import shared_client
from kapi.admission.webhook.client import WebhookClient
from kapi.assembly.parts import Assembly
from kapi.authorization.build import AuthorizationSettings, build_authorization
from kapi.options.errors import ConfigError
from kapi.options.external import ExternalPolicy
from kapi.options.options import Options
from kapi.registry.environment import Environment
from kapi.registry.registry import Registry


def authorization(options: Options, reactor: Any, made: Assembly) -> Any:
    external = ExternalPolicy(options.authorization, reactor, made.metrics.registry)
    try:
        built = build_authorization(AuthorizationSettings(external.modes, external.others, external.meter))
    except ValueError as error:
        raise ConfigError(f"--authorization-mode: {error}") from None
    made.reloaders.append(lambda: external.reload(built.replace))
    return built


def admission(
    options: Options, registry: Registry, environment: Environment, settings: Any, reactor: Any, meter: Meter
) -> tuple[Any, WebhookClient]:
    """The chain, and the client of the webhooks that convert custom resources."""
    initializer = Initializer(
        registry.client.named("kube-apiserver"),
        authorizer=environment.authorizer,
        features=options.generic.features,
        settings={
            **settings,
            "meter": meter,
            "service_addresses": options.admission.service_addresses,
            "routes_to_endpoints": options.misc.enable_aggregator_routing,
        },
        reactor=reactor,
        serves=functools.cache(options.api_enablement.enabled),
    )
    try:
        configurations = load_configurations(options.admission.admission_control_config_file)
        chain = build_chain(
            initializer,
            enable=options.admission.enable_admission_plugins,
            disable=options.admission.disable_admission_plugins,
            configurations=configurations,
            meter=meter,
        )
        conversion = shared_client(initializer, _webhook_configuration(configurations))
    except ValueError as error:
        raise ConfigError(f"admission: {error}") from None
    registry.admission = chain
    for store in registry.stores.values():
        store.admission = chain
    return chain, conversion


def _webhook_configuration(configurations: Mapping[str, Any]) -> Any:
    """Of webhooks that no plugin calls: what one of the webhook plugins has, mutating first."""
    return configurations.get("MutatingAdmissionWebhook") or configurations.get("ValidatingAdmissionWebhook")
