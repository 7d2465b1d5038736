"""Outgoing TLS connections: OpenSSL reads and writes the socket itself, as for the server's connections.

The options of ``optionsForClientTLS`` verify names and certificates in the handshake, before anything is sent.
"""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

from OpenSSL import SSL
from twisted.internet import main, tcp
from twisted.internet.interfaces import IHandshakeListener, IOpenSSLClientConnectionCreator
from twisted.python.failure import Failure
from zope.interface import directlyProvides, providedBy

from kapi.process.reactor import Reactor
from kapi.wire.tls.trust import context_of
from kapi.wire.tls.writing import MAX_READS, RECORD_BYTES, TLSWriting

if TYPE_CHECKING:  # commands have no metrics, and should start fast
    from kapi.wire.tls.faults import CertificateFaults, Verify


class SocketOptions(Protocol):
    """Twisted's options of a client, for connections over sockets."""

    def clientConnectionForTLS(self, transport: TLSClient, /) -> SSL.Connection: ...


class TLSClient(TLSWriting, tcp.Client):
    """A transport; ``options`` are a ClientTLSOptions.

    Data that is written before the end of the handshake waits for it.  When the handshake fails, the connection is lost with the
    error of OpenSSL or of the verification of the server's name.
    """

    _reading = False
    _verification_error: BaseException | None = None  # about the server's name

    def __init__(self, options: SocketOptions, *arguments: object) -> None:
        self._options = options
        super().__init__(*arguments)  # type: ignore[no-untyped-call]

    def _connectDone(self) -> None:
        self.setTcpNoDelay(True)
        self._tlsConnection = self._options.clientConnectionForTLS(self)
        self._tlsConnection.set_connect_state()
        super()._connectDone()  # type: ignore[no-untyped-call]
        self.startWriting()  # type: ignore[no-untyped-call]  # the first message of the handshake is ours

    def failVerification(self, reason: Failure) -> None:
        """Called in the handshake, which OpenSSL then ends."""
        self._verification_error = reason.value

    def _handshake_step(self) -> BaseException | None:
        """One step of the handshake."""
        self.stopWriting()  # type: ignore[no-untyped-call]
        try:
            self._tlsConnection.do_handshake()
        except SSL.WantReadError:
            return None
        except SSL.WantWriteError:
            self.startWriting()  # type: ignore[no-untyped-call]
            return None
        except SSL.Error as problem:
            return self._verification_error or _reason(problem)
        self._established = True
        self.startWriting()  # type: ignore[no-untyped-call]  # what was written meanwhile
        if IHandshakeListener.providedBy(self.protocol):
            self.protocol.handshakeCompleted()
        return None

    @property
    def negotiatedProtocol(self) -> bytes | None:
        """What the server has chosen in the handshake (ALPN)."""
        return self._tlsConnection.get_alpn_proto_negotiated() or None

    def startReading(self) -> None:
        self._reading = True
        super().startReading()  # type: ignore[no-untyped-call]

    def stopReading(self) -> None:
        self._reading = False
        super().stopReading()  # type: ignore[no-untyped-call]

    def doRead(self) -> Any:
        return self._read() if self._established else self._handshake_step()

    def _read(self) -> BaseException | None:
        receive = self._tlsConnection.recv
        try:
            for _ in range(MAX_READS):
                data = receive(RECORD_BYTES)
                self.protocol.dataReceived(data)
                if len(data) < RECORD_BYTES or not self._reading:
                    break  # a record is never read in part: nothing is left in OpenSSL
        except SSL.WantReadError:
            pass
        except SSL.WantWriteError:
            self._read_wants_write = True
            self.startWriting()  # type: ignore[no-untyped-call]
        except SSL.ZeroReturnError:
            return main.CONNECTION_DONE
        except SSL.Error as problem:
            return _reason(problem)
        return None

    def doWrite(self) -> Any:
        return super().doWrite() if self._established else self._handshake_step()

    def loseConnection(self, *arguments: object) -> None:
        if self._established:
            super().loseConnection(*arguments)  # type: ignore[no-untyped-call]
        else:
            self.abortConnection()  # without a handshake there is no TLS connection to close

    def connectionLost(self, reason: Failure) -> None:
        if self._established and hasattr(self, "socket") and not self._aborting:
            with suppress(SSL.Error):  # the socket may be full or gone
                self._tlsConnection.shutdown()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]
        self.forget_unsent()


def _reason(problem: SSL.Error) -> Exception:
    """The reason for connectionLost; an end without close_notify is an ordinary ConnectionLost."""
    if isinstance(problem, SSL.SysCallError) or not problem.args or "unexpected eof" in str(problem):
        return main.CONNECTION_LOST
    return problem


class _Connector(tcp.Connector):
    def __init__(self, options: SocketOptions, *arguments: Any) -> None:
        self._options = options
        super().__init__(*arguments)

    def _makeTransport(self) -> TLSClient:
        return TLSClient(self._options, self.host, self.port, self.bindAddress, self, self.reactor)


class TLSReactor:
    """A reactor for an endpoint: its outgoing TCP connections are TLSClients, everything else is the reactor's own.

    ``options`` are what ``optionsForClientTLS`` returns; ``faults`` counts the certificates that servers show; servers may
    choose one of the ``protocols``.
    """

    def __init__(
        self,
        reactor: Reactor,
        options: IOpenSSLClientConnectionCreator,
        faults: CertificateFaults | None = None,
        protocols: Sequence[bytes] = (),
    ) -> None:
        self._reactor = reactor
        self._options: SocketOptions = _copy(options, faults, protocols, lambda transport: transport.socket)
        directlyProvides(self, providedBy(reactor))

    def connectTCP(
        self, host: str, port: int, factory: object, timeout: float = 30.0, bindAddress: object = None
    ) -> tcp.Connector:
        connector = _Connector(self._options, host, port, factory, timeout, bindAddress, self._reactor)
        connector.connect()
        return connector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)


def tls_reactor(
    reactor: Reactor,
    options: IOpenSSLClientConnectionCreator,
    faults: CertificateFaults | None = None,
    protocols: Sequence[bytes] = (),
) -> Reactor:
    """A TLSReactor, which provides the interfaces of the reactor."""
    return cast(Reactor, TLSReactor(reactor, options, faults, protocols))


class _Connection(SSL.Connection):
    """A connection whose certificates ``faults`` counts."""

    faults: CertificateFaults | None = None

    def set_verify(self, mode: int, callback: Verify | None = None) -> None:
        if self.faults is not None and callback is not None:
            callback = self.faults.observing(callback)
        super().set_verify(mode, callback)


def _copy(
    options: IOpenSSLClientConnectionCreator,
    faults: CertificateFaults | None,
    protocols: Sequence[bytes],
    socket_of: Callable[[Any], socket.socket | None],
) -> Any:
    """The same options for connections over ``socket_of(transport)``; None is a connection in memory, as Twisted's own."""
    made: Any = copy.copy(options)
    context = context_of(options)

    def connection(transport: object) -> SSL.Connection:
        found = _Connection(context, socket_of(transport))
        found.faults = faults
        found.set_app_data(transport)
        if protocols:
            found.set_alpn_protos(list(protocols))
        return found

    made._createConnection = connection
    return made


def in_memory(
    options: IOpenSSLClientConnectionCreator, faults: CertificateFaults | None, protocols: Sequence[bytes]
) -> IOpenSSLClientConnectionCreator:
    """As the options of a TLSReactor, for connections in memory."""
    if faults is None and not protocols:
        return options
    made: IOpenSSLClientConnectionCreator = _copy(options, faults, protocols, lambda transport: None)
    return made
