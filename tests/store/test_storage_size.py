"""The metric of the sizes of the stores."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kapi.store.errors import StoreUnavailable
from kapi.store.storage_size import StorageSize, size_families


def test_each_store_whose_size_is_known_has_a_sample() -> None:
    sizes: Any = [SimpleNamespace(known=lambda found=found: found) for found in (7, 0, 9)]
    (family,) = size_families(sizes)()
    assert [(sample.labels["storage_cluster_id"], sample.value) for sample in family.samples] == [
        ("redis-0", 7),
        ("redis-2", 9),
    ]


@pytest.mark.parametrize(
    ("info", "size"),
    [
        ({"aof_enabled": "1", "aof_current_size": "70", "used_memory": "9"}, 70),
        ({"aof_enabled": "0", "aof_current_size": "70", "used_memory": "9"}, 9),
        ({"aof_enabled": "1", "aof_current_size": "?", "used_memory": "9"}, 9),
        ({"aof_enabled": "1", "used_memory": "9"}, 9),
        ({"used_memory": "-1"}, 0),
        ({}, 0),
    ],
)
def test_the_size_is_that_of_the_file_or_else_of_the_memory(info: dict[str, str], size: int) -> None:
    answer: Deferred[dict[str, str]] = Deferred()
    found = StorageSize(lambda: answer, Clock(), 30.0)
    assert found.known() == 0
    answer.callback(info)
    assert found.known() == size


def test_a_scrape_asks_for_the_next_one_and_not_too_often() -> None:
    clock, asked = Clock(), list[Deferred[dict[str, str]]]()

    def info() -> Deferred[dict[str, str]]:
        asked.append(Deferred())
        return asked[-1]

    size = StorageSize(info, clock, 30.0)
    for seconds, count in ((0, 1), (29, 1), (1, 1)):  # the first is not answered yet
        clock.advance(seconds)
        assert (size.known(), len(asked)) == (0, count)
    asked[0].callback({"used_memory": "5"})
    assert (size.known(), len(asked)) == (5, 2)
    asked[1].errback(StoreUnavailable("away"))
    clock.advance(29.5)
    assert (size.known(), len(asked)) == (5, 2)
    clock.advance(0.5)
    assert (size.known(), len(asked)) == (5, 3)
