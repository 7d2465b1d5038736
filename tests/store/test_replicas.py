"""A replica that leaves the primary may have been promoted: what it says decides, else time."""

from __future__ import annotations

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.store.replicas import Place, Replicas

PRIMARY, NEXT = ("10.0.0.1", 6379), ("10.0.0.9", 6379)
ONE, OTHER = ("10.0.0.2", 6379), ("10.0.0.3", 6379)


def role(*places: Place) -> list[object]:
    return [b"master", 1000, [[host.encode(), b"%d" % port, b"990"] for host, port in places]]


class Departures(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.asked: dict[Place, Deferred[str]] = {}
        self.replicas = Replicas(self.clock, self._ask)
        self.replicas.follow(PRIMARY)
        self.replicas.take(role(ONE, OTHER))

    def _ask(self, place: Place) -> Deferred[str]:
        self.asked[place] = Deferred()
        return self.asked[place]

    def doubted(self) -> None:
        self.assertEqual(self.replicas.doubt(), "the replica 10.0.0.2:6379 is gone, and may have been promoted")

    def trusted(self) -> None:
        self.assertEqual(self.replicas.doubt(), "")

    def test_one_that_is_a_replica_still(self) -> None:
        self.trusted()
        self.replicas.take(role(OTHER))
        self.doubted()
        self.asked[ONE].callback("slave")
        self.trusted()

    def test_one_that_has_ended(self) -> None:
        self.replicas.take(role(OTHER))
        self.asked[ONE].callback("")
        self.trusted()

    def test_one_that_says_nothing(self) -> None:
        """Sentinels would have named it by then, and writes go on before they are given up."""
        self.replicas.take(role(OTHER))
        self.clock.advance(2.9)
        self.doubted()
        self.clock.advance(0.2)
        self.trusted()

    def test_one_that_cannot_be_asked(self) -> None:
        self.replicas.take(role(OTHER))
        self.asked[ONE].errback(ValueError("it says nonsense"))
        self.doubted()
        self.clock.advance(3.1)
        self.trusted()

    def test_one_that_says_it_later(self) -> None:
        """It was just being started, or ended the connection of who asked."""
        self.replicas.take(role(OTHER))
        self.asked[ONE].errback(ConnectionError("closed"))
        self.clock.advance(0.2)
        self.doubted()
        self.asked[ONE].callback("slave")
        self.trusted()

    def test_one_that_is_made_a_replica_again(self) -> None:
        self.replicas.take(role(OTHER))
        for _ in range(20):
            self.asked[ONE].callback("master")
            self.clock.advance(0.2)
        self.doubted()
        self.asked[ONE].callback("slave")
        self.trusted()

    def test_one_that_goes_on_saying_that_it_was_promoted(self) -> None:
        self.replicas.take(role(OTHER))
        for _ in range(49):
            self.asked[ONE].callback("master")
            self.clock.advance(0.2)
        self.doubted()
        self.clock.advance(0.4)
        self.trusted()
        for _ in range(2):
            self.clock.advance(2)
        self.assertEqual(self.clock.getDelayedCalls(), [], "it is asked no more")

    def test_one_that_was_promoted(self) -> None:
        """The Sentinels name it, or make it a replica again: writes are not held for ever."""
        self.replicas.take(role(OTHER))
        self.asked[ONE].callback("master")
        self.clock.advance(9.9)
        self.doubted()
        self.clock.advance(0.2)
        self.trusted()

    def test_one_that_is_back(self) -> None:
        self.replicas.take(role(OTHER))
        self.replicas.take(role(OTHER, ONE))
        self.trusted()
        self.asked[ONE].callback("master")
        self.trusted()

    def test_one_that_goes_twice_is_asked_twice(self) -> None:
        self.test_one_that_is_a_replica_still()
        self.replicas.take(role(OTHER, ONE))
        self.replicas.take(role(OTHER))
        self.doubted()
        self.asked[ONE].callback("slave")
        self.trusted()

    def test_replicas_of_another_primary_are_others(self) -> None:
        self.replicas.follow(PRIMARY)
        self.replicas.take(role(OTHER))
        self.doubted()
        self.replicas.follow(NEXT)
        self.trusted()
        self.asked[ONE].callback("master")
        self.trusted()
        self.replicas.take(role(OTHER))
        self.trusted()

    def test_nonsense_is_nothing(self) -> None:
        for reply in (None, 1, [], [b"master"], [b"master", 1, [[b"h"]]], [b"slave", b"h", 1, b"connect", 1],
                      [b"master", 1, [[b"\xff", b"1", b"1"]]], [b"master", 1, [[1, 2, 3]]]):  # fmt: skip
            self.replicas.take(reply)
            self.trusted()

    def test_what_is_asked_ends_with_the_store(self) -> None:
        self.replicas.take(role(OTHER))
        self.assertFalse(self.asked[ONE].called)
        self.replicas.stop()
        self.assertTrue(self.asked[ONE].called)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_attempt_to_connect_ends_with_the_store(self) -> None:
        """Endpoints say in words of their own that they were cancelled."""
        self.replicas._role_of = lambda _: Deferred(
            lambda it: it.errback(ConnectingCancelledError(IPv4Address("TCP", *ONE)))
        )
        self.replicas.take(role(OTHER))
        self.replicas.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])


class Steps(SynchronousTestCase):
    """How many replicas a cycle waits for beyond those that must confirm."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.replicas = Replicas(self.clock, lambda _: Deferred())
        self.cycle(2, ONE, OTHER)

    def cycle(self, count: int, *places: Place) -> None:
        self.replicas.confirmed(count)
        self.replicas.take(role(*places))

    def test_all_that_keep_step(self) -> None:
        self.assertEqual(self.replicas.expected, 2)

    def test_one_that_is_slow_is_left_out_for_a_while(self) -> None:
        self.cycle(1, ONE, OTHER)
        self.assertEqual(self.replicas.expected, 1)
        self.cycle(2, ONE, OTHER)
        self.assertEqual(self.replicas.expected, 1, "it may be slow again")
        self.clock.advance(10)
        self.cycle(2, ONE, OTHER)
        self.assertEqual(self.replicas.expected, 2)

    def test_one_that_was_away_is_waited_for_at_once(self) -> None:
        self.cycle(1, OTHER)
        self.assertEqual(self.replicas.expected, 1)
        self.cycle(2, ONE, OTHER)
        self.assertEqual(self.replicas.expected, 2)
