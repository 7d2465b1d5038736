"""HTTP/1.1 as it arrives: in one piece, in several, and what is wrong with it."""

from __future__ import annotations

from typing import Any

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

    def serve(self, http: Any) -> None:
        http.content.seek(0)
        body = http.content.read()
        self.seen.append((http.method, http.uri, body, dict(http.requestHeaders.getAllRawHeaders())))
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
            (b"DELETE /a HTTP/1.1\r\nContent-Length: 13\r\n\r\n", b"a\r\n\r\nb\r\n\r\nc12"),
        ):
            data = head + body
            whole, answer = self.exchange(data)
            self.assertEqual([seen[2] for seen in whole.seen], [body])
            self.assertTrue(answer.endswith(b"\r\n\r\n" + body[::-1]), answer)
            for cut in range(1, len(data)):
                parts, same = self.exchange(data[:cut], data[cut:])
                self.assertEqual((parts.seen, same), (whole.seen, answer), cut)

    def test_what_follows_a_body_is_the_next_request(self) -> None:
        first, second = HEAD + b"Content-Length: 2\r\n\r\nab", b"GET /b HTTP/1.1\r\n\r\n"
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
        ):
            runner, answer = self.exchange(HEAD + lines + b"\r\nhello")
            self.assertEqual(runner.seen, [], lines)
            self.assertTrue(answer.startswith(b"HTTP/1.1 400"), (lines, answer))

    def test_chunks_are_put_together(self) -> None:
        runner, _ = self.exchange(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
        self.assertEqual(runner.seen[0][2], b"abc")
