"""Where a request comes from, by its headers and its peer."""

from __future__ import annotations

import tracemalloc

from kapi.audit.event import source_ips


def test_what_is_no_address_is_not_remembered_however_long_it_is() -> None:
    tracemalloc.start()
    try:
        for number in range(200):
            assert source_ips(f"{number}{'x' * 60_000}, 192.0.2.1".encode(), b"::ffff:192.0.2.2", "192.0.2.3") == [
                "192.0.2.1",
                "192.0.2.2",
                "192.0.2.3",
            ]
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
