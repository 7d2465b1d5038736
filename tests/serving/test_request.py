"""A request of a connection, as filters and endpoints see it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport

from kapi.serving import request as module
from kapi.serving.http2_stream import StreamRequest
from kapi.serving.request import APIRequest

DATE = b"Date: Sun, 09 Sep 2001 01:46:40 GMT\r\n"


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", lambda: 1_000_000_000.5)


class Channel:
    def __init__(self) -> None:
        self.transport = StringTransport(peerAddress=IPv4Address("TCP", "192.0.2.7", 1234))

    def getPeer(self) -> object:
        return self.transport.getPeer()


def test_the_client_is_known_until_the_last_finisher_has_run() -> None:
    """Failed authentication is audited when the answer is out, and says where it came from."""
    request = APIRequest(Channel())
    assert request.getClientAddress().host == "192.0.2.7"
    del request.channel  # as twisted.web does with a request that is answered
    assert request.getClientAddress().host == "192.0.2.7"


@pytest.mark.parametrize("finished", [True, False])
def test_nothing_follows_an_answer_over_http2(finished: bool) -> None:
    """As in twisted.web; what is written to a client that has gone is dropped."""
    request = StreamRequest(Channel())
    del request.channel
    request.finished = finished
    with pytest.raises(RuntimeError, match="after its end") if finished else nullcontext():
        request.write(b"more")


class Parts:
    """A connection with what ``APIRequest`` asks of a channel."""

    single_write = True
    factory = None

    def __init__(self) -> None:
        self.transport = StringTransport()
        self.done: list[APIRequest] = []

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: object) -> None:
        raise AssertionError("headers and body leave in one write")

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def requestDone(self, request: APIRequest) -> None:
        self.done.append(request)


def answer(fields: list[tuple[bytes, bytes]], body: bytes = b"{}", method: bytes = b"GET", code: int = 200) -> bytes:
    channel = Parts()
    request = APIRequest(channel)
    request.method, request.clientproto, request.content = method, b"HTTP/1.1", None
    request.setResponseCode(code)
    request.write_whole(fields, body)
    assert channel.done == [request]
    return channel.transport.value()


def test_a_whole_answer() -> None:
    fields = [(b"audit-id", b"1"), (b"X-Kubernetes-PF-FlowSchema-UID", b"2"), (b"Warning", b"a"), (b"Warning", b"b")]
    assert answer(fields) == (
        b"HTTP/1.1 200 OK\r\n"
        + DATE
        + b"Audit-Id: 1\r\nX-Kubernetes-Pf-Flowschema-Uid: 2\r\nWarning: a\r\nWarning: b\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )


def test_an_answer_without_a_body() -> None:
    assert answer([], method=b"HEAD") == b"HTTP/1.1 200 OK\r\n" + DATE + b"Content-Length: 2\r\n\r\n"
    assert answer([], b"", code=204).endswith(b"\r\n\r\n")


@pytest.mark.parametrize("value", [b"a\r\nSet-Cookie: b", b"a\nSet-Cookie: b", b"a\rSet-Cookie: b", b"a\r\n\r\nb"])
def test_a_header_is_one_line_whatever_is_in_it(value: bytes) -> None:
    head = answer([(b"X-Text", value)]).partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert [line.partition(b":")[0] for line in head[1:]] == [b"Date", b"X-Text", b"Content-Length"]
    assert b"\n" not in head[2] and b"\r" not in head[2]


@pytest.mark.parametrize("size", [100, 400_000])
def test_a_long_first_part_is_not_copied(size: int) -> None:
    channel, body = Parts(), b"x" * size
    written: list[bytes] = []
    channel.transport.write = written.append
    request = APIRequest(channel)
    request.method, request.clientproto, request.content = b"GET", b"HTTP/1.1", None
    request.setResponseCode(200)
    request.responseHeaders.setRawHeaders(b"content-length", [b"%d" % size])
    request.write(body)
    assert b"".join(written) == b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (DATE, size, body)
    assert (written[-1] is body, len(written)) == ((True, 2) if size > 100 else (False, 1))


def test_the_date_of_a_backends_answer_is_passed_on_alone() -> None:
    channel = Parts()
    request = APIRequest(channel)
    request.method, request.clientproto, request.content = b"GET", b"HTTP/1.1", None
    request.responseHeaders.setRawHeaders(b"date", [b"Mon, 01 Jan 2001 00:00:00 GMT"])
    request.write(b"a")
    assert channel.transport.value().count(b"Date: ") == 1


class Framing(Parts):
    """The channel of a mounted site, which frames answers itself."""

    single_write = False

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: object) -> None:
        self.transport.write(b"<%s>" % code)


@pytest.mark.parametrize(
    ("method", "code", "sent"),
    [
        (b"GET", 200, b"<200>ab"),
        (b"GET", 410, b"<410>ab"),
        (b"HEAD", 200, b"<200>"),
        (b"GET", 204, b"<204>"),
        (b"GET", 304, b"<304>"),
    ],
)
def test_an_answer_that_has_no_body_has_none_however_it_is_framed(method: bytes, code: int, sent: bytes) -> None:
    """RFC 9110, 6.4.1: what is written as one is dropped."""
    channel = Framing()
    request = APIRequest(channel)
    request.method, request.clientproto, request.content = method, b"HTTP/1.1", None
    request.setResponseCode(code)
    request.write(b"a")
    request.write(b"b")
    assert channel.transport.value() == sent
