"""What the campaign of ``.ci/run`` makes of its rounds; the rounds themselves are ``python -m tests.consistency``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.consistency import __main__ as campaign
from tests.consistency.client import Client
from tests.consistency.records import Journal, Write
from tests.consistency.round_ import MIN_EVENTS, MIN_WRITES, SCENARIOS, Result, Round
from tests.consistency.topology import Unsupported


class Rounds:
    """Instead of real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.violated = ""
        self.pauses: set[float] = set()
        self.unsupported: set[str] = set()
        monkeypatch.setattr(campaign, "run_round", self.run)
        monkeypatch.setattr("signal.signal", lambda *_: None)

    def run(self, scenario: str, seed: int, *_: Any, pause: float, **__: Any) -> tuple[Result, Path | None]:
        self.pauses.add(pause)
        if scenario in self.unsupported:
            raise Unsupported("not here")
        self.made.append(scenario)
        return Result(scenario, seed, violations=["a write is gone"] if scenario == self.violated else []), None


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(monkeypatch)


def test_each_scenario_has_its_round_but_for_those_that_cannot_be_made_here(rounds: Rounds) -> None:
    rounds.unsupported = {"disk", "sentinel"}
    assert campaign.main(["--once", "--seed=1"]) == 0
    assert rounds.made == [name for name in SCENARIOS if name not in rounds.unsupported]


def test_clients_pause_when_they_are_told_to(rounds: Rounds) -> None:
    assert campaign.main(["--once", "--pause=0.25"]) == campaign.main(["--once"]) == 0
    assert rounds.pauses == {0.25, 0.0}


def test_a_violation_in_any_round_is_a_failure(rounds: Rounds, capsys: pytest.CaptureFixture[str]) -> None:
    rounds.violated = "embedded"
    assert campaign.main(["--once", "--seed=1"]) == 1
    assert rounds.made == list(SCENARIOS)
    assert "VIOLATION a write is gone" in capsys.readouterr().out


def test_it_is_a_failure_when_nothing_could_be_run(rounds: Rounds) -> None:
    rounds.unsupported = set(SCENARIOS)
    assert campaign.main(["--once"]) == 1


def test_a_round_in_which_little_happens_shows_nothing(tmp_path: Path) -> None:
    made = Round("embedded", 1, 0.0, tmp_path)
    made.journal.watch_events = MIN_EVENTS
    made.result.faults["kill_kapi"] = 1
    written = Write("create", "core/configmaps/a/b", "v", None, 0, 0.0, 1.0, 201)
    made.journal.writes = [written] * (MIN_WRITES - 1)
    assert made.little() == f"{MIN_WRITES - 1} acknowledged writes, {MIN_EVENTS} watch events, 1 faults"
    made.journal.writes.append(written)
    assert made.little() == ""
    made.result.faults.clear()
    assert made.little()


class Answering:
    """A connection to a server that has one answer."""

    def __init__(self, body: str) -> None:
        self._body = body

    async def ask(self, *_: Any) -> tuple[int, bytes]:
        return 500, self._body.encode()


@pytest.mark.parametrize(
    ("message", "allowed"), [("failed to allocate a nodePort: range is full", True), ("it is torn", False)]
)
def test_the_report_has_the_request_and_the_body_of_each_500(message: str, allowed: bool) -> None:
    journal = Journal()
    client = Client("w", [1], journal, 0, 1.0)
    client._connections = [Answering(f'{{"message": "{message}"}}')]  # type: ignore[list-item]
    asyncio.run(client.ask("create", "POST", "/api/v1/namespaces/a/services", {}))
    result = Result("embedded", 7, errors=journal.errors)
    report = campaign.show([result.summary()])
    assert "embedded seed 7: POST /api/v1/namespaces/a/services of server 0 at" in report
    assert message in report
    assert journal.complaints == ([] if allowed else journal.errors)
