"""How the library reaches a server: TCP or TLS, directly or through a proxy's CONNECT."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory

from kapi.client.config import Config, ConfigError
from kapi.client.connect_tunnel import through
from kapi.client.credentials import ClientCertificate
from kapi.client.dialer import Dialer

Connect = Callable[[Factory], Deferred[Any]]


def connector(reactor: Any, config: Config) -> Connect:
    """A function that makes a connection with a protocol factory."""
    parsed = urlsplit(config.host)
    host = parsed.hostname or ""
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    secure = parsed.scheme == "https"
    made: list[tuple[ClientCertificate | None, Any]] = []  # TLS options, made anew for another certificate

    async def connect(factory: Factory) -> Any:
        if not secure:
            if config.proxy_url:
                return await _through(reactor, config.proxy_url, host, port, factory, None)
            return await Dialer(reactor).endpoint(host, port).connect(factory)
        own = await config.credentials.certificate()
        if not made or made[0][0] != own:
            made[:] = [(own, _tls_options(config, host, own))]
        options = made[0][1]
        if config.proxy_url:
            return await _through(reactor, config.proxy_url, host, port, factory, options)
        from kapi.client.tls_client import TLSReactor

        return await Dialer(TLSReactor(reactor, options)).endpoint(host, port).connect(factory)

    return lambda factory: Deferred.fromCoroutine(connect(factory))


def _tls_options(config: Config, host: str, own: ClientCertificate | None) -> Any:
    from kapi.client.tls_trust import authorities, identity, unverified_options, verified_options

    certificate, key = own or (config.certificate, config.key)
    try:
        pair = identity(certificate, key)
    except ValueError:
        raise ConfigError("no PEM certificate and key that belong together", field="client-certificate") from None
    name = config.server_name or host
    if config.insecure:
        return unverified_options(name, pair)
    try:
        trust = authorities(config.ca) if config.ca else None
    except ValueError:
        why = "unable to load root certificates: no PEM certificate in it"
        raise ConfigError(why, field="certificate-authority") from None
    return verified_options(name, trust, pair)


async def _through(reactor: IReactorTime, proxy: str, host: str, port: int, factory: Factory, options: object) -> Any:
    parsed = urlsplit(proxy)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    more = ""
    if parsed.username:
        pair = f"{unquote(parsed.username)}:{unquote(parsed.password or '')}"
        more = f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    endpoint = Dialer(reactor).endpoint(parsed.hostname or "", parsed.port or 80)
    return await through(endpoint, target, factory, options, headers=more)
