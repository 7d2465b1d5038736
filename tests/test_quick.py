"""Which tests are in the quick part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distribution import Durations
from tests.quick import leaves_out

_TESTS = Path(__file__).parent
_LISTED = Durations({"tests/store/test_failover.py": 91.0})


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("machinery", False),
        ("machinery/test_quantity.py", False),
        ("store/test_failover.py", True),
        ("store/test_feed.py", False),
        ("security", True),
        ("integration", False),
        ("integration/test_first_start.py", False),
        ("integration/test_process.py", True),
        ("golden/test_in_memory.py", False),
        ("golden/test_replay.py", True),
        ("test_quick.py", False),
    ],
)
def test_what_it_leaves_out(name: str, left_out: bool) -> None:
    assert leaves_out(_TESTS / name, _LISTED) is left_out


def test_it_leaves_out_no_other_tests() -> None:
    assert not leaves_out(_TESTS.parent / "kapi" / "security", _LISTED)
