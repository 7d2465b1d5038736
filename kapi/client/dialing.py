"""How the library reaches a server: TCP or TLS, directly or through a proxy's CONNECT."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from kapi.client.config import Config, ConfigError
from kapi.client.credentials import ClientCertificate
from kapi.client.dialer import Dialer

MAX_REPLY = 64 * 1024  # bytes of a proxy's answer
Connect = Callable[[Factory], Deferred[Any]]


class ProxyError(Exception):
    """A proxy did not let us through."""


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


async def _through(reactor: Any, proxy: str, host: str, port: int, factory: Factory, options: Any) -> Any:
    parsed = urlsplit(proxy)
    made: Deferred[Any] = Deferred()
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    more = ""
    if parsed.username:
        pair = f"{unquote(parsed.username)}:{unquote(parsed.password or '')}"
        more = f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{more}\r\n".encode()
    asking: Any = Factory.forProtocol(lambda: _Tunnel(request, factory, options, made))
    tunnel: Any = await Dialer(reactor).endpoint(parsed.hostname or "", parsed.port or 80).connect(asking)
    try:
        return await made
    finally:
        if not tunnel.through:
            tunnel.transport.abortConnection()


class _Tunnel(Protocol):
    """Asks a proxy for a connection and then hands it over."""

    through = False

    def __init__(self, request: bytes, factory: Factory, options: Any, made: Deferred[Any]) -> None:
        self._request, self._factory, self._options, self._made = request, factory, options, made
        self._answer = b""
        self._inner: Any = None

    def connectionMade(self) -> None:
        self.transport.write(self._request)  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.dataReceived(data)
            return
        self._answer += data
        end = self._answer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._answer) > MAX_REPLY:
                self._refuse(ProxyError("the proxy's answer is too long"))
            return
        first = self._answer.split(b"\r\n", 1)[0].split(b" ", 2)
        if len(first) < 2 or first[1] != b"200":
            text = b" ".join(first[1:])[:200].decode("latin-1")
            self._refuse(ProxyError(f"proxyconnect tcp: {text}"))
            return
        transport: Any = self.transport
        self.through = True
        self._inner = self._factory.buildProtocol(transport.getPeer())
        if self._options is not None:
            transport.startTLS(self._options)
        self._inner.makeConnection(self.transport)
        self._made.callback(self._inner)

    def _refuse(self, why: Exception) -> None:
        if not self._made.called:
            self._made.errback(why)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._inner is not None:
            self._inner.connectionLost(reason)
        else:
            self._refuse(ProxyError("the proxy has closed the connection"))
