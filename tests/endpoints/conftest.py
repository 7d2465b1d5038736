from __future__ import annotations

import pytest

from kapi.testing.memory_api import MemoryAPI, succeed


@pytest.fixture
def api() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started())
    return started
