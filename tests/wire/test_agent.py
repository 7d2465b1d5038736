"""The agent of kept connections against a server that says what a test wants it to say, byte for byte."""

from __future__ import annotations

import gzip
from typing import Any

import treq
from OpenSSL import SSL
from twisted.internet import reactor, ssl
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import TestCase

from kapi.wire.agent import Agent, prepared_url
from kapi.wire.answer import MAX_HEAD, AnswerTooLarge, BadAnswer
from kapi.wire.collected import Collected
from kapi.wire.connection import has_unread_data
from kapi.wire.pool import MAX_IDLE_SECONDS
from tests.admission.certificates import make_certificate
from tests.waiting import accepted_ended, eventually
from tests.wire.agents import agent_of, asked
from tests.wire.script import scripted

CERTIFICATE, KEY = make_certificate("127.0.0.1")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class ServerAgentCase(TestCase):
    def setUp(self) -> None:
        self.server = scripted()
        pair = ssl.PrivateCertificate.loadPEM(KEY + CERTIFICATE)
        self.port = reactor.listenSSL(0, self.server, pair.options(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.number = self.port.getHost().port
        trust = ssl.trustRootFromCertificates([ssl.Certificate.loadPEM(CERTIFICATE)])
        options = ssl.optionsForClientTLS("127.0.0.1", trustRoot=trust)
        self.agent: Agent = agent_of(self.number, options, [(b"X-Always", b"yes")])
        self.pool = self.agent.pool

    async def tearDown(self) -> None:
        await self.pool.close()
        await self.port.stopListening()
        await accepted_ended()
        for warning in self.flushWarnings():
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def ask(self, *answer: bytes | None, body: bytes = b"hello", path: str = "/a?b=c") -> Deferred[Any]:
        self.server.script.append(answer)
        return asked(self.agent, b"POST", f"https://127.0.0.1:{self.number}{path}".encode(), body, 1000)

    async def failure(self, *answer: bytes | None) -> Exception:
        try:
            found = await self.ask(*answer)
        except Exception as problem:
            return problem
        raise AssertionError(f"the answer was taken: {found.body!r}")

    async def test_a_request_as_the_server_sees_it(self) -> None:
        answer = await self.ask(OK)
        self.assertEqual((answer.code, answer.phrase, answer.body, answer.length), (200, b"OK", b"ok", 2))
        head, body = self.server.requests[0]
        self.assertEqual(body, b"hello")
        lines = head.split(b"\r\n")
        self.assertEqual(lines[:2], [b"POST /a?b=c HTTP/1.1", b"Host: 127.0.0.1:%d" % self.number])
        self.assertIn(b"X-Always: yes", lines)

    async def test_a_url_without_a_path_asks_for_the_root(self) -> None:
        await self.ask(OK, path="?x=1")
        self.assertEqual(self.server.requests[0][0].split(b"\r\n")[0], b"POST /?x=1 HTTP/1.1")

    async def test_answers_in_all_forms(self) -> None:
        for pieces, wanted in (
            ((OK[:9], OK[9:30], OK[30:]), b"ok"),
            ((b"HTTP/1.1 100 Continue\r\n\r\n" + OK,), b"ok"),
            ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", b"1\r\nc\r\n0\r\n\r\n"), b"abc"),
            ((b"HTTP/1.1 204 No Content\r\n\r\n",), b""),
            ((b"HTTP/1.1 200 OK\r\n\r\nall of it", None), b"all of it"),
            ((b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", None), b"x"),
            ((b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\ny",), b"y"),
            ((b"HTTP/1.1 200 OK\nContent-Length: 2\n\nlf",), b"lf"),
            ((b"HTTP/1.1 200 OK\r\nContent-Length: 2\n", b"\r\nmix"[:4]), b"mi"),
            ((b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n \t b\r\nContent-Length:\r\n  2\r\n\r\nof",), b"of"),
            ((b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n22",), b"22"),
        ):
            answer = await self.ask(*pieces)
            self.assertEqual(answer.body, wanted, pieces)

    async def test_a_folded_header_is_one_line(self) -> None:
        answer = await self.ask(b"HTTP/1.1 200 OK\nX-Folded: a \n \t b\r\n\tc\nX: y\n\n", None)
        self.assertEqual(answer.headers.getRawHeaders(b"x-folded"), [b"a b c"])
        self.assertEqual(answer.headers.getRawHeaders(b"x"), [b"y"])

    async def test_what_follows_an_answer_is_not_its_own_and_costs_the_connection(self) -> None:
        """However the bytes come: else it would depend on the network whether the answer counts."""
        more = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        for pieces in ((OK + more,), (OK[:-1], b"k" + more), (OK, more), (OK + b"\n",)):
            connections = len(self.server.connections)
            self.assertEqual((await self.ask(*pieces)).body, b"ok", pieces)
            await eventually(lambda: not self.pool.open)
            self.assertEqual(
                (await self.ask(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1")).body, b"1"
            )
            self.assertEqual(len(self.server.connections), connections + 2)

    async def test_interim_answers_are_bounded_together(self) -> None:
        """Else a server could answer for ever, and a watch that is passed on has no deadline."""
        interim = b"HTTP/1.1 103 Early Hints\r\nLink: " + b"x" * 1000 + b"\r\n\r\n"
        few, many = [interim] * 20, [interim] * (MAX_HEAD // 1000)
        self.assertEqual((await self.ask(*few, OK)).body, b"ok")
        for pieces in (many, [b"".join(many)]):
            self.assertIsInstance(await self.failure(*pieces), BadAnswer)

    async def test_an_answer_with_a_status_below_100_is_the_only_one(self) -> None:
        answer = await self.ask(b"HTTP/1.1 099 Odd\r\nContent-Length: 1\r\n\r\nx")
        self.assertEqual((answer.code, answer.body), (99, b"x"))

    async def test_connections_are_kept_unless_the_server_says_otherwise(self) -> None:
        for _ in range(3):
            await self.ask(OK)
        self.assertEqual(len(self.server.connections), 1)
        await self.ask(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await self.ask(OK)
        self.assertEqual(len(self.server.connections), 2)

    async def test_what_is_no_answer_fails_and_costs_the_connection(self) -> None:
        for text in (
            b"SSH-2.0-nonsense\r\n\r\n",
            b"HTTP/1.1 2xx OK\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\n folded: into nothing\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 2**63,
            b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n" + b"x" * (MAX_HEAD + 1),
        ):
            self.assertIsInstance(await self.failure(text), BadAnswer, text[:60])
        self.assertEqual(len(self.server.connections), 13)

    async def test_an_answer_is_quoted_with_200_bytes_at_most(self) -> None:
        for line, said in (
            (b"SSH-2.0-nonsense", 'malformed HTTP response "SSH-2.0-nonsense"'),
            (b"x" * 201, f'malformed HTTP response "{"x" * 200}"'),
            (b"HTTP/1.1 200 OK\r\nno colon", "malformed MIME header line: no colon"),
            (b"HTTP/1.1 200 OK\r\na b: c", "malformed MIME header line: a b: c"),
            (b"HTTP/1.1 200 OK\r\n" + b"y" * 300, f"malformed MIME header line: {'y' * 200}"),
            (b"HTTP/1.1 200 OK\r\n folded: into nothing", "malformed MIME header initial line:  folded: into nothing"),
        ):
            self.assertEqual(str(await self.failure(line + b"\r\n\r\n")), said)

    async def test_answers_are_bounded_however_they_come(self) -> None:
        for text in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
        ):
            self.assertIsInstance(await self.failure(text), AnswerTooLarge)

    async def test_an_answer_that_ends_early_is_none(self) -> None:
        problem = await self.failure(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", None)
        self.assertEqual(str(problem), "unexpected EOF")
        problem = await self.failure(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", None)
        self.assertEqual(str(problem), "unexpected EOF")

    async def test_a_post_on_a_kept_connection_that_breaks_is_not_sent_again(self) -> None:
        await self.ask(OK)
        self.assertNotIsInstance(await self.failure(None), BadAnswer)
        self.assertEqual(len(self.server.requests), 2)

    async def test_a_get_on_a_kept_connection_that_breaks_is_sent_once_more(self) -> None:
        uri = f"https://127.0.0.1:{self.number}/".encode()
        await self.ask(OK)
        for method, body in ((b"GET", b"ok"), (b"HEAD", b"")):
            self.server.requests.clear()
            self.server.script += [(None,), (OK.removesuffix(b"ok") + body,)]
            self.assertEqual((await asked(self.agent, method, uri, None, 1000)).body, body)
            self.assertEqual([head.split()[0] for head, _ in self.server.requests], [method, method])
        self.assertEqual(len(self.server.connections), 3)

    async def test_a_get_is_not_sent_again_on_a_new_connection_or_after_a_part_of_an_answer(self) -> None:
        uri = f"https://127.0.0.1:{self.number}/".encode()
        self.server.script += [(None,), (OK,), (b"HTTP/1.1 2", None)]
        with self.assertRaises((ConnectionLost, ConnectionDone, SSL.Error)):
            await asked(self.agent, b"GET", uri, None, 1000)
        await asked(self.agent, b"GET", uri, None, 1000)
        with self.assertRaises(BadAnswer):
            await asked(self.agent, b"GET", uri, None, 1000)
        self.assertEqual(len(self.server.requests), 3)

    async def test_a_get_that_is_given_up_is_not_sent_again(self) -> None:
        uri = f"https://127.0.0.1:{self.number}/".encode()
        self.server.script += [(OK,), ()]
        await asked(self.agent, b"GET", uri, None, 1000)
        waiting = asked(self.agent, b"GET", uri, None, 1000)
        await eventually(lambda: len(self.server.requests) == 2)
        waiting.cancel()
        with self.assertRaises(CancelledError):
            await waiting
        await self.ask(OK)
        self.assertEqual([head[:4] for head, _ in self.server.requests], [b"GET ", b"GET ", b"POST"])

    async def test_words_nobody_asked_for_cost_the_connection(self) -> None:
        await self.ask(OK)
        self.server.connections[0].transport.write(OK)
        await eventually(lambda: not self.pool.open)  # before they have come, they could be the next answer
        self.assertEqual(self.pool.idle, [])
        self.assertEqual((await self.ask(OK)).body, b"ok")
        self.assertEqual(len(self.server.connections), 2)

    async def test_who_gives_up_ends_the_connection(self) -> None:
        waiting = self.ask()
        await eventually(lambda: bool(self.server.requests))
        waiting.cancel()
        with self.assertRaises(CancelledError):
            await waiting
        early = self.ask()
        early.cancel()  # still connecting
        with self.assertRaises(CancelledError):
            await early
        self.assertEqual(self.pool.idle, [])

    async def test_a_connection_is_not_used_whose_end_has_come_but_was_not_told_yet(self) -> None:
        await self.ask(OK)
        kept_one = self.pool.idle[0]
        kept_one.idle_since -= 2
        self.assertFalse(has_unread_data(kept_one.transport))
        raw: Any = kept_one.transport
        raw.stopReading()  # the reactor is busy elsewhere
        self.server.connections[0].transport.loseConnection()
        await eventually(lambda: has_unread_data(kept_one.transport))
        self.assertEqual(self.pool.idle, [kept_one])
        self.assertEqual((await self.ask(OK)).body, b"ok")
        self.assertEqual(len(self.server.connections), 2)

    async def test_idle_connections_are_closed_after_a_while(self) -> None:
        clock = self.pool._reactor = Clock()
        await self.ask(OK)
        clock.pump([1.0] * int(MAX_IDLE_SECONDS - 5))
        self.assertEqual(len(self.pool.idle), 1)
        clock.pump([1.0] * 25)
        self.assertEqual((self.pool.idle, clock.getDelayedCalls()), ([], []))

    async def test_treq_on_top(self) -> None:
        url = prepared_url(f"https://127.0.0.1:{self.number}/ä?x=1")
        packed = gzip.compress(b"text")
        head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
        self.server.script += [(head % len(packed) + packed,), (OK,)]
        for wanted in (b"text", b"ok"):
            response = await self.agent.ask("POST", url, b"d", {b"X-One": [b"1"]})
            self.assertEqual(await treq.content(response), wanted)
        head = self.server.requests[1][0]
        self.assertTrue(head.startswith(b"POST /%C3%A4?x=1 HTTP/1.1\r\n"))
        self.assertIn(b"X-One: 1", head)
        self.assertNotIn(b"ookie", head)
        self.assertEqual(head.count(b"Accept-Encoding: gzip\r\n"), 1)

    async def test_a_body_that_cannot_be_decoded_is_a_bad_answer(self) -> None:
        """Whether it comes before treq reads or after, in one piece or in chunks."""
        url = prepared_url(f"https://127.0.0.1:{self.number}/")
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
        for framed in (b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"):
            for late in (False, True):
                self.server.script.append((head + framed,))
                response = await self.agent.ask("GET", url)
                if late:
                    await deferLater(reactor, 0)  # type: ignore[arg-type]
                with self.assertRaisesRegex(BadAnswer, "malformed content encoding: .*incorrect header"):
                    await treq.content(response)
        self.server.script.append((OK,))
        self.assertEqual(await treq.content(await self.agent.ask("GET", url)), b"ok")

    async def test_what_is_decoded_is_bounded_while_it_is_decoded(self) -> None:
        """A small piece of data becomes a thousand times as much: the limit holds before all of it is there."""
        packed = gzip.compress(bytes(60_000_000), 9)
        self.server.script.append(
            (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed,)
        )
        response = await self.agent.ask("GET", prepared_url(f"https://127.0.0.1:{self.number}/"))
        reader = Collected(1000)
        response.deliverBody(reader)
        with self.assertRaises(AnswerTooLarge):
            await reader.done
        self.assertLess(reader.size, 8_000_000)

    async def test_a_body_that_is_packed_twice_is_not_unpacked(self) -> None:
        """Else 300 bytes become 100 MB in one piece: what is let through at once is a bound for one packing."""
        packed = gzip.compress(gzip.compress(b"small"))
        for encoding in (b"gzip, gzip", b"gzip\r\nContent-Encoding: gzip", b"gzip,"):
            head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (encoding, len(packed))
            self.server.script.append((head + packed,))
            response = await self.agent.ask("GET", prepared_url(f"https://127.0.0.1:{self.number}/"))
            with self.assertRaisesRegex(BadAnswer, "unsupported content encoding"):
                await treq.content(response)
        self.assertEqual((await self.ask(OK)).body, b"ok")

    async def test_small_chunks_reach_the_reader_together(self) -> None:
        """Each piece costs a write to the client that the body is passed on to, and a chunk may be a single byte."""
        count = 20_000
        self.server.script.append(
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * count + b"0\r\n\r\n",)
        )
        response = await self.agent.ask("GET", prepared_url(f"https://127.0.0.1:{self.number}/"))
        pieces: list[bytes] = []
        ended: Deferred[Any] = Deferred()
        response.original.read(pieces.append, ended.callback)  # type: ignore[attr-defined]
        self.assertIsNone(await ended)
        self.assertEqual(b"".join(pieces), b"x" * count)
        self.assertLess(len(pieces), count / 100)
