"""Waiting until replicas have a write: it is acknowledged when a fail-over cannot lose it (docs/adr/0016).

``WAITAOF`` and ``WAIT`` block their connection until replicas have everything that this connection wrote.  So that writes do
not queue behind them, they are sent on a connection of their own, the *fence*.  One cycle at a time confirms all writes: a
script on the fence writes a key and returns the revision counter, and the ``WAITAOF`` after it waits.  All revisions up to the
counter were written before the key, so they are confirmed together with it.  Replies that must not show what may be lost are
held until a cycle that began after them has ended.

A replica reports what it has on disk when the server requests it: when a wait begins, which is too early, and then once a second.
A third connection therefore always waits for more replicas than exist.  Unblocking it starts its next wait, which requests the
reports again, some milliseconds later each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import txredisapi
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from kapi.store.connection import Connection
from kapi.store.entries import Reply, counter_of
from kapi.store.errors import OutcomeUnknown, StoreUnavailable
from kapi.store.replicas import MAX_LAG_MS, Replicas
from kapi.store.script import FENCE, Keys

log = Logger()

CONFIRMATION_TIMEOUT = 5.0  # seconds; an unconfirmed write then fails with "the outcome is unknown"
_CYCLE_MS = 1000  # how long the server waits for its replicas in one cycle
_PAUSE_SECONDS = 0.05  # between cycles that ended at once and confirmed nothing
_ASK_AGAIN_SECONDS = (0.001, 0.05)  # until reports are requested again: the first delay, and the maximum after doubling
_MORE_THAN_ALL = 1000  # more replicas than there can be
_IDLE_MS = 4000  # how long the third connection waits; its replies also show that the server lives


class _Held(NamedTuple):
    """A reply that is held until a cycle has confirmed it."""

    since: float  # reactor seconds
    deferred: Deferred[Reply]
    result: Reply  # the revision or the error of a write; None: the confirmed revision is the reply
    write: bool


class _Cycle:
    """One cycle; ``waiting`` are the replies that it releases."""

    def __init__(self, fence: Connection, replicas: int, waiting: list[_Held]) -> None:
        self.fence = fence
        self.waiting = waiting
        self.revision = -1
        self.problem = "the store's server does not take the fence"  # why nothing is confirmed
        self._replicas = replicas

    def fenced(self, revision: Reply) -> None:
        self.revision, self.problem = counter_of(revision), ""

    def not_fenced(self, failure: Failure) -> None:
        self.problem += f": {failure.getErrorMessage()}"

    def waited(self, reply: Reply) -> None:
        local, there = reply if isinstance(reply, list) else (1, reply)
        if self.problem:
            return
        if there < self._replicas:
            self.problem = f"{there} of {self._replicas} replicas have what was written"
        elif not local:
            self.problem = "the store's server has not written to disk what was written"

    def not_waited(self, failure: Failure) -> None:
        self.problem = failure.getErrorMessage()


class Confirmation:
    """``distrust()`` returns why nothing may be confirmed although replicas have it; "" when it may.

    ``listed`` follows the replicas of the primary, where Sentinels may promote one of them.
    """

    def __init__(
        self,
        reactor: IReactorTime,
        keys: Keys,
        replicas: int,
        distrust: Callable[[], str],
        listed: Replicas | None = None,
    ) -> None:
        self.replicas = replicas
        self.confirmed = 0  # all revisions up to this one are confirmed
        self.problem = ""  # why writes are not confirmed; "" when they are
        self._reactor = reactor
        self._keys = keys
        self._distrust = distrust
        self._listed = listed
        self._commands: Connection | None = None
        self._fence: Connection | None = None
        self._asker_id = 0
        self._wait: tuple[object, ...] = ()
        self._cycle: _Cycle | None = None  # the running cycle
        self._waiting: list[_Held] = []  # replies for the next cycle
        self._due: IDelayedCall | None = None  # the delayed call that starts a cycle or requests reports again
        self._ask_in = 0.0

    # -- the connections

    async def attach(self, commands: Connection, fence: Connection, asker: Connection, disk: bool) -> None:
        """Starts with new connections.  Nothing is confirmed at first: the server may have another history.

        ``disk``: wait until the replicas have writes on disk.  Raises ConnectionGone, txredisapi.ResponseError.
        """
        if disk:
            self._wait = ("WAITAOF", 1, self.replicas, _CYCLE_MS)
            self._asker_id = await asker.execute_command("CLIENT", "ID")
            try:
                await commands.execute_command("CLIENT", "UNBLOCK", self._asker_id)
            except txredisapi.ResponseError as error:
                self._asker_id = 0
                log.warn("replicas confirm once a second only: {why}", why=str(error))
            for _ in range(2):
                self._ask_on(asker)
        else:
            self._wait = ("WAIT", self.replicas, _CYCLE_MS)
        self._commands, self._fence = commands, fence
        self.confirmed = 0
        self._cycle = None
        # finds out early whether there are replicas
        self._hold(Deferred(), None, write=False).addErrback(lambda _: None)

    def continues(self, revision: int) -> None:
        """Called when the server's history was found to be the known one, which is confirmed up to this revision."""
        self.confirmed = max(self.confirmed, revision)

    def _ask_on(self, asker: Connection) -> None:
        asked = asker.execute_command("WAIT", _MORE_THAN_ALL, _IDLE_MS)
        asked.addCallbacks(lambda _: self._ask_on(asker), lambda _: None)

    def detach(self, why: str) -> None:
        """Called when the connections are gone: fails all held replies."""
        self._fence = self._commands = None
        self._cancel()
        held, self._waiting = [*self._in_cycle(), *self._waiting], []
        self._cycle = None
        self._fail(held, why)

    # -- held replies

    def hold(self, deferred: Deferred[Reply], result: object) -> None:
        """Fires the Deferred of a write with its result, a revision or a StoreError, once that is confirmed."""
        self._hold(deferred, result, write=True)

    def revision(self) -> Deferred[int]:
        """Waits for a cycle; its result is a revision, at least the newest one at the call, up to which all is confirmed.

        Errs with StoreUnavailable.
        """
        return self._hold(Deferred(), None, write=False)

    async def first(self, where: str) -> None:
        """Waits until writes can be confirmed, before the server starts: otherwise each of its first writes would fail.

        Raises StoreUnavailable with a text that tells what to do.
        """
        try:
            await self.revision()
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"{where}: {error}; bring the servers back, or start with --redis-min-replicas=0, "
                "which accepts that a fail-over loses writes"
            ) from None

    async def at_least(self, newest: int) -> int:
        """As ``revision``, but it also succeeds while replicas are missing, if everything has been confirmed before.

        ``newest`` is the value of the revision counter, just read.  Raises StoreUnavailable.
        """
        why = self.problem
        if not why:
            try:
                return await self.revision()
            except StoreUnavailable as error:
                why = str(error)
        if newest > self.confirmed or self._fence is None or self._distrust():
            raise StoreUnavailable(f"what was written last is not confirmed: {why}")
        return newest

    def _hold(self, deferred: Deferred[Reply], result: object, write: bool) -> Deferred[Reply]:
        held = _Held(self._reactor.seconds(), deferred, result, write)
        if self._fence is None:
            self._fail([held], "the connection was lost")
        else:
            self._waiting.append(held)
            if self._cycle is None and self._due is None:
                self._begin()
        return deferred

    # -- cycles

    def _begin(self) -> None:
        self._due = None
        fence = self._fence
        if fence is None or self._cycle is not None:
            return
        self._cycle = cycle = _Cycle(fence, self.replicas, self._waiting)
        self._waiting, listed = [], self._listed
        last = fence.execute_command("EVAL", FENCE, 2, self._keys.revision, self._keys.probe)
        last.addCallbacks(cycle.fenced, cycle.not_fenced)
        last = fence.execute_command(*self._wait)
        last.addCallbacks(cycle.waited, cycle.not_waited)
        if listed is not None:
            fence.execute_command("WAIT", listed.expected, MAX_LAG_MS).addCallbacks(listed.confirmed, lambda _: None)
            last = fence.execute_command("ROLE")
            last.addCallbacks(listed.take, listed.refused)
        last.addCallback(lambda _: self._ended(cycle))
        if self._wait[0] == "WAITAOF" and self._asker_id:
            self._ask_in = _ASK_AGAIN_SECONDS[0]
            self._due = self._reactor.callLater(self._ask_in, self._ask)

    def _ask(self) -> None:
        self._due = None
        if self._cycle is not None and self._commands is not None:
            self._commands.execute_command("CLIENT", "UNBLOCK", self._asker_id).addErrback(lambda _: None)
            self._ask_in = min(self._ask_in * 2, _ASK_AGAIN_SECONDS[1])
            self._due = self._reactor.callLater(self._ask_in, self._ask)

    def _in_cycle(self) -> list[_Held]:
        return self._cycle.waiting if self._cycle is not None else []

    def _ended(self, cycle: _Cycle) -> None:
        if cycle is not self._cycle or cycle.fence.gone:  # ``detach`` follows
            return
        self._cancel()
        self._cycle = None
        why = cycle.problem or self._distrust() or (self._listed.doubt() if self._listed is not None else "")
        if why:
            self._not_confirmed(cycle.waiting, why)
            return
        revision = cycle.revision
        if revision > self.confirmed:
            self.confirmed = revision
        if self.problem:
            self.problem = ""
            log.error("writes to the store are confirmed again")  # at the same level as the fault
        for held in cycle.waiting:  # code that gets a reply may start the next cycle at once
            if held.deferred.called:  # timed out, or failed with its connection
                continue
            if held.result is None:
                held.deferred.callback(revision)
            elif isinstance(held.result, Exception):
                held.deferred.errback(held.result)
            else:
                held.deferred.callback(held.result)
        if self._waiting and self._cycle is None:
            self._begin()

    def _not_confirmed(self, held: list[_Held], why: str) -> None:
        self._waiting[:0] = held
        self._give_up(CONFIRMATION_TIMEOUT, why)
        if self._fence is not None and self._cycle is None and self._due is None:
            self._due = self._reactor.callLater(_PAUSE_SECONDS, self._begin)

    def check(self) -> None:
        """Must be called once a second: fails what waits too long when the server does not answer at all."""
        self._give_up(CONFIRMATION_TIMEOUT + _CYCLE_MS / 1000, "the store's server does not answer")
        if self._listed is not None and self._fence is not None and self._cycle is None:
            self._fence.execute_command("ROLE").addCallbacks(self._listed.take, self._listed.refused)

    def _give_up(self, seconds: float, why: str) -> None:
        """Fails the replies that have been held for so long."""
        until = self._reactor.seconds() - seconds
        late = [held for held in (*self._in_cycle(), *self._waiting) if held.since <= until]
        if not late:
            return
        if self.problem != why:
            self.problem = why
            log.error("writes to the store are not confirmed: {why}", why=why)
        if self._cycle is not None:
            self._cycle.waiting = [held for held in self._cycle.waiting if held.since > until]
        self._waiting = [held for held in self._waiting if held.since > until]
        self._fail(late, why)

    def _fail(self, held: list[_Held], why: str) -> None:
        for each in held:
            if each.deferred.called:
                continue
            if each.write:
                each.deferred.errback(OutcomeUnknown(f"{why}; the outcome of the write is unknown"))
            else:
                each.deferred.errback(StoreUnavailable(why))

    def _cancel(self) -> None:
        if self._due is not None:
            if self._due.active():
                self._due.cancel()
            self._due = None

    async def reached(self, revision: int) -> bool:
        """Waits until everything up to the revision is confirmed, however long that takes; returns True then.

        Returns False when the revision counter is behind the revision, which was read from the stream: no cycle can confirm it.
        Raises StoreUnavailable when the connections are gone.
        """
        while self.confirmed < revision:
            try:
                if await self.revision() < revision:
                    return False
            except StoreUnavailable:
                if self._fence is None:
                    raise
        return True
