"""Delete of a collection (upstream: ``store.go`` DeleteCollection, and its workers)."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from twisted.internet.defer import Deferred

from kapi.client.sliced import Sliced
from kapi.machinery import status
from kapi.machinery.checkpoint import Call
from kapi.watchcache.entry import Entry
from kapi.watchcache.unreadable import Unreadable


async def delete_collection(
    entries: Iterable[Entry], delete_one: Callable[[Entry], Awaitable[object]], at_once: int, call: Call
) -> None:
    """Deletes what a consistent list has just given, ``at_once`` at a time, each in slices by ``call``.

    What somebody else was quicker to delete is passed over.
    Raises StatusError, the first that is met; what was begun before that is done nevertheless.
    """
    running: deque[Deferred[None]] = deque()
    try:
        for entry in entries:
            if len(running) >= at_once:
                await running.popleft()
            running.append(Sliced(_unless_gone(delete_one(entry)), call).done)
        while running:
            await running.popleft()
    except BaseException:
        for deletion in running:  # the store has them: they come to their end without us
            deletion.addErrback(lambda _: None)
        raise


async def _unless_gone(deletion: Awaitable[object]) -> None:
    try:
        await deletion
    except (status.NotFound, Unreadable):
        pass
