"""Two minutes of faults: one history explains every answer.

``KAPI_CONSISTENCY_SEED`` repeats the choices of clients and faults; ``python -m tests.consistency`` runs for longer.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.consistency.__main__ import run_round
from tests.consistency.topology import Unsupported

SEED = int(os.environ.get("KAPI_CONSISTENCY_SEED", str(random.SystemRandom().randrange(1 << 30))))


@pytest.mark.parametrize(
    ("scenario", "seconds"),
    [
        ("embedded", 20),
        ("workers", 10),
        ("external", 20),
        ("network", 20),
        ("disk", 10),
        ("clock", 10),
        ("sentinel", 20),
    ],
)
def test_one_history_explains_every_answer(scenario: str, seconds: float) -> None:
    try:
        result, logs = run_round(scenario, SEED, seconds)
    except Unsupported as reason:
        pytest.skip(str(reason))
    summary = f"scenario {scenario}, seed {SEED}, {result.summary()}; faults: {result.told}"
    assert result.violations == [], f"logs in {logs}; {summary}"
    assert result.totals["acknowledged writes"] > 50, summary
    assert result.totals["watch events"] > 50, summary
    assert result.faults, summary
