"""The examples of the documentation pass, with the clients as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testkit.inner import run

EXAMPLES = Path(__file__).parents[2] / "docs" / "testing" / "examples"
CLIENTS = ["kubernetes", "kubernetes_asyncio", "kr8s", "lightkube", "kopf"]


def test_each_client_has_an_example() -> None:
    assert sorted(path.stem.removeprefix("test_") for path in EXAMPLES.glob("test_*.py")) == sorted(CLIENTS)


def test_the_examples_pass() -> None:
    for client in CLIENTS:
        pytest.importorskip(client)
    outcome, text = run(EXAMPLES, "-n0", "-W", "ignore")
    assert outcome == {"passed": len(CLIENTS)}, text
