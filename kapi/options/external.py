"""Builds authenticators and authorizers from flags and files: OIDC, webhooks, ABAC, structured configuration.

``reload`` applies changes of the structured configuration files.  The constructors raise ConfigError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from prometheus_client.registry import CollectorRegistry
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from kapi.authentication.configuration import (
    AuthenticationConfiguration,
    ReplaceableTokenAuthenticators,
    load_authentication,
)
from kapi.authentication.interface import TokenAuthenticator
from kapi.authentication.oidc import ALGORITHMS
from kapi.authentication.webhook import WebhookTokenAuthenticator
from kapi.authorization.abac import ABACAuthorizer, parse_policies
from kapi.authorization.build import Mode, modes_of
from kapi.authorization.configuration import AuthorizerSettings, ConfigurationError, load_authorization
from kapi.authorization.interface import Authorizer
from kapi.authorization.metrics import AuthorizationMeter
from kapi.authorization.webhook import WebhookAuthorizer
from kapi.client.config_error import ConfigError as ClientConfigError
from kapi.client.kubeconfig import Endpoint, load_kubeconfig
from kapi.machinery.golang import quote
from kapi.machinery.reloads import Reloads
from kapi.options.authentication import AuthenticationOptions
from kapi.options.authorization import AuthorizationOptions
from kapi.options.errors import ConfigError, read_file
from kapi.process.reactor import Reactor
from kapi.resources.shared.features import enabled
from kapi.wire.egress import CONTROL_PLANE, DIRECT, Egress

if TYPE_CHECKING:
    from kapi.authentication.oidc.authenticator import OIDCAuthenticator
    from kapi.authentication.oidc.metrics import JWTMeter
    from kapi.authentication.oidc.provider import Provider

log = Logger()
_WEBHOOK_TIMEOUT = 30.0  # seconds


class ExternalIdentity:
    """The token authenticators of the flags: OIDC, structured configuration and the token webhook."""

    def __init__(
        self,
        flags: AuthenticationOptions,
        reactor: Reactor,
        registry: CollectorRegistry | None = None,
        egress: Egress = DIRECT,
        features: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        self._flags, self._reactor, self._egress = flags, reactor, egress
        self._selects_egress = enabled(features, "StructuredAuthenticationConfigurationEgressSelector")
        self._shows_key_sets = enabled(features, "StructuredAuthenticationConfigurationJWKSMetrics")
        self._collectors = registry
        self._meter: JWTMeter | None = None
        self._jwt = ReplaceableTokenAuthenticators()
        self._content = b""  # content of the configuration file in force
        self._providers: list[Provider] = []  # the providers in force
        self._switching = False
        self.tokens: list[TokenAuthenticator] = []
        self.anonymous: bool = flags.anonymous_auth
        self.anonymous_paths: list[str] | None = None
        if flags.authentication_config:
            self._content = read_file(flags.authentication_config, "authentication-config")
            found = self._load(self._content)
            self._put(self._make(found))
            if found.anonymous is not None:
                if flags.is_set("anonymous-auth"):
                    raise ConfigError(
                        "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in "
                        "authentication configuration file"
                    )
                self.anonymous, self.anonymous_paths = found.anonymous, found.anonymous_paths
            self.tokens.append(self._jwt)
            self._reloads = Reloads("authentication", registry)
            self._reloads.applied(self._content)
        elif flags.oidc_issuer_url:
            self._put(self._make(self._from_flags()))
            self.tokens.append(self._jwt)
        if flags.authentication_token_webhook_config_file:
            self.tokens.append(self._webhook())

    def _load(self, content: bytes) -> AuthenticationConfiguration:
        try:
            return load_authentication(content, self._flags.issuers, self._selects_egress)
        except ConfigurationError as error:
            raise ConfigError(f"--authentication-config: {error}") from None

    def _from_flags(self) -> AuthenticationConfiguration:
        from kapi.authentication.oidc.configuration import (  # imported only when it is used
            entry_from_flags,
            validate_entries,
        )

        flags = self._flags
        ca = read_file(flags.oidc_ca_file, "oidc-ca-file").decode() if flags.oidc_ca_file else ""
        entry = entry_from_flags(
            {
                "issuer_url": flags.oidc_issuer_url,
                "client_id": flags.oidc_client_id,
                "ca": ca,
                "username_claim": flags.oidc_username_claim,
                "username_prefix": flags.oidc_username_prefix,
                "groups_claim": flags.oidc_groups_claim,
                "groups_prefix": flags.oidc_groups_prefix,
                "required_claims": flags.oidc_required_claim,
            }
        )
        expressions, errors = validate_entries([entry], flags.issuers)
        if errors:
            raise ConfigError("oidc: " + "; ".join(str(error) for error in errors))
        return AuthenticationConfiguration([entry], expressions)

    def _make(self, found: AuthenticationConfiguration) -> list[OIDCAuthenticator]:
        """An authenticator for each issuer.  Raises ConfigError for settings that kapi does not support."""
        # imported only when it is used
        from kapi.authentication.oidc.authenticator import OIDCAuthenticator
        from kapi.authentication.oidc.distributed import DistributedClaims
        from kapi.authentication.oidc.metrics import JWTMeter
        from kapi.authentication.oidc.provider import Provider
        from kapi.client.endpoint_client import EndpointClient

        made = []
        meter = self._meter = self._meter or JWTMeter(self._collectors, key_sets=self._shows_key_sets)
        algorithms = ALGORITHMS if self._flags.authentication_config else tuple(self._flags.oidc_signing_algs)
        for entry, expressions in zip(found.entries, found.expressions, strict=True):
            issuer = entry["issuer"]
            network = issuer.get("egressSelectorType", "")
            if network and not self._egress:
                raise ConfigError(f"oidc: egress lookup required with egress selector type {quote(network)}")
            groups = ((entry.get("claimMappings") or {}).get("groups") or {}).get("claim", "")
            endpoint = Endpoint(issuer["url"], ca=issuer.get("certificateAuthority", "").encode())
            client = EndpointClient(self._reactor, endpoint, proxy=self._egress.proxy(network))
            distributed = None
            if groups:
                distributed = DistributedClaims(
                    groups, client, issuer["audiences"], algorithms, time.time, self._reactor.seconds
                )
            provider = Provider(client, issuer["url"], self._reactor.seconds, issuer.get("discoveryURL", ""), meter)
            made.append(
                OIDCAuthenticator(
                    provider,
                    entry,
                    expressions,
                    algorithms=algorithms,
                    api_audiences=tuple(self._flags.audiences),
                    distributed=distributed,
                )
            )
        return made

    def start(self) -> None:
        """Begins the discovery of the issuers, before a token of them comes."""
        for provider in self._providers:
            provider.begin(self._reactor)

    def stop(self) -> None:
        """Ends the discovery of issuers, and the connections to them."""
        for provider in self._providers:
            provider.leave()

    def _put(self, authenticators: list[OIDCAuthenticator]) -> None:
        self._jwt.replace(authenticators)
        old, self._providers = self._providers, [each.provider for each in authenticators]
        self._leave(old)

    def _leave(self, providers: Iterable[Provider]) -> None:
        """Ends providers that are not in force, and removes the metrics of issuers without another provider."""
        used = {each.issuer for each in self._providers}
        for provider in providers:
            if provider.issuer not in used:
                provider.meter.forget(provider.issuer)
            provider.leave()

    def _webhook(self) -> WebhookTokenAuthenticator:
        from kapi.client.endpoint_client import EndpointClient  # imported only when it is used

        flags = self._flags
        endpoint = _kubeconfig(
            flags.authentication_token_webhook_config_file, "--authentication-token-webhook-config-file"
        )
        return WebhookTokenAuthenticator(
            self._reactor,
            EndpointClient(self._reactor, endpoint, _WEBHOOK_TIMEOUT, self._egress.proxy(CONTROL_PLANE)),
            version=flags.authentication_token_webhook_version,
            ttl=flags.authentication_token_webhook_cache_ttl,
            api_audiences=tuple(flags.audiences),
        )

    def reload(self) -> Deferred[None] | None:
        """Applies a changed file once all its issuers answer; until then the previous one stays in force.

        An invalid file, or one with an issuer that does not answer, is logged and tried again at the next reload.
        """
        path = self._flags.authentication_config
        if not path or self._switching:
            return None
        try:
            content = read_file(path, "authentication-config")
            if content == self._content:
                return None
            made = self._make(self._load(content))
        except ConfigError as error:
            self._refuse(str(error))
            return None
        self._switching = True
        return Deferred.fromCoroutine(self._switch(content, made))

    async def _switch(self, content: bytes, made: list[OIDCAuthenticator]) -> None:
        try:
            await gatherResults([Deferred.fromCoroutine(each.provider.refresh()) for each in made])
            problems = [f"{each.provider.issuer}: {each.provider.problem}" for each in made if not each.provider.ready]
        finally:
            self._switching = False
        if problems:
            self._refuse("; ".join(problems))
            self._leave(each.provider for each in made)
            return
        self._content = content
        self._put(made)
        self._reloads.succeeded(content)
        log.info("Reloaded the authentication configuration")

    def _refuse(self, why: str) -> None:
        self._reloads.failed()
        log.error("Not reloading the authentication configuration: {error}", error=why)


class ExternalPolicy:
    """The modes of authorization in order, and the authorizers built here: ABAC and webhooks."""

    def __init__(
        self,
        flags: AuthorizationOptions,
        reactor: Reactor,
        registry: CollectorRegistry | None = None,
        egress: Egress = DIRECT,
    ) -> None:
        self._flags, self._reactor, self._proxy = flags, reactor, egress.proxy(CONTROL_PLANE)
        self._content = b""
        self.others: dict[str, Authorizer] = {}
        if flags.authorization_policy_file:
            text = read_file(flags.authorization_policy_file, "authorization-policy-file").decode()
            try:
                self.others["ABAC"] = ABACAuthorizer(parse_policies(text))
            except ValueError as error:
                raise ConfigError(f"--authorization-policy-file: {error}") from None
        self.meter = AuthorizationMeter(registry)
        self.modes = modes_of(flags.modes)
        if flags.authorization_config:
            self._content = read_file(flags.authorization_config, "authorization-config")
            self.modes = self._chain(self._load(self._content))
            self._reloads = Reloads("authorization", registry)
            self._reloads.applied(self._content)
        elif "Webhook" in flags.modes:
            from kapi.client.endpoint_client import EndpointClient  # imported only when it is used

            endpoint = _kubeconfig(flags.authorization_webhook_config_file, "--authorization-webhook-config-file")
            self.others["Webhook"] = WebhookAuthorizer(
                reactor,
                EndpointClient(reactor, endpoint, _WEBHOOK_TIMEOUT, self._proxy),
                version=flags.authorization_webhook_version,
                authorized_ttl=flags.authorization_webhook_cache_authorized_ttl,
                unauthorized_ttl=flags.authorization_webhook_cache_unauthorized_ttl,
                meter=self.meter,
            )

    def _load(self, content: bytes) -> list[AuthorizerSettings]:
        try:
            return load_authorization(content)
        except ConfigurationError as error:
            raise ConfigError(f"--authorization-config: {error}") from None

    def _chain(self, settings: list[AuthorizerSettings]) -> list[Mode]:
        from kapi.client.endpoint_client import EndpointClient  # imported only when it is used

        chain = []
        for each in settings:
            webhook = each.webhook
            if webhook is None:
                chain.append(Mode(each.type, each.name))
                continue
            endpoint = _kubeconfig(webhook.kubeconfig, f"--authorization-config: {webhook.name}")
            authorizer = WebhookAuthorizer(
                self._reactor,
                EndpointClient(self._reactor, endpoint, webhook.timeout, self._proxy),
                version=webhook.version,
                authorized_ttl=webhook.authorized_ttl,
                unauthorized_ttl=webhook.unauthorized_ttl,
                on_error=webhook.on_error,
                conditions=webhook.conditions,
                name=webhook.name,
                meter=self.meter,
            )
            chain.append(Mode(each.type, each.name, authorizer))
        return chain

    def reload(self, replace: Callable[[list[Mode]], None]) -> None:
        """Applies a changed file; an invalid one is logged and changes nothing."""
        path = self._flags.authorization_config
        if not path:
            return
        try:
            content = read_file(path, "authorization-config")
            if content == self._content:
                return
            replace(self._chain(self._load(content)))
            self._content = content
            self._reloads.succeeded(content)
            log.info("Reloaded the authorization configuration")
        except (ConfigError, ValueError) as error:
            self._reloads.failed()
            log.error("Not reloading the authorization configuration: {error}", error=str(error))


def _kubeconfig(path: str, flag: str) -> Endpoint:
    try:
        return load_kubeconfig(path)
    except ClientConfigError as error:
        raise ConfigError(f"{flag}: {error}") from None
