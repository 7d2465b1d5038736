"""A TLS connection whose OpenSSL end reads and writes the socket itself.

Twisted's TLS protocol works on two memory buffers: a byte is copied four times, and each write costs two more calls.  Here one
call encrypts and sends, and an idle connection has only OpenSSL's own state.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from OpenSSL import SSL, crypto
from twisted.internet import main, tcp
from twisted.internet.interfaces import IDelayedCall, INegotiated, ISSLTransport
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.process.shares import Flow
from kapi.process.turn import Turn
from kapi.wire.tls.writing import MAX_READS, RECORD_BYTES, TLSWriting

log = Logger()

_MAX_SMALL_READS = 2 * MAX_READS  # the most records that are read in one turn, if they are short
_FIRST_READS = 4  # reads after the handshake that bring the first request of HTTP/1.1 or HTTP/2
_READS_PER_LOOK = 16  # reads without a look for a second record, after a look that found none
_LINGER_SECONDS = 5.0  # seconds for the client to read the last bytes, before the socket is closed
#: what Go's server answers a client that speaks HTTP without TLS
_WRONG_SCHEME = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_SILENT = (-1, "Unexpected EOF")


def _is_plain_http(error: SSL.Error) -> bool:
    if isinstance(error, SSL.SysCallError):
        return False  # of the socket: it has a number where others have a list
    return any("http request" in part for details in error.args[:1] for entry in details or () for part in entry)


@implementer(INegotiated, ISSLTransport)
class TLSConnection(TLSWriting, tcp.Server):
    """A transport.

    ``create`` makes the OpenSSL connection for a socket; ``turn`` decides when it is read and written.  Nothing can be written
    before the handshake is done, that is before the protocol has received its first bytes.
    """

    create: Callable[[socket.socket], SSL.Connection]
    turn: Turn
    #: the error of the handshake; None also for a client that closed the connection without a handshake, as port scans do
    problem: SSL.Error | None = None
    flow: Flow  # the flow of the last request; before the first request, that of a new connection
    _keeps_early = False
    _awaits_read = False  # readable, and waits for its turn; meanwhile the socket is not polled
    _awaits_write = False  # writable, and waits for its turn
    _multiplexed = False
    _skipped_looks = 0  # reads until the next look for a second record
    _reading = False
    _closing: IDelayedCall | None = None  # the timeout that closes the socket
    _first_reads = 0  # reads after the handshake and before the first request: they have a flow of their own

    def __init__(self, sock: socket.socket, *arguments: Any) -> None:
        self._tlsConnection = self.create(sock)
        self._tlsConnection.set_accept_state()
        super().__init__(sock, *arguments)
        self.flow = self._unknown = self.turn.new_connection_flow(str(self.client[0]))

    @property
    def wrappedProtocol(self) -> object:
        """The protocol, under the name that Twisted's TLS transports use."""
        return self.protocol

    @property
    def established(self) -> bool:
        """Whether the handshake was done."""
        return self._established

    @property
    def negotiatedProtocol(self) -> bytes | None:
        """What ALPN chose; None without it."""
        return self._tlsConnection.get_alpn_proto_negotiated() or None

    def getPeerCertificate(self) -> crypto.X509 | None:
        return self._tlsConnection.get_peer_certificate()

    # -- reading

    def startReading(self) -> None:
        if not self._reading:
            self._reading = True
            super().startReading()

    def stopReading(self) -> None:
        self._reading = False
        super().stopReading()

    def doRead(self) -> Any:
        if self.flow is self.turn.alone:
            return self._read_some()
        if self.turn.busy():
            self.reactor.removeReader(self)
            if not self._awaits_read:
                self._awaits_read = True
                self.turn.wait(self._read_late, self._read_flow())
            return None
        before = self.turn.begin(self._read_flow())
        try:
            return self._read_some()
        finally:
            self.turn.end(before)

    def _read_flow(self) -> Flow:
        """The flow that the next read counts for."""
        if not self._first_reads or self.flow is not self._unknown:
            return self.flow
        self._first_reads -= 1
        return self.turn.first_read_flow(str(self.client[0]))

    def _read_late(self) -> None:
        """Does a read that had to wait, as the reactor would."""
        self._awaits_read = False
        if self._reading and self.connected:
            self._act(self._read_some)
            if self._reading and self.connected:
                self.reactor.addReader(self)

    def _act(self, act: Callable[[], Any]) -> None:
        try:
            why = act()
        except Exception as error:
            log.failure("a connection was lost by a fault of the server's")
            why = error
        if why:
            self.connectionLost(Failure(why))

    def _read_some(self) -> Any:
        return self._read() if self._closing is None else self._drain()

    def _may_go_on(self) -> bool:
        """Whether to look for another record: only with HTTP/2, where several requests may come at once.

        A client writes each request separately; requests that are read together are answered together.
        """
        if not self._multiplexed:
            return False
        if self.turn.alone is None and self.turn.over():
            return False
        self._skipped_looks = max(0, self._skipped_looks - 1)
        return not self._skipped_looks

    def _read(self) -> BaseException | None:
        tls = self._tlsConnection
        count = 0
        try:
            if not self._established:
                tls.do_handshake()
                self._established = True
                self._first_reads = _FIRST_READS
                self._multiplexed = self.negotiatedProtocol == b"h2"
                return None
            for count in range(_MAX_SMALL_READS):
                data = tls.recv(RECORD_BYTES)
                self.protocol.dataReceived(data)
                # a record is never read in part: nothing is left in OpenSSL
                if not self._reading or (
                    count + 1 >= MAX_READS if len(data) >= RECORD_BYTES else not self._may_go_on()
                ):
                    break
        except SSL.WantReadError:
            if count == 1:
                self._skipped_looks = _READS_PER_LOOK
            return None
        except SSL.WantWriteError:
            self._read_wants_write = True
            self.startWriting()
        except SSL.ZeroReturnError:
            return main.CONNECTION_DONE
        except SSL.Error as error:
            if not self._established and _is_plain_http(error):
                with suppress(OSError):
                    self.socket.recv(RECORD_BYTES)  # unread bytes would reset the connection and lose the answer
                    self.socket.send(_WRONG_SCHEME)
            if not self._established and error.args != _SILENT:
                self.problem = error
            return main.CONNECTION_LOST
        return None

    # -- writing

    def doWrite(self) -> Any:
        if self.flow is self.turn.alone:
            return super().doWrite()
        if self.turn.busy():
            self.reactor.removeWriter(self)
            if not self._awaits_write:
                self._awaits_write = True
                self.turn.wait(self._write_late, self.flow)
            return None
        before = self.turn.begin(self.flow)
        try:
            return super().doWrite()
        finally:
            self.turn.end(before)

    def _write_late(self) -> None:
        """Does a write that had to wait, as the reactor would."""
        self._awaits_write = False
        if self.connected:
            self.reactor.addWriter(self)
            self._act(super().doWrite)

    # -- ending

    def loseConnection(self, *arguments: object) -> None:
        if not self._established:
            self.abortConnection()  # nothing can be sent before the handshake
        elif not self._writeDisconnected:
            super().loseConnection(*arguments)

    def _postLoseConnection(self) -> Any:
        """Called when all data is written: sends the end, and closes the socket only when the client has closed its side.

        A socket that is closed with unread bytes sends a reset, and then the peer loses what it has not read yet.
        """
        self._close_notify()
        self._writeDisconnected = True
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return main.CONNECTION_LOST
        clock: Any = self.reactor
        self._closing = clock.callLater(_LINGER_SECONDS, self.end)
        self.startReading()
        ended = getattr(self.protocol, "writeConnectionLost", None)
        if ended is not None:
            ended()
        return None

    def end(self) -> None:
        """Closes the socket."""
        self.connectionLost(Failure(main.CONNECTION_DONE))

    def _drain(self) -> BaseException | None:
        """Drops bytes after the end, without decrypting them: they need not be TLS any more."""
        try:
            return None if self.socket.recv(1 << 16) else main.CONNECTION_DONE
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST

    def _close_notify(self) -> None:
        try:
            self._tlsConnection.shutdown()
        except SSL.Error:
            pass  # the socket is full or gone

    def connectionLost(self, reason: Failure) -> None:
        if not hasattr(self, "socket"):
            return
        if self._closing is not None:
            if self._closing.active():
                self._closing.cancel()
        elif self._established and not self._aborting:
            self._close_notify()
        super().connectionLost(reason)
        self.forget_unsent()
        del self._tlsConnection
