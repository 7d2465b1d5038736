"""Large trees are freed in slices, and only by the last who has them."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any
from unittest.mock import patch

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from kapi.machinery import freeing
from kapi.machinery.freeing import dismantle, drain, free_in_steps
from kapi.process.freeing import _MAX_SECONDS, _MAX_TREES, Freeing
from kapi.process.slices import Slices
from kapi.resources.shared.strategies import keep


class Part(dict[str, Any]):
    """A mapping whose end is seen."""


def large(count: int = 2000) -> dict[str, Any]:
    return {"spec": {"list": [Part(a=[Part()], b="x") for _ in range(count)]}}


class Key(str):
    __slots__ = ("__weakref__",)


class Freed(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.slices = Slices(self.clock, length=-1.0)
        self.freeing = Freeing(self.clock, self.slices.call)
        self.freeing.install()
        self.addCleanup(self.freeing.uninstall)
        self.refs: list[Any] = []

    def watched(self, tree: dict[str, Any]) -> dict[str, Any]:
        for part in tree["spec"]["list"]:
            self.refs.append(weakref.ref(part))
        return tree

    def count(self) -> int:
        return sum(ref() is not None for ref in self.refs)

    def turn(self) -> None:
        calls, self.clock.calls = self.clock.calls, []
        for call in calls:
            call.called = 1
            call.func(*call.args, **call.kw)

    def test_what_another_thread_makes_is_left_to_it(self) -> None:
        thread = threading.Thread(target=lambda: free_in_steps(large()))
        thread.start()
        thread.join()
        self.assertFalse(self.freeing.busy())
        self.assertEqual(self.clock.getDelayedCalls(), [], "the reactor is its own thread's alone")

    def test_a_tree_goes_piece_by_piece_after_its_last_use(self) -> None:
        tree = self.watched(large())
        free_in_steps(tree)
        for _ in range(5):
            self.turn()
        self.assertEqual(self.count(), 2000)
        del tree
        self.assert_goes_in_steps()
        self.assertEqual(self.clock.calls, [], "nobody looks when there is nothing to look at")

    def test_what_others_have_stays_whole(self) -> None:
        tree = self.watched(large())
        kept = tree["spec"]["list"][:50]
        whole = tree["spec"]
        free_in_steps(tree)
        del tree
        for _ in range(400):
            self.turn()
        self.assertEqual(whole, large()["spec"])
        self.assertEqual(kept[0], {"a": [{}], "b": "x"})
        del whole
        self.assertEqual(self.count(), 50)

    def test_a_tree_that_stays_in_use_is_kept_in_view_for_a_while(self) -> None:
        tree = large(1)
        free_in_steps(tree)
        self.clock.advance(_MAX_SECONDS)
        self.turn()
        self.assertEqual((self.clock.calls, len(self.freeing._trees)), ([], 0))
        self.assertEqual(tree, large(1))

    def test_small_ones_and_too_many_go_as_others_do(self) -> None:
        free_in_steps({}, 1000)
        self.assertEqual(len(self.freeing._trees), 0)
        for _ in range(2 * _MAX_TREES):
            free_in_steps({})
        self.assertEqual(len(self.freeing._trees), _MAX_TREES)

    def test_nothing_is_kept_after_the_end(self) -> None:
        self.freeing.uninstall()
        free_in_steps({})
        self.assertIsNone(freeing.collector)
        self.assertEqual(len(self.freeing._trees), 0)

    def test_deep_and_shared_trees(self) -> None:
        deep: Any = []
        for _ in range(5000):
            deep = [deep]
        shared = {"a": 1}
        dismantle([deep, {"x": shared, "y": [shared, shared]}])
        self.assertEqual(shared, {"a": 1})

    def test_a_large_part_with_one_other_reference_stays_whole(self) -> None:
        for make in (list, dict.fromkeys):
            kept = make(range(1000))
            dismantle([kept])
            self.assertEqual(len(kept), 1000)

    def test_the_keys_of_a_wide_tree_go_piece_by_piece_too(self) -> None:
        tree = {Key(number): None for number in range(2000)}
        self.refs = [weakref.ref(key) for key in tree]
        free_in_steps(tree)
        del tree
        self.assert_goes_in_steps()

    def test_what_was_noted_on_a_walk_goes_piece_by_piece(self) -> None:
        """Whoever has it drains it."""

        def walk() -> None:
            noted = {Key(number) for number in range(2000)}
            self.refs = [weakref.ref(key) for key in noted]
            drain(noted)

        self.slices.call(walk)
        self.assert_goes_in_steps()

    def test_a_part_that_is_replaced_goes_piece_by_piece(self) -> None:
        tree = self.watched(large())

        def replace() -> None:
            keep(tree, {"spec": {}}, "spec")

        self.slices.call(replace)
        self.assert_goes_in_steps()
        self.assertEqual(tree, {"spec": {}})

    def assert_goes_in_steps(self) -> None:
        left = [2000]
        for _ in range(400):
            self.turn()
            left.append(self.count())
        self.assertEqual(left[-1], 0)
        self.assertLessEqual(
            max(one - other for one, other in itertools.pairwise(left)), 2 * freeing._NODES_PER_CHECKPOINT
        )

    def test_bodies_are_taken(self) -> None:
        from kapi.codecs.json_reading import loads

        with patch.object(freeing, "LARGE", 10):
            tree = loads(b'{"a": [1, 2, 3]}')
        self.assertIs(self.freeing._trees[0][1][0], tree)
