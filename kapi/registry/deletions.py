"""Deletions that are worked out one after the other, and go to the store by one command.

Each is a coroutine of its own, which asks for what it would ask for alone: admission, preconditions, finalizers. It is taken on
by hand, since a Deferred for each would cost as much as all else that a deletion needs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence

from twisted.internet.defer import Deferred

from kapi.client.sliced import Sliced
from kapi.machinery import status
from kapi.machinery.checkpoint import Interrupted
from kapi.request.call import Call
from kapi.store.errors import StoreError
from kapi.store.interface import Deletion, Store
from kapi.watchcache.unreadable import Unreadable


class Outcome:
    """What becomes of one deletion, whose coroutine awaits it and goes on when the store has answered."""

    __slots__ = ("_deletions", "begins", "result")

    def __init__(self, deletions: Deletions) -> None:
        self.begins = True  # it has not waited for anything yet, and can go to the store with the others
        self.result: int | StoreError | None = None
        self._deletions = deletions

    def alone(self) -> None:
        """It goes to the store by itself, and after those that were begun before it."""
        if self.begins:
            self.begins = False
            self._deletions.send()

    async def of(self, deletion: Deletion) -> int:
        """The revision.  Only while it ``begins``.  Raises what the store's ``delete`` raises."""
        self.begins = False
        self._deletions.add(deletion, self)
        return await self

    def __await__(self) -> Generator[Outcome, None, int]:
        if self.result is None:
            yield self
        assert self.result is not None
        if isinstance(self.result, StoreError):
            raise self.result
        return self.result


class _Begun:
    """The rest of a coroutine that has stopped at a Deferred."""

    def __init__(self, coroutine: Coroutine[object, object, object], awaited: object) -> None:
        self._coroutine = coroutine
        self._awaited = awaited

    def __await__(self) -> Generator[object, object, object]:
        coroutine, awaited = self._coroutine, self._awaited
        try:
            while True:
                try:
                    value = yield awaited
                except BaseException as error:
                    awaited = coroutine.throw(error)
                else:
                    awaited = coroutine.send(value)
        except StopIteration as stop:
            result: object = stop.value
            return result


class Deletions:
    """``begin`` each, ``send`` them, and await the ``end``.

    Between its waits each runs in the slices of who asks (ADR 18), or by ``call``.
    """

    def __init__(self, store: Store, call: Call) -> None:
        self.size = 0  # deletions that were begun
        self.stored = 0  # bytes of their objects
        self._store = store
        self._call = call
        self._deletions: list[Deletion] = []
        self._outcomes: list[Outcome] = []
        #: those that wait for the store's answer
        self._stopped: list[tuple[Coroutine[object, object, object], Outcome]] = []
        self._apart: list[Deferred[None]] = []  # those that wait for something else, and then go to the store alone
        self._answers: list[Deferred[None]] = []

    def begin(self, delete: Callable[[Outcome], Coroutine[object, object, object]]) -> None:
        """Works out a deletion up to where it has to wait.  Raises StatusError, but not that its object is gone."""
        self.size += 1
        outcome = Outcome(self)
        self._take_on(delete(outcome), outcome)

    def _take_on(self, coroutine: Coroutine[object, object, object], outcome: Outcome) -> None:
        try:
            awaited = coroutine.send(None)
        except (StopIteration, status.NotFound, Unreadable):
            return
        if type(awaited) is Outcome:
            self._stopped.append((coroutine, outcome))
        else:
            outcome.begins = False
            self._apart.append(Sliced(_unless_gone(_Begun(coroutine, awaited)), self._call).done)

    def add(self, deletion: Deletion, outcome: Outcome) -> None:
        """It goes to the store with the others, and ``outcome`` gets the answer."""
        self._deletions.append(deletion)
        self._outcomes.append(outcome)
        self.stored += len(deletion.tail)

    def send(self) -> None:
        """What was worked out goes to the store."""
        if self._deletions:
            asked = self._ask(self._deletions, self._outcomes)
            self._deletions, self._outcomes = [], []
            self._answers.append(Deferred.fromCoroutine(asked))

    async def _ask(self, deletions: list[Deletion], outcomes: list[Outcome]) -> None:
        results: Sequence[int | StoreError]
        try:
            results = await self._store.delete_all(deletions)
        except StoreError as error:
            results = [error] * len(deletions)
        for outcome, result in zip(outcomes, results, strict=True):
            outcome.result = result

    async def end(self) -> None:
        """All of them have come to their end.  Raises the first error that one has met."""
        for answer in self._answers:
            await answer
        first: BaseException | None = None
        self._stopped.reverse()
        while self._stopped:
            try:
                self._take_on(*self._stopped.pop())
            except (Exception, Interrupted) as error:  # the others have been deleted as well, and have to know
                first = first or error
        while self._apart:
            deletion = self._apart.pop()
            try:
                await deletion
            except (Exception, Interrupted) as error:
                first = first or error
        if first is not None:
            raise first

    def leave(self) -> None:
        """Nobody waits for the deletion any more; what has begun is completed nevertheless."""
        self.send()
        Sliced(self.end(), self._call).done.addErrback(lambda _: None)


async def _unless_gone(deletion: _Begun) -> None:
    try:
        await deletion
    except (status.NotFound, Unreadable):
        pass
