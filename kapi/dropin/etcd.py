"""``etcd`` as test tools and static pods start it: a Valkey server in ``--data-dir``, behind etcd's client port.

It is not etcd and has none of its API.  It stores the data of kapi's ``kube-apiserver`` (``kapi.dropin.kube_apiserver``), so that
all of these that use it, at the same time or one after the other, have the same objects.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.logger import FilteringLogObserver, Logger, LogLevel, LogLevelFilterPredicate, globalLogBeginner
from twisted.python.failure import Failure

from kapi.dropin.etcd_flags import EtcdFlags, from_command_line, help_text
from kapi.dropin.etcd_port import VERSION, ClientPort
from kapi.observability.logging import text_observer
from kapi.options.errors import ConfigError, read_file
from kapi.process.reactor import Reactor, installed_reactor, use_monotonic_clock
from kapi.serving.signals import stop_at_signals, stop_reactor
from kapi.store.connection import ConnectionFactory
from kapi.store.embedded import EmbeddedValkey
from kapi.store.errors import StoreError, UnsuitableStore

log = Logger()
_PROBE_SECONDS = 2.0  # for the store to answer a health check
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
        """Why the store does not answer; empty when it does."""
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
    from twisted.internet.ssl import (
        Certificate,
        CertificateOptions,
        KeyPair,
        TLSVersion,
        trustRootFromCertificates,
    )

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
    running.callWhenRunning(stop_at_signals, running, lambda: None)  # etcd goes on with its stop
    running.callWhenRunning(lambda: Deferred.fromCoroutine(etcd.start()).addErrback(failed))
    running.run()
    sys.exit(code)


def _complain(error: BaseException | None) -> None:
    for line in str(error).splitlines():
        sys.stderr.write(f"etcd: {line}\n")


if __name__ == "__main__":
    main()
