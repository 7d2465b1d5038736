"""The log to a pipe or a socket: a reader that stops, as a program that shows it page by page, does not stop the server.

Upstream has a thread for each request: one that logs would wait, the others go on.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Protocol, TextIO, cast

from kapi.machinery.descriptors import without_waiting

_PATIENCE_MS = 100  # for a reader that is just slow; not again before it has read something


Write = Callable[[bytes], int]  # returns how many bytes were taken; raises BlockingIOError for none


class Stream(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


def writer_without_waiting(file: int) -> tuple[int, Write] | None:
    """A descriptor to wait at, and a function that writes to the same pipe or socket what it takes at once.

    None for others.  A service manager's log is a socket, and may stand still as any reader.
    """
    if stat.S_ISSOCK(os.fstat(file).st_mode):
        connection = socket.socket(fileno=os.dup(file))
        return connection.fileno(), lambda data: connection.send(data, socket.MSG_DONTWAIT)
    own = without_waiting(file)
    return None if own is None else (own, partial(os.write, own))


def patient(stream: Stream) -> Stream:
    """``stream``; or if it is a pipe or a socket a stream to the same that loses lines rather than wait for long."""
    try:
        found = writer_without_waiting(cast(TextIO, stream).fileno())
    except (OSError, ValueError, AttributeError):  # in memory, or none at all
        return stream
    return stream if found is None else PipeStream(*found)


class PipeStream:
    """Over ``take``, which does not block, to the pipe or socket ``file``.

    Any thread may write, and a signal's handler in the middle of a line: who finds somebody writing leaves its line to them.
    """

    def __init__(self, file: int, take: Write) -> None:
        self._file = file
        self._take = take
        self._lines: deque[str] = deque()
        self._writing = Lock()
        self._rest = b""  # of a line that the pipe has taken in part
        self._lost = 0  # lines
        self._stuck = False

    def write(self, text: str) -> None:
        """One event, with the end of its line.  Raises nothing: there is no place to say it."""
        self._lines.append(text)
        while self._lines and self._writing.acquire(blocking=False):
            try:
                while self._lines:
                    self._write(self._lines.popleft())
            finally:
                self._writing.release()

    def _write(self, text: str) -> None:
        if not self._send(self._rest):
            self._lost += 1
            return
        if self._lost:
            note, self._lost = f"{self._lost} lines of the log were lost: nobody read them\n", 0
            text = note + text
        self._send(text.encode("utf-8", "replace"))

    def _send(self, data: bytes) -> bool:
        """False when the pipe is full; what is left of ``data`` goes before the next line."""
        while data:
            try:
                data = data[self._take(data) :]
                self._stuck = False
            except BlockingIOError:
                if self._stuck or not self._wait():
                    self._stuck = True
                    break
            except OSError:  # its reader has gone
                data = b""
        self._rest = data
        return not data

    def _wait(self) -> bool:
        waiting = select.poll()
        waiting.register(self._file, select.POLLOUT)
        return bool(waiting.poll(_PATIENCE_MS))

    def flush(self) -> None:
        """Nothing is kept but what the pipe does not take."""
