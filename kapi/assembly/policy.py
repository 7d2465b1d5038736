"""Who may do what: the authorizer, and the admission chain."""

from __future__ import annotations

import functools
from typing import Any

from kapi.admission.chain import build_chain
from kapi.admission.configuration import load_configurations
from kapi.admission.initializer import Initializer
from kapi.admission.metrics import Meter
from kapi.assembly.parts import Assembly
from kapi.authorization.build import AuthorizationSettings, build_authorization
from kapi.options.errors import ConfigError
from kapi.options.external import ExternalPolicy
from kapi.options.options import Options
from kapi.registry.environment import Environment
from kapi.registry.registry import Registry
from kapi.server.metrics import Metrics


def authorization(options: Options, reactor: Any, made: Assembly) -> Any:
    external = ExternalPolicy(options.authorization, reactor, made.metrics.registry)
    try:
        built = build_authorization(AuthorizationSettings(external.modes, external.others, external.meter))
    except ValueError as error:
        raise ConfigError(f"--authorization-mode: {error}") from None
    made.reloaders.append(lambda: external.reload(built.replace))
    return built


def admission(
    options: Options, registry: Registry, environment: Environment, settings: Any, reactor: Any, metrics: Metrics
) -> Any:
    meter = Meter(metrics.registry)
    initializer = Initializer(
        registry.client.named("kube-apiserver"),
        authorizer=environment.authorizer,
        features=options.generic.features,
        settings={**settings, "meter": meter, "service_addresses": options.admission.service_addresses},
        reactor=reactor,
        serves=functools.cache(options.api_enablement.enabled),
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
