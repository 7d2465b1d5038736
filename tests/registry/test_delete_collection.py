"""A collection is deleted with several deletions under way, and none of them is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, execute
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery import status
from kapi.options.options import Options
from kapi.registry.delete import delete_collection
from kapi.registry.deletions import PendingDeletion
from kapi.store.errors import RevisionConflict, StoreUnavailable
from kapi.store.interface import Deletion


class Store:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Deferred[Any]]] = []

    def delete_all(self, deletions: Sequence[Deletion]) -> Deferred[Any]:
        answer: Deferred[Any] = Deferred()
        self.asked.append(([deletion.key for deletion in deletions], answer))
        return answer

    def answer(self, results: Any = None) -> list[str]:
        """To what was asked first; tells what that was."""
        keys, answer = self.asked.pop(0)
        if isinstance(results, Exception):
            answer.errback(results)
        else:
            answer.callback([results.get(key, 1) for key in keys] if results else [1] * len(keys))
        return keys


class Collections(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = Store()
        self.alone: dict[str, Deferred[None]] = {}  # what waits for something else than the store
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.refused: dict[str, Exception] = {}
        self.late: list[str] = []

    async def one(self, key: str, pending: PendingDeletion) -> None:
        self.begun.append(key)
        if key in self.alone:
            await self.alone[key]
            self.assertFalse(pending.can_batch)
        elif key in self.refused:
            raise self.refused[key]
        else:
            self.assertTrue(pending.can_batch)
            try:
                await pending.delete(Deletion(key, 1, b"", b"x"))
            except RevisionConflict:
                self.late.append(key)
                raise status.NotFound("gone by now") from None
            except StoreUnavailable as error:
                raise status.InternalError(str(error)) from None
        self.ended.append(key)

    def start(self, count: int, at_once: int = 4) -> Deferred[None]:
        keys: Any = [str(number) for number in range(count)]
        store: Any = self.store
        one: Any = self.one
        return Deferred.fromCoroutine(delete_collection(store, keys, one, at_once, execute))

    def test_while_the_store_has_some_the_next_are_worked_out(self) -> None:
        done = self.start(9)
        self.assertEqual([keys for keys, _ in self.store.asked], [["0", "1"], ["2", "3"]])
        self.assertEqual((self.begun, self.ended), (["0", "1", "2", "3"], []))
        self.store.answer()
        self.assertEqual(self.ended, ["0", "1"])
        self.assertEqual([keys for keys, _ in self.store.asked], [["2", "3"], ["4", "5"]])
        for _ in range(4):
            self.assertNoResult(done)
            self.store.answer()
        self.successResultOf(done)
        self.assertEqual(self.ended, self.begun)
        self.assertEqual(len(self.ended), 9)

    def test_so_many_as_a_flag_says(self) -> None:
        done = self.start(3, at_once=1)
        for number in range(3):
            self.assertEqual(len(self.begun), number + 1)
            self.assertEqual(self.store.answer(), [str(number)])
        self.successResultOf(done)
        for flags, workers in ((["--delete-collection-workers=3"], 3), ([], None)):
            self.assertEqual(Options.from_command_line(flags).storage.delete_workers, workers)

    def test_large_objects_go_in_smaller_numbers(self) -> None:
        async def large(key: str, pending: PendingDeletion) -> None:
            await pending.delete(Deletion(key, 1, b"", b"x" * 600_000))

        keys: Any = "abc"
        store: Any = self.store
        deleting: Any = large
        done = Deferred.fromCoroutine(delete_collection(store, keys, deleting, 100, execute))
        self.assertEqual([self.store.answer(), self.store.answer()], [["a", "b"], ["c"]])
        self.successResultOf(done)

    def test_what_is_gone_already_is_passed_over(self) -> None:
        self.refused["0"] = status.NotFound("gone")
        done = self.start(3)
        self.assertEqual(self.store.answer({"1": RevisionConflict("1", 1, 2)}), ["1"])
        self.assertEqual(self.late, ["1"])
        self.assertNoResult(done)
        self.assertEqual(self.store.answer(), ["2"])
        self.successResultOf(done)
        self.assertEqual(self.ended, ["2"])

    def test_what_waits_for_something_else_goes_to_the_store_alone(self) -> None:
        self.alone["1"] = Deferred()
        self.alone["2"] = Deferred()
        done = self.start(4)
        self.assertEqual([self.store.answer(), self.store.answer()], [["0"], ["3"]])
        self.assertNoResult(done)
        self.alone["1"].callback(None)
        self.assertNoResult(done)
        self.alone["2"].callback(None)
        self.successResultOf(done)
        self.assertEqual(sorted(self.ended), ["0", "1", "2", "3"])

    def test_what_goes_alone_goes_after_those_before_it(self) -> None:
        self.refused["1"] = status.NotFound("whatever it does by itself")
        refused, sent = self.one, []

        async def one(key: str, pending: PendingDeletion) -> None:
            if key == "1":
                pending.leave_batch()
                sent.extend(keys for keys, _ in self.store.asked)
            await refused(key, pending)

        self.one = one  # type: ignore[method-assign]
        done = self.start(3, at_once=100)
        self.assertEqual(sent, [["0"]])
        self.assertEqual([self.store.answer(), self.store.answer()], [["0"], ["2"]])
        self.successResultOf(done)
        self.assertEqual(self.ended, ["0", "2"])

    def test_an_error_ends_it_and_what_was_begun_goes_on(self) -> None:
        self.alone["1"] = Deferred()
        self.refused["5"] = status.Forbidden("no")
        done = self.start(100)
        self.alone["1"].callback(None)
        self.store.answer()
        self.failureResultOf(done, status.Forbidden)
        self.assertEqual([keys for keys, _ in self.store.asked], [["2", "3"], ["4"]])
        self.store.answer()
        self.store.answer(StoreUnavailable("gone"))  # nobody is left to be told: it is no unhandled error
        self.assertEqual(sorted(self.ended), ["0", "1", "2", "3"])

    def test_a_store_that_answers_with_an_error_tells_all_that_it_had(self) -> None:
        done = self.start(100)
        self.store.answer(StoreUnavailable("away"))
        self.failureResultOf(done, status.InternalError)
        self.assertEqual(self.begun, ["0", "1", "2", "3"])
        self.store.answer()
        self.assertEqual(self.ended, ["2", "3"])

    def test_an_error_of_one_keeps_no_other_from_its_end(self) -> None:
        self.alone["0"] = Deferred()
        done = self.start(2)
        self.alone["0"].errback(status.Forbidden("no"))
        self.store.answer()
        self.failureResultOf(done, status.Forbidden)
        self.assertEqual(self.ended, ["1"])
