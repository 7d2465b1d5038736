"""Writing of TLS transports, client and server, whose OpenSSL connection uses the socket itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

from OpenSSL import SSL
from twisted.internet import main, tcp
from twisted.internet.error import ConnectionLost

from kapi.request.pending import Pending

RECORD_BYTES = 16384  # the most that a TLS record carries
_PIECE_BYTES = 16 * RECORD_BYTES  # the most that OpenSSL is given in one call
_HELD_BYTES = 96 * 1024  # memory of a connection with waiting data: its objects, and OpenSSL's with one record
_NOTHING: deque[bytes] = deque(maxlen=0)  # shared by all connections without unsent data: a deque takes 600 bytes
MAX_READS = 8  # full records of one connection that are read in one turn of the reactor


class TLSWriting(tcp.Connection):
    """A mixin, to be listed before the transport's class.

    Data is written at once.  What the socket does not take waits here as the objects that were given, not as copies: many
    connections may wait with the same event of a watch.  Meanwhile producers are paused, as by Twisted's transport.
    """

    _tlsConnection: SSL.Connection  # Twisted's TLS transports use this name
    _established = False  # the handshake is done
    _keeps_early = True  # data that is written before the handshake waits for its end; else it is dropped
    #: OpenSSL must write (a message of a handshake) before it can read on
    _read_wants_write = False
    pending: Pending | None = None  # counts the waiting bytes
    unsent_bytes = 0
    _unsent = _NOTHING
    _sent = 0  # bytes of the first object that the socket has taken

    def _read(self) -> BaseException | None:
        """Reads the available data, as ``doRead`` does."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        if not (data and self.connected) or self._writeDisconnected or not (self._established or self._keeps_early):
            return
        sent = 0
        if self._established and not (self._unsent or self._read_wants_write):
            taken = self.writeSomeData(data)
            if taken == len(data):
                return
            sent = taken if isinstance(taken, int) else 0  # a lost connection is reported by the next attempt
        self._wait(data, sent)

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        self.write(b"".join(iovec))

    def _wait(self, data: bytes, sent: int) -> None:
        """Keeps data of which the socket has taken ``sent`` bytes."""
        if not self._unsent:
            self._unsent, self._sent = deque(), sent
            if self.pending is not None:
                self.pending.size += _HELD_BYTES
        self._unsent.append(data)
        self.unsent_bytes += len(data) - sent
        self.startWriting()  # type: ignore[no-untyped-call]
        if self.producer is not None and self.streamingProducer and self.unsent_bytes > self.bufferSize:
            self.producerPaused = True
            self.producer.pauseProducing()  # type: ignore[attr-defined]
        if self.pending is not None:
            self.pending.hold(data)
            self.pending.wait(self)

    def writeSomeData(self, data: bytes | memoryview) -> int | ConnectionLost:
        """How many bytes OpenSSL has taken; a piece that the socket took in part is given to it again, unchanged.

        OpenSSL takes all of a piece, or one record of it when partial writes are enabled, which a server's connections do not do.
        """
        size = len(data)
        sent = 0
        send = self._tlsConnection.send
        try:
            if size <= RECORD_BYTES:
                return send(data) if size else 0
            view = memoryview(data)
            while sent < size:
                sent += send(view[sent : sent + _PIECE_BYTES])
        except (SSL.WantWriteError, SSL.WantReadError):
            pass
        except SSL.Error:
            return main.CONNECTION_LOST
        return sent

    def _next(self) -> bytes:
        """The first waiting object.  Small ones are joined, since each write makes a record."""
        unsent = self._unsent
        parts: list[bytes | memoryview] = [memoryview(unsent[0])[self._sent :]]
        size = len(parts[0])
        for part in islice(unsent, 1, None):
            if size >= RECORD_BYTES or len(part) >= RECORD_BYTES:
                break
            parts.append(part)
            size += len(part)
        if len(parts) == 1:
            return unsent[0]
        joined = b"".join(parts)
        for _ in parts:
            self._release(unsent.popleft())
        unsent.appendleft(joined)
        self._sent = 0
        if self.pending is not None:
            self.pending.hold(joined)
        return joined

    def _send(self) -> BaseException | None:
        """Sends as much of the waiting data as the socket takes."""
        unsent, before = self._unsent, self.unsent_bytes
        while unsent:
            data = self._next()
            taken = self.writeSomeData(memoryview(data)[self._sent :])
            if not isinstance(taken, int):
                return taken
            self._sent += taken
            self.unsent_bytes -= taken
            if self._sent < len(data):
                break
            self._release(unsent.popleft())
            self._sent = 0
        if not unsent:
            self.forget_unsent()  # and the bytes that were counted for it
        elif self.pending is not None and self.unsent_bytes < before:
            self.pending.progress(self)
        return None

    def _release(self, data: bytes) -> None:
        if self.pending is not None:
            self.pending.release(data)

    def forget_unsent(self) -> None:
        """Drops the waiting data."""
        unsent, self._unsent = self._unsent, _NOTHING
        self.unsent_bytes = self._sent = 0
        for data in unsent:
            self._release(data)
        if self.pending is not None and unsent is not _NOTHING:
            self.pending.size -= _HELD_BYTES
            self.pending.leave(self)

    def abortConnection(self) -> None:
        """Ends the connection.  The reactor does so a little later: data that is written until then must not reach the peer."""
        self.forget_unsent()
        self._writeDisconnected = True
        super().abortConnection()  # type: ignore[no-untyped-call]

    #: ends the connection, because the memory is needed for others
    cut_off = abortConnection

    def doWrite(self) -> Any:
        if self._read_wants_write:
            self._read_wants_write = False
            if not (self._unsent or self.disconnecting):
                self.stopWriting()  # type: ignore[no-untyped-call]
            return self._read()
        lost = self._send()
        if lost is not None or self._unsent:
            return lost
        return super().doWrite()  # type: ignore[no-untyped-call]  # with nothing to write: what follows then
