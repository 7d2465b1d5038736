"""Connections through a proxy: how they fail, and what is counted."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import TimeoutError as ConnectionTimeout
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.wire import egress
from kapi.wire.egress import EgressProxy, by_connect
from kapi.wire.tunnel import ProxyError

FACTORY = Factory.forProtocol(Protocol)
LABELS = ("http_connect", "tcp")


class Meter:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def begin(self, *labels: str) -> None:
        self.seen.append(("begin", *labels))

    def connected(self, protocol: str, transport: str, seconds: float) -> None:
        self.seen.append(("connected", protocol, transport, seconds))

    def failed(self, *labels: str) -> None:
        self.seen.append(("failed", *labels))


class Proxies(SynchronousTestCase):
    def connect(self) -> tuple[Deferred[Any], Deferred[Any]]:
        """The connection for who has asked, and what comes of the one through the proxy."""
        self.clock, self.meter, made = Clock(), Meter(), Deferred()

        async def through(*of: object) -> Any:
            return await made

        proxy: Any = EgressProxy(lambda reactor: None, through, LABELS, self.meter)  # type: ignore[arg-type]
        return Deferred.fromCoroutine(proxy.connect(self.clock, "there:1", FACTORY, None, 30.0)), made

    def test_a_connection_is_counted_with_its_seconds(self) -> None:
        connecting, made = self.connect()
        self.clock.advance(2.0)
        made.callback("connected")
        self.assertEqual(self.successResultOf(connecting), "connected")
        self.assertEqual(self.meter.seen, [("begin", *LABELS), ("connected", *LABELS, 2.0)])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_refusal_of_the_proxy_is_told_from_other_failures(self) -> None:
        for error, stage in ((ProxyError("403"), "proxy"), (ConnectionRefusedError(), "connect")):
            connecting, made = self.connect()
            made.errback(error)
            self.assertIs(self.failureResultOf(connecting).value, error)
            self.assertEqual(self.meter.seen, [("begin", *LABELS), ("failed", *LABELS, stage)])

    def test_it_is_waited_for_for_a_while(self) -> None:
        connecting, _ = self.connect()
        self.clock.advance(29.0)
        self.assertNoResult(connecting)
        self.clock.advance(1.0)
        self.failureResultOf(connecting, ConnectionTimeout)
        self.assertEqual(self.meter.seen[-1], ("failed", *LABELS, "connect"))

    def test_who_gives_up_is_no_failure(self) -> None:
        connecting, _ = self.connect()
        connecting.cancel()
        self.failureResultOf(connecting, CancelledError)
        self.assertEqual(self.meter.seen, [("begin", *LABELS)])

    def test_a_proxy_that_knows_connect_is_named_in_errors(self) -> None:
        async def refuse(*of: object, **how: object) -> None:
            raise ProxyError("unexpected HTTP response: 403 Forbidden")

        self.patch(egress, "through", refuse)
        connect: Any = by_connect("proxy.example:8080")
        failure = self.failureResultOf(
            Deferred.fromCoroutine(connect(None, None, "there:1", FACTORY, None)), ProxyError
        )
        self.assertEqual(
            str(failure.value),
            "proxy error from proxy.example:8080 while dialing there:1: unexpected HTTP response: 403 Forbidden",
        )
