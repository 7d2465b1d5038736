"""How large an object may be that is stored."""

from __future__ import annotations

import pytest

from kapi.options.storage import StorageOptions
from kapi.store.errors import ObjectTooLarge
from kapi.store.interface import check_size

KIB = 1024


def test_the_limit_is_3_mib() -> None:
    assert StorageOptions().redis_max_object_bytes == 3 * KIB * KIB


@pytest.mark.parametrize(
    ("replaced", "going", "largest"),
    [
        (0, False, 100),
        (100, False, 100),
        (101, False, 101),
        (0, True, 100 + 64 * KIB),
        (100 + 64 * KIB, True, 100 + 64 * KIB),
        (101 + 64 * KIB, True, 101 + 128 * KIB),
    ],
)
def test_the_largest_object(replaced: int, going: bool, largest: int) -> None:
    check_size("a", largest, 100, replaced, going)
    with pytest.raises(ObjectTooLarge):
        check_size("a", largest + 1, 100, replaced, going)
