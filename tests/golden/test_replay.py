"""The recordings of a real kube-apiserver, replayed.

A selection of them is part of this repository; where all of them lie beside the checkout, all are replayed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.replaying import differences, replay, tokens_of
from tests.integration.server_process import ServerProcess

ALL = Path(__file__).parents[3] / "shared" / "golden" / "recordings"
SELECTION = Path(__file__).parent / "recordings"
RECORDINGS = ALL if ALL.exists() else SELECTION
#: percent of an area's steps that must be the same; one answer of ``services`` names the recorded server's port
IDENTICAL = 99
MAX_SELECTION = 2_000_000  # bytes
AREAS = sorted(path.name for path in RECORDINGS.iterdir())


@pytest.mark.parametrize("area", AREAS)
def test_area_keeps_its_floor(area: str) -> None:
    server = ServerProcess(
        "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc", "--enable-bootstrap-token-auth", "--controllers=",
    ).start()  # fmt: skip
    steps, different = 0, []
    try:
        tokens = tokens_of(server.tokens)
        for recording in sorted((RECORDINGS / area).glob("*.json")):
            for step, wanted, found in replay(server.url, tokens, recording):
                steps += 1
                if wanted != found:
                    name = f"{area}/{recording.stem}/{step['name']}"
                    different.append("\n    ".join([name, *list(differences(wanted, found))[:8]]))
    finally:
        server.stop()
    assert steps
    assert 100 * len(different) <= (100 - IDENTICAL) * steps, "\n".join(different)


def test_the_selection_is_compact() -> None:
    files = list(SELECTION.glob("*/*.json"))
    assert len({file.parent for file in files}) >= 30
    assert 1_000_000 < sum(file.stat().st_size for file in files) < MAX_SELECTION
