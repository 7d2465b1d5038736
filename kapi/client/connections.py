"""Makes connections to one API server, and sends requests over kept-alive ones.

They use TCP or TLS, directly or through a proxy (CONNECT over TCP or TLS, SOCKS 5).  Answers are read whole or as streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory

from kapi.wire.collected import Collected
from kapi.wire.pool import Connect, Pool
from kapi.wire.transport import Header, Response, Stream

if TYPE_CHECKING:
    from kapi.wire.spdy import SPDYStreams
    from kapi.wire.upgrade import Upgraded
    from kapi.wire.websocket import WebSocket
import base64
from urllib.parse import unquote

from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IProtocol, IProtocolFactory

from kapi.client.config import Config, ConfigError
from kapi.client.config_error import NoConnection
from kapi.client.credentials import ClientCertificate
from kapi.process.reactor import Reactor
from kapi.wire.dial import Dialer

Made = TypeVar("Made", bound="Upgraded")
MAX_ANSWER = 1024 * 1024 * 1024  # bytes of a whole answer


class Connections(Pool):
    """A Transport to one server.  ``connect`` makes a connection with a protocol factory; ``url`` names the server."""

    def __init__(self, reactor: IReactorTime, url: str, connect: Connect) -> None:
        super().__init__(reactor, connect)
        parsed = urlsplit(url)
        self._base = parsed.path.rstrip("/")
        self._host: Header = (b"Host", parsed.netloc.rpartition("@")[2].encode("ascii"))

    def request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, *, streaming: bool = False
    ) -> Deferred[Response]:
        return Deferred.fromCoroutine(self._request(method, target, headers, body, streaming))

    async def _request(
        self, method: str, target: str, headers: Sequence[Header], body: bytes | None, streaming: bool
    ) -> Response:
        path = (self._base + target).encode("ascii")
        answer = await self.send(method.encode("ascii"), path, [self._host, *headers], body)
        if not streaming or answer.code >= 300:
            return Response(answer.code, answer.headers, await Collected(MAX_ANSWER).read(answer))
        stream = Stream(answer.flow, answer.abort)
        answer.read(stream.feed, stream.finish)
        return Response(answer.code, answer.headers, stream=stream)

    async def websocket(self, target: str, headers: Sequence[Header], protocols: Sequence[str]) -> WebSocket | Response:
        """A WebSocket, or the answer of a server that refuses it.  Cancelling ends the connection."""
        from kapi.wire.websocket import WebSocket

        return await self._upgraded(
            WebSocket(self._reactor, "GET", self._base + target, [self._host, *headers], protocols)
        )

    async def spdy(
        self,
        target: str,
        headers: Sequence[Header],
        protocols: Sequence[str],
        streams: Mapping[int, Mapping[str, str]],
        greetings: Sequence[bytes] = (),
    ) -> SPDYStreams | Response:
        """Streams of SPDY, or the answer of a server that refuses them.  Cancelling ends the connection."""
        from kapi.wire.spdy import SPDYStreams

        return await self._upgraded(
            SPDYStreams(self._base + target, [self._host, *headers], protocols, streams, greetings)
        )

    async def _upgraded(self, made: Made) -> Made | Response:
        factory = Factory.forProtocol(lambda: made)
        factory.noisy = False
        await self._connect(factory)
        found = await made.opened
        return found if isinstance(found, Response) else made


def connector(reactor: Reactor, config: Config) -> Connect:
    """A function that makes a connection with a protocol factory."""
    host, port, secure = _target(config)
    #: TLS options, made again for another certificate
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
    return parsed.hostname or "localhost", _port(parsed.scheme, parsed.port), parsed.scheme == "https"


def _tls_options(config: Config, host: str, own: ClientCertificate | None) -> IOpenSSLClientConnectionCreator:
    from kapi.wire.tls.trust import client_options, identity

    certificate, key = own or (config.certificate, config.key)
    try:
        pair = identity(certificate, key)
    except ValueError as error:
        if own is not None:
            why = f"getting credentials: failed parsing client key/certificate: {error}"
            raise NoConnection(why, field="exec") from None
        raise ConfigError(str(error), field="client-certificate") from None
    name = config.server_name or host
    try:
        return client_options(name, config.ca, pair, insecure=config.insecure)
    except ValueError:
        why = "unable to load root certificates: unable to parse bytes as PEM block"
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
        from kapi.wire.tunnel import through_socks

        return await through_socks(endpoint, host, port, factory, options, username=username, password=password)
    from kapi.wire.tunnel import through

    more = ""
    if username:
        pair = f"{username}:{password}".encode()
        more = f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}\r\n"
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return await through(endpoint, target, factory, options, headers=more)


def _port(scheme: str, port: int | None) -> int:
    return port if port is not None else {"https": 443, "socks5": 1080, "socks5h": 1080}.get(scheme, 80)
