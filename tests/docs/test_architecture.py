"""The documentation names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted((ROOT / "docs").rglob("*.rst"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document: Path) -> None:
    named = re.findall(r"``((?:kapi|etc|tests|docs)/[\w./-]+\.\w+)``", document.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(("flow", "least"), [("request", 20), ("watch", 8)])
def test_flows_are_lists_of_files(flow: str, least: int) -> None:
    text = (ROOT / "docs" / "architecture.rst").read_text()
    section = text.split(f".. files: {flow}\n")[1].strip().split("\n\n")[0]
    assert len(re.findall(r"^\d+\. ``kapi/[\w/]+\.py`` - ", section, re.M)) >= least
