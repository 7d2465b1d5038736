"""The composition root: complete -> validate -> server chain -> prepare -> run (upstream: cmd/kube-apiserver ``app``).

Everything that is wrong with flags, files, ports and directories is found in ``prepare`` and told in one line each; what needs
the network is found when the service starts.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, FirstError
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from kapi.assembly.parts import Assembly
from kapi.assembly.server import assemble
from kapi.foundation import Foundation
from kapi.machinery.feature_gates import without_effect
from kapi.machinery.field import quote
from kapi.options.errors import ConfigError, read_file
from kapi.options.options import Options
from kapi.server import pki
from kapi.server.http import Connections
from kapi.server.kubeconfig import write_admin
from kapi.server.lifecycle import HookError, Hooks, bounded, end_watches, end_watches_spread, run_hooks
from kapi.server.listening import ListenError, Port, bind, default_address, local_url, raise_file_limit, socket_name
from kapi.server.memory import MemoryReturn
from kapi.server.notify import notify
from kapi.server.routes import VERSION
from kapi.server.runner import RequestRunner
from kapi.server.signals import on_signal, stop_reactor
from kapi.server.stalls import StallMonitor
from kapi.server.tls import CertificateError, KeyPair, ServerContexts, TLSSettings
from kapi.store.errors import StoreError

log = Logger()
_RELOAD_SECONDS = 60.0
_LAST_BYTES = 3.0  # seconds for the last bytes of answers to leave, and for the last requests of busy connections
_WATCHES = 5.0  # seconds for watches that were ended


class App(Service):
    """One API server process.  ``listener`` is the socket to serve when it is somebody else who has bound it."""

    exit_code = 0

    def __init__(
        self, options: Options, reactor: Any, foundation: Foundation, listener: socket.socket | None = None
    ) -> None:
        self.options = options
        self.reactor = reactor
        self._foundation = foundation
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.url = ""
        self.kubeconfig = foundation.directory / "admin.kubeconfig"
        self.announce: Callable[[], object] = self._print
        self._socket = listener
        self._port: Port | None = None
        self._starting: Deferred[None] | None = None
        self._stopping: Deferred[None] | None = None
        self._reloader: LoopingCall | None = None
        self._hooks: Hooks | None = None
        self.assembly: Assembly
        self.connections: Connections
        self._contexts: ServerContexts
        self.files: pki.Files

    # -- prepare: no network but the listening socket

    def prepare(self) -> None:
        """Raises ConfigError for whatever an operator has to put right."""
        directory, store = self._foundation.directory, self._foundation.store
        serving = self.options.serving
        raise_file_limit()
        if self._socket is None:
            try:
                self._socket = bind(serving.bind_address, serving.secure_port, serving.permit_port_sharing)
            except ListenError as error:
                raise ConfigError(f"--secure-port: {error}") from None
        self.port = self._socket.getsockname()[1]
        self.advertise = self.options.generic.advertise_address or default_address(serving.bind_address)
        keys = Path(serving.cert_dir).absolute() if serving.cert_dir else directory / "pki"
        try:
            self.files = pki.ensure(keys, self._names())
        except (OSError, ValueError) as error:
            flag = "--cert-dir" if serving.cert_dir else "--data-dir"
            raise ConfigError(f"{flag}: {keys}: {error}") from None
        self._contexts = self._make_contexts()
        self.url = local_url(serving.bind_address, self.port)
        self.assembly = assemble(self.options, self.reactor, self.files, store, self.advertise, self.port)
        runner = RequestRunner(
            self.assembly.chain, self.reactor, gather=True, rounds=self.assembly.rounds, slices=self.assembly.slices
        )
        self.runner = runner
        self.assembly.caches.pending = runner.pending
        self.connections = Connections(runner, serving.http2_max_streams_per_connection)
        self._memory = MemoryReturn(self.reactor)
        self.stalls = StallMonitor()
        for collector in (self.connections.handshake_errors, self.connections.errors.counter, self.stalls):
            self.assembly.metrics.registry.register(collector)

    def _names(self) -> list[str]:
        options = self.options
        names = [
            "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local", "127.0.0.1", "::1", options.misc.first_service_address, self.advertise,
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

    def startService(self) -> None:
        super().startService()
        self._starting = Deferred.fromCoroutine(self._start())
        self._starting.addErrback(self._failed)

    def _tell_settings(self) -> None:
        """As upstream begins its log; what was asked for in vain is told at any verbosity."""
        log.info("Version: {version}", version=VERSION["gitVersion"])
        log.info("Python settings: {python}, {compiler}", python=VERSION["goVersion"], compiler=VERSION["compiler"])
        for name, value in self.options.settings():
            log.info("FLAG: --{name}={value}", name=name, value=quote(value))
        for name, why in self.options.inert():
            log.warn("--{name} has no effect: {why}", name=name, why=why)
        for gate in without_effect(self.options.generic.feature_gates):
            log.warn("--feature-gates: {gate} has no effect", gate=gate)

    async def _start(self) -> None:
        self._tell_settings()
        await self.assembly.caches.start()
        if not self.running:
            return
        assert self._socket is not None
        where = socket_name(self._socket)
        self._port = Port(self.reactor, self._socket, self.connections, self._contexts, self.assembly.rounds)
        log.info("Serving securely on {where}", where=where)
        self._write_kubeconfig()
        self._hooks = self.assembly.hooks
        self._reloader = LoopingCall(self.reload)
        self._reloader.clock = self.reactor
        self._reloader.start(_RELOAD_SECONDS, now=False)
        self._handle_hangup()
        try:
            await self._hooks.run()
        except FirstError as first:
            raise first.subFailure.value from None  # type: ignore[misc]
        self._tune_interpreter()
        notify("READY=1")
        self.announce()

    def _print(self) -> None:
        print(f"kapi is serving at {self.url}\nexport KUBECONFIG={self.kubeconfig}", flush=True)

    def _write_kubeconfig(self) -> None:
        serving = self.options.serving
        authority = (
            read_file(serving.tls_cert_file, "tls-cert-file") if serving.tls_cert_file else self.files.ca.read_bytes()
        )
        write_admin(self.kubeconfig, self.url, authority, self.files)

    def _handle_hangup(self) -> None:
        """SIGHUP reads certificates and keys again at once."""
        on_signal(signal.SIGHUP, lambda: self.reactor.callFromThread(self.reload))

    def _leave_at_next_signal(self) -> None:
        """Who cannot wait signals a second time, as upstream.  What was acknowledged is on disk."""
        for number in (signal.SIGTERM, signal.SIGINT):
            on_signal(number, lambda: os._exit(1))

    def _tune_interpreter(self) -> None:
        """What was made until now stays: the collector need not look at it ever.

        Not even once: it would take 80 ms to find some 10,000 small objects that were left behind.
        """
        gc.freeze()
        gc.set_threshold(3_000, 300, 50)  # everybody waits meanwhile: few objects at a time, 1 ms
        sys.setswitchinterval(0.0005)  # seconds: requests wait less while a thread validates something large
        gc.enable()
        self.stalls.install(self.reactor)
        self._memory.start()

    def reload(self) -> None:
        """Serving certificates and client CAs as the files are now."""
        self._contexts.reload()
        self.assembly.reload()

    def _failed(self, failure: Any) -> None:
        error = failure.value
        if not self.running and isinstance(error, StoreError):
            return  # somebody stopped it while it waited for the store
        if not isinstance(error, (StoreError, ConfigError, HookError)):
            log.failure("The server could not be started", failure)
        self.exit_code = 1
        self.on_failure(error if str(error) else RuntimeError(type(error).__name__))
        stop_reactor(self.reactor)

    def stopService(self) -> Deferred[None]:
        if self._stopping is None:
            super().stopService()
            self._stopping = Deferred.fromCoroutine(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        notify("STOPPING=1")
        self._leave_at_next_signal()
        if self._reloader is not None and self._reloader.running:
            self._reloader.stop()
        assembly = self.assembly
        self._memory.stop()
        assembly.stopping = True
        if self._hooks is not None:  # what was never started need not be ended
            self._hooks.stop()
            pause = self._pause(0.0 if self.exit_code else self.options.generic.shutdown_delay_duration)
            await run_hooks(assembly.server.pre_shutdown_hooks())
            await pause
        assembly.refusing = True
        if self.options.generic.shutdown_send_retry_after and not self.exit_code:
            await self._drain()  # meanwhile who comes is told to come back
        await self.close_port()
        if self._hooks is not None:
            await run_hooks(assembly.server.closing_hooks())
        await self.connections.close_idle()
        await self._drain()
        await self.connections.close_idle()
        await bounded(self.connections.all_closed(), _LAST_BYTES, self.reactor)
        self.connections.abort_all()
        if assembly.auditor is not None:
            await assembly.auditor.stop()
        if not self.exit_code or assembly.caches.ready:
            await assembly.caches.stop()
        self._foundation.release()

    def _pause(self, seconds: float) -> Deferred[None]:
        pause: Deferred[None] = Deferred()
        self.reactor.callLater(seconds, pause.callback, None)
        return pause

    async def close_port(self) -> None:
        """Takes no more connections."""
        if self._port is not None:
            await self._port.stop()
        elif self._socket is not None:
            self._socket.close()

    async def _drain(self) -> None:
        """Waits for the requests that run, and ends the watches."""
        generic, assembly = self.options.generic, self.assembly
        requests = bounded(assembly.requests.wait(), generic.request_timeout, self.reactor)
        grace = generic.shutdown_watch_termination_grace_period
        if not grace:  # no hurry with watches: they are told what the last requests change
            await requests
            end_watches(self.runner.watches)
            await bounded(assembly.watches.wait(), _WATCHES, self.reactor)
            return
        ended = assembly.watches.wait()
        ending = end_watches_spread(self.runner.watches, grace, self.reactor)
        await bounded(ended, grace + _WATCHES, self.reactor)
        ending.stop()
        await requests
