"""Sets up authentication from the flags: authenticators, the keys of ServiceAccounts, the trust data for extension servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Union

import msgspec
from cryptography.x509 import Certificate, load_pem_x509_certificates
from twisted.logger import Logger

from kapi.assembly.config import CompletedConfig, Reloaders
from kapi.authentication.build import AuthenticationSettings, build_authentication
from kapi.authentication.certificates import CertificateAuthority, FrontProxyAuthenticator, expirations
from kapi.authentication.interface import Authenticator, TokenAuthenticator
from kapi.authentication.service_account.issuer import Issuer, SigningError, TokenIssuer
from kapi.authentication.service_account.keys import KeySet, load_signing_key, load_verification_keys
from kapi.authentication.service_account.metrics import TokenMeter
from kapi.authentication.service_account.usage import LegacyTokenUsage
from kapi.authentication.static_tokens import parse_token_file
from kapi.controllers.clusterauthentication import TrustedIdentities
from kapi.endpoints.issuer_discovery import IssuerDiscovery
from kapi.filters.authentication import STANDARD_HEADERS, ProxyHeaders
from kapi.options.authentication import AuthenticationOptions
from kapi.options.errors import ConfigError, read_file
from kapi.options.external import ExternalIdentity
from kapi.options.options import Options
from kapi.registry.registry import Registry
from kapi.request.context import RequestContext
from kapi.request.response import Response
from kapi.serving.pki import Files

if TYPE_CHECKING:
    from kapi.authentication.service_account.signer import ExternalSigner

log = Logger()

AnyIssuer = Union[Issuer[str], Issuer[Awaitable[str]]]


@dataclass(frozen=True, slots=True)
class Identity:
    """The authenticators of requests and of tokens, and the issuer of tokens."""

    requests: Authenticator
    tokens: TokenAuthenticator
    issuer: AnyIssuer
    discovery: IssuerDiscovery | None  # the issuer's, when it has an https URL
    proxy_headers: ProxyHeaders  # removed from requests by authentication
    settings: AuthenticationSettings  # the settings of the authenticators
    usage: LegacyTokenUsage  # last use of tokens in Secrets
    signer: ExternalSigner | None  # must be started
    external: ExternalIdentity  # must be started

    async def start(self, max_token_seconds: int) -> None:
        """Begins the discovery of token issuers; starts the external signer, if any, and waits for it.  Raises ConfigError.

        ``max_token_seconds`` is the flag's limit of a token's lifetime.
        """
        self.external.start()
        if self.signer is None:
            return
        try:
            await self.signer.start(max_token_seconds)
        except SigningError as error:
            raise ConfigError(f"--service-account-signing-endpoint: {error}") from None

    def client_authorities(self) -> Sequence[Certificate]:
        """The CA certificates of clients, then of front proxies."""
        settings = self.settings
        authorities = [settings.client_ca, None if settings.front_proxy is None else settings.front_proxy.authority]
        return [one for authority in authorities if authority is not None for one in authority.certificates]

    def stop(self) -> None:
        self.external.stop()
        if self.signer is not None:
            self.signer.stop()

    def over(self, registry: Registry, realm: str) -> Identity:
        """The Identity for another registry in the process: the same keys, other ServiceAccounts and Secrets.

        ``realm`` is the realm of the registry's store.
        """
        environment = registry.environment
        usage = LegacyTokenUsage(registry.client.named("kube-apiserver"), environment.clock)
        settings = msgspec.structs.replace(
            self.settings, listers=environment.listers, mark_used=usage, clock=environment.clock, realm=realm
        )
        built = build_authentication(settings)
        issuer = self.issuer.of_realm(realm, environment.clock)
        discovery = None if self.discovery is None else self.discovery.of(issuer.issuer)
        return replace(
            self,
            requests=built.requests,
            tokens=built.tokens,
            issuer=issuer,
            discovery=discovery,
            settings=settings,
            usage=usage,
        )

    @property
    def paths(self) -> Mapping[str, Callable[[RequestContext], Response]]:
        """The handlers of the issuer's discovery documents."""
        return {} if self.discovery is None else self.discovery.paths


def trusted(options: Options, files: Files) -> TrustedIdentities:
    """The trust data that is published for extension API servers, from the current files.  Raises OSError."""
    flags = options.authentication

    def bundle(path: str) -> str:
        return Path(path).read_text() if path else ""

    return TrustedIdentities(
        files.ca.read_text() + bundle(flags.client_ca_file),
        bundle(flags.requestheader_client_ca_file),
        *_proxy_headers(flags),
        flags.requestheader_allowed_names,
    )


def _proxy_headers(flags: AuthenticationOptions) -> tuple[list[str], list[str], list[str], list[str]]:
    """The proxy headers of user names, uids and groups, and the header prefixes of extras."""
    return (
        flags.requestheader_username_headers or ["X-Remote-User"],
        flags.requestheader_uid_headers,
        flags.requestheader_group_headers or ["X-Remote-Group"],
        flags.requestheader_extra_headers_prefix or ["X-Remote-Extra-"],
    )


def _authority(path: str, flag: str, reloaders: Reloaders, more: bytes = b"") -> CertificateAuthority:
    def bundle() -> bytes:
        """The joined CA bundle.  Raises ValueError for a file without certificates, even when ``more`` has some."""
        if not path:
            return more
        content = read_file(path, flag)
        load_pem_x509_certificates(content)
        return content + b"\n" + more

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
        except (ConfigError, ValueError) as error:  # a file that is being replaced is complete at the next reload
            log.error("Not reloading --{flag}: {error}", flag=flag, error=str(error))

    reloaders.add(reload)
    return authority


def _signer(config: CompletedConfig) -> ExternalSigner | None:
    endpoint = config.options.authentication.service_account_signing_endpoint
    if not endpoint:
        return None
    # imported only when it is used
    from kapi.authentication.service_account.metrics import SignerMeter
    from kapi.authentication.service_account.signer import ExternalSigner

    return ExternalSigner(config.reactor, endpoint, SignerMeter(config.metrics.registry))


def _keys(flags: AuthenticationOptions, files: Files) -> tuple[TokenIssuer, KeySet]:
    """The issuer of tokens and the verification keys, from their files.  Raises ConfigError."""
    given = flags.service_account_signing_key_file
    signing = given or str(files.service_account_key)
    try:
        pem = read_file(signing, "service-account-signing-key-file")
        issuer = TokenIssuer(flags.issuers[0], load_signing_key(pem, made_here=not given))
        keys = [
            key
            for path in flags.service_account_key_file
            for key in load_verification_keys(read_file(path, "service-account-key-file"))
        ]
    except ValueError as error:
        raise ConfigError(f"service account keys: {error}") from None
    return issuer, KeySet([issuer.verification_key, *keys])


def build_identity(config: CompletedConfig, registry: Registry) -> Identity:
    """The Identity of the process's server.  Raises ConfigError."""
    flags, files, reloaders, collectors = (
        config.options.authentication, config.given.files, config.reloaders, config.metrics.registry,
    )  # fmt: skip
    features = config.options.generic.features
    external = ExternalIdentity(flags, config.reactor, collectors, config.given.egress, features)
    reloaders.add(external.reload)
    usage = LegacyTokenUsage(registry.client.named("kube-apiserver"))
    generated = files.ca.read_bytes()
    lifetimes = expirations()
    collectors.register(lifetimes)
    settings = AuthenticationSettings(
        client_ca=_authority(flags.client_ca_file, "client-ca-file", reloaders, generated),
        certificate_uids="AllowParsingUserUIDFromCertAuth" in config.options.generic.gates,
        issuers=flags.issuers,
        lookup_tokens=flags.service_account_lookup,
        bootstrap_tokens=flags.enable_bootstrap_token_auth,
        api_audiences=tuple(flags.audiences),
        anonymous=external.anonymous,
        anonymous_paths=external.anonymous_paths,
        external=external.tokens,
        listers=registry.environment.listers,
        mark_used=usage,
        token_meter=TokenMeter(collectors),
        lifetimes=lifetimes,
    )
    if flags.requestheader_client_ca_file:
        settings.front_proxy = FrontProxyAuthenticator(
            _authority(flags.requestheader_client_ca_file, "requestheader-client-ca-file", reloaders),
            flags.requestheader_allowed_names,
            *_proxy_headers(flags),
        )
    if flags.token_auth_file:
        try:
            text = read_file(flags.token_auth_file, "token-auth-file").decode()
            settings.static_tokens = parse_token_file(text)
        except ValueError as error:
            raise ConfigError(f"--token-auth-file: {error}") from None
    signer = _signer(config)
    issuer: AnyIssuer
    if signer is None:
        issuer, settings.keys = _keys(flags, files)
    else:
        from kapi.authentication.service_account.signer import ExternalIssuer  # imported only when it is used

        issuer, settings.keys = ExternalIssuer(flags.issuers[0], signer), signer.keys
        settings.refresh_keys = signer.keys.refresh
    built = build_authentication(settings)
    discovery = None
    try:
        address = f"{config.given.advertise}:{config.given.port}"
        discovery = IssuerDiscovery(flags.issuers[0], flags.service_account_jwks_uri, address, settings.keys)
    except ValueError:
        pass  # as upstream, an issuer without an https URL has no discovery
    users, uids, groups, extras = _proxy_headers(flags)
    hidden = ProxyHeaders((*users, *uids, *groups), tuple(extras)) if settings.front_proxy else STANDARD_HEADERS
    return Identity(built.requests, built.tokens, issuer, discovery, hidden, settings, usage, signer, external)
