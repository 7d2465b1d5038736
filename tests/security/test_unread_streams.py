"""Clients that do not read, of every kind of answer and stream: the other end is slowed down, and what waits is counted."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.bench.http2 import Http2, Request, block
from tests.bench.load import Target
from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import MERGE, Attacker, memory, most_until_rest
from tests.security.flood import GROUP, OWN, PASSED_ON, Flood, Stream, flood, objects
from tests.security.test_unread import LIMIT, SPARE, unread
from tests.waiting import until

CLIENTS = 6  # of each kind, at once; bench has the case of 1,000 of one kind
MAPS = "/api/v1/namespaces/default/configmaps"
ROWS = {**OWN, **PASSED_ON}


@pytest.fixture(scope="module")
def flooding() -> Iterator[Flood]:
    with flood() as made:
        yield made


@pytest.fixture(scope="module")
def bounded(flooding: Flood) -> Iterator[ServerProcess]:
    process = ForkedServer(f"--max-pending-bytes={LIMIT}", "--enable-console").start()
    admin = Attacker(process, "admintoken")
    for number in range(40):
        admin.create(MAPS, {"metadata": {"name": f"m{number}"}, "data": {"text": "x" * 100_000}})
    for method, path, body in objects(flooding):
        answer = admin.ask(method, path, body, MERGE if method == "PATCH" else "application/json")
        assert answer.status in (200, 201), answer
    services = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{GROUP}"
    until(lambda: b'"True"' in admin.ask("GET", services).body)
    yield process
    assert process.stop() == 0


def not_read(admin: Attacker, stream: Stream, port: int) -> ssl.SSLSocket:
    body = b"{}" if stream.method == "POST" and "Content-Length: 2" in stream.headers else b""
    return unread(admin, stream.path.replace("PORT", str(port)), *stream.headers, method=stream.method, body=body)


def test_clients_that_do_not_read_take_little(bounded: ServerProcess, flooding: Flood) -> None:
    admin, process = Attacker(bounded, "admintoken"), bounded.process
    assert process is not None
    for name, stream in ROWS.items():
        with closing(not_read(admin, stream, flooding.port)) as first:
            begin = first.recv(12)
            assert begin in (b"HTTP/1.1 200", b"HTTP/1.1 101"), (name, begin)
    before = memory(process.pid)
    opened = [not_read(admin, stream, flooding.port) for stream in ROWS.values() for _ in range(CLIENTS)]
    most = most_until_rest(process.pid)
    for connection in opened:
        connection.close()
    print(f"{len(opened)} clients: {before >> 20} MB before, {most >> 20} at most")
    assert most - before < LIMIT + SPARE
    assert admin.ask("GET", "/readyz").status == 200


def test_streams_of_http2_that_are_not_read_take_little(bounded: ServerProcess, flooding: Flood) -> None:
    admin, process = Attacker(bounded, "admintoken"), bounded.process
    assert process is not None
    target = Target(bounded.url, "admintoken", str(bounded.authority))
    before, opened = memory(process.pid), []
    for stream in ROWS.values():
        if stream.method == "GET" and "Upgrade" not in str(stream.headers):
            fields = {name.replace("-", "_"): value for name, value in (line.split(": ") for line in stream.headers)}
            path = stream.path.replace("PORT", str(flooding.port))
            opened.append(Http2(target, target.context()))
            for _ in range(CLIENTS):
                opened[-1].begin(Request(block(target, "GET", path, **fields)))
    most = most_until_rest(process.pid)
    for connection in opened:
        connection.close()
    print(f"{len(opened)} connections: {before >> 20} MB before, {most >> 20} at most")
    assert most - before < LIMIT + SPARE
    assert admin.ask("GET", "/readyz").status == 200
