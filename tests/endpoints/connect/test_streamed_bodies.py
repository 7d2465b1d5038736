"""Large bodies on their way to a pod: bounded in memory, no faster than the pod reads, over both protocols."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.threads import deferToThread

from kapi.endpoints.connect.proxy import is_proxied
from kapi.filters.chain import FilterChain
from kapi.wire import connection
from tests.endpoints.connect.local_pod import PODS
from tests.endpoints.connect.streamed_case import LARGE, MEGA, PIECE, StreamedCase
from tests.serving.sockets import rest, send_and_read, until_seen
from tests.serving.test_leaving import reset


@pytest.mark.parametrize(
    ("uri", "proxied"),
    [
        (b"/api/v1/namespaces/a/pods/p:80/proxy", True),
        (b"/api/v1/namespaces/a/services/https:s:443/proxy/x?y=/z", True),
        (b"/api/v1/nodes/n/proxy?x", True),
        (b"/clusters/c/api/v1/nodes/n/proxy/", True),
        (b"/api/v1/namespaces/a/pods/proxy", False),
        (b"/api/v1/namespaces/a/configmaps/c/proxy", False),
        (b"/api/v1/namespaces/a/pods/p/proxying", False),
        (b"/apis/apps/v1/namespaces/a/pods/p/proxy", False),
        (b"/api/v1/namespaces/a/pods?x=/api/v1/nodes/n/proxy/", False),
    ],
)
def test_what_is_passed_on_is_seen_by_its_target(uri: bytes, proxied: bool) -> None:
    assert is_proxied(uri) is proxied


class StreamedBodies(StreamedCase):
    async def test_a_body_with_a_length(self) -> None:
        sock = await self.begin(f"Content-Length: {LARGE}")
        await self.send(sock, LARGE)
        answer = await until_seen(sock, b"hello\r\n0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        self.assert_whole(LARGE)
        self.assertIn(b"Content-Length: %d\r\n" % LARGE, self.connection.head)
        self.assertEqual(self.api.runner.pending.size, 0)
        # the connection goes on: a small body takes the usual way
        sock.sendall(f"POST {self.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc".encode())
        self.assertTrue((await until_seen(sock, b"hello\r\n0\r\n\r\n")).startswith(b"HTTP/1.1 200"))

    async def test_a_body_in_chunks(self) -> None:
        sock = await self.begin("Transfer-Encoding: chunked")
        await self.send(sock, LARGE, chunked=True)
        answer = await until_seen(sock, b"hello\r\n0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        self.assert_whole(LARGE)
        self.assertIn(b"Transfer-Encoding: chunked\r\n", self.connection.head)

    async def test_a_connection_that_its_client_closes(self) -> None:
        sock = await self.begin(f"Connection: close\r\nContent-Length: {LARGE}")
        await self.send(sock, LARGE)
        answer = await until_seen(sock, b"hello\r\n0\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 200"), answer)
        self.assertIn(b"\r\nConnection: close\r\n", answer)

    async def test_a_pod_that_does_not_read_holds_up_the_sender(self) -> None:
        self.pod.reads = False
        sock = await self.begin(f"Content-Length: {LARGE}")
        sent = [0]

        def send() -> None:
            sock.settimeout(1.0)
            try:
                for _ in range(LARGE // len(PIECE)):
                    sock.sendall(PIECE)
                    sent[0] += len(PIECE)
            except TimeoutError:
                pass

        await deferToThread(send)
        # what the sockets' buffers hold, here and at the pod, and nothing of it in this process
        self.assertLess(sent[0], 40 * MEGA)
        self.assertLess(self.api.runner.pending.size, MEGA)
        sock.close()
        self.connection.transport.resumeProducing()  # type: ignore[union-attr]
        await self.until(lambda: self.connection.lost)
        await self.until(lambda: not self.connections.open)
        self.assertLess(self.connection.size, LARGE)

    async def test_a_client_that_goes_while_the_pod_does_not_read(self) -> None:
        """Nothing is read from the client meanwhile, so that it must be looked at."""
        self.pod.reads = False
        sock = await self.begin(f"Content-Length: {LARGE}")

        def send() -> None:
            sock.settimeout(1.0)
            try:
                for _ in range(LARGE // len(PIECE)):
                    sock.sendall(PIECE)
            except TimeoutError:
                pass

        def swept() -> bool:
            self.clock.advance(1.0)
            return not self.connections.open

        await deferToThread(send)
        reset(sock)
        await self.until(swept)
        self.connection.transport.resumeProducing()  # type: ignore[union-attr]
        await self.until(lambda: self.connection.lost)
        self.assertLess(self.connection.size, LARGE)
        self.assertEqual(self.api.runner.pending.size, 0)

    async def test_a_pod_that_never_reads_is_given_up(self) -> None:
        self.patch(connection, "STALL_SECONDS", 0.3)
        self.pod.reads = False
        sock = await self.begin(f"Content-Length: {LARGE}")
        answer = await send_and_read(sock, PIECE, LARGE // len(PIECE))
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        self.assertIn(b"does not read the request", answer)

    async def test_a_pod_that_is_not_there(self) -> None:
        """The client hears of it, and no failure is left for the log."""
        await self.backend.stopListening()
        sock = await self.begin(f"Content-Length: {4 * MEGA}")
        answer = await send_and_read(sock, PIECE, 4 * MEGA // len(PIECE))
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        sock.close()
        await self.until(lambda: not self.connections.open)

    async def test_an_answer_before_the_end_of_the_body(self) -> None:
        self.pod.early = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE)
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 401 Unauthorized"), answer)
        self.assertIn(b"Connection: close", answer)
        self.assertTrue(answer.endswith(b"\r\n2\r\nno\r\n0\r\n\r\n"), answer)
        await self.until(lambda: self.connection.lost)

    async def test_an_answer_that_goes_on_beside_the_body(self) -> None:
        self.pod.early = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst"
        sock = await self.begin("Transfer-Encoding: chunked")
        sock.sendall(b"2\r\nab\r\n")
        seen = await until_seen(sock, b"first")
        self.assertTrue(seen.startswith(b"HTTP/1.1 200"))
        sock.sendall(b"2\r\ncd\r\n0\r\n\r\n")
        await self.until(lambda: self.connection.size == 4)
        self.connection.transport.write(b"later")  # type: ignore[union-attr]
        self.assertIn(b"later", await rest(sock))

    async def test_a_client_that_goes(self) -> None:
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE * 4)
        await self.until(lambda: self.pod.connections and self.connection.size == 4 * len(PIECE))
        sock.close()
        await self.until(lambda: self.connection.lost)
        self.assertFalse(self.connection.answered)
        self.assertEqual(self.api.runner.pending.size, 0)

    async def test_a_body_that_is_malformed(self) -> None:
        sock = await self.begin("Transfer-Encoding: chunked")
        sock.sendall(b"2\r\nab\r\n")
        await self.until(lambda: self.pod.connections and self.connection.size == 2)
        sock.sendall(b"no chunk\r\n")
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        self.assertIn(b"malformed", answer)
        await self.until(lambda: self.connection.lost)

    async def test_a_pod_that_goes(self) -> None:
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE)
        await self.until(lambda: self.pod.connections and self.connection.size)
        self.connection.transport.loseConnection()  # type: ignore[union-attr]
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 503"), answer)
        self.assertEqual(len(self.pod.connections), 1)  # nothing is sent twice

    async def test_the_deadline_ends_it_on_both_sides(self) -> None:
        def within_a_minute(ctx: Any) -> None:
            ctx.deadline = self.clock.seconds() + 60

        chain = self.api.runner.chain
        self.api.runner.chain = FilterChain([*chain.filters, within_a_minute], chain.handler)
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE)
        await self.until(lambda: self.pod.connections and self.connection.size == len(PIECE))
        await self.pass_time(61)
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 504"), answer)
        await self.until(lambda: self.connection.lost)

    async def test_nobody_is_asked_without_a_pod(self) -> None:
        self.path = f"{PODS}/none/proxy/upload"
        sock = await self.begin(f"Content-Length: {LARGE}")
        sock.sendall(PIECE * 2)
        answer = await rest(sock)
        self.assertTrue(answer.startswith(b"HTTP/1.1 404"), answer)
        self.assertEqual(self.pod.connections, [])

    async def test_bodies_of_other_requests_are_not_begun(self) -> None:
        self.path = f"{PODS}/p/status"
        sock = await self.begin(f"Content-Length: {4 * MEGA}", "PUT")
        await self.send(sock, 4 * MEGA)
        self.assertTrue((await until_seen(sock, b"limit is")).startswith(b"HTTP/1.1 413"))
