"""How the library reaches a server: TCP or TLS, directly or through a proxy (CONNECT over TCP or TLS, SOCKS 5)."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IProtocol, IProtocolFactory

from kapi.client.config import Config, ConfigError
from kapi.client.credentials import ClientCertificate
from kapi.process.reactor import Reactor
from kapi.wire.dial import Dialer
from kapi.wire.pool import Connect


def connector(reactor: Reactor, config: Config) -> Connect:
    """A function that makes a connection with a protocol factory."""
    host, port, secure = _target(config)
    #: TLS options, made anew for another certificate
    made: list[tuple[ClientCertificate | None, IOpenSSLClientConnectionCreator]] = []

    async def connect(factory: IProtocolFactory) -> IProtocol:
        options = None
        if secure:
            own = await config.credentials.certificate()
            if not made or made[0][0] != own:
                made[:] = [(own, _tls_options(config, host, own))]
            options = made[0][1]
        if config.proxy_url:
            return await _through(reactor, config, factory, options)
        return await Dialer(reactor).endpoint(host, port, options).connect(factory)

    return lambda factory: Deferred.fromCoroutine(connect(factory))


def _target(config: Config) -> tuple[str, int, bool]:
    """Host and port of the server, and whether it uses TLS."""
    parsed = urlsplit(config.host)
    return parsed.hostname or "", _port(parsed.scheme, parsed.port), parsed.scheme == "https"


def _tls_options(config: Config, host: str, own: ClientCertificate | None) -> IOpenSSLClientConnectionCreator:
    from kapi.wire.tls.trust import client_options, identity

    certificate, key = own or (config.certificate, config.key)
    try:
        pair = identity(certificate, key)
    except ValueError:
        raise ConfigError("no PEM certificate and key that belong together", field="client-certificate") from None
    name = config.server_name or host
    try:
        return client_options(name, config.ca, pair, insecure=config.insecure)
    except ValueError:
        why = "unable to load root certificates: no PEM certificate in it"
        raise ConfigError(why, field="certificate-authority") from None


async def _through(
    reactor: Reactor, config: Config, factory: IProtocolFactory, options: IOpenSSLClientConnectionCreator | None
) -> IProtocol:
    """Connects through the proxy of ``config``."""
    host, port, _ = _target(config)
    proxy = urlsplit(config.proxy_url)
    username, password = unquote(proxy.username or ""), unquote(proxy.password or "")
    name = proxy.hostname or ""
    tls = None
    if proxy.scheme == "https":
        tls = _tls_options(config.replace(server_name=""), name, await config.credentials.certificate())
    endpoint = Dialer(reactor).endpoint(name, _port(proxy.scheme, proxy.port), tls)
    if proxy.scheme.startswith("socks5"):
        from kapi.wire.socks_tunnel import through_socks

        return await through_socks(endpoint, host, port, factory, options, username=username, password=password)
    from kapi.wire.connect_tunnel import through

    more = ""
    if username:
        pair = f"{username}:{password}".encode()
        more = f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}\r\n"
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return await through(endpoint, target, factory, options, headers=more)


def _port(scheme: str, port: int | None) -> int:
    return port or {"https": 443, "socks5": 1080, "socks5h": 1080}.get(scheme, 80)
