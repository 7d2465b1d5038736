"""One connection to the server: txredisapi's protocol, with a faster path for replies that handles them in batches.

txredisapi makes three Deferreds for each command and handles replies one by one.  Here a command is packed by hiredis and has one
Deferred.  All replies that arrive together are handled together: the changes that they report reach the watch cache as one batch,
before the writers resume.

Commands are sent together at the end of the reactor's turn; single writes to the socket would not be sent earlier.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable

import hiredis
import txredisapi
from twisted.internet import defer, tcp
from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IHandshakeListener, IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.protocols.policies import ProtocolWrapper
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.store.entries import Reply
from kapi.store.errors import StoreUnavailable

log = Logger()

#: A sent write: kind, key, expected revision, head, tail, when it was sent (seconds of perf_counter), further arguments, the
#: newest revision that was known then, and the name of its script.
PendingWrite = tuple[str, str, int, bytes, bytes, float, tuple[object, ...], int, bytes]
#: An expected reply: its Deferred, and the write or writes that it answers (None: another command).
Pending = tuple["defer.Deferred[Reply]", "PendingWrite | list[PendingWrite] | None"]
ReplyHandler = Callable[["list[tuple[Pending, Reply]]"], None]
MAX_COMMANDS = 64  # collected commands that are sent without waiting for the end of the turn
_TLS_ALERT = b"\x15\x03"  # the beginning of the answer of a server with TLS to plain text
_MAYBE_TLS = "; if the port speaks TLS, use rediss://"
_MAX_SHOWN_BYTES = 60  # the most bytes of another program's reply that are shown
MAX_SENT_BYTES = 4 * 1024 * 1024  # given to the socket in one turn


class ConnectionGone(Exception):
    """The connection was lost before the reply; a write's outcome is unknown."""


@implementer(IHandshakeListener)
class Connection(txredisapi.HiredisProtocol):  # type: ignore[misc]
    """``on_replies`` gets the batches of replies; the default only fires the Deferreds.

    Without a ``reactor`` each command is sent at once.
    """

    def __init__(self, reactor: IReactorTime | None = None) -> None:
        super().__init__(charset=None)
        self._reactor = reactor
        self._waiting: list[bytes] = []  # commands that are sent together
        self._scheduled = False  # whether ``_end_turn`` will be called
        self.pending: deque[Pending] = deque()
        self.on_replies: ReplyHandler = fire
        self.lost: defer.Deferred[str] = defer.Deferred()
        self.gone = False
        self._why = ""  # why it was aborted
        self.error: Exception = ConnectionGone("the connection was lost")  # the error of unanswered writes
        self.received = 0  # number of replies; a watchdog sees progress by it
        self._over_tls = self._secured = False

    def connectionMade(self) -> None:  # without AUTH and SELECT: see ``log_in``
        self.connected = 1
        self._ready = True
        self._over_tls = isinstance(self.transport, ProtocolWrapper)
        take_large_commands(self.transport)

    def handshakeCompleted(self) -> None:
        self._secured = True

    @property
    def advice(self) -> str:
        """A hint about the URL when the connection was lost before any reply."""
        if self._over_tls:
            return "" if self._secured else "; if the port does not speak TLS, use redis://"
        return "" if self.received or isinstance(self.transport.getPeer(), UNIXAddress) else _MAYBE_TLS

    def connectionLost(self, why: Failure | None = None) -> None:
        self.connected = 0
        self.gone = True
        self._waiting.clear()
        reason = self._why or self._explained(why)
        pending, self.pending = self.pending, deque()
        gone = ConnectionGone(f"the connection was lost: {reason}")
        for deferred, write in pending:
            deferred.errback(gone if write is None else self.error)
        self.lost.callback(reason)

    def _explained(self, why: Failure | None) -> str:
        if why is None:
            return "closed"
        if self._over_tls and why.value is not None:
            from kapi.store.tls import why_lost  # imported only when it is used

            found = why_lost(why.value)
            if found:
                return found
        return why.getErrorMessage() + self.advice

    def dataReceived(self, data: bytes, unpause: bool = False) -> None:
        batch: list[tuple[Pending, Reply]] = []
        reply: Reply = False
        try:
            reader = self._reader
            reader.feed(data)
            pending = self.pending
            reply = reader.gets()
            while reply is not False:
                batch.append((pending.popleft(), reply))
                reply = reader.gets()
        except Exception as error:  # not RESP, or a reply without a command; the replies before it are valid
            why = str(reply if isinstance(reply, Exception) else error) or type(error).__name__
            if reply is not False and not isinstance(reply, Exception):
                why = "a reply that nobody asked for"
            if self.received:  # otherwise it is no store at all, which the failed attempt to connect logs
                log.error("the store's server said what it should not: {error}", error=why)
                self.abort(f"the server said what it should not: {why}")
            elif data.startswith(_TLS_ALERT):
                self.abort("the port speaks TLS: use rediss://")
            else:
                said = ascii(data.splitlines()[0][:_MAX_SHOWN_BYTES])[1:]
                self.abort(f"it is not Redis, it said {said}: {why}")
        if batch:
            self.received += len(batch)
            try:
                self.on_replies(batch)
            except Exception:
                log.failure("the replies of the store's server could not be handed on")
                for (deferred, write), _ in batch:
                    if not deferred.called:
                        deferred.errback(ConnectionGone("its reply was lost") if write is None else self.error)
                self.abort("its replies could not be handed on")

    def execute_command(self, *args: object, **kwargs: object) -> defer.Deferred[Reply]:
        """Sends a command.  Errs with ConnectionGone or the server's error (txredisapi.ResponseError)."""
        deferred: defer.Deferred[Reply] = defer.Deferred()
        self.send(args, (deferred, None))
        return deferred

    def send(self, args: tuple[object, ...], pending: Pending) -> None:
        if self.gone:
            gone = "the connection was lost"
            pending[0].errback(ConnectionGone(gone) if pending[1] is None else StoreUnavailable(gone))
            return
        command = hiredis.pack_command(args)  # type: ignore[arg-type]  # the stub only allows one word
        self.pending.append(pending)  # after the packing: when that fails nothing is sent, and there is no reply
        if self._reactor is None:
            self.transport.write(command)
            return
        waiting = self._waiting
        waiting.append(command)
        if len(waiting) >= MAX_COMMANDS:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._reactor.callLater(0, self._end_turn)

    def _end_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Sends the collected commands now, as far as the socket accepts them, without waiting for the end of the turn."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        transport = self.transport
        try:
            transport.writeSequence(waiting)
            if not transport.disconnecting:
                transport.doWrite()  # its error can be ignored: the reactor meets it again and ends the connection
        except Exception:  # such as a MemoryError: the replies of later commands would go to unsent ones
            log.failure("commands could not be sent to the store's server")
            self.abort("commands could not be sent")

    def abort(self, why: str = "") -> None:
        """Ends the connection.  ``why``, a text for operators, goes to ``lost`` and to all waiting commands."""
        if not self.gone and self.transport is not None:
            self._why = self._why or why
            self.transport.abortConnection()


def take_large_commands(transport: object) -> None:
    """Lets an object of 3 MB be sent in one turn.

    Twisted sends 128 KiB a turn, so every later write would wait for 23 turns.  A UNIX socket needs a larger buffer for that, as
    far as the system allows it; TCP adapts its buffer.
    """
    while isinstance(transport, ProtocolWrapper):  # TLS
        transport = transport.transport
    if isinstance(transport, tcp.Connection):
        transport.SEND_LIMIT = MAX_SENT_BYTES
        handle = transport.getHandle()
        if handle.family == socket.AF_UNIX:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_SENT_BYTES)


def fire(batch: list[tuple[Pending, Reply]]) -> None:
    """Fires the Deferred of each reply."""
    for (deferred, _), reply in batch:
        if isinstance(reply, Exception):
            deferred.errback(reply)
        else:
            deferred.callback(reply)


class ConnectionFactory(Factory):
    noisy = False

    def __init__(self, reactor: IReactorTime | None = None) -> None:
        self._reactor = reactor

    def buildProtocol(self, addr: object) -> Connection:
        return Connection(self._reactor)
