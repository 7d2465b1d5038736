"""What TLS transports of either end have in common whose OpenSSL connection is on the socket itself: writing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from OpenSSL import SSL
from twisted.internet import main, tcp
from twisted.internet.error import ConnectionLost

RECORD = 16384  # bytes that a TLS record carries at most
_PIECE = 16 * RECORD  # bytes that OpenSSL is given in one call
READS = 8  # full records read in one turn, so that others get theirs


class TLSWriting(tcp.Connection):
    """Goes before the transport's class among the bases.

    Writes go out at once; what the socket does not take waits as in the stock transport, producers included.
    """

    _tlsConnection: SSL.Connection  # under the name that Twisted's TLS transports have for it
    _established = False  # the handshake is done
    #: OpenSSL must write (a message of a handshake) before it can read on
    _read_wants_write = False

    def _read(self) -> BaseException | None:
        """Reads what there is, as ``doRead`` does."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        if (
            self._established
            and self.connected
            and not (self.dataBuffer or self._tempDataBuffer or self._read_wants_write or self._writeDisconnected)
        ):
            sent = self.writeSomeData(data)
            if isinstance(sent, int):
                if sent == len(data):
                    return
                data = data[sent:]
        super().write(data)  # type: ignore[no-untyped-call]

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        self.write(b"".join(iovec))

    def writeSomeData(self, data: bytes) -> int | ConnectionLost:
        """How many bytes OpenSSL has taken; a piece that the socket took in part is offered again, unchanged.

        Of a piece OpenSSL takes all, or one record where it may write in part: a server's connections may not.
        """
        size = len(data)
        sent = 0
        send = self._tlsConnection.send
        try:
            if size <= RECORD:
                return send(data) if size else 0
            view = memoryview(data)
            while sent < size:
                sent += send(view[sent : sent + _PIECE])
        except (SSL.WantWriteError, SSL.WantReadError):
            pass
        except SSL.Error:
            return main.CONNECTION_LOST
        return sent

    def forget_unsent(self) -> None:
        """Nobody takes it any more.  A request and its channel lead to each other and here until garbage is collected."""
        self.dataBuffer, self.offset = b"", 0
        self._tempDataBuffer.clear()

    def doWrite(self) -> Any:
        if self._read_wants_write:
            self._read_wants_write = False
            if not (self.dataBuffer or self._tempDataBuffer or self.disconnecting):
                self.stopWriting()  # type: ignore[no-untyped-call]
            return self._read()
        return super().doWrite()  # type: ignore[no-untyped-call]
