"""An outgoing TLS connection step by step: the handshake, reading, ends."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet import main, tcp
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener, IReactorTCP
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from zope.interface import implementer

from kapi.wire.tls import client as module
from kapi.wire.tls.client import TLSClient, in_memory, tls_reactor
from kapi.wire.tls.faults import CertificateFaults
from kapi.wire.tls.trust import client_options, context_of
from kapi.wire.tls.writing import MAX_READS, RECORD_BYTES
from tests.wire.scripted_tls import FULL, OpenSSL, Reactor


class Protocol:
    def __init__(self) -> None:
        self.data: list[int] = []
        self.lost: list[Any] = []
        self.react: Any = lambda: None

    def dataReceived(self, data: bytes) -> None:
        self.data.append(len(data))
        self.react()

    def connectionLost(self, reason: Failure) -> None:
        self.lost.append(reason.type)


@implementer(IHandshakeListener)
class Listener(Protocol):
    completed = 0

    def handshakeCompleted(self) -> None:
        self.completed += 1


class Transport(TLSClient):
    """Over fakes, connected and readable."""

    def __init__(self, *records: Any, established: bool = True, protocol: Any = None) -> None:
        sock: Any = SimpleNamespace(
            setblocking=lambda on: None, fileno=lambda: -1, shutdown=lambda how: None, close=lambda: None,
            setsockopt=lambda *arguments: None,
        )  # fmt: skip
        tcp.Connection.__init__(self, sock, None, Reactor())  # type: ignore[arg-type]
        self._tlsConnection: Any = OpenSSL()
        self._tlsConnection.problem = SSL.Error()
        self._tlsConnection.records += records
        self.protocol: Any = protocol or Protocol()
        self.connected, self._established = 1, established
        self.connector: Any = SimpleNamespace(connectionLost=lambda reason: None)
        self.startReading()

    @property
    def polled(self) -> tuple[bool, bool]:
        return self in self.reactor.readers, self in self.reactor.writers


@pytest.mark.parametrize(
    ("problem", "result", "writes"),
    [
        (SSL.WantReadError(), None, False),
        (SSL.WantWriteError(), None, True),
        (SSL.SysCallError(104, "ECONNRESET"), main.CONNECTION_LOST, False),
        (SSL.SysCallError(-1, "Unexpected EOF"), main.CONNECTION_LOST, False),
        (SSL.Error(), main.CONNECTION_LOST, False),
        (SSL.Error([("SSL routines", "", "unexpected eof while reading")]), main.CONNECTION_LOST, False),
    ],
)
@pytest.mark.parametrize("reads", [True, False])
def test_a_handshake_that_waits_or_ends(problem: Exception, result: Any, writes: bool, reads: bool) -> None:
    transport = Transport(established=False)
    transport.startWriting()
    transport._tlsConnection.handshakes.append(problem)
    assert (transport.doRead() if reads else transport.doWrite()) is result
    assert (transport.polled, transport._established) == ((True, writes), False)


@pytest.mark.parametrize("verification", [None, ValueError("another name")])
def test_a_handshake_that_fails_tells_why(verification: Exception | None) -> None:
    transport = Transport(established=False)
    problem = SSL.Error([("SSL routines", "", "certificate verify failed")])
    transport._tlsConnection.handshakes.append(problem)
    if verification is not None:
        transport.failVerification(Failure(verification))
    assert transport.doRead() is (verification or problem)


@pytest.mark.parametrize("listens", [True, False])
def test_what_was_written_early_is_sent_after_the_handshake(listens: bool) -> None:
    protocol: Any = Listener() if listens else Protocol()
    transport = Transport(established=False, protocol=protocol)
    transport.write(b"early")
    transport._tlsConnection.handshakes += [SSL.WantReadError(), None]
    assert transport.doWrite() is None and transport.unsent_bytes == 5
    assert transport.doRead() is None and transport.polled == (True, True)
    assert not listens or protocol.completed == 1
    assert transport.doWrite() is None and transport.unsent_bytes == 0
    transport._tlsConnection.alpn = b"h2"
    assert transport.negotiatedProtocol == b"h2"
    transport._tlsConnection.alpn = b""
    assert transport.negotiatedProtocol is None


@pytest.mark.parametrize(
    ("records", "sizes"),
    [
        ([FULL] * (MAX_READS + 1), [RECORD_BYTES] * MAX_READS),
        ([FULL, FULL, b"x", FULL], [RECORD_BYTES, RECORD_BYTES, 1]),
        ([FULL], [RECORD_BYTES]),
        ([FULL[1:], FULL], [RECORD_BYTES - 1]),
    ],
)
def test_full_records_are_read_up_to_a_limit(records: list[bytes], sizes: list[int]) -> None:
    transport = Transport(*records)
    assert transport.doRead() is None and transport.protocol.data == sizes


def test_nothing_more_is_read_once_the_protocol_has_stopped_reading() -> None:
    transport = Transport(FULL, FULL)
    transport.protocol.react = transport.stopReading
    assert transport.doRead() is None and transport.protocol.data == [RECORD_BYTES]
    assert transport.polled == (False, False)
    transport.startReading()
    assert transport.polled == (True, False)


BAD = SSL.Error([("SSL routines", "", "bad record mac")])


@pytest.mark.parametrize(
    ("problem", "result", "writes"),
    [
        (SSL.WantWriteError(), None, True),
        (SSL.ZeroReturnError(), main.CONNECTION_DONE, False),
        (BAD, BAD, False),
        (SSL.SysCallError(104, "ECONNRESET"), main.CONNECTION_LOST, False),
        (SSL.Error([("SSL routines", "", "unexpected eof while reading")]), main.CONNECTION_LOST, False),
    ],
)
def test_how_reading_ends(problem: Exception, result: Any, writes: bool) -> None:
    transport = Transport(FULL, problem)
    assert transport.doRead() is result
    assert (transport.protocol.data, transport.polled) == ([RECORD_BYTES], (True, writes))
    if writes:
        transport._tlsConnection.records.append(b"abc")
        assert transport.doWrite() is None and transport.protocol.data == [RECORD_BYTES, 3]


@pytest.mark.parametrize(("established", "ended"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("aborts", [True, False])
def test_a_lost_connection_is_ended_in_order_where_it_can_be(established: bool, ended: int, aborts: bool) -> None:
    transport = Transport(established=established)
    transport.write(b"")
    connection, protocol = transport._tlsConnection, transport.protocol
    if aborts:
        transport.abortConnection()
        transport.reactor.advance(0)
    else:
        transport.connectionLost(Failure(ConnectionDone()))
    assert connection.ended == (0 if aborts else ended) and len(protocol.lost) == 1
    assert transport.unsent_bytes == 0


def test_without_a_handshake_there_is_nothing_to_end() -> None:
    transport = Transport(established=False)
    transport.write(b"early")
    protocol = transport.protocol
    transport.loseConnection()
    transport.reactor.advance(0)
    assert transport.unsent_bytes == 0 and len(protocol.lost) == 1
    transport = Transport()
    transport.loseConnection()
    assert transport.disconnecting and transport.polled[1]


# -- the options of connections


def test_connections_of_the_reactor_offer_the_protocols_and_count_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Connection(module._Connection):
        def set_alpn_protos(self, protocols: Any) -> None:
            made.append(protocols)

    monkeypatch.setattr(module, "_Connection", Connection)
    options = client_options("x.example", insecure=True)
    faults = CertificateFaults("webhooks")
    for protocols in ([b"h2", b"http/1.1"], []):
        made.clear()
        found: Any = module._copy(options, faults, protocols, lambda transport: None)
        connection: Any = found.clientConnectionForTLS(SimpleNamespace(socket=None))
        assert connection.faults is faults and connection.get_context() is context_of(options)
        assert made == ([protocols] if protocols else [])
        assert found is not options and type(found) is type(options)


@pytest.mark.parametrize(("faults", "protocols"), [(False, ()), (True, ()), (False, (b"h2",)), (True, (b"h2",))])
def test_options_in_memory_are_those_given_when_nothing_is_added(faults: bool, protocols: tuple[bytes, ...]) -> None:
    options = client_options("x.example", insecure=True)
    found = in_memory(options, CertificateFaults("webhooks") if faults else None, protocols)
    assert (found is options) is not (faults or bool(protocols))


@pytest.mark.parametrize("counts", [True, False])
def test_only_verifying_connections_are_counted(counts: bool) -> None:
    context = SSL.Context(SSL.TLS_METHOD)
    connection = module._Connection(context, None)
    faults = CertificateFaults("webhooks")
    seen: list[Any] = []
    faults.observing = lambda callback: seen.append(callback) or callback  # type: ignore[assignment, method-assign]
    if counts:
        connection.faults = faults
    connection.set_verify(SSL.VERIFY_NONE)
    assert seen == []
    verify = copy.copy(lambda *arguments: True)
    connection.set_verify(SSL.VERIFY_PEER, verify)
    assert seen == [verify] * counts


def test_a_reactor_for_tls_is_the_other_but_for_its_connections() -> None:
    inner = MemoryReactorClock()
    reactor: Any = tls_reactor(inner, client_options("x.example", insecure=True))  # type: ignore[arg-type]
    assert IReactorTCP.providedBy(reactor) and reactor.callLater == inner.callLater
