"""``etcd`` as test tools and static pods start it: a Valkey server in ``--data-dir``, behind etcd's client port.

It is not etcd and has none of its API.  It stores the data of kapi's ``kube-apiserver`` (``kapi.dropin.kube_apiserver``), so that
all servers that use it, at the same time or one after the other, have the same objects.

The client port takes HTTP for health checks, and the store's own protocol.  The first byte of a connection shows its protocol: a
command of the store begins with ``*``, an HTTP request with a letter.  The store's server listens on a unix socket in the data
directory; its connections are forwarded, with back-pressure in both directions.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IDelayedCall, IListeningPort, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import FilteringLogObserver, Logger, LogLevel, LogLevelFilterPredicate, globalLogBeginner
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from kapi.dropin.etcd_flags import EtcdFlags, from_command_line, help_text
from kapi.observability.logging import text_observer
from kapi.options.errors import ConfigError, read_file
from kapi.process.reactor import Reactor, installed_reactor, use_monotonic_clock
from kapi.request.transport import StreamTransport
from kapi.serving.signals import stop_at_signals, stop_reactor
from kapi.store.connection import ConnectionFactory
from kapi.store.embedded import EmbeddedValkey
from kapi.store.errors import StoreError, UnsuitableStore

_FIRST_BYTE_SECONDS = 30.0  # time for the first byte of a connection
_CONNECT_SECONDS = 5.0  # time for the store's server to accept a connection
_STORE = b"*"
#: the versions in the answers; clients compare the first two numbers
VERSION = {"etcdserver": "3.6.6", "etcdcluster": "3.6.0", "storage": "3.6.0"}
#: returns the reason why the store does not answer; "" when it does
Probe = Callable[[], Awaitable[str]]


class _End(Protocol):
    """One end of a forwarded connection: data is written to the other end."""

    transport: StreamTransport

    def __init__(self) -> None:
        self.other: _End | None = None

    def dataReceived(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def connectionLost(self, reason: object = None) -> None:
        """Closes the other end after its buffered data; it must no longer wait for this end as its producer."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.unregisterProducer()
            self.other.transport.loseConnection()


class ClientConnection(Protocol):
    """A connection whose protocol is chosen by its first byte."""

    transport: StreamTransport

    def __init__(self, factory: ClientPort) -> None:
        self._port = factory
        self._inner: _End | None = None
        self._waiting = b""
        self._connecting: Deferred[_End] | None = None
        self._first_byte_timer: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self._port.connections.add(self)
        self._first_byte_timer = self._port.reactor.callLater(_FIRST_BYTE_SECONDS, self._drop)

    def dataReceived(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.dataReceived(data)
        elif self._connecting is not None:
            self._waiting += data  # at most what was read before the pause
        elif data[:1] == _STORE and self._port.socket_path:
            self._stop_timer()
            self._waiting = data
            self.transport.pauseProducing()
            self._connect()
        else:
            self._stop_timer()
            self._inner = self._port.site.buildProtocol(self.transport.getPeer())
            self._inner.makeConnection(self.transport)
            self._inner.dataReceived(data)

    def _connect(self) -> None:
        endpoint = UNIXClientEndpoint(self._port.reactor, self._port.socket_path, timeout=_CONNECT_SECONDS)
        self._connecting = endpoint.connect(Factory.forProtocol(_End))
        self._connecting.addCallbacks(self._join, self._refused)

    def _join(self, store: _End) -> None:
        self._connecting = None
        client = self.transport
        if client is None or self not in self._port.connections:
            store.transport.loseConnection()
            return
        inner = _End()
        inner.transport = client
        inner.other, store.other = store, inner
        self._inner = inner
        behind = store.transport
        behind.registerProducer(client, True)
        client.registerProducer(behind, True)
        waiting, self._waiting = self._waiting, b""
        inner.dataReceived(waiting)
        client.resumeProducing()

    def _refused(self, failure: Failure) -> None:
        self._connecting = None
        log.warn("the store's server takes no connection: {why}", why=failure.getErrorMessage())
        self._drop()

    def _stop_timer(self) -> None:
        if self._first_byte_timer is not None and self._first_byte_timer.active():
            self._first_byte_timer.cancel()

    def _drop(self) -> None:
        if self.transport is not None:
            self.transport.abortConnection()

    def connectionLost(self, reason: object = None) -> None:
        self._port.connections.discard(self)
        self._stop_timer()
        if self._inner is not None:
            self._inner.connectionLost(reason)
        if self._connecting is not None:
            self._connecting.cancel()


class ClientPort(Factory):
    """A port of etcd; without a ``socket_path`` it answers only HTTP."""

    noisy = False

    def __init__(self, reactor: IReactorTime, probe: Probe, socket_path: str = "") -> None:
        self.reactor = reactor
        self.socket_path = socket_path
        self.connections: set[ClientConnection] = set()
        root = Resource()
        for name, page in (("health", _Health(probe)), ("version", _Version()), ("readyz", _Ready(probe))):
            root.putChild(name.encode(), page)
        root.putChild(b"livez", _Ready(probe))
        self.site = Site(root)
        self.site.noisy = False
        self.site.log = lambda request: None  # type: ignore[method-assign]

    def buildProtocol(self, addr: object) -> ClientConnection:
        return ClientConnection(self)

    def drop_all(self) -> None:
        for connection in list(self.connections):
            connection._drop()


class _Version(Resource):
    isLeaf = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def render_GET(self, request: Request) -> bytes:
        request.setHeader("Content-Type", "application/json")
        return json.dumps(VERSION, separators=(",", ":")).encode()


class _Probing(Resource):
    """Sends a command to the store, then answers the health check."""

    isLeaf = True
    content_type = "application/json"

    def __init__(self, probe: Probe) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._probe = probe

    def text(self, reason: str) -> str:
        raise NotImplementedError

    def render_GET(self, request: Request) -> int:
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)
        Deferred.fromCoroutine(self._answer(request, gone)).addErrback(
            lambda failure: log.failure("a health check failed", failure)
        )
        return NOT_DONE_YET

    async def _answer(self, request: Request, gone: list[Failure]) -> None:
        reason = await self._probe()
        if gone:
            return
        request.setResponseCode(503 if reason else 200)
        request.setHeader("Content-Type", self.content_type)
        request.write(self.text(reason).encode())
        request.finish()


class _Health(_Probing):
    def text(self, reason: str) -> str:
        return json.dumps({"health": "false" if reason else "true", "reason": reason}, separators=(",", ":"))


class _Ready(_Probing):
    content_type = "text/plain; charset=utf-8"

    def text(self, reason: str) -> str:
        return f"[-]data failed: {reason}\n" if reason else "ok\n"


log = Logger()
_PROBE_SECONDS = 2.0  # time for the store to answer a health check
_LEVELS = {"debug": LogLevel.debug, "info": LogLevel.info, "warn": LogLevel.warn, "error": LogLevel.error}


class Etcd:
    """The store's server and the ports in front of it."""

    def __init__(self, flags: EtcdFlags, reactor: Reactor) -> None:
        self._flags = flags
        self._reactor = reactor
        directory = Path(flags.directory).absolute()
        self._server = EmbeddedValkey(directory / "store", reactor, fsync="no" if flags.unsafe_no_fsync else "always")
        path = self._server.socket_path
        self._clients = ClientPort(reactor, self._probe, path)
        self._http = ClientPort(reactor, self._probe)
        self._ports: list[IListeningPort] = []

    async def start(self) -> None:
        """Starts the store's server, then listens, so that clients can use the store at once.  Raises ConfigError, StoreError."""
        context = _tls(self._flags)
        self._server.launch()
        await self._server.start()
        self._server.supervise()
        for factory, urls in ((self._clients, self._flags.client_urls), (self._http, self._flags.http_urls)):
            for scheme, host, port in urls:
                self._listen(factory, scheme, host, port, context)

    def _listen(self, factory: Any, scheme: str, host: str, port: int, context: Any) -> None:
        try:
            if scheme == "https":
                listening = self._reactor.listenSSL(port, factory, context, interface=host)
            else:
                listening = self._reactor.listenTCP(port, factory, interface=host)
        except CannotListenError as error:
            why = getattr(error.socketError, "strerror", None) or error.socketError
            raise ConfigError(f"listen {host}:{port}: {why}") from None
        self._ports.append(listening)
        log.info("serving client traffic on {scheme}://{host}:{port}", scheme=scheme, host=host, port=port)

    async def stop(self) -> None:
        await gatherResults([Deferred.fromCoroutine(_closed(port)) for port in self._ports], consumeErrors=True)
        self._clients.drop_all()
        self._http.drop_all()
        await self._server.stop()

    async def _probe(self) -> str:
        """The reason why the store does not answer; empty when it does."""
        endpoint: Any = UNIXClientEndpoint(self._reactor, self._server.socket_path, timeout=_PROBE_SECONDS)
        try:
            connection = await endpoint.connect(ConnectionFactory())
        except Exception as error:
            return str(error) or type(error).__name__
        try:
            await connection.execute_command("PING").addTimeout(_PROBE_SECONDS, self._reactor)
        except Exception as error:
            return str(error) or type(error).__name__
        finally:
            connection.abort()
        return ""


async def _closed(port: IListeningPort) -> None:
    await maybeDeferred(port.stopListening)


def _tls(flags: EtcdFlags) -> Any:
    """The TLS context for https URLs; None without a certificate.  Raises ConfigError."""
    if not flags.cert_file:
        return None
    from OpenSSL.crypto import FILETYPE_PEM
    from twisted.internet.ssl import Certificate, CertificateOptions, KeyPair, TLSVersion, trustRootFromCertificates

    def certificates(flag: str, path: str) -> list[Certificate]:
        mark = b"-----END CERTIFICATE-----"
        blocks = read_file(path, flag).split(mark)
        return [Certificate.loadPEM(block + mark) for block in blocks[:-1]]

    try:
        own, *chain = certificates("cert-file", flags.cert_file)
        key = KeyPair.load(read_file(flags.key_file, "key-file"), FILETYPE_PEM)
        trust = None
        if flags.client_cert_auth:
            trust = trustRootFromCertificates(certificates("trusted-ca-file", flags.trusted_ca_file))
        return CertificateOptions(
            privateKey=key.original,
            certificate=own.original,
            extraCertChain=[each.original for each in chain],
            trustRoot=trust,
            raiseMinimumTo=TLSVersion.TLSv1_2,
        )
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"--cert-file: TLS files cannot be used: {error}") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the program.  Raises SystemExit with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if any(each in ("-h", "-help", "--help") for each in arguments):
        from kapi.options.help import show  # imported only when it is used

        show(help_text())
    if any(each.lstrip("-").partition("=")[0] == "version" and each.startswith("-") for each in arguments):
        print(f"etcd Version: {VERSION['etcdserver']}\nkapi's own, with a Valkey server behind it")
        raise SystemExit(0)
    try:
        flags = from_command_line(arguments, os.environ)
    except ConfigError as error:
        _complain(error)
        raise SystemExit(2) from None
    running = installed_reactor()
    use_monotonic_clock(running)
    level = _LEVELS.get(flags.log_level, LogLevel.critical)
    output = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), line_buffering=True)
    chosen = FilteringLogObserver(text_observer(output), [LogLevelFilterPredicate(defaultLogLevel=level)])
    globalLogBeginner.beginLoggingTo([chosen], redirectStandardIO=False)
    etcd = Etcd(flags, running)
    code = 0

    def failed(failure: Failure) -> None:
        nonlocal code
        code = 1
        if failure.check(ConfigError, StoreError, UnsuitableStore):
            _complain(failure.value)
        else:
            log.failure("etcd could not be started", failure)
        stop_reactor(running)

    running.addSystemEventTrigger("before", "shutdown", lambda: Deferred.fromCoroutine(etcd.stop()))
    running.callWhenRunning(stop_at_signals, running, lambda: None)  # a second signal is ignored, as by etcd
    running.callWhenRunning(lambda: Deferred.fromCoroutine(etcd.start()).addErrback(failed))
    running.run()
    sys.exit(code)


def _complain(error: BaseException | None) -> None:
    for line in str(error).splitlines():
        sys.stderr.write(f"etcd: {line}\n")


if __name__ == "__main__":
    main()
