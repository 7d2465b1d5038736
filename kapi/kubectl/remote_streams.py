"""Connects this process's streams with those of a container (upstream: kubectl ``cmd/exec`` StreamOptions, ``util/term``)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.threads import deferToThreadPool

from kapi.client.errors import StatusError
from kapi.client.remotecommand import STDERR, RemoteCommand
from kapi.kubectl.factory import Factory
from kapi.kubectl.flags import shared
from kapi.kubectl.messages import CommandError
from kapi.kubectl.pods_of import write_bytes
from kapi.wire.upgrade import WebSocketClosed

FLAGS = (*shared("container stdin tty quiet pod-running-timeout"),)
MAX_READ = 32 * 1024  # bytes of input that are read at once


@contextlib.contextmanager
def upgrading() -> Iterator[None]:
    """Says of a request that is refused that its connection was not upgraded."""
    try:
        yield
    except StatusError as error:
        raise CommandError(f"unable to upgrade connection: {error.message}") from None


def has_terminal(factory: Factory, wanted: bool) -> bool:
    """Whether the command gets a terminal, which needs a local terminal and ``--stdin``."""
    if not wanted or not factory.flags.get_bool("stdin"):
        return False
    if factory.stdin.isatty():
        return True
    factory.err.write("Unable to use a TTY - input is not a terminal or the right kind of file\n")
    return False


async def join(factory: Factory, running: RemoteCommand, tty: bool, detach: DetachKeys | None = None) -> int:
    """Copies data until the command ends or ``detach`` is pressed.  Returns the exit code."""
    with _raw(tty):
        return await _join(factory, running, tty, detach)


async def _join(factory: Factory, running: RemoteCommand, tty: bool, detach: DetachKeys | None) -> int:
    if tty:
        size = os.get_terminal_size(factory.stdin.fileno())
        await running.resize(size.columns, size.lines)
    feeding = Deferred.fromCoroutine(_feed(factory, running, detach)) if factory.flags.get_bool("stdin") else None
    try:
        async for channel, data in running:
            write_bytes(factory.err if channel == STDERR else factory.out, data)
    except WebSocketClosed:
        if detach is None or not detach.pressed:
            raise
    finally:
        if feeding is not None:
            feeding.addErrback(lambda why: why.trap(CancelledError, WebSocketClosed))
            feeding.cancel()
    return running.exit_code or 0


async def _feed(factory: Factory, running: RemoteCommand, detach: DetachKeys | None) -> None:
    """Sends standard input, which a thread reads: the reactor cannot wait for a file."""
    source: Any = getattr(factory.stdin, "buffer", factory.stdin)
    pool = factory.reactor.getThreadPool()
    while True:
        data = await deferToThreadPool(factory.reactor, pool, source.read1, MAX_READ)
        if not data:
            await running.end_input()
            return
        if detach is not None:
            data = detach.without(data)
        if data:
            await running.write(data)
        if detach is not None and detach.pressed:
            running.close()
            return


class DetachKeys:
    """Keys that end the session but not the command: ``ctrl-p,ctrl-q``.  Raises CommandError."""

    def __init__(self, text: str) -> None:
        self._keys = b"".join(map(_key, text.split(",")))
        self._held = b""  # may be the beginning of the keys
        self.pressed = False

    def without(self, data: bytes) -> bytes:
        """The bytes to send: those before the keys, without a beginning of the keys."""
        data, self._held = self._held + data, b""
        before, found, _ = data.partition(self._keys)
        if found:
            self.pressed = True
            return before
        for length in range(min(len(self._keys) - 1, len(data)), 0, -1):
            if data.endswith(self._keys[:length]):
                self._held = data[-length:]
                return data[:-length]
        return data


def _key(text: str) -> bytes:
    """The byte of a character, or of ``ctrl-`` with one of ``a-z@[\\]^_``."""
    control, dash, character = text.rpartition("-")
    if len(text) == 1 and text.isascii():
        return text.encode()
    if control == "ctrl" and dash and len(character) == 1 and character.lower() in "@abcdefghijklmnopqrstuvwxyz[\\]^_":
        return bytes((ord(character.upper()) & 0x1F,))
    raise CommandError(f"could not bind detach keys: Unknown character: '{text}'")


@contextlib.contextmanager
def _raw(tty: bool) -> Iterator[None]:
    """With ``tty``, the terminal is in raw mode: each key is sent at once."""
    if not tty:
        yield
        return
    import termios
    from tty import setraw

    before = termios.tcgetattr(sys.stdin)
    setraw(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
