"""How answers are framed: the bytes on the connection, and whether it goes on, for each way to send one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.testing import StringTransport

from tests.serving.test_channel import Runner, connected

Answer = Callable[[Any], None]
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
OLD, KEPT = b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
CLOSING = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"


def pieces(*parts: bytes, code: int = 200, **headers: bytes) -> Answer:
    """An answer that is written piece by piece."""

    def answer(http: Any) -> None:
        http.setResponseCode(code)
        for name, value in headers.items():
            http.responseHeaders.setRawHeaders(name.replace("_", "-").encode(), [value])
        for part in parts:
            http.write(part)
        http.finish()

    return answer


def whole(body: bytes, *fields: tuple[bytes, bytes], code: int = 200) -> Answer:
    def answer(http: Any) -> None:
        http.setResponseCode(code)
        http.responseHeaders.setRawHeaders(b"x-a", [b"1"])
        http.write_whole(fields, body)

    return answer


def begun(size: int, *parts: bytes) -> Answer:
    """An answer whose length is known when it begins."""

    def answer(http: Any) -> None:
        http.begin([(b"content-type", b"t")], size)
        for part in parts:
            http.write(part)
        http.finish()

    return answer


@pytest.mark.parametrize(
    ("request_", "answer", "sent", "goes_on"),
    [
        (GET, pieces(b"ab", content_length=b"2"), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", True),
        (GET, pieces(b"ab", b"c"), CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", True),
        (GET, pieces(b"", b"x" * 17), CHUNKED + b"11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n", True),
        (GET, pieces(b"ab", connection=b"close", content_length=b"2"),
         b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", False),
        (CLOSING, pieces(b"ab", content_length=b"2"),
         b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", False),
        (HEAD, pieces(b"ab", content_length=b"2"), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", True),
        (HEAD, pieces(b"ab", b"c"), b"HTTP/1.1 200 OK\r\n\r\n", True),
        *((GET, pieces(b"ab", code=code), b"HTTP/1.1 %d %s\r\n\r\n" % (code, text), True)
          for code, text in ((204, b"No Content"), (304, b"Not Modified"))),
        (OLD, pieces(b"ab", content_length=b"2"), b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", False),
        (OLD, pieces(b"ab", b"c"), b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nabc", False),
        (KEPT, pieces(b"ab", content_length=b"2"),
         b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab", True),
        (KEPT, pieces(b"ab", b"c"), b"HTTP/1.0 200 OK\r\n\r\nabc", False),
        (GET, whole(b"ab", (b"content-type", b"t")),
         b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Type: t\r\nContent-Length: 2\r\n\r\nab", True),
        (GET, whole(b"", code=404), b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n", True),
        (GET, whole(b"ab", (b"connection", b"close")),
         b"HTTP/1.1 200 OK\r\nX-A: 1\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", False),
        (GET, whole(b"ab", (b"x-b", b"1\r\n2")), b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 1 2\r\nContent-Length: 2\r\n\r\nab", True),
        (HEAD, whole(b"ab"), b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\n", True),
        (KEPT, whole(b"ab"), b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nab", True),
        (OLD, whole(b"ab"), b"HTTP/1.0 200 OK\r\nConnection: close\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nab", False),
        (GET, begun(3, b"ab", b"c"), b"HTTP/1.1 200 OK\r\nContent-Type: t\r\nContent-Length: 3\r\n\r\nabc", True),
        (HEAD, begun(3, b"ab", b"c"), b"HTTP/1.1 200 OK\r\nContent-Type: t\r\nContent-Length: 3\r\n\r\n", True),
    ],
)  # fmt: skip
def test_an_answer_on_the_connection(request_: bytes, answer: Answer, sent: bytes, goes_on: bool) -> None:
    runner: Any = Runner()
    runner.serve = answer
    connection, transport = connected(runner), StringTransport()
    connection.makeConnection(transport)
    connection.dataReceived(request_)
    raw = transport.value()
    assert raw.count(b"\r\nDate: ") == 1
    assert re.sub(rb"Date: [^\r]+\r\n", b"", raw) == sent
    assert transport.disconnecting is not goes_on
    transport.clear()
    connection.dataReceived(request_)  # the next one
    assert bool(transport.value()) is goes_on
