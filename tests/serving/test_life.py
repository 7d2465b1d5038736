"""The end of a server: watches end one after the other, waits are bounded."""

from __future__ import annotations

from twisted.internet.defer import Deferred, FirstError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery import status
from kapi.serving.life import HookError, Hooks, bounded, end_watches_spread


class Watch:
    def __init__(self, open_: set[Watch]) -> None:
        self._open = open_
        open_.add(self)

    def end(self) -> None:
        self._open.discard(self)


class Ending(SynchronousTestCase):
    def test_the_ends_of_many_watches_are_spread_over_the_grace_period(self) -> None:
        clock, watches = Clock(), set[Watch]()
        for _ in range(5000):
            Watch(watches)
        ending = end_watches_spread(watches, 10.0, clock)
        left = []
        for _ in range(10):
            clock.pump([0.05] * 20)
            left.append(len(watches))
        ending.stop()
        self.assertEqual(left[-1], 0)
        steps = [before - after for before, after in zip([5000, *left], left, strict=False)]
        self.assertTrue(all(400 <= step <= 600 for step in steps), steps)

    def test_a_few_watches_need_not_wait_for_a_long_grace_period(self) -> None:
        clock, watches = Clock(), set[Watch]()
        for _ in range(20):
            Watch(watches)
        ending = end_watches_spread(watches, 3600.0, clock)
        clock.pump([0.05] * 4)
        ending.stop()
        self.assertEqual(len(watches), 0)

    def test_a_wait_ends_with_what_it_waits_for_or_with_the_time(self) -> None:
        clock = Clock()
        waiting: Deferred[None] = Deferred()
        late, timely = bounded(waiting, 1.0, clock), bounded(waiting, 3.0, clock)
        clock.advance(2.0)
        waiting.callback(None)
        self.assertEqual([self.successResultOf(late), self.successResultOf(timely)], [False, True])


class PostStartHooks(SynchronousTestCase):
    def test_the_check_of_a_hook_fails_until_it_has_run(self) -> None:
        waiting: Deferred[None] = Deferred()
        hooks = Hooks({"one": lambda: waiting}, {"step": "one"})
        ended = hooks.run()
        self.assertEqual([hooks.check(name) for name in hooks.names], ["not finished"] * 2)
        waiting.callback(None)
        self.successResultOf(ended)
        self.assertEqual([hooks.check(name) for name in hooks.names], ["", ""])

    def test_a_hook_that_fails_stops_the_server_and_says_why(self) -> None:
        async def fail() -> None:
            raise status.bad_request("no")

        hooks = Hooks({"one": fail})
        failed = self.failureResultOf(hooks.run(), FirstError).value.subFailure
        self.assertEqual((failed.type, str(failed.value)), (HookError, "post-start hook one: no"))
        self.assertEqual(hooks.check("one"), "no")

    def test_a_hook_that_is_stopped_has_not_run(self) -> None:
        hooks = Hooks({"one": lambda: Deferred()})
        ended = hooks.run()
        hooks.stop()
        self.failureResultOf(ended, FirstError)
        self.assertEqual(hooks.check("one"), "not finished")
