"""HTTP/1.1 as it arrives: in one piece, in several, and what is wrong with it."""

from __future__ import annotations

import gc
import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from kapi.request.pending import Pending
from kapi.serving import request
from kapi.serving.generic import NotFound
from kapi.serving.site import Connections

HEAD = b"POST /api/v1/x?dryRun=All HTTP/1.1\r\nHost: h\r\nX-Thing:  a b \r\nContent-Type: application/json\r\n"


class Runner:
    """Notes what comes, and answers each request with its body turned round."""

    def __init__(self) -> None:
        self.reactor = Clock()
        self.pending = Pending(self.reactor.seconds, 300_000)
        self.seen: list[tuple[bytes, bytes, bytes, dict[bytes, list[bytes]]]] = []

    def streams_body(self, uri: bytes) -> bool:
        return False

    def serve(self, http: Any) -> None:
        http.content.seek(0)
        body = http.content.read()
        self.seen.append((http.method, http.uri, body, dict(http.requestHeaders.getAllRawHeaders())))
        http.requestHeaders.removeHeader(b"authorization")  # as who authenticates does
        http.requestHeaders.setRawHeaders(b"x-more", [b"more"])
        http.responseHeaders.setRawHeaders(b"content-length", [b"%d" % len(body)])
        http.write(body[::-1])
        http.finish()


def connected(runner: Any) -> Any:
    """A connection to a site whose requests the runner answers."""
    site = Connections(NotFound(), runner.reactor)
    site.run_by(runner)
    return site.buildProtocol(None)


class Requests(SynchronousTestCase):
    def connected(self) -> tuple[Runner, Any, StringTransport]:
        """The runner, a connection to it, and what the client gets."""
        runner = Runner()
        connection = connected(runner)
        transport = StringTransport()
        connection.makeConnection(transport)
        return runner, connection, transport

    def exchange(self, *pieces: bytes) -> tuple[Runner, bytes]:
        """What the runner saw of the pieces, and what the client got."""
        runner, connection, transport = self.connected()
        for piece in pieces:
            connection.dataReceived(piece)
        return runner, transport.value()

    def test_a_request_is_the_same_in_one_piece_and_in_several(self) -> None:
        self.patch(request, "time", lambda: 1e9)  # answers have a date
        for head, body in (
            (HEAD + b"Content-Length: 5\r\n\r\n", b"hello"),
            (HEAD + b"content-length:5 \r\n\r\n", b"he\r\n\r"),
            (HEAD + b"cOntent-Length: 5\r\n\r\n", b"hello"),
            (HEAD + b"CONTENT-LENGTH: 0\r\n\r\n", b""),
            (HEAD + b"\r\n", b""),
            (b"DELETE /a HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\n", b"a\r\n\r\nb\r\n\r\nc12"),
        ):
            data = head + body
            whole, answer = self.exchange(data)
            self.assertEqual([seen[2] for seen in whole.seen], [body])
            self.assertTrue(answer.endswith(b"\r\n\r\n" + body[::-1]), answer)
            for cut in range(1, len(data)):
                parts, same = self.exchange(data[:cut], data[cut:])
                self.assertEqual((parts.seen, same), (whole.seen, answer), cut)

    @settings(deadline=None)
    @given(st.lists(st.sampled_from(range(8)), max_size=40))
    def test_headers_that_come_again_mean_the_same(self, order: list[int]) -> None:
        """Whatever was done with the earlier ones, and whatever came between."""
        bodies = [b"", b"ab", b"cd", b"abc"]
        requests = [
            b"PUT /%d HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: %d\r\n\r\n%s"
            % (number, len(body), body)
            for number, body in enumerate(bodies)
        ]
        requests += [request.replace(b"X-A: 1", b"X-B: %d" % number) for number, request in enumerate(requests)]
        runner, connection, _ = self.connected()
        for number in order:
            connection.dataReceived(requests[number])
        self.assertEqual(runner.seen, [self.exchange(requests[number])[0].seen[0] for number in order])

    def test_what_follows_a_body_is_the_next_request(self) -> None:
        first, second = HEAD + b"Content-Length: 2\r\n\r\nab", b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
        runner, answer = self.exchange(first + second)
        self.assertEqual(
            [seen[:3] for seen in runner.seen], [(b"POST", b"/api/v1/x?dryRun=All", b"ab"), (b"GET", b"/b", b"")]
        )
        self.assertEqual(answer.count(b"HTTP/1.1 200"), 2)

    def test_a_request_whose_body_is_not_all_there_waits(self) -> None:
        runner, answer = self.exchange(HEAD + b"Content-Length: 6\r\n\r\nhello")
        self.assertEqual((runner.seen, answer), ([], b""))

    def test_lengths_that_cannot_be_trusted_are_refused(self) -> None:
        for lines in (
            b"Content-Length: 5\r\nContent-Length: 5\r\n",
            b"Content-Length: 0\r\nContent-Length: 5\r\n",
            b"Content-Length: 0\r\nContent-Length: 0\r\n",
            b"Content-Length: +5\r\n",
            b"Content-Length: \r\n",
            b"Content-Length: 5, 5\r\n",
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            b"Content-Length : 5\r\n",
            b"Content-Length: 9223372036854775808\r\n",
            b"Content-Length: " + b"9" * 5000 + b"\r\n",
        ):
            runner, answer = self.exchange(HEAD + lines + b"\r\nhello")
            self.assertEqual(runner.seen, [], lines)
            self.assertTrue(answer.startswith(b"HTTP/1.1 400"), (lines, answer))

    def test_chunks_are_put_together(self) -> None:
        runner, _ = self.exchange(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
        self.assertEqual(runner.seen[0][2], b"abc")

    def test_chunks_have_extensions_and_trailers_which_are_dropped(self) -> None:
        body = b'00000002 \t\r\nab\r\nA;x;y="z"\r\n0123456789\r\n0\r\nX-Trailer: a\r\nHost: other\r\n\r\n'
        data = HEAD + b"Transfer-Encoding: CHUNKED\r\n\r\n" + body + b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
        for cut in range(len(data)):
            runner, _ = self.exchange(data[:cut], data[cut:]) if cut else self.exchange(*(bytes((n,)) for n in data))
            self.assertEqual(
                [seen[1:3] for seen in runner.seen], [(b"/api/v1/x?dryRun=All", b"ab0123456789"), (b"/next", b"")]
            )
            self.assertEqual(runner.seen[0][3][b"Host"], [b"h"])
            self.assertNotIn(b"X-Trailer", runner.seen[0][3])

    def test_what_is_no_request_is_refused_however_it_arrives(self) -> None:
        get = b"GET /a HTTP/1.1\r\nHost: x\r\n"
        cases = {
            b"400": [
                *(b"GET /a" + bytes([code]) + b"b HTTP/1.1\r\nHost: x\r\n\r\n" for code in (0, 1, 9, 10, 13, 27, 32, 127)),
                *(get + b"X-A: b" + bytes([code]) + b"c\r\n\r\n" for code in (0, 1, 10, 13, 27, 127)),
                get + b"X-A: b\r\n folded\r\n\r\n",
                get + b"X-A: b\r\n\tfolded\r\n\r\n",
                get.replace(b"\r\n", b"\n") + b"\r\n\r\n",
                get + b"X-A\r\n\r\n",
                get + b"Host: x\r\n\r\n",
                get + b"HOST: y\r\n\r\n",
                b"GET /a HTTP/1.1\r\n\r\n",
                b"GET /a HTTP/1.1\r\nX-A: b\r\n\r\n",
                b"GET http://x/a HTTP/1.1\r\n\r\n",
                b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
                get + b"X-A : b\r\n\r\n",
                get + b": b\r\n\r\n",
                b"GET a HTTP/1.1\r\n\r\n",
                b"GET ftp://x/a HTTP/1.1\r\n\r\n",
                b"GET  /a HTTP/1.1\r\n\r\n",
                b"GET /a\r\n\r\n",
                b"GET /a HTTP/1\r\n\r\n",
                b"GET /a HTTP/01.1\r\n\r\n",
                b"GET /a HTTP/1.1 \r\n\r\n",
                b"GET http://x\"y/a HTTP/1.1\r\nHost: x\r\n\r\n",
                b"G(T /a HTTP/1.1\r\nHost: x\r\n\r\n",
                b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
                HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
                *(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + rest for rest in (
                    b"1\r\nabc\r\n", b"1\r\na\n\r\n", b"1\r\na\r\r\n", b"1\n", b"-1\r\n", b"+1\r\n", b"0x1\r\n", b" 1\r\n",
                    b"1 ;a\r\n", b"1;a\nb\r\n", b"1;a\rb\r\n", b"1;a\0\r\n", b"\r\n", b";a\r\n", b"1" + b" " * 5000,
                    b"8000000000000000\r\n", b"ffffffffffffffff\r\n", b"10000000000000000\r\n", b"00000000000000001\r\n",
                    b"0\r\nX-A : b\r\n\r\n", b"0\r\nX-A\r\n\r\n", b"0\r\nX-A: b\0\r\n\r\n", b"0\r\n folded\r\n\r\n",
                    b"0\r\n" + b"X-A: b\r\n" * 1000 + b"\r\n", b"".join(b"1;%s\r\na\r\n" % (b"x" * 500) for _ in range(40)),
                )),
            ],
            b"505": [b"GET /a HTTP/2.0\r\nHost: x\r\n\r\n", b"GET /a HTTP/0.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
            b"417": [
                get + b"Expect: " + value + b"\r\n\r\n" for value in (b"x", b"100-continuex", b"x=100-continue")
            ],
            b"501": [
                HEAD + b"Transfer-Encoding: " + coding + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                for coding in (
                    b"identity", b"gzip", b"gzip, chunked", b"chunked, identity", b"", b"xchunked",
                    b"chunked\r\nTransfer-Encoding: chunked", b"chunked\r\nTransfer-Encoding: identity",
                )
            ],
        }  # fmt: skip
        for code, requests in cases.items():
            for data in requests:
                data += b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
                apart = max(7, len(data) // 100 | 1)  # odd: long ones repeat lines of eight bytes
                for cut in (len(data), *range(1, len(data), apart)):
                    runner, answer = self.exchange(data[:cut], data[cut:])
                    self.assertEqual(runner.seen, [], data)
                    self.assertTrue(answer.startswith(b"HTTP/1.1 " + code), (data, answer))
                    self.assertEqual(answer.count(b"HTTP/1.1"), 1, data)

    def test_a_host_is_asked_for_only_since_http_1_1(self) -> None:
        runner, _ = self.exchange(b"GET /a HTTP/1.0\r\n\r\n")
        self.assertEqual([seen[1] for seen in runner.seen], [b"/a"])
        runner, _ = self.exchange(b"GET /a HTTP/1.1\r\nhost:\r\n\r\nGET /b HTTP/1.1\r\nX-A: b\r\n\r\n")
        self.assertEqual([seen[1] for seen in runner.seen], [b"/a"])
        _, answer = self.exchange(b"GET /a HTTP/1.1\r\nX-A: b\r\n\r\n")
        self.assertTrue(answer.endswith(b"\r\n\r\n400 Bad Request: missing required Host header"), answer)

    def test_an_absolute_target_is_its_path_and_names_the_host(self) -> None:
        data = b"GET http://other:1/api/v1/x?y=%20 HTTP/1.1\r\nHost: h\r\n\r\n"
        for cut in (len(data), *range(1, len(data))):
            runner, _ = self.exchange(data[:cut], data[cut:])
            self.assertEqual([seen[1] for seen in runner.seen], [b"/api/v1/x?y=%20"])
            self.assertEqual(runner.seen[0][3][b"Host"], [b"other:1"])

    def test_the_host_of_an_absolute_target_is_of_that_request_alone(self) -> None:
        runner, _ = self.exchange(
            b"GET http://other/a HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /b HTTP/1.1\r\nHost: h\r\nX-A: b\r\n\r\n"
        )
        self.assertEqual([(seen[1], seen[3][b"Host"]) for seen in runner.seen], [(b"/a", [b"other"]), (b"/b", [b"h"])])

    def test_bytes_that_are_not_ascii_are_encoded(self) -> None:
        data = b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n"
        for cut in (len(data), *range(1, len(data))):
            runner, _ = self.exchange(data[:cut], data[cut:])
            self.assertEqual([seen[1] for seen in runner.seen], [b"/%C3%A9"])

    def test_a_host_that_is_none_is_refused(self) -> None:
        good = (b"", b"h", b"h:6443", b"[::1]:6443", b"a_b", b"a..b", b"1.2.3.4", b"a%20b", b"h:port")
        for host in good:
            runner, _ = self.exchange(b"GET /a HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            self.assertEqual([seen[3][b"Host"] for seen in runner.seen], [[host]])
        for host in (
            b"a b",
            b"a/b",
            b"a\\b",
            b'a"b',
            b"a<b",
            b"a@b",
            b"a?b",
            b"a#b",
            b"a^b",
            b"a|b",
            b"a{b",
            b"\xc3\xa9",
            b"a\tb",
        ):
            for version in (b"1.1", b"1.0"):
                runner, answer = self.exchange(b"GET /a HTTP/" + version + b"\r\nHost: " + host + b"\r\n\r\n")
                self.assertEqual(runner.seen, [], host)
                self.assertTrue(answer.startswith(b"HTTP/1.1 400 Bad Request: malformed Host header\r\n"), answer)
                self.assertTrue(answer.endswith(b"\r\n\r\n400 Bad Request: malformed Host header"), answer)

    def test_a_user_in_an_absolute_target_is_no_part_of_the_host(self) -> None:
        runner, _ = self.exchange(b"GET http://me:secret@other:1/a HTTP/1.1\r\nHost: h\r\n\r\n")
        self.assertEqual(runner.seen[0][3][b"Host"], [b"other:1"])

    def test_a_head_is_as_long_as_gos_server_takes_it(self) -> None:
        for target, length in ((60_000, 0), (1 << 20, 1 << 20), (1 << 20, (1 << 20) + 4096)):
            begin = b"GET /api?labelSelector=" + b"a" * target + b" HTTP/1.1\r\nHost: h\r\n"
            data = (
                begin + b"X-A: " + b"b" * (length - len(begin) - 9) + b"\r\n\r\n"
                if length > len(begin)
                else begin + b"\r\n"
            )
            self.assertGreaterEqual(len(data), length)
            for size in (len(data), 16_384, 100_003):
                runner, answer = self.exchange(*(data[at : at + size] for at in range(0, len(data), size)))
                self.assertEqual([len(seen[1]) for seen in runner.seen], [target + 19])
                self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"))
        for data in (
            b"GET /" + b"a" * ((1 << 20) + 4096) + b" HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: h\r\nX-A: " + b"a" * ((1 << 20) + 4096),
            b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X-A: b\r\n" * 10_001 + b"\r\n",
        ):
            for size in (len(data), 16_384):
                runner, answer = self.exchange(*(data[at : at + size] for at in range(0, len(data), size)))
                self.assertEqual(runner.seen, [])
                self.assertTrue(answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n"), answer)
                self.assertTrue(answer.endswith(b"\r\n\r\n431 Request Header Fields Too Large"), answer)

    def test_lines_without_cr_are_refused_and_not_waited_for(self) -> None:
        _, answer = self.exchange(b"GET /a HTTP/1.1\nHost: x\n\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"), answer)

    def test_a_first_line_that_is_none_is_refused_before_the_others_come(self) -> None:
        for line in (b"HELO example.com\r\n", b"GET /a HTTP/1.1 \n"):
            _, answer = self.exchange(line[:9], line[9:])
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"), answer)

    def test_a_chunk_that_cannot_end_well_is_refused_before_its_line_ends(self) -> None:
        for chunk in (b"1\r\nabc", b"1\r\na\n", b"1" + b" " * 5000):
            _, answer = self.exchange(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"), chunk)

    def test_an_empty_line_behind_a_body_is_skipped(self) -> None:
        data = HEAD + b"Content-Length: 2\r\n\r\nab\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"
        for cut in range(1, len(data)):
            runner, _ = self.exchange(data[:cut], data[cut:])
            self.assertEqual([seen[1] for seen in runner.seen], [b"/api/v1/x?dryRun=All", b"/b"])

    def test_a_100_is_sent_to_those_who_wait_for_it(self) -> None:
        waits = b"Expect: 100-Continue\r\n\r\n"
        _, answer = self.exchange(HEAD + b"Content-Length: 2\r\n" + waits)
        self.assertEqual(answer, b"HTTP/1.1 100 Continue\r\n\r\n")
        _, answer = self.exchange(HEAD + b"Transfer-Encoding: chunked\r\n" + waits, b"0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), answer)
        for head in (HEAD + b"Content-Length: 0\r\n", HEAD, b"POST / HTTP/1.0\r\nContent-Length: 2\r\n"):
            _, answer = self.exchange(head + waits)
            self.assertNotIn(b"100 Continue", answer)

    def test_a_connection_ends_and_goes_on_as_its_client_says(self) -> None:
        for version, lines, goes_on, tells in (
            (b"1.1", b"", True, b""),
            (b"1.1", b"Connection: close\r\n", False, b"close"),
            (b"1.1", b"Connection: x, Close\r\n", False, b"close"),
            (b"1.1", b"Connection: x\r\nConnection: CLOSE\r\n", False, b"close"),
            (b"1.1", b"Connection: closed\r\n", True, b""),
            (b"1.1", b"Connection: keep-alive\r\n", True, b""),
            (b"1.7", b"", True, b""),
            (b"1.0", b"", False, b"close"),
            (b"1.0", b"Connection: keep-alive\r\n", True, b"keep-alive"),
            (b"1.0", b"Connection: keep-alive, close\r\n", False, b"close"),
        ):
            request = b"GET /a HTTP/%s\r\nHost: h\r\n%s\r\n" % (version, lines)
            runner, answer = self.exchange(request, request)
            self.assertEqual(len(runner.seen), 2 if goes_on else 1, request)
            self.assertTrue(answer.startswith(b"HTTP/1.0 " if version == b"1.0" else b"HTTP/1.1 "), answer)
            told = [line[12:] for line in answer.lower().split(b"\r\n") if line.startswith(b"connection: ")]
            self.assertEqual(set(told), {tells} if tells else set(), request)

    def test_every_answer_has_a_date(self) -> None:
        _, answer = self.exchange(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        (date,) = re.findall(rb"\r\nDate: (.*)\r\n", answer)
        self.assertLess(abs(parsedate_to_datetime(date.decode()).timestamp() - time.time()), 10)

    def test_what_comes_behind_an_answer_that_is_not_read_waits(self) -> None:
        """A client that asks and asks, and reads nothing, is answered once."""
        runner, connection, transport = self.connected()
        write = transport.write

        def write_to_a_full_buffer(data: bytes) -> None:
            write(data)
            transport.producer.pauseProducing()  # type: ignore[union-attr]

        transport.write = write_to_a_full_buffer  # type: ignore[method-assign]
        connection.dataReceived(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n" * 5)
        self.assertEqual((len(runner.seen), transport.producerState), (1, "paused"))
        transport.write = write  # type: ignore[method-assign]
        transport.producer.resumeProducing()  # type: ignore[union-attr]
        self.assertEqual((len(runner.seen), transport.producerState), (5, "producing"))

    def test_heads_that_do_not_end_count_for_what_waits_for_clients(self) -> None:
        runner, first, _ = self.connected()
        begin = b"GET /a HTTP/1.1\r\nHost: h\r\nX-A: "
        for size in (70_000, 70_000, 100_000):
            first.dataReceived(begin + b"b" * size if not runner.pending.size else b"b" * size)
        self.assertGreater(runner.pending.size, 240_000)
        runner.reactor.advance(3)
        second: Any = first.factory.buildProtocol(None)
        transport = StringTransport()
        second.makeConnection(transport)
        second.dataReceived(begin + b"b" * 290_000)
        self.assertTrue(first.transport.disconnected, "it was without progress for longest")
        first.connectionLost()
        self.assertEqual(transport.value(), b"")
        self.assertGreater(runner.pending.size, 290_000)
        third: Any = first.factory.buildProtocol(None)
        answered = StringTransport()
        third.makeConnection(answered)
        second.dataReceived(b"b" * 20_000)
        third.dataReceived(begin + b"b" * 70_000)
        self.assertTrue(answered.value().startswith(b"HTTP/1.1 429 Too Many Requests\r\n"), answered.value())
        second.dataReceived(b"\r\n\r\n")
        self.assertEqual([seen[1] for seen in runner.seen], [b"/a"])
        runner.seen.clear()
        gc.collect()
        self.assertEqual(runner.pending.size, 0)

    def test_a_large_head_counts_while_its_body_is_waited_for(self) -> None:
        runner, connection, _ = self.connected()
        connection.dataReceived(HEAD + b"X-A: " + b"b" * 70_000 + b"\r\nContent-Length: 80000\r\n\r\n")
        self.assertGreater(runner.pending.size, 70_000)
        connection.dataReceived(b"c" * 70_000)
        self.assertGreater(runner.pending.size, 140_000)
        connection.connectionLost()
        gc.collect()
        self.assertEqual(runner.pending.size, 0)

    def test_a_body_without_memory_for_it_is_read_to_a_bound(self) -> None:
        """So that the client reads the answer; a longer one loses its connection."""
        self.patch(request, "_MAX_DRAINED_BYTES", 500_000)
        runner, connection, transport = self.connected()
        runner.pending.limit = 1
        connection.dataReceived(HEAD + b"Content-Length: 600000\r\n\r\n" + b"c" * 300_000)
        connection.dataReceived(b"c" * 200_000)
        self.assertEqual((transport.disconnecting, transport.disconnected), (False, False))
        connection.dataReceived(b"c")
        self.assertTrue(transport.disconnected)

    def test_a_body_that_is_refused_is_not_passed_on_afterwards(self) -> None:
        runner, connection, transport = self.connected()
        runner.streams_body = lambda uri: True  # type: ignore[method-assign]
        connection.dataReceived(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nx")
        connection.dataReceived(b"\r\n")
        self.assertTrue(transport.value().startswith(b"HTTP/1.1 400 "))
        runner.reactor.advance(1)
        self.assertEqual(runner.seen, [])
