"""Pages of a cache, as it is and as it was, beside lists that were made the plain way."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from tests.watchcache.test_cache import CacheTest

NAMESPACES = ("a", "a-b", "b")
NAMES = ("one", "one-more", "two", "three")
CHANGE = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(NAMES), st.sampled_from(("write", "delete")))


class PagesTest(CacheTest):
    def runTest(self) -> None:
        """Nothing: a place to stand on for one example."""


def _states(test: PagesTest, changes: list[tuple[str, str, str]]) -> list[tuple[int, dict[str, int]]]:
    """Makes the changes; each state's revision and the revisions of its objects by key."""
    there: dict[str, int] = {}
    states = []
    for namespace, name, kind in changes:
        key = f"{namespace}/{name}"
        if kind == "delete":
            if key not in there:
                continue
            newest = test.delete(name, there.pop(key), namespace)
        elif key in there:
            newest = there[key] = test.update(name, there[key], namespace, app="x")
        else:
            newest = there[key] = test.create(name, namespace)
        states.append((newest, dict(there)))
    return states


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGE, max_size=30), st.sampled_from(("", *NAMESPACES)), st.integers(1, 5), st.booleans())
def test_pages_of_any_state_are_its_list_in_pieces(
    changes: list[tuple[str, str, str]], namespace: str, limit: int, selects: bool
) -> None:
    test = PagesTest()
    test.setUp()
    states = _states(test, changes)
    predicate = Predicate(parse_labels("app=x"), parse_fields("")) if selects else None
    for revision, there in states:
        keys = sorted(key for key in there if not namespace or key.startswith(namespace + "/"))
        whole = test.pods.list_at(revision, namespace, predicate)
        if not selects:
            assert [entry.key for entry in whole] == keys
            assert [entry.revision for entry in whole] == [there[key] for key in keys]
        assert _in_pages(test, revision, namespace, predicate, limit) == whole
    if states:
        assert test.pods.list(namespace, predicate)[0] == test.pods.list_at(states[-1][0], namespace, predicate)


def _in_pages(test: PagesTest, revision: int, namespace: str, predicate: Predicate | None, limit: int) -> list[Any]:
    found: list[Any] = []
    start = ""
    while True:
        page = test.pods.page_at(revision, namespace, predicate, start, limit)
        newest, current = test.pods.page(namespace, predicate, start, limit)
        if test.pods.revision == revision:
            assert (newest.entries, newest.remaining) == (page.entries, page.remaining), current
        found += page.entries
        assert len(page.entries) <= limit
        if not page.remaining:
            return found
        if predicate is None:
            whole = test.pods.list_at(revision, namespace)
            assert page.remaining == len(whole) - len(found)
        last = page.entries[-1]
        start = (last.name if namespace else last.key) + "\0"


class APageBesideWrites(CacheTest):
    def test_a_state_that_pages_are_read_of_is_kept_up_with_later_changes(self) -> None:
        first = self.create("a")
        then = self.create("b")
        self.assertEqual(self.keys(self.pods.list_at(then)), ["ns/a", "ns/b"])
        self.update("a", first)
        self.assertEqual(self.keys(self.pods.list_at(then)), ["ns/a", "ns/b"])
        self.create("aa")
        self.delete("b", then)
        state = self.pods.list_at(then)
        self.assertEqual(self.keys(state), ["ns/a", "ns/b"])
        self.assertEqual([entry.revision for entry in state], [first, then])

    def test_who_holds_a_list_keeps_it_as_it_was(self) -> None:
        self.create("a")
        lent = self.pods.list()[0]
        self.create("b")
        self.assertEqual(self.keys(lent), ["ns/a"])
        self.assertEqual(self.keys(self.pods.list()[0]), ["ns/a", "ns/b"])
