"""Writing of TLS transports, client and server, whose OpenSSL connection uses the socket itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from OpenSSL import SSL
from twisted.internet import main, tcp
from twisted.internet.error import ConnectionLost

RECORD_BYTES = 16384  # that a TLS record carries at most
_PIECE_BYTES = 16 * RECORD_BYTES  # that OpenSSL is given in one call
MAX_READS = 8  # full records that are read in one turn of the reactor, so that other connections are read in it, too


class TLSWriting(tcp.Connection):
    """A mixin, to be listed before the transport's class.

    Data is written at once; what the socket does not take is buffered as in Twisted's transport, and producers are paused.
    """

    _tlsConnection: SSL.Connection  # Twisted's TLS transports use this name
    _established = False  # the handshake is done
    _keeps_early = True  # what is written before that waits for it, else it is dropped
    #: OpenSSL must write (a message of a handshake) before it can read on
    _read_wants_write = False

    def _read(self) -> BaseException | None:
        """Reads the available data, as ``doRead`` does."""
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
        if self._established or self._keeps_early:
            super().write(data)  # type: ignore[no-untyped-call]

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        self.write(b"".join(iovec))

    def writeSomeData(self, data: bytes) -> int | ConnectionLost:
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

    def forget_unsent(self) -> None:
        """Drops unsent data of a closed connection: a cycle of references keeps the transport until garbage is collected."""
        self.dataBuffer, self.offset = b"", 0
        self._tempDataBuffer.clear()

    def doWrite(self) -> Any:
        if self._read_wants_write:
            self._read_wants_write = False
            if not (self.dataBuffer or self._tempDataBuffer or self.disconnecting):
                self.stopWriting()  # type: ignore[no-untyped-call]
            return self._read()
        return super().doWrite()  # type: ignore[no-untyped-call]
