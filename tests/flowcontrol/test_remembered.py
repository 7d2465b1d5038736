"""What classification remembers of requests."""

from __future__ import annotations

import tracemalloc

from kapi.request.user import UserInfo
from tests.filters.requests import request
from tests.flowcontrol.controller_kit import controller


def test_it_has_a_size() -> None:
    flows = controller()
    tracemalloc.start()
    try:
        for number in range(400):
            info = request(f"/{number}/{'p' * 50_000}").info
            assert info is not None
            flows.classify(info, UserInfo(f"u{number}", groups=(f"{number}", "g" * 50_000)))
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 15_000_000, "400 paths are 20 MB"
