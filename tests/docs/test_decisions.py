"""Decisions have a number each, by which code and pages name them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docs" / "adr").glob("0*.rst"))


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [int(file.name[:4]) for file in FILES]
    assert len(set(numbers)) == len(numbers), numbers
    assert [int(file.read_text().partition(".")[0]) for file in FILES] == numbers


def test_decisions_that_are_named_exist() -> None:
    numbers = {int(file.name[:4]) for file in FILES}
    paths = [*(ROOT / "kapi").rglob("*.py"), *(ROOT / "docs").rglob("*.rst")]
    named = {int(number) for path in paths for number in re.findall(r"\b(?:ADR |adr/00)(\d+)", path.read_text())}
    assert named - numbers == set()
