"""The log back end: one line for each event, to standard output or to a file that is rotated by size, age and count.

Upstream: ``plugin/pkg/audit/log`` with lumberjack.  Rotated files are named ``name-2006-01-02T15-04-05.000.ext``.

Writing a line to a local disk takes microseconds, less than handing it to a thread.  So the reactor writes as long as writing is
quick.  Writing to a network file system, to a file whose last writes were slow, or to a pipe whose reader has stopped may hang.
Then a thread writes, and only requests whose events the thread has wait.  The order of the lines is kept.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import select
import shutil
import stat
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import monotonic

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kapi.audit.record import Record
from kapi.audit.sinks import MAX_BUFFERED_BYTES, MAX_STOP_SECONDS
from kapi.machinery.descriptors import without_waiting
from kapi.process.reactor import RequestReactor

_OWN_DISKS = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "rootfs", "tmpfs", "xfs", "zfs"}
)
_MOUNTS = Path("/proc/self/mountinfo")
log = Logger()
MEGABYTE = 1024 * 1024
_DAY = 86400
_STAMP = "%Y-%m-%dT%H-%M-%S"
InThread = Callable[[Callable[[], None]], None]
SLOW_SECONDS = 0.1  # after a slower write a thread writes
QUICK_SECONDS = 60.0  # after this time without a slow write the reactor writes again
LATE_SECONDS = 5.0  # a longer write is logged
Result = tuple[Deferred[None], Exception | None, float]  # fired with the result, the error, and the duration in seconds


def may_wait(file: int, path: Path) -> bool:
    """Whether writing to the open ``file`` may block; ``path`` is its place unless it is a pipe or a device."""
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file_system(path) not in _OWN_DISKS
    return bool(os.get_blocking(file)) and not (stat.S_ISCHR(mode) and not os.isatty(file))


def file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system of ``path``; the type of a local disk where the system does not tell it."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return "ext4"
    place = os.path.realpath(path)
    found, longest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), before.split(" ")[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # a later mount hides an earlier one at the same place
            found, longest = after.split(" ")[0], len(point)
    return found


class LogFile:
    """Writes events to a file.

    ``max_size`` is in MB (0: never rotated), ``max_age`` in days, ``max_backups`` in files (0: all are kept).  ``in_thread`` runs
    compression and removal outside the reactor's thread.  Raises OSError when the file cannot be written.  A write to a full FIFO
    without a reader fails; it does not block.  Not thread-safe.
    """

    def __init__(
        self,
        path: str,
        *,
        legacy: bool = False,
        max_size: int = 100,
        max_age: int = 366,
        max_backups: int = 100,
        compress: bool = False,
        in_thread: InThread = lambda work: work(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self._legacy = legacy
        self._limit = max_size * MEGABYTE
        self._age = max_age
        self._backups = max_backups
        self._compress = compress
        self._in_thread = in_thread
        self._clock = clock
        self._stdout = path == "-"
        self._file = -1
        self._size = 0
        self._torn = False  # the last line is incomplete
        self._stuck = False  # the last rotation failed
        if self._stdout:
            self._file = without_waiting(sys.stdout.fileno()) or sys.stdout.fileno()
            self._limit = 0
        else:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = self._open()
            status = os.fstat(self._file)
            self._size = status.st_size
            if not stat.S_ISREG(status.st_mode):  # a FIFO, a device: nothing to rotate
                self._limit = 0
        self.may_wait = may_wait(self._file, Path(f"/proc/self/fd/{self._file}") if self._stdout else self.path)

    def lines(self, records: Sequence[Record]) -> bytes:
        """The lines of the records."""
        if self._legacy:
            return "".join([record.legacy() + "\n" for record in records]).encode()
        return b"\n".join([*[record.data for record in records], b""])

    def append(self, data: bytes, patient: bool = True) -> bytes:
        """Writes lines.  Returns the rest that standard output does not take at once; ``patient``: waits until it does."""
        if self._limit and self._size + len(data) > self._limit and self._size:
            self._size = os.fstat(self._file).st_size  # another program may have copied and emptied it
            if self._size and self._size + len(data) > self._limit:
                self._rotate()
        if self._torn:
            data = b"\n" + data
        written = os.write(self._file, data) if not self._stdout else 0
        if written < len(data):
            return self._write_on(data, written, patient)
        self._torn = False
        self._size += written
        return b""

    def _write_on(self, data: bytes, written: int, patient: bool) -> bytes:
        try:
            while written < len(data):
                try:
                    written += os.write(self._file, data[written:])
                except BlockingIOError:
                    if not self._stdout:
                        raise
                    if not patient:
                        break
                    waiting = select.poll()
                    waiting.register(self._file, select.POLLOUT)
                    waiting.poll()
        except OSError:
            if written:
                self._torn = data[written - 1 : written] != b"\n"
            self._size += written
            raise
        self._torn = False
        self._size += written
        return data[written:]

    def leave_off(self) -> None:
        """Called when the rest that ``append`` returned is not written, so that the next line starts on a new line."""
        self._torn = True

    def close(self) -> None:
        if self._file >= 0 and not (self._stdout and self._file == sys.stdout.fileno()):
            os.close(self._file)
            self._file = -1

    def _open(self) -> int:
        flags = os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            fifo = stat.S_ISFIFO(os.stat(self.path).st_mode)
        except FileNotFoundError:
            fifo = False
        # open() of a FIFO for reading and writing does not wait for a reader
        return os.open(self.path, flags | (os.O_RDWR | os.O_NONBLOCK if fifo else os.O_WRONLY), 0o600)

    def _rotate(self) -> None:
        """Begins a new file; continues the old one when that fails."""
        now = self._clock()
        stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP) + f".{int(now * 1000) % 1000:03d}"
        backup = self.path.with_name(f"{self.path.stem}-{stamp}{self.path.suffix}")
        try:
            with contextlib.suppress(FileNotFoundError):  # removed by an administrator, or renamed by the last attempt
                self.path.rename(backup)
            file = self._open()
        except OSError as error:
            if not self._stuck:
                log.error("the audit log cannot be rotated, and grows: {error}", error=str(error))
            self._stuck = True
            return
        self._stuck = False
        before, self._file = self._file, file
        os.close(before)
        self._size = os.fstat(file).st_size
        self._torn = False
        self._in_thread(lambda: self._tidy(now))

    def _tidy(self, now: float) -> None:
        """Removes old files and compresses the rest."""
        pattern = re.compile(
            re.escape(self.path.stem)
            + r"-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3})"
            + re.escape(self.path.suffix)
            + r"(\.gz)?"
        )
        backups = sorted(
            (match[1], file) for file in self.path.parent.iterdir() if (match := pattern.fullmatch(file.name))
        )
        backups.reverse()
        for position, (stamp, file) in enumerate(backups):
            made = datetime.strptime(stamp[:19], _STAMP).replace(tzinfo=UTC).timestamp()
            too_many = self._backups and position >= self._backups
            if too_many or (self._age and now - made > self._age * _DAY):
                with contextlib.suppress(FileNotFoundError):
                    file.unlink()
            elif self._compress and file.suffix != ".gz":
                _compress(file)


def _compress(file: Path) -> None:
    packed = file.with_name(file.name + ".gz")
    packed.unlink(missing_ok=True)
    descriptor = os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with (
        file.open("rb") as source,
        os.fdopen(descriptor, "wb") as raw,
        gzip.GzipFile(file.name, "wb", fileobj=raw) as target,
    ):
        shutil.copyfileobj(source, target)
    file.unlink()


class LogWriter:
    """Writes from the reactor or from a thread.  ``reactor`` runs calls from the thread; ``seconds`` is a monotonic clock."""

    name = "log"
    immediate = True

    def __init__(self, file: LogFile, reactor: RequestReactor, *, seconds: Callable[[], float] = monotonic) -> None:
        self._file = file
        self._reactor = reactor
        self._seconds = seconds
        self._slow_until = 0.0
        self._bytes = 0  # size of the lines that the thread has
        self._given: dict[Deferred[None], int] = {}  # the thread's work in order, with its size in bytes
        self._progress = 0.0  # when the thread began, or last completed a write
        self._late = False  # whether it was logged that the thread hangs
        self._queue: SimpleQueue[tuple[bytes, Deferred[None]] | None] = SimpleQueue()
        self._results: deque[Result] = deque()
        self._collecting = False
        self._thread: Thread | None = None
        self._closed = False
        self._ended: Deferred[None] | None = None

    def send(self, records: Sequence[Record]) -> Deferred[None] | None:
        """None when the records are written.  Raises OSError when writing fails, or too much waits already."""
        data = self._file.lines(records)
        if self._given or self._file.may_wait or self._slow_until:
            now = self._seconds()
            if self._given or self._file.may_wait or now < self._slow_until:
                return self._hand_over(data, now)
            self._slow_until = 0.0
        before = self._seconds()
        rest = self._file.append(data, patient=False)
        after = self._seconds()
        if after - before > SLOW_SECONDS:
            log.warn("a write to the audit log took {took:.1f} s: a thread goes on with it", took=after - before)
            self._slow_until = after + QUICK_SECONDS
        if not rest:
            return None
        try:
            return self._hand_over(rest, after)
        except OSError:
            self._file.leave_off()
            raise

    def _hand_over(self, data: bytes, now: float) -> Deferred[None]:
        if self._closed:
            raise OSError("the audit log is closed")
        if self._thread is None:
            self._thread = self._begin()
        if self._bytes + len(data) > MAX_BUFFERED_BYTES:
            raise OSError(f"the audit log is {self._bytes} bytes behind")
        if not self._given:
            self._progress = now
        elif not self._late and now - self._progress > LATE_SECONDS:
            self._late = True
            log.error(
                "the audit log has taken nothing for {seconds:.0f} s: requests wait for it",
                seconds=now - self._progress,
            )
        written: Deferred[None] = Deferred(_left)
        self._given[written] = len(data)
        self._bytes += len(data)
        self._queue.put((data, written))
        return written

    def _begin(self) -> Thread:
        thread = Thread(target=self._write, name="audit log", daemon=True)  # its end is waited for, but not long
        try:
            thread.start()
        except RuntimeError as error:  # no more threads: the limit of processes also counts threads
            raise OSError(f"the audit log cannot be written now: {error}") from None
        return thread

    # -- in the thread

    def _write(self) -> None:
        while (work := self._queue.get()) is not None:
            data, written = work
            error: Exception | None = None
            before = self._seconds()
            try:
                self._file.append(data)
            except Exception as caught:
                error = caught
            self._results.append((written, error, self._seconds() - before))
            if not self._collecting:
                self._collecting = True
                self._reactor.callFromThread(self._collect)
        with contextlib.suppress(OSError):
            self._file.close()

    # -- in the reactor's thread again

    def _collect(self) -> None:
        self._collecting = False
        now = self._progress = self._seconds()
        if self._late:
            self._late = False
            log.warn("the audit log is written again")
        while self._results:
            written, error, took = self._results.popleft()
            self._bytes -= self._given.pop(written)
            if took > SLOW_SECONDS:
                self._slow_until = now + QUICK_SECONDS
            if written.called:
                continue
            if error is None:
                written.callback(None)
            else:
                written.errback(error)
        if not self._given:
            self._fire_ended()

    # -- the end

    def close(self) -> Awaitable[None] | None:
        """Ends the thread.  Lines that a hanging disk has not taken in time are lost; the sinks that wait for them count them."""
        self._closed = True
        self._slow_until = inf  # later events are refused by ``_hand_over``
        if self._thread is None:
            self._file.close()
            return None
        self._queue.put(None)
        return self._end() if self._given else None

    async def _end(self) -> None:
        """Waits for the thread, also for lines whose requests have ended.  A disk that hangs already gets no more time."""
        self._ended = Deferred()
        left = MAX_STOP_SECONDS - (self._seconds() - self._progress)
        giving_up = self._reactor.callLater(max(0.0, left), self._give_up)
        await self._ended
        if giving_up.active():
            giving_up.cancel()

    def _give_up(self) -> None:
        late = TimeoutError(f"not written within {MAX_STOP_SECONDS:.0f} seconds before the server's end")
        log.error("the audit log has not taken {bytes} bytes before the server's end", bytes=self._bytes)
        for written in list(self._given):
            if not written.called:
                written.errback(late)
        self._fire_ended()

    def _fire_ended(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.callback(None)


def _left(written: Deferred[None]) -> None:
    """A cancelled request does not wait any more; its lines are still written."""
