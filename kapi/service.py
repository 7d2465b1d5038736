"""Starts and stops an API server (upstream: ``genericapiserver.go``, RunWithContext).

Here are the steps of start and stop in their order, without the code that accepts requests.  That is in ``kapi.app`` for a server
with its own process and port, and in ``kapi.embedding`` for a server inside of another application.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, FirstError
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.assembly.config import Config, ExpectGarbage, ignore_garbage
from kapi.assembly.extension import Extension
from kapi.assembly.prepared import PreparedServer
from kapi.foundation import Foundation
from kapi.machinery.feature_gates import without_effect
from kapi.machinery.golang import quote
from kapi.machinery.version import VERSION
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.process.reactor import Reactor
from kapi.process.timers import Repeated
from kapi.servers.additions import NOTHING, Additions
from kapi.serving import pki
from kapi.serving.file_changes import FileChanges
from kapi.serving.life import HookError, Hooks, bounded, end_watches, end_watches_spread, run_hooks
from kapi.serving.run import RequestRunner
from kapi.store.errors import StoreError

log = Logger()
_RELOAD_SECONDS = 60.0
_LOOK_SECONDS = 1.0  # between two checks for changed files
_WATCHES_TIMEOUT = 5.0  # seconds that ended watches have to send their last bytes


class APIService(Service):
    """The service of a server.  ``prepared`` and ``runner`` are built before it starts."""

    exit_code = 0

    def __init__(
        self,
        options: Options,
        reactor: Reactor,
        foundation: Foundation,
        extension: Extension | None = None,
        additions: Additions | None = None,
    ) -> None:
        self.options = options
        self._extension = extension
        self._additions = additions or NOTHING
        self.reactor = reactor
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self._foundation = foundation
        self._starting: Deferred[None] | None = None
        self._stopping: Deferred[None] | None = None
        self._reloader: Repeated | None = None
        self._changes: Repeated | None = None
        self._hooks: Hooks | None = None
        self.prepared: PreparedServer
        self.runner: RequestRunner

    # -- hooks of subclasses, which accept requests

    def _open(self) -> None:
        """Called when all requests can be answered."""

    def _ready(self) -> None:
        """Called when the start is complete."""

    def _leaving(self) -> None:
        """Called at the beginning of the shutdown, in which the server still serves for some time."""

    async def close_port(self) -> None:
        """Accepts no more connections."""

    async def _close_idle(self) -> None:
        """Closes idle connections."""

    async def _close_all(self) -> None:
        """Closes the other connections, when all requests are answered."""

    # -- the steps

    def _make_files(self, names: list[str]) -> pki.Files:
        """Makes missing keys and certificates.  Raises ConfigError."""
        directory = self.options.serving.cert_dir
        keys = Path(directory).absolute() if directory else self._foundation.directory / "pki"
        try:
            return pki.ensure(keys, names, self.options.serving.key_kinds)
        except (OSError, ValueError) as error:
            flag = "--cert-dir" if directory else "--data-dir"
            raise ConfigError(f"{flag}: {keys}: {error}") from None

    def _config(
        self, files: pki.Files, advertise: str, port: int, expect_garbage: ExpectGarbage = ignore_garbage
    ) -> Config:
        """``advertise`` and ``port`` are the address of the server for clients."""
        foundation = self._foundation
        store, overrides = foundation.store, foundation.overrides
        return Config(
            self.options, self.reactor, files, store, advertise, port, overrides, self._additions, foundation.egress,
            expect_garbage,
        )  # fmt: skip

    def startService(self) -> None:
        super().startService()
        self._starting = Deferred.fromCoroutine(self._start())
        self._starting.addErrback(self._failed)

    def _log_settings(self) -> None:
        """Logs the settings, as upstream at its start.  Flags without effect are logged at any verbosity."""
        log.info("Version: {version}", version=VERSION["gitVersion"])
        log.info("Python settings: {python}, {compiler}", python=VERSION["goVersion"], compiler=VERSION["compiler"])
        for name, value in self.options.settings():
            log.info("FLAG: --{name}={value}", name=name, value=quote(value))
        for name, why in self.options.deprecated():
            log.warn("Flag --{name} has been deprecated, {why}", name=name, why=why)
        for name, why in self.options.inert():
            log.warn("--{name} has no effect: {why}", name=name, why=why)
        for gate in without_effect(self.options.generic.feature_gates):
            log.warn("--feature-gates: {gate} has no effect", gate=gate)

    async def _start(self) -> None:
        self._log_settings()
        limit = self.options.authentication.service_account_max_token_expiration
        await self.prepared.policy.identity.start(int(limit))
        if not self.running:
            return
        await self.prepared.storage.caches.start()
        if not self.running:
            return
        self._open()
        self._hooks = self.prepared.hooks
        self._reloader = Repeated(self.reload, self.reactor, "reading files again")
        self._reloader.start(_RELOAD_SECONDS)
        changes = FileChanges(self.reloaded_files())
        if changes:
            self._changes = Repeated(lambda: self._look(changes), self.reactor, "looking at files")
            self._changes.start(_LOOK_SECONDS)
        try:
            await self._hooks.run()
        except FirstError as first:
            raise first.subFailure.value from None  # type: ignore[misc]
        self._ready()

    def reload(self) -> None:
        """Reads the files of certificates, keys and configuration again."""
        self.prepared.config.reloaders.run()

    def reloaded_files(self) -> list[str]:
        """The files and directories that ``reload`` reads."""
        plugins = self.prepared.policy.admission.plugins
        return [*self.options.reloaded_files(), *(path for plugin in plugins for path in plugin.reloaded_files())]

    def _look(self, changes: FileChanges) -> None:
        if changes.look():
            self.reload()

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if not self.running and isinstance(error, (StoreError, ConfigError, HookError, CancelledError)):
            return  # it was stopped while it waited for the store, the signer of tokens or a hook
        if not isinstance(error, (StoreError, ConfigError, HookError)):
            log.failure("The server could not be started", failure)
        self.exit_code = 1
        self.on_failure(error if isinstance(error, Exception) and str(error) else RuntimeError(type(error).__name__))
        self._give_up()

    def _give_up(self) -> None:
        """Called when the start has failed and the reason was logged."""

    def stopService(self) -> Deferred[None]:
        if self._stopping is None:
            super().stopService()
            self._stopping = Deferred.fromCoroutine(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        self._leaving()
        for repeated in (self._reloader, self._changes):
            if repeated is not None:
                repeated.stop()
        prepared = self.prepared
        signals, server, caches = prepared.config.signals, prepared.chain.aggregator, prepared.storage.caches
        signals.stopping = True
        if self._hooks is not None:  # otherwise the hooks were not started
            self._hooks.stop()
            pause = self._pause(0.0 if self.exit_code else self.options.generic.shutdown_delay_duration)
            await run_hooks(server.pre_shutdown_hooks())
            await pause
        signals.refusing = True
        if self.options.generic.shutdown_send_retry_after and not self.exit_code:
            await self._drain()  # new requests are meanwhile answered with Retry-After
        await self.close_port()
        if self._hooks is not None:
            await run_hooks(server.closing_hooks())
        await self._close_idle()
        await self._drain()
        await self._close_all()
        prepared.policy.identity.stop()
        if prepared.config.auditor is not None:
            await prepared.config.auditor.stop()
        if not self.exit_code or caches.ready:
            await caches.stop()
        self._foundation.release()

    def _pause(self, seconds: float) -> Deferred[None]:
        pause: Deferred[None] = Deferred()
        self.reactor.callLater(seconds, pause.callback, None)
        return pause

    async def _drain(self) -> None:
        """Waits for the running requests, and ends the watches."""
        generic, signals = self.options.generic, self.prepared.config.signals
        requests = bounded(signals.requests.wait(), generic.request_timeout, self.reactor)
        grace = generic.shutdown_watch_termination_grace_period
        if not grace:  # watches end last, so that they get the changes of the last requests
            await requests
            end_watches(self.runner.watches)
            await bounded(signals.watches.wait(), _WATCHES_TIMEOUT, self.reactor)
            return
        ended = signals.watches.wait()
        ending = end_watches_spread(self.runner.watches, grace, self.reactor)
        await bounded(ended, grace + _WATCHES_TIMEOUT, self.reactor)
        ending.stop()
        await requests
