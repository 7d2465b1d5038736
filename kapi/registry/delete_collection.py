"""Delete of a collection (upstream: ``store.go`` DeleteCollection, and its workers)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial

from kapi.registry.deletions import Deletions, Outcome
from kapi.request.call import Call
from kapi.store.interface import MAX_DELETIONS, Store
from kapi.watchcache.entry import Entry

_MAX_BYTES = 1_000_000  # of objects that are deleted by one command


async def delete_collection(
    store: Store,
    entries: Iterable[Entry],
    delete_one: Callable[[Entry, Outcome], Coroutine[object, object, object]],
    at_once: int,
    call: Call,
) -> None:
    """Deletes what a consistent list has just given, ``at_once`` at a time, in the slices of who asks or by ``call``.

    They go to the store together: while it has some, the next are worked out. What somebody else was quicker to delete is passed
    over.  Raises StatusError, the first that is met; what was begun before that is done nevertheless.
    """
    size = max(1, min(MAX_DELETIONS, at_once // 2))
    most = 2 if at_once > 1 else 1
    running: deque[Deletions] = deque()
    some = Deletions(store, call)
    try:
        for entry in entries:
            some.begin(partial(delete_one, entry))
            if some.size >= size or some.stored >= _MAX_BYTES:
                some.send()
                running.append(some)
                some = Deletions(store, call)
                if len(running) >= most:
                    await running[0].end()
                    running.popleft()
        some.send()
        running.append(some)
        while running:
            await running[0].end()
            running.popleft()
    except BaseException:
        for each in (*running, some):
            each.leave()
        raise
