"""Holds back or ends watches as fault rules say, also watches that have begun before.

A watch that is held behaves like one whose client does not read: its events queue up in order, up to the bound of all watches.
"""

from __future__ import annotations

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from kapi.machinery import status
from kapi.request.context import RequestContext, Stream, Streams
from kapi.request.info import RequestInfo
from kapi.testbed.fault_rules import EXPIRED, Rule, Rules


class HeldWatches:
    """The open watches of a server; each is held back while at least one rule says so, or ended by a rule."""

    def __init__(self, reactor: IReactorTime, rules: Rules) -> None:
        self._reactor = reactor
        self._rules = rules
        self._running: dict[Stream, _Running] = {}

    def follow(self, ctx: RequestContext, rule: Rule | None) -> None:
        """Tracks a watch that is requested; ``rule`` is applied when it has begun."""
        assert ctx.info is not None
        user, agent = "" if ctx.user is None else ctx.user.name, ctx.header("user-agent") or ""
        who = (ctx.info, user, agent)
        ctx.watches = _Following(self, ctx.watches, who, rule)

    def hold(self, rule: Rule) -> None:
        """Applies a rule to the open watches that match it."""
        for running in list(self._running.values()):
            if rule.match.matches(*running.who) and rule.hit():
                running.hold(rule)

    def release(self, rule: Rule) -> None:
        """Ends the effect of a rule."""
        for running in list(self._running.values()):
            running.release(rule)

    def begun(self, stream: Stream, who: tuple[RequestInfo, str, str], rule: Rule | None) -> None:
        running = self._running[stream] = _Running(self._reactor, stream, who)
        if rule is not None and self._rules.has(rule):  # it may have been removed meanwhile
            running.hold(rule)

    def ended(self, stream: Stream) -> None:
        running = self._running.pop(stream, None)
        if running is not None:
            running.end()


class _Following:
    """Replaces the server's set of watches in one request, to be notified when the watch begins and ends."""

    __slots__ = ("_held", "_all", "_who", "_rule")

    def __init__(
        self, held: HeldWatches, streams: Streams | None, who: tuple[RequestInfo, str, str], rule: Rule | None
    ) -> None:
        self._held, self._all, self._who, self._rule = held, streams, who, rule

    def add(self, stream: Stream) -> None:
        if self._all is not None:
            self._all.add(stream)
        self._held.begun(stream, self._who, self._rule)

    def discard(self, stream: Stream) -> None:
        if self._all is not None:
            self._all.discard(stream)
        self._held.ended(stream)


class _Running:
    """One watch.  ``who`` is what rules are matched with: (info, user name, user agent)."""

    __slots__ = ("who", "_reactor", "_stream", "_rules", "_calls")

    def __init__(self, reactor: IReactorTime, stream: Stream, who: tuple[RequestInfo, str, str]) -> None:
        self.who = who
        self._reactor = reactor
        self._stream = stream
        self._rules: dict[int, Rule] = {}  # that hold it now, by id()
        self._calls: dict[int, IDelayedCall] = {}  # when the effect of a rule begins or ends, by id() of the rule

    def hold(self, rule: Rule) -> None:
        if rule.watch_seconds:
            self._calls[id(rule)] = self._reactor.callLater(rule.watch_seconds, self._begin, rule)
        else:
            self._begin(rule)

    def _begin(self, rule: Rule) -> None:
        self._calls.pop(id(rule), None)
        if rule.watch == EXPIRED:
            self._stream.fail(status.expired(rule.message))
            return
        self._rules[id(rule)] = rule
        self._stream.hold()
        if rule.held_seconds:
            self._calls[id(rule)] = self._reactor.callLater(rule.held_seconds, self.release, rule)

    def release(self, rule: Rule) -> None:
        call = self._calls.pop(id(rule), None)
        if call is not None and call.active():
            call.cancel()
        if self._rules.pop(id(rule), None) is not None and not self._rules:
            self._stream.release()

    def end(self) -> None:
        for call in self._calls.values():
            call.cancel()
        self._calls.clear()
