"""The log back end: one line for each event, to standard output or to a file that is rotated by size, age and count.

Upstream: ``plugin/pkg/audit/log`` with lumberjack.  Rotated files are named ``name-2006-01-02T15-04-05.000.ext``.
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
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from twisted.logger import Logger

from kapi.audit.mounts import may_wait
from kapi.audit.record import Record
from kapi.machinery.descriptors import without_waiting

log = Logger()
MEGABYTE = 1024 * 1024
_DAY = 86400
_STAMP = "%Y-%m-%dT%H-%M-%S"
InThread = Callable[[Callable[[], None]], None]


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
        """What is written of them."""
        if self._legacy:
            return "".join([record.legacy() + "\n" for record in records]).encode()
        return b"\n".join([*[record.data for record in records], b""])

    def append(self, data: bytes, patient: bool = True) -> bytes:
        """Writes lines.  Returns what standard output does not take at once; who is ``patient`` waits until it does."""
        if self._limit and self._size + len(data) > self._limit and self._size:
            self._size = os.fstat(self._file).st_size  # somebody may have copied and emptied it
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
        """Called when what ``append`` has returned is not written: the next line is not to continue that one."""
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
        # opened for reading and writing, a FIFO does not wait for a reader
        return os.open(self.path, flags | (os.O_RDWR | os.O_NONBLOCK if fifo else os.O_WRONLY), 0o600)

    def _rotate(self) -> None:
        """Begins a new file; goes on with the old one when that fails."""
        now = self._clock()
        stamp = datetime.fromtimestamp(now, UTC).strftime(_STAMP) + f".{int(now * 1000) % 1000:03d}"
        backup = self.path.with_name(f"{self.path.stem}-{stamp}{self.path.suffix}")
        try:
            with contextlib.suppress(FileNotFoundError):  # removed by hand, or renamed by the last attempt
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
        """Removes old files and compresses the others."""
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
