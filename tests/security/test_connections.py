"""Connections that are slow, large, malformed or many (class 18; slow headers, long targets, watch floods, TLS)."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import ExitStack, suppress

import h2.config
import h2.connection
import h2.exceptions
import pytest
from h2.errors import ErrorCodes

from kapi.serving import connections as limits
from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import Attacker, cpu, memory
from tests.waiting import MAX_WAIT, until

MAPS = "/api/v1/namespaces/default/configmaps"


def status(received: bytes) -> int:
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize(
    "target", [b"/a\x00b", b"/a\x01b", b"/a\x7fb", b"/a\tb", b"/a\x1b[2J", b"/a b", b"", b"a", b"\xff"]
)
def test_targets_with_control_characters(admin: Attacker, target: bytes) -> None:
    head = b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert status(admin.raw(head)) == 400


@pytest.mark.parametrize(
    "lines",
    [
        b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: -1",
        b"Content-Length: 0x5", b"Content-Length: ", b" folded: x", b"no colon",
        b": empty", b"bad name: x", b"a\x00b: x", b"a: \x00", b"a: b\rc: d", b"X-Remote-User\x0b: admin",
    ],
)  # fmt: skip
def test_requests_that_two_parsers_read_differently(admin: Attacker, lines: bytes) -> None:
    """What follows must not be taken for a request of its own."""
    inner = b"0\r\n\r\nGET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    head = b"POST " + MAPS.encode() + b" HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n\r\n" + inner
    received = admin.raw(head)
    assert status(received) in (400, 413, 501), received[:300]
    assert received.count(b"HTTP/1.1 ") == 1, received[:1000]
    assert b"gitVersion" not in received


def test_nothing_is_read_after_an_answer_that_ends_the_connection(admin: Attacker) -> None:
    """A proxy believes the answer; what follows on its connection may be somebody else's."""
    for head in (
        admin.head("/api/%zz"),
        admin.head("/version", "Connection: close"),
        admin.head("/api/v1/nodes/%zz/proxy/x", "Content-Length: 0", method="POST"),
    ):
        received = admin.raw(head + admin.head("/version"))
        assert received.count(b"HTTP/1.1 ") == 1, received
        assert b"\r\nconnection: close\r\n" in received.lower()


def test_an_absolute_target_is_that_path(admin: Attacker) -> None:
    head = admin.head(f"http://elsewhere.example.com{MAPS}?limit=1", "Connection: close")
    received = admin.raw(head)
    assert status(received) == 200
    assert b"ConfigMapList" in received


@pytest.mark.parametrize("size", [(1 << 20) + 4096, 4 << 20])
def test_large_heads_are_refused(server: ServerProcess, admin: Attacker, size: int) -> None:
    assert server.process is not None
    before = memory(server.process.pid)
    for head in (
        b"GET /" + b"a" * size + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * size + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X%d: a\r\n" % n for n in range(size // 10)) + b"\r\n",
    ):
        received = b""
        with suppress(OSError):
            received = admin.raw(head)
        assert status(received) in (0, 400, 414, 431), received[:200]
    assert memory(server.process.pid) - before < 50 << 20
    assert admin.ask("GET", "/readyz").status == 200


class Impatient(ForkedServer):
    program = "tests.security.impatient"


def test_heads_that_never_end_are_not_waited_for() -> None:
    """A line at a time keeps nobody's connection open for ever."""
    with Impatient() as server, Attacker(server).connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        end = time.monotonic() + MAX_WAIT
        connection.settimeout(0.1)
        with pytest.raises((OSError, ssl.SSLError, EOFError)):
            while time.monotonic() < end:  # tests/serving/test_connections.py shows when
                connection.sendall(b"X: y\r\n")
                with suppress(TimeoutError):
                    if not connection.recv(1000):
                        raise EOFError


def test_many_slow_clients_do_not_shut_others_out(admin: Attacker) -> None:
    with ExitStack() as stack:
        for _ in range(200):
            slow = stack.enter_context(admin.connect())
            slow.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX")
        for _ in range(50):
            plain = stack.enter_context(socket.create_connection((admin.host, admin.port), MAX_WAIT))
            plain.sendall(b"\x16\x03\x01")
        started = time.monotonic()
        assert admin.ask("GET", f"{MAPS}?limit=1").status == 200
        assert time.monotonic() - started < limits.HANDSHAKE_TIMEOUT, "it has waited until the others were given up"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_tls_is_refused(admin: Attacker, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(str(admin.server.authority))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = version
        context.maximum_version = version
    with socket.create_connection((admin.host, admin.port), MAX_WAIT) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname=admin.host)


def test_tls_is_not_negotiated_again(admin: Attacker) -> None:
    """A renegotiation costs the server a handshake and the client a message."""
    from OpenSSL import SSL

    context = SSL.Context(SSL.TLS_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    with socket.create_connection((admin.host, admin.port), MAX_WAIT) as plain:
        connection = SSL.Connection(context, plain)
        connection.set_connect_state()
        plain.setblocking(True)
        connection.do_handshake()
        with pytest.raises(SSL.Error):
            connection.renegotiate()
            for _ in range(5):
                connection.do_handshake()
                connection.send(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n")
                connection.recv(100)
            if connection.total_renegotiations() == 0:
                raise SSL.Error("refused")
    assert admin.ask("GET", "/readyz").status == 200


class HTTP2:
    """An HTTP/2 client that does what it likes."""

    def __init__(self, attacker: Attacker) -> None:
        context = ssl.create_default_context(cafile=str(attacker.server.authority))
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection((attacker.host, attacker.port), MAX_WAIT)
        self.socket = context.wrap_socket(plain, server_hostname=attacker.host)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self.headers = [
            (":method", "GET"), (":path", f"{MAPS}?limit=1"), (":scheme", "https"), (":authority", attacker.host),
            ("authorization", f"Bearer {attacker.token}"),
        ]  # fmt: skip

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def ended(self, seconds: float = MAX_WAIT) -> bool:
        """Whether the server ends the connection, by GOAWAY or otherwise."""
        self.socket.settimeout(seconds)
        try:
            while data := self.socket.recv(65536):
                if any(type(event).__name__ == "ConnectionTerminated" for event in self.h2.receive_data(data)):
                    return True
        except (TimeoutError, h2.exceptions.ProtocolError):
            return False
        except OSError:
            return True
        return True


def test_rapid_resets_end_the_connection(server: ServerProcess, admin: Attacker) -> None:
    """CVE-2023-44487: requests that are cancelled at once cost the client nothing and must not cost the server much."""
    assert server.process is not None
    lines, before = len(server.output), cpu(server.process.pid)
    client = HTTP2(admin)
    with suppress(OSError):
        for _ in range(40):
            for _ in range(50):
                stream = client.h2.get_next_available_stream_id()
                client.h2.send_headers(stream, client.headers, end_stream=True)
                client.h2.reset_stream(stream, ErrorCodes.CANCEL)
            client.flush()
    assert client.ended()
    assert cpu(server.process.pid) - before < 5
    assert admin.ask("GET", "/readyz").status == 200
    assert len(server.output) - lines < 10
    assert not any("Traceback" in line for line in server.output[lines:])


def test_headers_without_end_end_the_connection(server: ServerProcess, admin: Attacker) -> None:
    """CVE-2023-45288: CONTINUATION frames until somebody stops."""
    assert server.process is not None
    before, size = cpu(server.process.pid), memory(server.process.pid)
    client = HTTP2(admin)
    block = b"\x00\x04name\x81\xff" * 1000
    frame = len(block).to_bytes(3, "big") + b"%c\x00" + (1).to_bytes(4, "big")
    with suppress(OSError):
        client.socket.sendall((frame % 1) + block)
        for _ in range(2000):
            client.socket.sendall((frame % 9) + block)
    assert client.ended()
    assert cpu(server.process.pid) - before < 5
    assert memory(server.process.pid) - size < 50 << 20
    assert admin.ask("GET", "/readyz").status == 200


@pytest.mark.parametrize("kind", ["ping", "settings", "priority", "empty data", "window"])
def test_floods_of_small_frames_do_not_hold_the_server(server: ServerProcess, admin: Attacker, kind: str) -> None:
    assert server.process is not None
    size, before = memory(server.process.pid), cpu(server.process.pid)
    client = HTTP2(admin)
    frames = {
        "ping": b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"x" * 8,
        "settings": b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        "priority": b"\x00\x00\x05\x02\x00\x00\x00\x00\x07\x00\x00\x00\x00\x10",
        "empty data": b"\x00\x00\x00\x00\x00\x00\x00\x00\x01",
        "window": b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01",
    }
    client.socket.settimeout(5)
    with suppress(OSError):
        for _ in range(100):
            client.socket.sendall(frames[kind] * 500)
    assert admin.ask("GET", f"{MAPS}?limit=1").status == 200
    assert cpu(server.process.pid) - before < 5
    client.socket.close()
    assert memory(server.process.pid) - size < 50 << 20


def test_resets_of_connections_are_no_tracebacks(server: ServerProcess, admin: Attacker) -> None:
    lines = len(server.output)
    for data in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x80" * 3000):
        for _ in range(20):
            plain = socket.create_connection((admin.host, admin.port), MAX_WAIT)
            plain.sendall(data)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            plain.close()
    for _ in range(20):
        connection = admin.connect()
        connection.sendall(admin.head(MAPS + "?watch=1"))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        socket.socket.close(connection)
    assert admin.ask("GET", "/readyz").status == 200
    told = server.output[lines:]
    assert not any("Traceback" in line for line in told), told
    assert len(told) < 20, told


def test_watches_that_nobody_reads_do_not_shut_others_out(
    server: ServerProcess, admin: Attacker, namespace: str
) -> None:
    """A flood of watches; what they cost goes when they go."""
    assert server.process is not None
    with ExitStack() as stack:
        for number in range(300):
            watch = stack.enter_context(admin.connect())
            watch.sendall(admin.head(f"/api/v1/configmaps?watch=1&labelSelector=a%3D{number}"))
        before = cpu(server.process.pid)
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        for number in range(20):
            admin.create(
                path, {"metadata": {"name": f"m{number}", "labels": {"a": str(number)}}, "data": {"a": "x" * 10_000}}
            )
        assert cpu(server.process.pid) - before < 10

    def watches() -> int:
        text = admin.ask("GET", "/metrics").body.decode()
        found = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
        return sum(int(float(line.rpartition(" ")[2])) for line in found if 'resource="configmaps"' in line)

    until(lambda: watches() < 5)
