"""The load generator reads answers of any server, however they are framed and cut up on the way."""

from __future__ import annotations

import os
import time

import hpack
import pytest

from tests.bench.http2 import status_of
from tests.bench.load import Answer, cpu_seconds

ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    "empty": (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", 404, b""),
    "chunks": (
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel\r\n\r\n0B;x=1\r\n0\r\n\r\n world\r\n0\r\n\r\n",
        201,
        b"hel\r\n0\r\n\r\n world",
    ),
    "trailers": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\n\r\n", 200, b"a"),
    "no body": (b"HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n", 304, b""),
}


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_ends_where_it_ends(name: str, step: int) -> None:
    data, status, body = ANSWERS[name]
    answer = Answer()
    ended = [answer.feed(data[at : at + step]) for at in range(0, len(data), step)]
    assert ended == [False] * (len(ended) - 1) + [True]
    assert (answer.status, b"".join(answer.parts)) == (status, body)


def test_an_answer_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="without an end"):
        Answer().feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize("status", [200, 201, 204, 206, 304, 400, 404, 409, 500, 504])
@pytest.mark.parametrize("huffman", [False, True])
@pytest.mark.parametrize("resized", [0, 30, 31, 4000, 4096])
def test_the_status_of_an_answer_is_read_from_the_first_bytes_of_its_block(
    status: int, huffman: bool, resized: int
) -> None:
    """However it is encoded, without a dynamic table and with one that is not used yet."""
    encoder = hpack.Encoder()
    encoder.header_table_size = resized
    plain = encoder.encode([(":status", str(status)), ("date", "x")], huffman=huffman)
    never = hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(":status", str(status))], huffman=huffman)
    assert (status_of(plain[:9]), status_of(never[:9])) == (status, status)


def test_the_cpu_of_a_process_is_known_to_less_than_a_tick() -> None:
    before, used, after = time.process_time(), cpu_seconds(os.getpid()), time.process_time()
    assert before <= used <= after
