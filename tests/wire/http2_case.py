"""A client of HTTP/2 and the servers that it asks."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from kapi.wire.agent import Agent
from kapi.wire.dial import Dialer
from kapi.wire.egress import EgressProxy
from kapi.wire.http2.pool import NegotiatingPool, offered_protocols
from kapi.wire.tls.trust import client_options
from tests.waiting import accepted_ended
from tests.wire.agents import asked
from tests.wire.http2_server import CERTIFICATE, options

LIMIT = 4_000_000  # bytes
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Http2Case(TestCase):
    def setUp(self) -> None:
        self.port: Any = None
        self.pools: list[NegotiatingPool] = []

    def serve(self, factory: Any, *protocols: bytes, number: int = 0) -> Agent:
        """An agent for a server that chooses among ``protocols``."""
        listen: Any = reactor.listenSSL  # type: ignore[attr-defined]
        self.port = listen(number, factory, options(*protocols), interface="127.0.0.1")
        self.number = self.port.getHost().port
        return self.agent()

    def agent(self, proxy: EgressProxy | None = None) -> Agent:
        dialer = Dialer(reactor, proxy=proxy)  # type: ignore[arg-type]
        tls = client_options("127.0.0.1", CERTIFICATE)
        endpoint = dialer.endpoint("127.0.0.1", self.number, tls, protocols=offered_protocols())
        pool = NegotiatingPool(reactor, endpoint.connect)  # type: ignore[arg-type]
        self.pools.append(pool)
        return Agent(pool, [(b"X-Always", b"yes")])

    async def stop(self) -> None:
        port, self.port = self.port, None
        if port is not None:
            await port.stopListening()

    async def tearDown(self) -> None:
        for pool in self.pools:
            for connection in list(pool.open):
                connection.transport.abortConnection()  # type: ignore[attr-defined]
            await pool.close()
        await self.stop()
        await accepted_ended()
        for warning in self.flushWarnings():
            self.assertIn("pyOpenSSL", str(warning["message"]))

    def ask(self, agent: Agent, body: bytes | None = b"hello", method: bytes = b"POST", path: str = "/a?b=c") -> Any:
        return asked(agent, method, f"https://127.0.0.1:{self.number}{path}".encode(), body, LIMIT)
