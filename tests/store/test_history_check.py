"""How much is read each second to see whether the store is still the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.store.feed import CHECK_SECONDS, MAX_COMPARED_BYTES, HistoryCheck
from kapi.store.interface import CREATED, Change


class Connection:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute_command(self, name: str, *arguments: Any) -> Deferred[Any]:
        self.asked.append(name)
        return succeed([b"7", b"run"]) if name == "MGET" else fail(RuntimeError("not compared in this test"))


class Looks(SynchronousTestCase):
    def read(self, size: int, looks: int) -> list[str]:
        clock, connection = Clock(), Connection()
        progress: Any = SimpleNamespace(
            loaded=True, revision=7, run=b"run", newest=Change(7, CREATED, "core/configmaps/default/x", b"x" * size)
        )
        keys: Any = SimpleNamespace(revision="r", run="n", stream="s")
        check = HistoryCheck(clock, keys, progress, lambda: connection, self.fail)  # type: ignore[arg-type,return-value]
        check.start()
        clock.pump([CHECK_SECONDS] * looks)
        check.stop()
        return connection.asked

    def test_a_small_change_is_compared_each_time(self) -> None:
        self.assertEqual(self.read(1000, 10).count("XRANGE"), 10)

    def test_one_of_the_size_that_may_be_read_is_compared_each_time_and_a_larger_one_every_second_time(self) -> None:
        self.assertEqual(self.read(MAX_COMPARED_BYTES, 4).count("XRANGE"), 4)
        self.assertEqual(self.read(MAX_COMPARED_BYTES + 1, 3).count("XRANGE"), 1)

    def test_a_large_one_rarely_and_the_counter_each_time(self) -> None:
        """1.5 MB went over the connection each second as long as nothing else was written."""
        asked = self.read(24 * MAX_COMPARED_BYTES, 72)
        self.assertEqual((asked.count("XRANGE"), asked.count("MGET")), (3, 72))

    def test_a_fault_does_not_end_the_checks(self) -> None:
        clock, connection, found = Clock(), Connection(), []

        def went_back(why: str) -> None:
            found.append(why)
            raise OSError("no descriptors")

        progress: Any = SimpleNamespace(loaded=True, revision=7, run=b"another", newest=None)
        keys: Any = SimpleNamespace(revision="r", run="n", stream="s")
        check = HistoryCheck(clock, keys, progress, lambda: connection, went_back)  # type: ignore[arg-type,return-value]
        check.start()
        clock.pump([CHECK_SECONDS] * 3)
        check.stop()
        self.assertEqual(found, ["it is another one, or was emptied"] * 3)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
