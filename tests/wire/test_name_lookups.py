"""Names are looked up in threads of their own: those that hang are bounded, and keep no other from being found."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from twisted.internet import reactor
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.threads import deferToThreadPool
from twisted.trial.unittest import SynchronousTestCase, TestCase

from kapi.wire import name_lookups
from kapi.wire.dial import Dialer
from kapi.wire.name_lookups import NameLookups
from kapi.wire.network_errors import LookupTimedOut

V4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 0))
V6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::1", 0, 7, 3))


class Receiver:
    def __init__(self) -> None:
        self.found: list[Any] = []
        self.complete = False

    def resolutionBegan(self, resolution: Any) -> None:
        self.resolution = resolution

    def addressResolved(self, address: Any) -> None:
        self.found.append(address)

    def resolutionComplete(self) -> None:
        self.complete = True


class ClockWithThreads(Clock):
    def callFromThread(self, function: Callable[..., object], *args: object) -> None:
        function(*args)


class Lookups(SynchronousTestCase):
    """``begun`` are the threads, which run when the test says so."""

    def setUp(self) -> None:
        self.clock: Any = ClockWithThreads()
        self.begun: list[Callable[[], None]] = []
        self.asked: list[str] = []
        self.how: list[tuple[object, ...]] = []
        self.lookups = NameLookups(self.clock, self.getaddrinfo, self.begun.append)

    def getaddrinfo(self, name: str, *how: object) -> list[Any]:
        self.asked.append(name)
        self.how.append(how)
        if name.startswith("unknown"):
            raise socket.gaierror(-2, "Name or service not known")
        return [V4, V6]

    def resolve(self, name: str, port: int = 0) -> Receiver:
        receiver = Receiver()
        self.lookups.resolveHostName(receiver, name, port)  # type: ignore[arg-type]
        return receiver

    def run_all(self) -> None:
        while self.begun:
            self.begun.pop(0)()

    def test_what_is_found(self) -> None:
        receiver, unknown = self.resolve("one.example", 443), self.resolve("unknown.example")
        self.assertFalse(receiver.complete)
        self.run_all()
        self.assertEqual(
            receiver.found, [IPv4Address("TCP", "10.0.0.1", 443), IPv6Address("TCP", "fd00::1", 443, 7, 3)]
        )
        self.assertEqual((unknown.found, unknown.complete), ([], True))

    def test_what_is_asked_for(self) -> None:
        for kinds, family in (
            (None, socket.AF_UNSPEC), ([IPv4Address], socket.AF_INET), ([IPv6Address], socket.AF_INET6),
            ([IPv4Address, IPv6Address], socket.AF_UNSPEC),
        ):  # fmt: skip
            self.lookups.resolveHostName(Receiver(), "one.example", 443, kinds)  # type: ignore[arg-type]
            self.run_all()
            self.assertEqual(self.how.pop(), (0, family, socket.SOCK_STREAM))

    def test_a_name_is_looked_up_once_at_a_time(self) -> None:
        receivers = [self.resolve("one.example", port) for port in (1, 2, 3)]
        self.assertEqual(len(self.begun), 1)
        receivers[1].resolution.cancel()
        self.begun.pop()()
        self.assertEqual([receiver.complete for receiver in receivers], [True, False, True])
        self.assertEqual([receiver.found[0].port for receiver in receivers[::2]], [1, 3])
        self.resolve("one.example")
        self.assertEqual(len(self.begun), 1)

    def test_threads_are_bounded_and_who_waits_has_his_turn(self) -> None:
        with patch.object(name_lookups, "MAX_LOOKUPS", 2), patch.object(name_lookups, "MAX_WAITING", 3):
            receivers = [self.resolve(f"{number}.example") for number in range(6)]
            self.assertEqual(len(self.begun), 2)
            self.assertEqual([receiver.complete for receiver in receivers], [False] * 5 + [True])
            self.assertEqual(receivers[5].found, [])  # one too many
            receivers[3].resolution.cancel()  # who waited for it has given up
            self.run_all()
        self.assertEqual(self.asked, ["0.example", "1.example", "2.example", "4.example"])
        self.assertEqual([bool(receiver.found) for receiver in receivers], [True, True, True, False, True, False])

    def test_names_that_took_long_leave_threads_for_others(self) -> None:
        with patch.object(name_lookups, "MAX_LOOKUPS", 4), patch.object(name_lookups, "MAX_SLOW_LOOKUPS", 2):
            for number in range(4):
                self.resolve(f"slow{number}.example")
            self.clock.advance(20)
            self.run_all()
            for number in range(4):
                self.resolve(f"slow{number}.example")
            self.assertEqual(len(self.begun), 2)
            other = self.resolve("other.example")
            self.begun.pop()()
            self.assertTrue(other.found)
            self.run_all()  # quick this time
            self.assertEqual(len(self.asked), 9)

    def test_without_a_further_thread_nothing_is_found(self) -> None:
        def fail(work: Callable[[], None]) -> None:
            raise RuntimeError("can't start new thread")

        self.lookups = NameLookups(self.clock, self.getaddrinfo, fail)
        receivers = [self.resolve("one.example") for _ in range(2)]
        self.clock.advance(0)
        self.assertEqual([(receiver.complete, receiver.found) for receiver in receivers], [(True, [])] * 2)

    def test_of_many_that_wait_none_is_found_then(self) -> None:
        allowed = [2]

        def start(work: Callable[[], None]) -> None:
            allowed[0] -= 1
            if allowed[0] < 0:
                raise RuntimeError("can't start new thread")
            self.begun.append(work)

        self.lookups = NameLookups(self.clock, self.getaddrinfo, start)
        with patch.object(name_lookups, "MAX_LOOKUPS", 2):
            receivers = [self.resolve(f"name{number}.example") for number in range(900)]
            self.run_all()
            for _ in range(900):
                self.clock.advance(0)
        self.assertTrue(all(receiver.complete for receiver in receivers))
        self.assertEqual(sum(bool(receiver.found) for receiver in receivers), 2)


class RealThreads(TestCase):
    async def test_names_that_hang_hold_up_no_other_and_no_thread_of_the_reactor(self) -> None:
        """Forty: more than the reactor has threads."""
        answering = threading.Event()
        self.addCleanup(answering.set)

        def getaddrinfo(name: str, *_: object) -> list[Any]:
            if name.startswith("hanging"):
                answering.wait(60)
            return [V4]

        before: Any = reactor.installNameResolver(NameLookups(reactor, getaddrinfo))  # type: ignore[attr-defined, arg-type]
        self.addCleanup(reactor.installNameResolver, before)  # type: ignore[attr-defined]
        hanging = [
            Deferred.fromCoroutine(Dialer(reactor, 0.5).resolve(f"hanging{number}.example"))  # type: ignore[arg-type]
            for number in range(40)
        ]
        found = await Dialer(reactor, 30).resolve("other.example")  # type: ignore[arg-type]
        self.assertEqual(found, ["10.0.0.1"])
        pool: Any = reactor.getThreadPool()  # type: ignore[attr-defined]
        self.assertEqual(await deferToThreadPool(reactor, pool, lambda: 1), 1)
        for deferred in hanging:
            with self.assertRaises(LookupTimedOut):
                await deferred
