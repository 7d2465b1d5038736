"""Writes the log to a pipe or a socket without blocking the server when the reader stops, such as a pager.

Upstream has a thread for each request, so only a thread that logs would wait.
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

_PATIENCE_MS = 100  # wait for a slow reader; not again before it has read some bytes

Write = Callable[[bytes], int]  # returns the number of bytes taken; raises BlockingIOError for none


class Stream(Protocol):
    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


def writer_without_waiting(file: int) -> tuple[int, Write] | None:
    """A descriptor to wait at, and a function that writes to the same pipe or socket without blocking.

    None for other files.  The log of a service manager is a socket, whose reader may stop too.
    """
    if stat.S_ISSOCK(os.fstat(file).st_mode):
        connection = socket.socket(fileno=os.dup(file))
        return connection.fileno(), lambda data: connection.send(data, socket.MSG_DONTWAIT)
    own = without_waiting(file)
    return None if own is None else (own, partial(os.write, own))


def patient(stream: Stream) -> Stream:
    """``stream``; for a pipe or a socket a stream to the same file that drops lines instead of waiting for long."""
    try:
        found = writer_without_waiting(cast(TextIO, stream).fileno())
    except (OSError, ValueError, AttributeError):  # a stream in memory, or None
        return stream
    return stream if found is None else PipeStream(*found)


class PipeStream:
    """A stream to the pipe or socket ``file``, by ``take``, which does not block.

    Any thread may write, and a signal handler may write in the middle of a line: a writer that finds another one at work leaves
    its line to it.
    """

    def __init__(self, file: int, take: Write) -> None:
        self._file = file
        self._take = take
        self._lines: deque[str] = deque()
        self._writing = Lock()
        self._rest = b""  # the rest of a line of which the pipe has taken a part
        self._lost = 0  # number of dropped lines
        self._stuck = False

    def write(self, text: str) -> None:
        """Writes one event, with the end of its line.  Raises nothing, since an error could not be logged."""
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
        """Writes ``data``.  False when the pipe is full; the rest of ``data`` is then written before the next line."""
        while data:
            try:
                data = data[self._take(data) :]
                self._stuck = False
            except BlockingIOError:
                if self._stuck or not self._wait():
                    self._stuck = True
                    break
            except OSError:  # the reader has closed the pipe
                data = b""
        self._rest = data
        return not data

    def _wait(self) -> bool:
        waiting = select.poll()
        waiting.register(self._file, select.POLLOUT)
        return bool(waiting.poll(_PATIENCE_MS))

    def flush(self) -> None:
        """Does nothing, since only bytes that the pipe does not take are buffered."""
