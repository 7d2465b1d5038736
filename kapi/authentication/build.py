"""The authenticator of a server, in upstream's order (upstream: ``pkg/kubeapiserver/authenticator/config.go``)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec

from kapi.authentication.bearer import BearerAuthenticator, WebSocketAuthenticator
from kapi.authentication.bootstrap_token import BootstrapTokenAuthenticator
from kapi.authentication.certificates import (
    CertificateAuthority,
    ClientCertificateAuthenticator,
    FrontProxyAuthenticator,
)
from kapi.authentication.interface import Authenticator, TokenAuthenticator
from kapi.authentication.service_account.authenticator import BoundTokenAuthenticator, LegacyTokenAuthenticator
from kapi.authentication.service_account.issuer import RefreshingTokens, issuer_of
from kapi.authentication.service_account.keys import KeySet
from kapi.authentication.service_account.metrics import TokenMeter
from kapi.authentication.static_tokens import StaticTokenAuthenticator
from kapi.authentication.union import UnionAuthenticator, UnionTokenAuthenticator
from kapi.machinery.gvk import GroupResource
from kapi.machinery.meters import Histogram
from kapi.machinery.tree import Object
from kapi.request.context import RequestContext
from kapi.request.user import ALL_UNAUTHENTICATED, ANONYMOUS, LOOPBACK_USER, UserInfo
from kapi.resources.definition import Lister

ANONYMOUS_USER = UserInfo(ANONYMOUS, groups=(ALL_UNAUTHENTICATED,))


class AnonymousAuthenticator:
    """Accepts requests without credentials; with ``paths``, only requests for these paths."""

    def __init__(self, paths: Iterable[str] | None = None) -> None:
        self.paths = None if paths is None else frozenset(paths)

    def authenticate(self, ctx: RequestContext) -> UserInfo | None:
        if self.paths is not None and ctx.path not in self.paths:
            return None
        return ANONYMOUS_USER


class AuthenticationSettings(msgspec.Struct):
    """The settings of flags and files.  The options have read the files."""

    front_proxy: FrontProxyAuthenticator | None = None
    client_ca: CertificateAuthority | None = None
    certificate_uids: bool = True  # whether client certificates may have the user's uid
    static_tokens: Mapping[str, UserInfo] = msgspec.field(
        default_factory=dict
    )  # kapi.authentication.static_tokens.parse_token_file
    issuers: Sequence[str] = ()  # --service-account-issuer: the first signs, all verify
    keys: KeySet | None = None
    refresh_keys: Callable[[], Awaitable[None]] | None = None  # called for a token of an unknown key
    lookup_tokens: bool = True  # --service-account-lookup
    bootstrap_tokens: bool = False
    external: Sequence[TokenAuthenticator] = ()  # OIDC (or structured configuration), then the webhook
    api_audiences: tuple[str, ...] = ()  # --api-audiences; default: the issuers
    anonymous: bool = True
    anonymous_paths: Iterable[str] | None = None  # None: all paths
    listers: Mapping[GroupResource, Lister] = msgspec.field(default_factory=dict)
    clock: Callable[[], float] = time.time  # unix seconds
    realm: str = ""  # in a logical cluster's tokens, since its ServiceAccounts may have been loaded with any uid
    mark_used: Callable[[Object], None] | None = None  # called with Secrets whose legacy token was used
    token_meter: TokenMeter = msgspec.field(default_factory=TokenMeter)
    lifetimes: Histogram | None = None  # of client certificates


class Authentication(msgspec.Struct, frozen=True):
    """``requests`` for the filter chain, ``tokens`` for TokenReview, ``loopback_token`` for the process itself."""

    requests: Authenticator
    tokens: TokenAuthenticator
    loopback_token: str


def build_authentication(settings: AuthenticationSettings) -> Authentication:
    audiences = settings.api_audiences or tuple(settings.issuers)
    loopback_token = secrets.token_urlsafe(32)
    tokens = UnionTokenAuthenticator(_token_authenticators(settings, audiences, loopback_token))
    requests: list[Authenticator] = []
    if settings.front_proxy is not None:
        requests.append(settings.front_proxy)
    if settings.client_ca is not None:
        requests.append(
            ClientCertificateAuthenticator(settings.client_ca, settings.lifetimes, settings.certificate_uids)
        )
    requests.append(BearerAuthenticator(tokens))
    requests.append(WebSocketAuthenticator(tokens))
    anonymous = AnonymousAuthenticator(settings.anonymous_paths) if settings.anonymous else None
    return Authentication(UnionAuthenticator(requests, anonymous), tokens, loopback_token)


def _token_authenticators(
    settings: AuthenticationSettings, audiences: tuple[str, ...], loopback_token: str
) -> list[TokenAuthenticator]:
    """Local authenticators first, then authenticators that may call another server."""
    static = {**settings.static_tokens, loopback_token: LOOPBACK_USER}
    tokens: list[TokenAuthenticator] = [StaticTokenAuthenticator(static, audiences)]
    if settings.keys is not None:
        own: list[TokenAuthenticator] = []
        if settings.issuers:
            own.append(
                BoundTokenAuthenticator(
                    [issuer_of(issuer, settings.realm) for issuer in settings.issuers],
                    settings.keys,
                    settings.listers,
                    audiences,
                    settings.clock,
                    settings.token_meter,
                )
            )
        own.append(
            LegacyTokenAuthenticator(
                settings.keys,
                settings.listers,
                audiences,
                lookup=settings.lookup_tokens,
                mark_used=settings.mark_used,
                clock=settings.clock,
                meter=settings.token_meter,
            )
        )
        refresh = settings.refresh_keys
        tokens.extend(own if refresh is None else [RefreshingTokens(each, refresh) for each in own])
    if settings.bootstrap_tokens:
        tokens.append(
            BootstrapTokenAuthenticator(settings.listers[GroupResource("", "secrets")], audiences, settings.clock)
        )
    tokens.extend(settings.external)
    return tokens
