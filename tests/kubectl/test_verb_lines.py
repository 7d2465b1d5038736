"""Tables of command lines for the verbs that change objects and kubeconfig files, through kubectl and through kapi.

Each line leaves the server as it was, so that both programs and all lines find the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubectl.test_command_lines import HERE, Programs
from tests.kubectl.test_daily_lines import check, served

LINES = [line for line in (HERE / "verb_lines.txt").read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    with served("verb_digests.json") as both:
        yield both


@pytest.mark.parametrize("line", LINES)
def test_kapi_says_what_kubectl_says(programs: Programs, line: str) -> None:
    check(programs, line)


def test_the_table_is_long_enough() -> None:
    assert len(LINES) >= 100
