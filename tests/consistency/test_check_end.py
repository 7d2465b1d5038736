"""The checks at the end of a round notice what they are there for."""

from __future__ import annotations

from typing import Any

import orjson

from tests.consistency.check_end import differing_items, differing_objects, differing_quota, unfinished
from tests.consistency.made import PREFIX, change, history, stream
from tests.consistency.records import Selector


def stored(revision: int, name: str, value: str, color: str = "blue") -> bytes:
    return b"%d:0\n%s" % (revision, change(revision, "u", name, value, color).data)


def test_the_stores_objects() -> None:
    key = f"{PREFIX}n0"
    assert differing_objects(history(), {key: stored(2, "n0", "two")}) == []
    assert len(differing_objects(history(), {})) == 1  # lost
    assert len(differing_objects(history(), {key: stored(1, "n0", "one")})) == 1  # older
    assert len(differing_objects(history(), {key: stored(2, "n0", "other")})) == 1  # another one
    left = {key: stored(2, "n0", "two"), f"{PREFIX}n1": stored(3, "n1", "three")}
    assert len(differing_objects(history(), left)) == 1  # deleted, but there


def test_the_items_of_a_servers_list() -> None:
    item: Any = orjson.loads(change(2, "u", "n0", "two", "blue").data)
    assert differing_items(history(), "kapi0", [item]) == []
    assert differing_items(history(), "kapi0", [{**item, "kind": "ConfigMap"}]) == []
    assert len(differing_items(history(), "kapi0", [{**item, "data": {"more": "than stored"}}])) == 1
    item["metadata"]["resourceVersion"] = "9"
    assert len(differing_items(history(), "kapi0", [item])) == 1


def test_a_watch_that_is_silent() -> None:
    assert unfinished(history(), stream(4)) is None
    assert unfinished(history(), stream(1, ("MODIFIED", "n0", 2, "two"), ("BOOKMARK", "", 4, ""))) is None
    missing = unfinished(history(), stream(1, ("MODIFIED", "n0", 2, "two")))
    assert missing is not None and missing.revision == 3
    assert unfinished(history(), stream(1, ("DELETED", "n0", 2, "one"), selector=Selector(name="n0"))) is None
    assert unfinished(history(), stream(None)) is not None  # its initial events do not end


def test_the_usage_that_a_quota_shows() -> None:
    there = history(change(1, "c", "n1", "v1", key="core/secrets/limited/n1"))
    assert differing_quota(there, "limited", {"count/secrets": "1", "count/configmaps": "0"}) == []
    assert len(differing_quota(there, "limited", {"count/secrets": "2", "count/configmaps": "0"})) == 1
    assert len(differing_quota(there, "limited", {})) == 1
