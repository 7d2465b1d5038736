"""No reply of the store is much larger than a few megabytes, however many large objects there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from kapi.store.connection import ConnectionGone
from kapi.store.entries import Skipped
from kapi.store.feed import StreamReader
from kapi.store.interface import Change
from kapi.store.loading import FIRST_COUNT, REPLY_BYTES, Paging, Progress, scan, synchronize
from kapi.store.reading import Reading
from kapi.store.script import Keys
from kapi.store.sweeper import Sweeper
from tests.store.contract import Recorder

LARGE = 1024 * 1024
KEYS = Keys.under("kapi")


class Hash:
    """A server's hash and stream of as many objects as ``sizes`` has, in their order; notes the bytes of each reply."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.objects = {b"core/events/ns/%d" % number: b"x" * size for number, size in enumerate(sizes)}
        self.replies: list[int] = []
        self.deleted: list[str] = []
        self.aborted = ""

    def flush(self) -> None: ...

    def abort(self, why: str = "") -> None:
        self.aborted = why

    def execute_command(self, name: str, *arguments: Any) -> Deferred[Any]:
        return succeed(getattr(self, name.lower())(*arguments))

    def _page(self, start: int, count: int) -> list[tuple[int, bytes, bytes]]:
        found = [
            (number, key, value)
            for number, (key, value) in enumerate(list(self.objects.items())[start : start + count], start)
        ]
        self.replies.append(sum(len(value) for _, _, value in found))
        return found

    def value(self, number: int, data: bytes) -> bytes:
        return b"%d:0\n" % (number + 1) + b"%d" % (number + 1) + data

    def hscan(self, name: bytes, cursor: Any, *options: Any) -> Any:
        start, count = int(cursor), int(options[-1])
        found = self._page(start, count)
        end = start + count
        flat = [part for number, key, data in found for part in (key, self.value(number, data))]
        return [b"%d" % end if end < len(self.objects) else b"0", flat]

    def _entries(self, after: int, count: int) -> list[Any]:
        return [[b"%d-0" % (number + 1), [b"c" + key, data]] for number, key, data in self._page(after, count)]

    def xrange(self, name: bytes, begin: str, end: str, *options: Any) -> Any:
        if not begin.startswith("("):
            return self._entries(int(begin.partition("-")[0]) - 1, 1)
        return self._entries(int(begin[1:].partition("-")[0]), options[1])

    def xread(self, *arguments: Any) -> Any:
        after = int(str(arguments[-1]).partition("-")[0])
        if after >= len(self.objects):
            raise ConnectionGone("the test is over")
        return [[KEYS.stream, self._entries(after, arguments[1])]]

    def mget(self, *names: bytes) -> Any:
        return [b"%d" % len(self.objects), b"run"]

    def type(self, name: bytes) -> bytes:
        return b"none"

    def eval(self, *arguments: Any) -> Any:
        return [b"", []]

    def zrangebyscore(self, name: bytes, low: str, high: str, *limit: Any) -> list[bytes]:
        return list(self.objects)[limit[1] : limit[1] + limit[2]]

    def hmget(self, name: bytes, *keys: bytes) -> list[bytes]:
        self.replies.append(sum(len(self.objects[key]) for key in keys))
        return [self.value(0, self.objects[key]) for key in keys]


class Replies(SynchronousTestCase):
    def setUp(self) -> None:
        self.server: Any = Hash([LARGE] * 100)
        self.recorder = Recorder()

    def small_enough(self, replies: Sequence[int]) -> None:
        self.assertLessEqual(replies[0], FIRST_COUNT * LARGE)
        self.assertLessEqual(max(replies[1:]), REPLY_BYTES + LARGE)

    def test_all_objects(self) -> None:
        found = self.successResultOf(Deferred.fromCoroutine(scan(self.server, KEYS, Skipped())))
        self.assertEqual(len(found), 100)
        self.small_enough(self.server.replies)

    def test_what_was_missed(self) -> None:
        progress = Progress(self.recorder)
        progress.loaded, progress.run, progress.revision = True, b"run", 1
        progress.newest = Change(1, "c", "core/events/ns/0", b"x" * LARGE)
        self.recorder.revision = 1
        self.successResultOf(Deferred.fromCoroutine(synchronize(self.server, KEYS, progress)))
        self.assertEqual((self.recorder.revision, self.recorder.resets), (100, 0))
        self.small_enough(self.server.replies[1:])  # but for the one by which the history is recognised

    def test_what_comes(self) -> None:
        StreamReader(self.server, KEYS, Progress(self.recorder)).start()
        self.assertEqual((self.recorder.revision, bool(self.server.aborted)), (100, True))
        self.small_enough(self.server.replies)

    def test_small_ones_are_asked_for_by_the_hundred(self) -> None:
        server: Any = Hash([10] * 10_000)
        StreamReader(server, KEYS, Progress(self.recorder)).start()
        self.assertEqual(self.recorder.revision, 10_000)
        self.assertLess(len(server.replies), 15)

    def test_what_has_expired(self) -> None:
        """All of it goes in one sweep, in several replies."""
        objects = self.server.objects

        class Expired(Reading):
            async def delete(self, key: str, expected: int, head: bytes, tail: bytes) -> int:
                del objects[key.encode()]
                return expected

        reading = Expired("the store", KEYS, Skipped(), lambda: self.server, None)
        swept = self.successResultOf(Deferred.fromCoroutine(Sweeper(reading, None, lambda: 1.0).sweep()))
        self.assertEqual((swept, objects), (100, {}))
        self.assertLessEqual(max(self.server.replies), FIRST_COUNT * LARGE)


class Counts(SynchronousTestCase):
    def test_they_follow_what_replies_had(self) -> None:
        paging = Paging(1000)
        paging.took(FIRST_COUNT, FIRST_COUNT * 100)
        self.assertEqual(paging.count, 2 * FIRST_COUNT)
        paging.took(2 * FIRST_COUNT, 10 * REPLY_BYTES)
        self.assertEqual(paging.count, 2 * FIRST_COUNT // 10)
        paging.took(1, 100 * REPLY_BYTES)
        self.assertEqual(paging.count, 1)
        for _ in range(20):
            paging.took(1, 1)
        self.assertEqual(paging.count, 1000)
        paging.reached(100)
        self.assertEqual(paging.count, 200)
        paging.reached(0)
        self.assertEqual(paging.count, FIRST_COUNT)
