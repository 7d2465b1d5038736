"""The parent of several servers on one port and one store: starts them, replaces those that end, and ends them.

All accept from one listening socket, which stays open while any of them lives.  So no connection is refused when a worker ends or
crashes.  The supervisor holds the data directory and the embedded store's server; it neither listens to clients nor reads the
store.

SIGHUP is passed on to the workers, which read certificates and keys again.  SIGUSR2 replaces them one after the other, each when
its successor is ready.  New code and new files named by flags take effect; connections end as at any server that stops.
"""

from __future__ import annotations

import gc
import os
import shutil
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
from kapi.observability.log_stream import Stream
from kapi.options.errors import ConfigError
from kapi.options.options import Options
from kapi.process.reactor import Reactor
from kapi.serving.listen import ListenError, bind, local_url
from kapi.serving.notify import StartExtension, announcement, notify
from kapi.serving.signals import on_signal, stop_at_signals, stop_reactor
from kapi.store.errors import StoreError
from kapi.store.shared_revisions import make_shared_file
from kapi.workers.output import Output
from kapi.workers.worker import LISTENER, READINESS, REVISIONS

log = Logger()
_BACK_OFF_SECONDS = (0.0, 0.5, 2.0, 5.0)
_STEADY_SECONDS = 30.0  # a worker that lived so long resets the back-off
#: the most processes of each slot at a time: a replaced worker ends only when its requests have ended
_SLOTS_PER_WORKER = 4
_MIN_SLOTS = 16
_KILL_SECONDS = 75.0  # from SIGTERM to SIGKILL, in addition to the shutdown delay


class StartFailed(Exception):
    """A worker ended before it was ready.  It has printed the reason itself, or ``killed`` is the signal that ended it."""

    def __init__(self, killed: int | None = None) -> None:
        super().__init__()
        self.killed = killed


class Worker(ProcessProtocol):
    """One process.

    ``ready`` fires when it serves, and fails with StartFailed when it ends before.  ``ended`` fires with its exit code, -N for
    signal N.
    """

    def __init__(self, output: Output, log_stream: Stream | None = None) -> None:
        self.ready: Deferred[None] = Deferred()
        self.ended: Deferred[int] = Deferred()
        self._standard_output = output
        self._log_stream = log_stream  # gets the worker's standard error
        self._exited = False
        self._lines = {1: b"", 2: b""}  # the incomplete last lines, by descriptor
        self._reload = False  # whether to send SIGHUP as soon as it is ready

    @property
    def pid(self) -> int | None:
        return self.transport.pid if self.transport is not None else None

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        if childFD == READINESS:
            self._announced()
            return
        *lines, self._lines[childFD] = (self._lines[childFD] + data).split(b"\n")
        if not lines:
            return
        whole = b"\n".join([*lines, b""])
        if childFD == 2 and self._log_stream is not None:
            self._log_stream.write(whole.decode("utf-8", "replace"))
            self._log_stream.flush()
        else:
            self._standard_output.write(whole, self)

    def _announced(self) -> None:
        if not self.ready.called:
            self.ready.callback(None)
            if self._reload:
                self.signal(signal.SIGHUP)

    def pause(self) -> None:
        """Stops reading its output, so that the worker waits when it prints much."""
        printed = self._printed()
        if not self._exited and printed is not None:
            printed.stopReading()

    def resume(self) -> None:
        printed = self._printed()
        if printed is not None:
            printed.startReading()

    def _printed(self) -> Any:
        """The reading end of its standard output; None when it is closed."""
        transport: Any = self.transport
        return transport.pipes.get(1) if transport is not None else None

    def processExited(self, reason: Failure) -> None:
        self._exited = True
        self._standard_output.leave(self)

    def reload(self) -> None:
        """Makes it read certificates and keys again, once it handles SIGHUP; before, the signal would end it."""
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


def worker_log_path(path: str, number: int) -> str:
    """The audit log of a worker other than the first, such as ``audit.2.log``: only one process can rotate a file."""
    log = Path(path)
    return str(log.with_name(f"{log.stem}.{number}{log.suffix}"))


class Supervisor(Service):
    """Runs the workers.  ``arguments`` are the command line, which each worker parses again."""

    exit_code = 0

    def __init__(self, options: Options, arguments: Sequence[str], reactor: Reactor, foundation: Foundation) -> None:
        self.options = options
        self.reactor = reactor
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.kubeconfig = foundation.directory / "admin.kubeconfig"
        self.log_stream: Stream | None = None  # where the workers' logs go; None: to standard error, which they inherit
        self._arguments = list(arguments)
        self._foundation = foundation
        self._output = Output(reactor)
        self._extension = StartExtension(reactor)
        self._listener: socket.socket | None = None
        self._revisions = -1  # descriptor of the memory that the workers share
        self._slots: list[_Slot] = []
        self._stopping: Deferred[None] | None = None
        self._replacing = True  # whether workers are being replaced or started

    def prepare(self) -> None:
        """Opens the listening socket and the shared memory.  Raises ConfigError."""
        serving = self.options.serving
        try:
            self._listener = bind(serving.bind_address, serving.secure_port, serving.permit_port_sharing)
        except ListenError as error:
            raise ConfigError(f"--secure-port: {error}") from None
        try:
            self._revisions = make_shared_file(max(_MIN_SLOTS, _SLOTS_PER_WORKER * self.options.processes.workers))
        except OSError as error:
            raise ConfigError(f"--workers: no memory can be shared: {error}") from None
        self.url = local_url(*self._listener.getsockname()[:2])

    def startService(self) -> None:
        super().startService()
        self._extension.begin()
        for number, action in ((signal.SIGHUP, self.reload), (signal.SIGUSR2, self.replace)):
            on_signal(number, partial(self.reactor.callFromThread, action))
        self.reactor.callWhenRunning(stop_at_signals, self.reactor, self._signalled_again)
        Deferred.fromCoroutine(self._start()).addErrback(self._failed)

    async def _start(self) -> None:
        gc.enable()  # the start has disabled it, as in a server
        await self._foundation.start_server()
        if not self.running:
            return
        count = self.options.processes.workers
        self._slots = [_Slot(self, number) for number in range(1, count + 1)]
        await self._slots[0].start()  # alone: so an error is reported once, and shared files are made once
        if self._stopping is not None:
            return
        self._foundation.supervise_server()
        await gatherResults([Deferred.fromCoroutine(slot.start()) for slot in self._slots[1:]], consumeErrors=True)
        if self._stopping is not None:
            return
        self._replacing = False
        self._extension.end()
        notify("READY=1")
        address = self.options.serving.bind_address
        print(announcement(self.url, self.kubeconfig, address, terminal=sys.stdout.isatty()), flush=True)

    def spawn(self, number: int) -> Worker:
        """Starts a process for a slot, by its number."""
        assert self._listener is not None
        worker = Worker(self._output, self.log_stream)
        flags = [*self._arguments, f"--secure-port={self._listener.getsockname()[1]}"]
        log_path = self.options.audit.audit_log_path
        if number > 1 and log_path not in ("", "-"):
            flags.append(f"--audit-log-path={worker_log_path(log_path, number)}")
        # until the worker watches the supervisor itself, the kernel ends both together: the worker's listening socket would block
        # the next supervisor
        setpriv = shutil.which("setpriv")  # some platforms lack it
        command = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        command += [sys.executable, "-m", "kapi.workers.worker", *flags]
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        streams: dict[int, str | int] = {
            0: "w",
            1: "r",
            2: 2 if self.log_stream is None else "r",
            LISTENER: self._listener.fileno(),
            REVISIONS: self._revisions,
            READINESS: "r",
        }
        self.reactor.spawnProcess(worker, command[0], command, env=environment, path=None, childFDs=streams)
        return worker

    def reload(self) -> None:
        for slot in self._slots:
            if slot.worker is not None:
                slot.worker.reload()

    def replace(self) -> None:
        """Replaces one worker after the other.  Does nothing while workers are being replaced or started."""
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

    def _signalled_again(self) -> None:
        """Ends the workers at once at a second signal, as in a server with one process."""
        for slot in self._slots:
            slot.kill()
        os._exit(1)

    async def _stop(self) -> None:
        self._extension.end()
        notify("STOPPING=1")
        if self._listener is not None:
            self._listener.close()  # the workers close theirs; clients must not wait at a socket that nobody accepts from
        await gatherResults([slot.stop() for slot in self._slots])
        await self._output.end()
        await self._foundation.stop_server()
        self._foundation.release()

    @property
    def kill_timeout(self) -> float:
        """Seconds from SIGTERM to SIGKILL for a worker that does not end."""
        delay: float = self.options.generic.shutdown_delay_duration
        return _KILL_SECONDS + delay


class _Slot:
    """Keeps one worker running: starts it again whenever it ends."""

    def __init__(self, supervisor: Supervisor, number: int) -> None:
        self._supervisor = supervisor
        self._reactor = supervisor.reactor
        self._number = number
        self.worker: Worker | None = None
        self._replaced: set[Worker] = set()  # workers that have successors, and have not ended yet
        self._started = False  # before the first start, ``start`` handles the end of a worker
        self._stopped = False
        self._failures = 0
        self._since = 0.0
        self._restart_call: IDelayedCall | None = None

    async def start(self) -> None:
        """Returns when a worker is ready; a worker that is killed before is started again.  Raises StartFailed."""
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
        self._replaced.discard(worker)
        if worker is not self.worker:
            return
        self.worker = None
        if self._stopped or not self._started:
            return
        delay = self._delay(f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}")
        self._restart_call = self._reactor.callLater(delay, self._restart)

    def _delay(self, why: str) -> float:
        """Seconds until the worker that has ended is started again: longer after ends in a row."""
        if self._reactor.seconds() - self._since > _STEADY_SECONDS:
            self._failures = 0
        delay = _BACK_OFF_SECONDS[min(self._failures, len(_BACK_OFF_SECONDS) - 1)]
        self._failures += 1
        log.error("worker {n}: {why}; starting it again in {delay} s", n=self._number, why=why, delay=delay)
        return delay

    def _restart(self) -> None:
        if self._stopped:
            return
        try:
            self.worker = self._spawn()
        except Exception as error:  # no descriptors, memory or processes: it is tried again later
            self._restart_call = self._reactor.callLater(self._delay(f"cannot be started ({error})"), self._restart)
            return
        self.worker.ready.addErrback(lambda failure: failure.trap(StartFailed) and None)

    async def replace(self) -> None:
        """Starts a new worker, then ends the old one.  Raises StartFailed; then the old worker stays."""
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
            self._replaced.add(old)
            self._end(old)

    def _end(self, worker: Worker) -> None:
        worker.signal(signal.SIGTERM)
        killer = self._reactor.callLater(self._supervisor.kill_timeout, worker.signal, signal.SIGKILL)

        def ended(code: int) -> int:
            if killer.active():
                killer.cancel()
            return code

        worker.ended.addCallback(ended)

    def stop(self) -> Deferred[list[None]]:
        """Fires when no process of this slot is left."""
        self._stopped = True
        if self._restart_call is not None and self._restart_call.active():
            self._restart_call.cancel()
        running = self._running()
        for worker in running:
            if worker not in self._replaced:
                self._end(worker)
        return gatherResults([_when_fired(worker.ended) for worker in running])

    def kill(self) -> None:
        """Ends its processes at once."""
        for worker in self._running():
            worker.signal(signal.SIGKILL)

    def _running(self) -> list[Worker]:
        return [worker for worker in (self.worker, *self._replaced) if worker is not None]


def _when_fired(deferred: Deferred[int]) -> Deferred[None]:
    """A new Deferred that fires when ``deferred`` does."""
    done: Deferred[None] = Deferred()

    def fire(value: int) -> int:
        done.callback(None)
        return value

    deferred.addCallback(fire)
    return done
