"""A process that writes to an embedded store until it is killed, and says what was acknowledged.

``python -m tests.store.writer DIRECTORY SEED SINCE``.  Lines: ``PID n`` of the server, ``ACK kind key revision
payload`` after each acknowledged write, ``SEEN type key revision`` for each event of a watch from SINCE on.
"""

from __future__ import annotations

import os
import random
import sys
import zlib

from twisted.internet import reactor, task
from twisted.internet.defer import Deferred, ensureDeferred, gatherResults

from kapi.machinery.gvk import GroupResource
from kapi.store.errors import StoreError, StoreUnavailable
from kapi.store.factory import EmbeddedStore
from kapi.watchcache.caches import Caches
from kapi.watchcache.event import Batch

WRITERS = 8
HEAD = b'{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"'


def say(*words: object) -> None:
    data = (" ".join(map(str, words)) + "\n").encode()
    while data:  # the signal that the server has ended may come between, and cut a write short
        data = data[os.write(1, data) :]


def payload(rng: random.Random) -> str:
    """Text that shows whether it is whole."""
    text = rng.randbytes(rng.randrange(1, 3000)).hex()
    return f"{zlib.crc32(text.encode()):08x}{text}"


async def write(caches: Caches, number: int, rng: random.Random) -> None:
    """Each writer has keys of its own and one shared with all."""
    store, cache = caches.store, caches.cache(GroupResource("", "things"))
    while True:
        name = rng.choice([f"w{number}-{rng.randrange(5)}", "shared"])
        key = f"core/things/ns/{name}"
        text = payload(rng)
        tail = f'","name":"{name}"}},"data":"{text}"}}'.encode()
        entry = cache.get("ns", name)
        try:
            if entry is None:
                kind, revision = "c", await store.create(key, HEAD, tail)
            elif rng.random() < 0.3:
                kind, revision = "d", await store.delete(key, entry.revision, HEAD, tail)
            else:
                kind, revision = "u", await store.update(key, entry.revision, HEAD, tail)
            say("ACK", kind, key, revision, text)
        except StoreUnavailable:
            await task.deferLater(reactor, 0.01, lambda: None)
        except StoreError:
            continue


async def main(directory: str, seed: int, since: int) -> None:
    store = EmbeddedStore(directory, reactor)
    caches = Caches(store, reactor)
    await caches.start()
    say("PID", store.server.pid)

    def seen(batch: Batch) -> None:
        for event in batch.events:
            assert event.entry is not None
            say("SEEN", event.type, event.entry.key, event.revision)

    caches.cache(GroupResource("", "things")).watch(since, seen, lambda error: say("END", error))
    rng = random.Random(seed)
    writers: list[Deferred[None]] = [
        ensureDeferred(write(caches, number, random.Random(rng.random()))) for number in range(WRITERS)
    ]
    await gatherResults(writers)


if __name__ == "__main__":
    arguments = (sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    task.react(lambda _: ensureDeferred(main(*arguments)))
