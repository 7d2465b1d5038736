"""HTTP/1.1 as it arrives: in one piece, in several, and what is wrong with it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from kapi.server.http import Connections

HEAD = b"POST /api/v1/x?dryRun=All HTTP/1.1\r\nHost: h\r\nX-Thing:  a b \r\nContent-Type: application/json\r\n"


class Runner:
    """Notes what comes, and answers each request with its body turned round."""

    def __init__(self) -> None:
        self.reactor = Clock()
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


class Requests(SynchronousTestCase):
    def exchange(self, *pieces: bytes) -> tuple[Runner, bytes]:
        """What the runner saw of the pieces, and what the client got."""
        runner = Runner()
        connection = Connections(runner).buildProtocol(None)  # type: ignore[arg-type]
        transport = StringTransport()
        connection.makeConnection(transport)
        for piece in pieces:
            connection.dataReceived(piece)
        return runner, transport.value()

    def test_a_request_is_the_same_in_one_piece_and_in_several(self) -> None:
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
        runner = Runner()
        connection = Connections(runner).buildProtocol(None)  # type: ignore[arg-type]
        connection.makeConnection(StringTransport())
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
                b"GET /a HTTP/2.0\r\n\r\n",
                b"G(T /a HTTP/1.1\r\n\r\n",
                b"POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
                HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
                HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
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
                for cut in (len(data), *range(1, len(data), 7)):
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
            b"GET http://other/a HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /b HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n"
        )
        self.assertEqual([(seen[1], seen[3][b"Host"]) for seen in runner.seen], [(b"/a", [b"other"]), (b"/b", [b"h"])])

    def test_bytes_that_are_not_ascii_are_encoded(self) -> None:
        data = b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n"
        for cut in (len(data), *range(1, len(data))):
            runner, _ = self.exchange(data[:cut], data[cut:])
            self.assertEqual([seen[1] for seen in runner.seen], [b"/%C3%A9"])
