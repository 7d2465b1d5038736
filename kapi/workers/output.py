"""Standard output, to which the supervisor passes on what its workers print, such as the audit log ``-``.

A pipe whose reader has stopped blocks the workers that print, as it blocks a single process.  It does not block the supervisor,
which must be able to replace and stop them.
"""

from __future__ import annotations

import sys
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from kapi.observability.log_stream import Write, writer_without_waiting

_LOOK_SECONDS = 0.05  # between two checks that the pipe takes more
MAX_END_SECONDS = 5.0  # the most time for a slow reader when the supervisor ends


class Source(Protocol):
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Output:
    """Writes whole lines in the order in which they come."""

    def __init__(self, reactor: IReactorTime) -> None:
        self._reactor = reactor
        self._take: Write | None = None  # None: standard output is no pipe or socket
        self._opened = False
        self._rest = b""  # bytes that the pipe has not taken
        self._paused: set[Source] = set()
        self._call: IDelayedCall | None = None
        self._progress = 0.0  # reactor seconds when the pipe last took bytes
        self._ended: Deferred[None] | None = None

    def write(self, lines: bytes, source: Source) -> None:
        """Writes lines; ``source`` is paused until all are written."""
        if not self._opened:
            self._opened = True
            found = writer_without_waiting(sys.stdout.fileno())
            self._take = None if found is None else found[1]
        if self._take is None:
            sys.stdout.buffer.write(lines)
            sys.stdout.flush()
            return
        self._rest += lines
        if self._call is None:
            self._go_on()
        if self._rest:
            self._paused.add(source)
            source.pause()

    def leave(self, source: Source) -> None:
        """Called when the process of a source has ended: its output is read to the end."""
        if source in self._paused:
            self._paused.remove(source)
            source.resume()

    def end(self) -> Deferred[None]:
        """Fires when all is written, or when the reader takes nothing any more."""
        self._ended = Deferred()
        self._progress = self._reactor.seconds()
        if not self._rest:
            self._fire_ended()
        return self._ended

    def _fire_ended(self) -> None:
        if self._ended is not None and not self._ended.called:
            self._ended.callback(None)

    def _go_on(self) -> None:
        self._call = None
        assert self._take is not None
        now = self._reactor.seconds()
        try:
            while self._rest:
                self._rest = self._rest[self._take(self._rest) :]
                self._progress = now
        except BlockingIOError:
            if self._ended is not None and now - self._progress >= MAX_END_SECONDS:
                self._fire_ended()
            else:
                self._call = self._reactor.callLater(_LOOK_SECONDS, self._go_on)
            return
        except OSError:  # the reader has closed the pipe
            self._rest = b""
        self._fire_ended()
        paused, self._paused = self._paused, set()
        for source in paused:
            source.resume()
