"""Delete of a collection (upstream: ``store.go`` DeleteCollection, and its workers)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial

from kapi.registry.deletions import DeletionBatch, PendingDeletion
from kapi.request.call import Call
from kapi.store.interface import MAX_DELETIONS, Store
from kapi.watchcache.entry import Entry

_MAX_BATCH_BYTES = 1_000_000  # of objects that one command deletes


async def delete_collection(
    store: Store,
    entries: Iterable[Entry],
    delete_one: Callable[[Entry, PendingDeletion], Coroutine[object, object, object]],
    workers: int,
    call: Call,
) -> None:
    """Deletes the entries of a consistent list, at most ``workers`` at a time, in the slices of the caller or by ``call``.

    They reach the store in batches: while it deletes one batch, the next is prepared.  An object that another client has
    deleted first is skipped.  Raises the first StatusError; deletions that were started before it still complete.
    """
    batch_size = max(1, min(MAX_DELETIONS, workers // 2))
    max_running = 2 if workers > 1 else 1
    running: deque[DeletionBatch] = deque()
    batch = DeletionBatch(store, call)
    try:
        for entry in entries:
            batch.begin(partial(delete_one, entry))
            if batch.count >= batch_size or batch.stored_bytes >= _MAX_BATCH_BYTES:
                batch.send()
                running.append(batch)
                batch = DeletionBatch(store, call)
                if len(running) >= max_running:
                    await running[0].end()
                    running.popleft()
        batch.send()
        running.append(batch)
        while running:
            await running[0].end()
            running.popleft()
    except BaseException:
        for each in (*running, batch):
            each.detach()
        raise
