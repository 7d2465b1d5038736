"""The metric of the sizes of the stores."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kapi.store.storage_size import size_families


def test_each_store_whose_size_is_known_has_a_sample() -> None:
    sizes: Any = [SimpleNamespace(known=lambda found=found: found) for found in (7, 0, 9)]
    (family,) = size_families(sizes)()
    assert [(sample.labels["storage_cluster_id"], sample.value) for sample in family.samples] == [
        ("redis-0", 7),
        ("redis-2", 9),
    ]
