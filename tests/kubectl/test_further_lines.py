"""A table of command lines for objects with odd fields and values, through kubectl and through kapi, as ``test_verb_lines``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubectl.test_command_lines import HERE, Programs
from tests.kubectl.test_daily_lines import check, served

LINES = [line for line in (HERE / "further_lines.txt").read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with served("further_digests.json", "odd") as both:
        yield both


@pytest.mark.parametrize("line", LINES)
def test_kapi_says_what_kubectl_says(programs: Programs, line: str) -> None:
    check(programs, line)
