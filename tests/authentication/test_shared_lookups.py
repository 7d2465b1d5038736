"""Lookups that several requests share."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from kapi.authentication.cache import TOKEN_CACHES
from kapi.authentication.interface import AuthenticationError
from kapi.authentication.webhook import SharedLookups


class Lookups(SynchronousTestCase):
    def setUp(self) -> None:
        self.lookups: SharedLookups[str] = SharedLookups()
        self.asked: list[Deferred[str]] = []

    def ask(self, key: bytes = b"k") -> Deferred[str]:
        def begin() -> Deferred[str]:
            self.asked.append(Deferred())
            return self.asked[-1]

        return self.lookups.ask(key, begin)

    def test_all_get_the_answer_to_the_one_question(self) -> None:
        waiting = [self.ask() for _ in range(3)]
        other = self.ask(b"other")
        self.assertEqual((len(self.asked), TOKEN_CACHES.blocked), (2, 4))
        self.asked[0].callback("jane")
        self.assertEqual([self.successResultOf(one) for one in waiting], ["jane"] * 3)
        self.assertNoResult(other)
        self.asked[1].callback("joe")
        self.assertEqual((self.successResultOf(other), TOKEN_CACHES.blocked), ("joe", 0))
        self.ask()
        self.assertEqual(len(self.asked), 3, "what has ended is over")
        self.asked[2].callback("")

    def test_all_get_the_error(self) -> None:
        waiting = [self.ask() for _ in range(2)]
        self.asked[0].errback(AuthenticationError("no"))
        for one in waiting:
            self.failureResultOf(one, AuthenticationError)

    def test_a_lookup_goes_on_as_long_as_somebody_waits(self) -> None:
        first, second = self.ask(), self.ask()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.assertNoResult(self.asked[0])
        second.cancel()
        self.failureResultOf(second, CancelledError)
        self.assertTrue(self.asked[0].called)
        self.assertEqual(TOKEN_CACHES.blocked, 0)
        third = self.ask()
        self.asked[1].callback("jane")
        self.assertEqual(self.successResultOf(third), "jane")

    def test_a_lookup_that_is_being_ended_is_not_joined(self) -> None:
        """Its answer would be that it was cancelled, which means of a request that its client has left."""
        ending: Deferred[None] = Deferred()

        async def slow() -> str:
            try:
                await Deferred()
            finally:
                await ending
            raise AssertionError

        first = self.lookups.ask(b"k", slow)
        first.cancel()
        self.failureResultOf(first, CancelledError)
        second = self.ask()
        ending.callback(None)
        self.assertNoResult(second)
        self.asked[0].callback("jane")
        self.assertEqual(self.successResultOf(second), "jane")
        self.assertEqual(TOKEN_CACHES.blocked, 0)

    def test_who_leaves_because_of_anothers_answer_keeps_it_from_nobody(self) -> None:
        first, second, third = (self.ask() for _ in range(3))
        first.addCallback(lambda _: second.cancel())
        self.asked[0].callback("jane")
        self.failureResultOf(second, CancelledError)
        self.assertEqual(self.successResultOf(third), "jane")
        self.assertEqual(TOKEN_CACHES.blocked, 0)
