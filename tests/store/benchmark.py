"""What a write costs on our side: ``python -m tests.store.benchmark``.

Prints writes a second and microseconds of CPU each.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator

from twisted.internet import defer, reactor, task

from kapi.store.factory import EmbeddedStore
from kapi.store.interface import Store
from kapi.watchcache.caches import Caches

HEAD = b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"'
TAIL = b'","name":"p%d","x":"' + b"y" * 2600 + b'"}}'


async def write_all(store: Store, names: Iterator[int]) -> None:
    for name in names:
        await store.create(f"core/pods/default/p{name}", HEAD, TAIL % name)


async def main() -> None:
    directory = tempfile.mkdtemp()
    caches = Caches(EmbeddedStore(directory, reactor), reactor)
    await caches.start()
    for flight, count in ((1, 3000), (16, 10000), (64, 20000)):
        names = iter(range(flight * 1000000, flight * 1000000 + count))
        cpu, start = time.process_time(), time.perf_counter()
        await defer.gatherResults([defer.ensureDeferred(write_all(caches.store, names)) for _ in range(flight)])
        cpu, took = time.process_time() - cpu, time.perf_counter() - start
        each = cpu / count * 1e6
        print(f"{flight:3} in flight: {count / took:7.0f} writes/s, {each:5.1f} us of CPU each, cache included")
    await caches.stop()
    caches = Caches(EmbeddedStore(directory, reactor), reactor)
    start = time.perf_counter()
    await caches.start()
    print(f"restart with 33,000 objects and their history: {time.perf_counter() - start:.2f} s")
    await caches.stop()
    shutil.rmtree(directory)


if __name__ == "__main__":
    task.react(lambda _: defer.ensureDeferred(main()))
