"""What the Sentinels announce of a fail-over, and when a primary may confirm writes again."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock, Mock

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from txredisapi import ResponseError

from kapi.store import failover, primary_connection
from kapi.store.address import Address, parse
from kapi.store.errors import StoreUnavailable
from kapi.store.factory import external_store
from kapi.store.failover import Primary, Sentinels, Subscription

ONE, OTHER = ("h1", 26379), ("h2", 26379)
NOW, NEXT = ("10.0.0.1", 6379), ("10.0.0.2", 6379)
PRIMARY = b"master m 10.0.0.1 6379"
REPLICA = b"slave 10.0.0.2:6379 10.0.0.2 6379 @ m 10.0.0.1 6379"
SWITCH = b"m 10.0.0.1 6379 10.0.0.2 6379"


class Signs(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.named: list[tuple[str, int]] = []
        self.sentinels = Sentinels(self.clock, parse("redis+sentinel://h1,h2,h3/m"), self.named.append)
        for sentinel in (ONE, OTHER):
            self.sentinels._answered(sentinel)
            self.sentinels._take(sentinel, Primary(1, *NOW, False, 100.0))
        self.trusted()

    def told(self, sentinel: tuple[str, int], channel: bytes, text: bytes) -> None:
        self.sentinels._announced(sentinel, channel, text)

    def trusted(self) -> None:
        self.assertEqual(self.sentinels.distrust(), "")

    def distrusted(self) -> None:
        self.assertIn("replace it", self.sentinels.distrust())

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for sentinel in (ONE, OTHER):
            self.sentinels._answered(sentinel)

    def test_a_fail_over_goes_on_though_the_primary_is_back(self) -> None:
        self.told(ONE, b"+odown", PRIMARY + b" #quorum 2/2")
        self.told(ONE, b"+try-failover", PRIMARY)
        self.distrusted()
        self.told(ONE, b"-odown", PRIMARY)
        self.wait(60)
        self.distrusted()
        self.told(ONE, b"+switch-master", SWITCH)
        self.assertEqual(self.named[-1], NEXT)
        self.trusted()

    def test_more_than_half_of_them_must_have_answered_lately(self) -> None:
        contact = self.sentinels._contact
        for answers, since, wanted in (
            ((ONE, OTHER), contact - 0.25, ""),
            ((ONE, OTHER), contact, "0 of 3 Sentinels can be reached"),
            ((ONE,), 0, "1 of 3 Sentinels can be reached"),
            ((ONE, OTHER), 0, ""),
        ):
            self.clock.advance(1000)
            for each in answers:
                self.sentinels._answered(each)
            self.clock.advance(since)
            self.assertEqual(self.sentinels.distrust(), wanted)

    def test_half_of_them_are_too_few(self) -> None:
        sentinels = Sentinels(self.clock, parse("redis+sentinel://h1,h2/m"), self.named.append)
        for sentinel, wanted in ((ONE, "1 of 2 Sentinels can be reached"), (OTHER, "")):
            sentinels._answered(sentinel)
            self.assertEqual(sentinels.distrust(), wanted)

    def test_a_message_has_at_most_a_hundred_thousand_bytes(self) -> None:
        head = b"$200000\r\n"
        for size, ends in ((100_000, False), (100_001, True)):
            subscription, transport = Subscription(), StringTransport()
            subscription.makeConnection(transport)
            subscription.dataReceived(head + b"x" * (size - len(head) - 1))
            subscription.dataReceived(b"x")
            self.assertEqual(transport.disconnected, ends)

    def test_another_sentinel_may_lead_it(self) -> None:
        """We may not hear that one, so its fail-over has a while to show."""
        self.told(ONE, b"+odown", PRIMARY)
        self.told(ONE, b"-odown", PRIMARY)
        self.distrusted()
        self.wait(4.9)
        self.distrusted()
        self.wait(0.2)
        self.trusted()

    def test_an_operator_orders_a_fail_over_of_a_primary_that_is_up(self) -> None:
        for channel, text in (
            (b"+try-failover", PRIMARY),
            (b"+failover-state-select-slave", PRIMARY),
            (b"+selected-slave", REPLICA),
            (b"+promoted-slave", REPLICA),
        ):
            self.setUp()
            self.told(ONE, channel, text)
            self.distrusted()

    def test_a_fail_over_that_is_given_up(self) -> None:
        for channel in (
            b"-failover-abort-not-elected",
            b"-failover-abort-no-good-slave",
            b"-failover-abort-slave-timeout",
            b"-failover-abort-master-timeout",
        ):
            self.told(ONE, b"+try-failover", PRIMARY)
            self.distrusted()
            self.told(ONE, channel, PRIMARY)
            self.trusted()

    def test_a_fail_over_of_which_nothing_more_is_heard(self) -> None:
        self.sentinels._take(ONE, Primary(1, *NOW, False, 100.0, failover_timeout=10.0))
        self.told(ONE, b"+try-failover", PRIMARY)
        self.wait(19.9)
        self.distrusted()
        self.wait(0.2)
        self.trusted()

    def test_a_later_one_is_another(self) -> None:
        self.test_a_fail_over_of_which_nothing_more_is_heard()
        self.told(ONE, b"+odown", PRIMARY)
        self.told(ONE, b"-odown", PRIMARY)
        self.distrusted()
        self.wait(5.1)
        self.trusted()

    def test_who_leads_it_names_the_new_primary_last(self) -> None:
        """It waits for the other replicas; who heard of the new primary earlier need not."""
        self.told(ONE, b"+try-failover", PRIMARY)
        self.told(OTHER, b"+switch-master", SWITCH)
        self.assertEqual(self.named[-1], NEXT)
        self.trusted()

    def test_a_leader_that_cannot_be_heard_needs_votes(self) -> None:
        self.told(ONE, b"+vote-for-leader", b"0123456789abcdef 2")
        self.distrusted()
        self.wait(4.9)
        self.distrusted()
        self.wait(0.2)
        self.trusted()

    def test_a_vote_is_over_when_a_primary_is_replaced(self) -> None:
        """The same Sentinels may watch several primaries, and a vote does not say which one it is about."""
        self.told(ONE, b"+vote-for-leader", b"0123456789abcdef 2")
        self.told(ONE, b"+switch-master", b"other 10.0.0.1 6379 10.0.0.2 6379")
        self.trusted()

    def test_a_leader_that_is_not_heard_any_more_goes_on(self) -> None:
        self.sentinels._take(ONE, Primary(1, *NOW, False, 100.0, failover_timeout=10.0))
        self.told(ONE, b"+try-failover", PRIMARY)
        self.sentinels._lost(ONE)
        self.wait(19.9)
        self.distrusted()
        self.told(OTHER, b"+switch-master", SWITCH)
        self.trusted()

    def test_one_that_was_away_for_long_is_heard_soon_after_it_has_come_back(self) -> None:
        attempts: list[float] = []

        class Refusing:
            def connect(self, factory: object) -> Deferred[None]:
                attempts.append(clock.seconds())
                return fail(ConnectionRefusedError())

        clock = self.clock
        self.patch(Address, "endpoint", lambda *_: Refusing())
        self.sentinels.start()
        self.addCleanup(self.sentinels.stop)
        for _ in range(600):
            clock.advance(0.1)
        late = [at for at in attempts if at > 58.95]
        self.assertGreaterEqual(len(late), 3 * 10)  # three Sentinels, each ten times a second

    def test_an_attempt_to_reach_one_ends_with_the_store(self) -> None:
        """Endpoints say in words of their own that they were cancelled."""

        class Silent:
            def connect(self, factory: object) -> Deferred[None]:
                return Deferred(lambda it: it.errback(ConnectingCancelledError(IPv4Address("TCP", "h1", 26379))))

        class Quiet:
            def connect(self, factory: object) -> Deferred[None]:
                return Deferred()

        for endpoint in (Silent(), Quiet()):
            self.patch(Address, "endpoint", lambda *_, endpoint=endpoint: endpoint)
            self.sentinels.start()
            self.sentinels.stop()
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_that_does_not_know_the_primary_is_told_of_once_and_asked_again(self) -> None:
        transports: list[StringTransport] = []

        class Answering:
            def connect(self, factory: Any) -> Deferred[Any]:
                protocol = factory.buildProtocol(None)
                transports.append(StringTransport())
                protocol.makeConnection(transports[-1])
                return succeed(protocol)

        async def ask(*of: object) -> None:
            return None

        self.patch(Address, "endpoint", lambda *_: Answering())
        self.patch(failover, "ask", ask)
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        self.addCleanup(globalLogPublisher.removeObserver, lines.append)
        self.sentinels.start()
        self.addCleanup(self.sentinels.stop)
        self.clock.advance(1)
        self.assertEqual([line["error"] for line in lines if "error" in line], ["does not know 'm'"] * 3)
        self.assertEqual({transport.disconnected for transport in transports}, {True})
        self.assertEqual(len(transports), 2 * 2 * 3)  # two connections to each of three, twice

    def test_what_is_published_is_read_whole_and_in_pieces(self) -> None:
        said = b"*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
        for name, text in ((b"+switch-master", SWITCH), (b"+odown", b"master m 10.0.0.2 6379")):
            said += b"*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, len(text), text)
        for size in (1, 20, len(said)):
            subscription, found, answers = Subscription(), [], []
            transport = StringTransport()
            subscription.makeConnection(transport)
            subscription.on_message = lambda channel, text, found=found: found.append((channel, text))
            subscription.on_answer = lambda answers=answers: answers.append(1)
            for at in range(0, len(said), size):
                subscription.dataReceived(said[at : at + size])
            self.assertEqual(found, [(b"+switch-master", SWITCH), (b"+odown", b"master m 10.0.0.2 6379")])
            self.assertEqual((len(answers), transport.disconnected), (3, False))

    def test_what_a_sentinel_says_of_the_primary(self) -> None:
        address = parse("redis+sentinel://u:p@h1/m")
        place = [b"ip", b"10.0.0.1", b"port", b"6379"]
        more = [b"config-epoch", b"7", b"down-after-milliseconds", b"5000", b"failover-timeout", b"60000", b"flags"]
        for reply, wanted in (
            (place, Primary(0, *NOW, False, 30.0, 180.0)),
            ([*place, *more, b"master"], Primary(7, *NOW, False, 5.0, 60.0)),
            ([*place, *more, b"master,s_down"], Primary(7, *NOW, False, 5.0, 60.0)),
            ([*place, *more, b"master,o_down"], Primary(7, *NOW, True, 5.0, 60.0)),
            ([*place, *more, b"master,failover_in_progress"], Primary(7, *NOW, True, 5.0, 60.0)),
            (ResponseError("ERR No such master with that name"), None),
        ):
            asking: Any = Mock(execute_command=AsyncMock(side_effect=[reply]))
            found = self.successResultOf(Deferred.fromCoroutine(failover.ask(asking, address)))
            self.assertEqual(found, wanted)
            asking.execute_command.assert_awaited_once_with("SENTINEL", "MASTER", "m")
        for error, kind in (("ERR unknown command 'SENTINEL'", StoreUnavailable), ("WRONGPASS no", ResponseError)):
            asking = Mock(execute_command=AsyncMock(side_effect=ResponseError(error)))
            self.failureResultOf(Deferred.fromCoroutine(failover.ask(asking, address)), kind)

    def test_nonsense_from_a_sentinel_ends_its_connection_only(self) -> None:
        for said in (
            b"?what\r\n",
            b"*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$21\r\nm 1.1.1.1 1 2.2.2.2 x\r\n",
            b"$900000000\r\n" + b"x" * 2_000_000,
        ):
            subscription = Subscription()
            transport = StringTransport()
            subscription.makeConnection(transport)
            subscription.on_message = lambda channel, text: self.sentinels._announced(ONE, channel, text)
            for at in range(0, len(said), 65536):
                if not transport.disconnected:
                    subscription.dataReceived(said[at : at + 65536])
            self.assertTrue(transport.disconnected, said[:30])
            self.trusted()
            self.assertEqual(self.named[-1], NOW)

    def test_one_that_held_the_primary_to_be_down_and_is_not_heard_any_more(self) -> None:
        self.told(ONE, b"+odown", PRIMARY)
        self.sentinels._lost(ONE)
        self.distrusted()
        self.wait(5.1)
        self.trusted()

    def test_a_primary_that_several_have_announced_is_one_epoch_newer(self) -> None:
        """Else who is subscribed to after the next fail-over would not be believed."""
        for sentinel in (ONE, OTHER, ("h3", 26379)):
            self.told(sentinel, b"+switch-master", SWITCH)
        self.sentinels._take(ONE, Primary(1, *NOW, False, 100.0))
        self.assertEqual(self.named[-1], NEXT)
        self.sentinels._take(ONE, Primary(3, "10.0.0.3", 6379, False, 100.0))
        self.assertEqual(self.named[-1], ("10.0.0.3", 6379))

    def test_what_is_announced_of_the_primary_in_use_counts(self) -> None:
        """It may have been found by asking, before it was named here."""
        self.told(ONE, b"+odown", b"master m 10.0.0.2 6379")
        self.trusted()
        self.assertIn("replace it", self.sentinels.distrust(NEXT))

    def test_other_primaries_are_none_of_our_business(self) -> None:
        for text in (b"master other 10.0.0.1 6379", b"slave a 1.2.3.4 1 @ other 10.0.0.1 6379", b"sentinel", b""):
            self.told(ONE, b"+try-failover", text)
            self.trusted()

    def test_a_sentinel_that_says_so_when_it_is_asked(self) -> None:
        self.sentinels._take(ONE, Primary(1, *NOW, True, 100.0))
        self.distrusted()

    def test_what_is_announced_while_sentinels_are_asked_counts_more_than_their_answers(self) -> None:
        """One that is silent holds up the others' answers, which are old by then."""
        store = external_store("redis+sentinel://h1,h2/m", self.clock)
        connections, dialled = store._connections, []
        connections.place = NOW

        async def ask(*_: object) -> tuple[str, int]:
            store._named(NEXT)
            return NOW

        async def connect() -> None:
            dialled.append(connections.place)
            raise StoreUnavailable("no matter")

        self.patch(primary_connection, "find_primary", ask)
        self.patch(connections, "connect", connect)
        self.failureResultOf(Deferred.fromCoroutine(store._connect()), StoreUnavailable)
        self.assertEqual(dialled, [NEXT])
        self.assertIn("the primary is another one now: 10.0.0.2:6379", store._why)
