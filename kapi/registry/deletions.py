"""Sends deletions of one collection to the store as one command.

Each deletion is a coroutine that runs as for a single object: admission, preconditions, finalizers.  The batch drives these
coroutines by hand (``send``), since a Deferred for each would cost as much as all the rest of a deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence

from twisted.internet.defer import Deferred

from kapi.machinery import status
from kapi.machinery.checkpoint import Interrupted
from kapi.process.driver import Call, Sliced
from kapi.store.errors import StoreError
from kapi.store.interface import Deletion, Store
from kapi.watchcache.unreadable import Unreadable


class PendingDeletion:
    """One deletion of a batch.  Its coroutine awaits this object and continues when the store has answered."""

    __slots__ = ("_batch", "can_batch", "result")

    def __init__(self, batch: DeletionBatch) -> None:
        self.can_batch = True  # False once the coroutine has waited for something or has left the batch
        self.result: int | StoreError | None = None
        self._batch = batch

    def leave_batch(self) -> None:
        """The coroutine writes to the store itself.  Sends the deletions that were started before it first."""
        if self.can_batch:
            self.can_batch = False
            self._batch.send()

    async def delete(self, deletion: Deletion) -> int:
        """Deletes with the batch and returns the revision.  Call it only while ``can_batch``.

        Raises what the store's ``delete`` raises.
        """
        self.can_batch = False
        self._batch.add(deletion, self)
        return await self

    def __await__(self) -> Generator[PendingDeletion, None, int]:
        if self.result is None:
            yield self
        assert self.result is not None
        if isinstance(self.result, StoreError):
            raise self.result
        return self.result


class _Resumed:
    """Awaits the rest of a coroutine that was started by hand and has stopped at a Deferred."""

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


class DeletionBatch:
    """``begin`` each deletion, ``send`` the batch, then await ``end``.

    The coroutines run in the slices of the caller (ADR 18); a coroutine that has waited for something else continues by ``call``.
    """

    def __init__(self, store: Store, call: Call) -> None:
        self.count = 0  # deletions that were started
        self.stored_bytes = 0  # size of the objects that were added
        self._store = store
        self._call = call
        self._deletions: list[Deletion] = []
        self._pending: list[PendingDeletion] = []
        #: coroutines that wait for the store's answer
        self._waiting: list[tuple[Coroutine[object, object, object], PendingDeletion]] = []
        self._alone: list[Deferred[None]] = []  # deletions that wait for something else, and then write themselves
        self._answers: list[Deferred[None]] = []

    def begin(self, delete: Callable[[PendingDeletion], Coroutine[object, object, object]]) -> None:
        """Runs a deletion up to its first wait.  Raises StatusError, except for an object that is already gone."""
        self.count += 1
        pending = PendingDeletion(self)
        self._advance(delete(pending), pending)

    def _advance(self, coroutine: Coroutine[object, object, object], pending: PendingDeletion) -> None:
        try:
            awaited = coroutine.send(None)
        except (StopIteration, status.NotFound, Unreadable):
            return
        if type(awaited) is PendingDeletion:
            self._waiting.append((coroutine, pending))
        else:
            pending.can_batch = False
            self._alone.append(Sliced(_unless_gone(_Resumed(coroutine, awaited)), self._call).done)

    def add(self, deletion: Deletion, pending: PendingDeletion) -> None:
        """Adds a deletion to the next command; ``pending`` gets its answer."""
        self._deletions.append(deletion)
        self._pending.append(pending)
        self.stored_bytes += len(deletion.tail)

    def send(self) -> None:
        """Sends the added deletions to the store as one command."""
        if self._deletions:
            sending = self._delete_all(self._deletions, self._pending)
            self._deletions, self._pending = [], []
            self._answers.append(Deferred.fromCoroutine(sending))

    async def _delete_all(self, deletions: list[Deletion], pending: list[PendingDeletion]) -> None:
        results: Sequence[int | StoreError]
        try:
            results = await self._store.delete_all(deletions)
        except StoreError as error:
            results = [error] * len(deletions)
        for one, result in zip(pending, results, strict=True):
            one.result = result

    async def end(self) -> None:
        """Waits until every deletion is complete.  Raises the first error of any of them."""
        for answer in self._answers:
            await answer
        first: BaseException | None = None
        self._waiting.reverse()
        while self._waiting:
            try:
                self._advance(*self._waiting.pop())
            except (
                Exception,
                Interrupted,
            ) as error:  # the store has deleted the others: their coroutines must still finish
                first = first or error
        while self._alone:
            deletion = self._alone.pop()
            try:
                await deletion
            except (Exception, Interrupted) as error:
                first = first or error
        if first is not None:
            raise first

    def detach(self) -> None:
        """Completes the deletions that have begun, although no caller waits for them any more."""
        self.send()
        Sliced(self.end(), self._call).done.addErrback(lambda _: None)


async def _unless_gone(deletion: _Resumed) -> None:
    try:
        await deletion
    except (status.NotFound, Unreadable):
        pass
