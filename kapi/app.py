"""An API server as a process: its port, its certificates, its signals, its memory (upstream: cmd/kube-apiserver ``app``).

``prepare`` finds all errors of flags, files, ports and directories, and reports each in one line.  Errors of the network
are found when the service starts.
"""

from __future__ import annotations

import datetime
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from kapi.assembly.extension import Extension
from kapi.assembly.server import assemble
from kapi.foundation import Foundation
from kapi.observability.request_metrics import pending_families
from kapi.observability.stalls import StallMonitor
from kapi.options.errors import ConfigError, read_file
from kapi.options.options import Options
from kapi.process.freeing import Freeing
from kapi.process.heap import Collector, MemoryReturn
from kapi.process.reactor import Reactor
from kapi.servers.additions import Additions
from kapi.service import APIService
from kapi.serving import pki
from kapi.serving.life import bounded
from kapi.serving.listen import ListenError, Port, bind, default_address, local_url, raise_file_limit, socket_name
from kapi.serving.notify import StartExtension, announcement, notify
from kapi.serving.pki import write_admin
from kapi.serving.run import RequestRunner
from kapi.serving.signals import leave_at_signals, on_signal, stop_at_signals, stop_reactor
from kapi.serving.site import Connections
from kapi.wire.name_lookups import NameLookups
from kapi.wire.tls.server import CertificateError, KeyPair, ServerContexts, TLSSettings

if TYPE_CHECKING:
    from kapi.observability.profiling import DebugSocket

log = Logger()
_LAST_BYTES = 3.0  # seconds to send the last bytes of answers, and for the last requests of busy connections


class App(APIService):
    """One API server process.  ``listener`` is the socket to serve when another process has bound it."""

    def __init__(
        self,
        options: Options,
        reactor: Reactor,
        foundation: Foundation,
        listener: socket.socket | None = None,
        extension: Extension | None = None,
        additions: Additions | None = None,
    ) -> None:
        super().__init__(options, reactor, foundation, extension, additions)
        self.url = ""
        self.kubeconfig = foundation.directory / "admin.kubeconfig"
        self.announce: Callable[[], object] = self._print
        self._socket = listener
        self._is_worker = listener is not None
        self._port: Port | None = None
        self._start_extension = StartExtension(reactor)
        path = options.features.debug_socket_path
        self._debug: DebugSocket | None = None
        if path:
            from kapi.observability.profiling import DebugSocket  # imported only when it is used

            self._debug = DebugSocket(path, reactor, options.logs)
        self.connections: Connections
        self._contexts: ServerContexts
        self.files: pki.Files
        self._kept: tuple[datetime.datetime, datetime.datetime]  # when generated certificates need no renewal
        self._renewal_problem = ""  # the last logged error of a renewal
        self._problems: list[str] = []  # the last logged problems of certificates

    # -- prepare: no network but the listening socket

    def prepare(self) -> None:
        """Checks the settings and opens the port.  Raises ConfigError for errors that an operator has to correct."""
        serving = self.options.serving
        raise_file_limit()
        self.reactor.installNameResolver(NameLookups(self.reactor))
        if self._socket is None:
            try:
                self._socket = bind(serving.bind_address, serving.secure_port, serving.permit_port_sharing)
            except ListenError as error:
                raise ConfigError(f"--secure-port: {error}") from None
        self.port = self._socket.getsockname()[1]
        self.advertise = self.options.generic.advertise_address or default_address(serving.bind_address)
        self.files = self._make_files(self._names())
        self._kept = pki.kept(self.files)
        self._contexts = self._make_contexts()
        self._log_validity()
        self.url = local_url(serving.bind_address, self.port)
        self._collector = Collector(self.reactor)
        self.prepared = assemble(
            self._config(self.files, self.advertise, self.port, self._collector.expect), self._extension
        )
        self._name_authorities()
        config = self.prepared.config
        runner = RequestRunner(
            self.prepared.handler_chain(),
            self.reactor,
            gather=True,
            slices=config.slices,
            max_pending=self.options.generic.max_pending_bytes,
            streams_body=self.prepared.streams_body,
            compresses=self.options.generic.features["APIResponseCompression"],
        )
        self.runner = runner
        self.connections = self.prepared.site
        self.connections.run_by(runner)
        self.prepared.storage.caches.pending = runner.pending
        config.metrics.add(lambda: pending_families(runner.pending))
        self._memory = MemoryReturn(self.reactor)
        self._freeing = Freeing(self.reactor, config.slices.call)
        self.stalls = StallMonitor()
        for collector in (self.connections.handshake_errors, self.connections.errors.counter, self.stalls):
            config.metrics.registry.register(collector)

    def _log_validity(self) -> None:
        """Logs once for each certificate that clients cannot trust."""
        serving = self.options.serving
        given = [serving.tls_cert_file, *(pair[0] for pair in serving.tls_sni_cert_key)]
        problems = []
        for path in (self.files.ca, *(Path(name) for name in given if name)):
            try:
                problems.append(pki.validity_problem(path))
            except (OSError, ValueError):
                continue  # the code that loads it reports the error
        for why in problems:
            if why and why not in self._problems:
                log.error("{why}", why=why)
        self._problems = problems

    def _renew_certificates(self) -> None:
        """Renews generated certificates: a server may run longer than they are valid, and its clock may be set."""
        self._log_validity()
        begin, end = self._kept
        if begin <= pki.now() < end:
            return
        try:
            self.files = self._make_files(self._names())
            self._write_kubeconfig()
        except ConfigError as error:  # it is tried again at the next check
            if str(error) != self._renewal_problem:
                log.error("certificates could not be renewed: {error}", error=error)
            self._renewal_problem = str(error)
            return
        self._kept, self._renewal_problem = pki.kept(self.files), ""

    def _names(self) -> list[str]:
        options = self.options
        names = [
            "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local", "127.0.0.1", "::1",
            options.control_plane.first_service_address, self.advertise,
        ]  # fmt: skip
        if options.serving.bind_address not in ("0.0.0.0", "::"):
            names.append(options.serving.bind_address)
        if options.generic.external_hostname:
            names.append(options.generic.external_hostname)
        return names

    def _make_contexts(self) -> ServerContexts:
        options = self.options
        serving, authentication = options.serving, options.authentication
        generated = KeyPair(str(self.files.serving), str(self.files.serving_key))
        given = KeyPair(serving.tls_cert_file, serving.tls_private_key_file)
        for flag in ("client-ca-file", "requestheader-client-ca-file"):
            path = getattr(authentication, flag.replace("-", "_"))
            if path:
                read_file(path, flag)
        try:
            return ServerContexts(
                TLSSettings(
                    default=given if serving.tls_cert_file else generated,
                    sni=[KeyPair(*pair) for pair in serving.tls_sni_cert_key],
                    minimum_version=serving.minimum_version,
                    ciphers=serving.ciphers,
                    curves=serving.tls_curve_preferences,
                    protocols=(b"http/1.1",) if serving.disable_http2_serving else (b"h2", b"http/1.1"),
                )
            )
        except (CertificateError, ValueError) as error:
            raise ConfigError(f"serving certificate: {error}") from None

    # -- run

    def _open(self) -> None:
        assert self._socket is not None
        where = socket_name(self._socket)
        try:
            self._port = Port(self.reactor, self._socket, self.connections, self._contexts, shared=self._is_worker)
        except ListenError as error:  # another process, also bound to the port, has called listen() first
            raise ConfigError(f"--secure-port: {error}") from None
        log.info("Serving securely on {where}", where=where)
        self._write_kubeconfig()
        self._handle_hangup()
        if self._debug is not None:
            self._open_debug_socket(self._debug)

    def _open_debug_socket(self, debug: DebugSocket) -> None:
        try:
            debug.open()
        except (OSError, CannotListenError) as error:
            log.error("--debug-socket-path: {error}", error=error)

    def _ready(self) -> None:
        self._tune_interpreter()
        self._start_extension.end()
        notify("READY=1")
        self.announce()

    def _print(self) -> None:
        address = self.options.serving.bind_address
        print(announcement(self.url, self.kubeconfig, address, terminal=sys.stdout.isatty()), flush=True)

    def _write_kubeconfig(self) -> None:
        """Writes the administrator's kubeconfig.  Raises ConfigError."""
        serving = self.options.serving
        authority = (
            read_file(serving.tls_cert_file, "tls-cert-file") if serving.tls_cert_file else self.files.ca.read_bytes()
        )
        try:
            write_admin(self.kubeconfig, self.url, authority, self.files)
        except OSError as error:
            raise ConfigError(f"--data-dir: {self.kubeconfig}: {error.strerror or error}") from None

    def _handle_hangup(self) -> None:
        """Makes SIGHUP read certificates and keys again at once."""
        on_signal(signal.SIGHUP, lambda: self.reactor.callFromThread(self.reload))

    def startService(self) -> None:
        super().startService()
        self._start_extension.begin()
        self.reactor.callWhenRunning(stop_at_signals, self.reactor, self._signalled_again)

    def _signalled_again(self) -> None:
        """Exits at once at a second signal, as upstream.  Acknowledged writes are on disk.

        In a worker the supervisor decides: a signal to the whole process group reaches a worker twice.
        """
        if not self._is_worker:
            os._exit(1)

    def _tune_interpreter(self) -> None:
        self._collector.start()
        sys.setswitchinterval(0.0005)  # seconds: requests wait less while a thread validates something large
        self.stalls.install(self.reactor)
        self._memory.start()
        self._freeing.install()

    def reload(self) -> None:
        """Reads the serving certificates again too."""
        self._renew_certificates()
        self._contexts.reload()
        super().reload()
        self._name_authorities()

    def _name_authorities(self) -> None:
        self._contexts.name_authorities(self.prepared.policy.identity.client_authorities())

    def reloaded_files(self) -> list[str]:
        return [*super().reloaded_files(), *self._contexts.files()]

    def _give_up(self) -> None:
        stop_reactor(self.reactor)

    def _leaving(self) -> None:
        self._start_extension.end()
        notify("STOPPING=1")
        leave_at_signals(self._signalled_again)
        self._collector.stop()
        self._memory.stop()
        self._freeing.uninstall()

    async def close_port(self) -> None:
        if self._port is not None:
            await self._port.stop()
        elif self._socket is not None:
            self._socket.close()
        if self._debug is not None:
            await self._debug.close()

    async def _close_idle(self) -> None:
        await self.connections.close_idle()

    async def _close_all(self) -> None:
        await self.connections.close_idle()
        await bounded(self.connections.all_closed(), _LAST_BYTES, self.reactor)
        self.connections.abort_all()
