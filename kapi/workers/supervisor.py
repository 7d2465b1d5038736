"""The parent of several servers on one port and one store: starts them, replaces those that end, and ends them.

All accept from one listening socket, which stays open while any of them lives: no connection is refused when one ends, whether it
was told to or not. The supervisor holds the data directory and the embedded store's server; it neither listens to clients nor
reads the store.

SIGHUP goes on to the workers, which read certificates and keys again. SIGUSR2 replaces them one after the other, each when its
successor is ready: new code and new files named by flags take effect, and connections end as at any server that stops.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.foundation import Foundation
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.request.reactor import Reactor
from kapi.server.listening import BACKLOG, ListenError, bind, local_url
from kapi.server.notify import notify
from kapi.server.signals import on_signal, stop_reactor
from kapi.store.errors import StoreError
from kapi.store.shared_revisions import make_shared_file
from kapi.workers.worker import LISTENER, READY, REVISIONS

log = Logger()
_BACK_OFF = (0.0, 0.5, 2.0, 5.0)
_STEADY_SECONDS = 30.0  # seconds after which an end is no longer one of a row
_SLOTS_PER_WORKER = (
    4  # processes for each worker that may live at a time: those that were replaced end when their requests have
)
_MIN_SLOTS = 16
_END_TIMEOUT = 75.0  # seconds on top of the shutdown delay until a worker that does not end is killed


class StartFailed(Exception):
    """A worker ended before it was ready: it has said why itself, or ``killed`` is the signal that ended it."""

    def __init__(self, killed: int | None = None) -> None:
        super().__init__()
        self.killed = killed


class Worker(ProcessProtocol):
    """One process.  ``ready`` errs with StartFailed when it ends before; ``ended`` fires with its exit code, -N for signal N."""

    def __init__(self) -> None:
        self.ready: Deferred[None] = Deferred()
        self.ended: Deferred[int] = Deferred()
        self._output = b""
        self._reload = False  # as soon as it is ready

    @property
    def pid(self) -> int | None:
        return self.transport.pid if self.transport is not None else None

    def outReceived(self, data: bytes) -> None:
        *lines, self._output = (self._output + data).split(b"\n")
        for line in lines:
            if line == READY and not self.ready.called:
                self.ready.callback(None)
                if self._reload:
                    self.signal(signal.SIGHUP)
            elif line != READY:
                sys.stdout.buffer.write(line + b"\n")
                sys.stdout.flush()

    def reload(self) -> None:
        """It reads certificates and keys again; not before it listens to the signal, which would end it."""
        if self.ready.called:
            self.signal(signal.SIGHUP)
        else:
            self._reload = True

    def signal(self, number: int) -> None:
        assert self.transport is not None
        try:
            self.transport.signalProcess(number)
        except ProcessExitedAlready:
            pass

    def processEnded(self, reason: Failure) -> None:
        value: Any = reason.value
        if not self.ready.called:
            self.ready.errback(StartFailed(value.signal))
        self.ended.callback(-value.signal if value.signal else value.exitCode or 0)


def own_log(path: str, number: int) -> str:
    """The audit log of a worker but the first, since one process alone can rotate a file: ``audit.2.log``."""
    log = Path(path)
    return str(log.with_name(f"{log.stem}.{number}{log.suffix}"))


class Supervisor(Service):
    """``arguments`` are the command line, which the workers read once more."""

    exit_code = 0

    def __init__(self, options: Options, arguments: Sequence[str], reactor: Reactor, foundation: Foundation) -> None:
        self.options = options
        self.reactor = reactor
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.kubeconfig = foundation.directory / "admin.kubeconfig"
        self._arguments = list(arguments)
        self._foundation = foundation
        self._listener: socket.socket | None = None
        self._revisions = -1  # the file of the memory that workers share
        self._slots: list[_Slot] = []
        self._stopping: Deferred[None] | None = None
        self._replacing = True  # or being started

    def prepare(self) -> None:
        """Raises ConfigError."""
        serving = self.options.serving
        try:
            self._listener = bind(serving.bind_address, serving.secure_port, serving.permit_port_sharing)
            self._listener.listen(BACKLOG)
        except (ListenError, OSError) as error:
            raise ConfigError(f"--secure-port: {error}") from None
        try:
            self._revisions = make_shared_file(max(_MIN_SLOTS, _SLOTS_PER_WORKER * self.options.processes.workers))
        except OSError as error:
            raise ConfigError(f"--workers: no memory can be shared: {error}") from None
        self.url = local_url(*self._listener.getsockname()[:2])

    def startService(self) -> None:
        super().startService()
        for number, action in ((signal.SIGHUP, self.reload), (signal.SIGUSR2, self.replace)):
            on_signal(number, partial(self.reactor.callFromThread, action))
        Deferred.fromCoroutine(self._start()).addErrback(self._failed)

    async def _start(self) -> None:
        gc.enable()  # as a server does when it is ready: the start turned it off
        await self._foundation.start_server()
        if not self.running:
            return
        count = self.options.processes.workers
        self._slots = [_Slot(self, number) for number in range(1, count + 1)]
        await self._slots[0].start()  # alone: whatever is wrong is reported once, and what all share is made once
        self._foundation.supervise_server()
        await gatherResults([Deferred.fromCoroutine(slot.start()) for slot in self._slots[1:]], consumeErrors=True)
        self._replacing = False
        notify("READY=1")
        print(f"kapi is serving at {self.url}\nexport KUBECONFIG={self.kubeconfig}", flush=True)

    def spawn(self, number: int) -> Worker:
        """Starts a process for the slot of that number."""
        assert self._listener is not None
        worker = Worker()
        flags = [*self._arguments, f"--secure-port={self._listener.getsockname()[1]}"]
        log_path = self.options.audit.audit_log_path
        if number > 1 and log_path not in ("", "-"):
            flags.append(f"--audit-log-path={own_log(log_path, number)}")
        command = [sys.executable, "-m", "kapi.workers.worker", *flags]
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        streams: dict[int, str | int] = {
            0: "w",
            1: "r",
            2: 2,
            LISTENER: self._listener.fileno(),
            REVISIONS: self._revisions,
        }
        self.reactor.spawnProcess(worker, command[0], command, env=environment, path=None, childFDs=streams)
        return worker

    def reload(self) -> None:
        for slot in self._slots:
            if slot.worker is not None:
                slot.worker.reload()

    def replace(self) -> None:
        """One worker after the other; while this goes on, or they are started, a call changes nothing."""
        if self._replacing or self._stopping is not None:
            return
        self._replacing = True
        Deferred.fromCoroutine(self._replace()).addErrback(lambda failure: log.failure("replacing workers", failure))

    async def _replace(self) -> None:
        try:
            for slot in self._slots:
                if self._stopping is not None:
                    return
                await slot.replace()
            log.info("all workers are replaced")
        except StartFailed:
            log.error("a new worker could not be started: the others stay as they are")
        finally:
            self._replacing = False

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, FirstError):
            error = error.subFailure.value
        if isinstance(error, StoreError):
            self.on_failure(error)
        elif not isinstance(error, StartFailed):
            log.failure("The workers could not be started", failure)
        self.exit_code = 1
        stop_reactor(self.reactor)

    def stopService(self) -> Deferred[None]:
        if self._stopping is None:
            super().stopService()
            self._stopping = Deferred.fromCoroutine(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        notify("STOPPING=1")
        if self._listener is not None:
            self._listener.close()  # the workers close theirs; nobody is to wait behind a socket that nobody reads
        await gatherResults([slot.stop() for slot in self._slots])
        await self._foundation.stop_server()
        self._foundation.release()

    @property
    def patience(self) -> float:
        """Seconds from SIGTERM to SIGKILL for a worker that does not end."""
        delay: float = self.options.generic.shutdown_delay_duration
        return _END_TIMEOUT + delay


class _Slot:
    """The place of one worker, which is filled again whenever it is empty."""

    def __init__(self, supervisor: Supervisor, number: int) -> None:
        self._supervisor = supervisor
        self._reactor = supervisor.reactor
        self._number = number
        self.worker: Worker | None = None
        self._leaving: set[Worker] = set()  # replaced, and not ended yet
        self._started = False  # until then nothing is started again
        self._stopped = False
        self._failures = 0
        self._since = 0.0
        self._again: IDelayedCall | None = None

    async def start(self) -> None:
        """Done when a worker is ready; one that somebody kills before is started again.  Raises StartFailed."""
        while not self._stopped:
            self.worker = self._spawn()
            try:
                await self.worker.ready
                break
            except StartFailed as failed:
                if self._stopped:
                    break
                if failed.killed is None:
                    raise
                delay = self._delay(f"ended by signal {failed.killed}")
            await deferLater(self._reactor, delay)
        self._started = True

    def _spawn(self) -> Worker:
        worker = self._supervisor.spawn(self._number)
        self._since = self._reactor.seconds()
        worker.ended.addCallback(self._ended, worker)
        return worker

    def _ended(self, code: int, worker: Worker) -> None:
        self._leaving.discard(worker)
        if worker is not self.worker:
            return
        self.worker = None
        if self._stopped or not self._started:
            return
        delay = self._delay(f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}")
        self._again = self._reactor.callLater(delay, self._restart)

    def _delay(self, why: str) -> float:
        """Seconds until the worker that has ended is started again: longer after ends in a row."""
        if self._reactor.seconds() - self._since > _STEADY_SECONDS:
            self._failures = 0
        delay = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        log.error("worker {n}: {why}; starting it again in {delay} s", n=self._number, why=why, delay=delay)
        return delay

    def _restart(self) -> None:
        if self._stopped:
            return
        try:
            self.worker = self._spawn()
        except Exception as error:  # no descriptors, no memory, no processes: there may be some later
            self._again = self._reactor.callLater(self._delay(f"cannot be started ({error})"), self._restart)
            return
        self.worker.ready.addErrback(lambda failure: failure.trap(StartFailed) and None)

    async def replace(self) -> None:
        """Raises StartFailed; the old worker stays then."""
        old, since = self.worker, self._since
        new = self._spawn()
        try:
            await new.ready
        except StartFailed:
            self._since = since
            raise
        self.worker = new
        if self._stopped:
            new.signal(signal.SIGTERM)
        if old is not None:
            self._leaving.add(old)
            self._end(old)

    def _end(self, worker: Worker) -> None:
        worker.signal(signal.SIGTERM)
        killer = self._reactor.callLater(self._supervisor.patience, worker.signal, signal.SIGKILL)

        def ended(code: int) -> int:
            if killer.active():
                killer.cancel()
            return code

        worker.ended.addCallback(ended)

    def stop(self) -> Deferred[list[None]]:
        """Fires when no process of this slot is left."""
        self._stopped = True
        if self._again is not None and self._again.active():
            self._again.cancel()
        running = [worker for worker in (self.worker, *self._leaving) if worker is not None]
        for worker in running:
            if worker not in self._leaving:
                self._end(worker)
        return gatherResults([_fork(worker.ended) for worker in running])


def _fork(deferred: Deferred[int]) -> Deferred[None]:
    """Fires with it, whoever else waits for it."""
    done: Deferred[None] = Deferred()

    def fire(value: int) -> int:
        done.callback(None)
        return value

    deferred.addCallback(fire)
    return done
