"""The recordings of a real kube-apiserver, replayed.

A selection of them is part of this repository; where all of them lie beside the checkout, all are replayed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fork_server import NO_SHORT_CUT
from tests.golden.replaying import Asker, differences, replay, tokens_of, without_texts
from tests.integration.embedded_site import EmbeddedSite
from tests.integration.server_process import ForkedServer, ServerProcess

ALL = Path(__file__).parents[3] / "shared" / "golden" / "recordings"
SELECTION = Path(__file__).parent / "recordings"
RECORDINGS = ALL if ALL.exists() else SELECTION
#: percent of an area's steps that must be the same: all but one of a large area
IDENTICAL = 99.8
#: three answers of ``services`` name the recorded server's port
IDENTICAL_SERVICES = 99
#: what differed once when random requests were sent, minimised, with three times as many cases that agreed
RANDOM = ALL.parents[1] / "golden-fuzz" / "recordings"
#: percent of them that must be the same, whole and but for texts; docs/compatibility.rst names what stays different
RANDOM_IDENTICAL, RANDOM_SAME = 98, 99
MAX_SELECTION = 2_000_000  # bytes
AREAS = sorted(path.name for path in RECORDINGS.iterdir())


class _Tally:
    def __init__(self) -> None:
        self.steps = 0
        self.different: list[str] = []
        self.other_objects: list[str] = []  # of these: not in texts alone

    def holds(self, different: list[str], floor: float) -> bool:
        return 100 * len(different) <= (100 - floor) * self.steps


def _replayed(recordings: list[Path], kind: type[ServerProcess] | type[EmbeddedSite] = ForkedServer) -> _Tally:
    tally = _Tally()
    server = kind(
        "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc", "--enable-bootstrap-token-auth", "--controllers=",
    ).start()  # fmt: skip
    try:
        asker = Asker(server.url, tokens_of(server.tokens))
        for recording in recordings:
            for step, wanted, found in replay(asker, recording):
                tally.steps += 1
                if wanted != found:
                    name = f"{recording.parent.name}/{recording.stem}/{step['name']}"
                    text = "\n    ".join([name, *list(differences(wanted, found))[:8]])
                    tally.different.append(text)
                    if without_texts(wanted) != without_texts(found):
                        tally.other_objects.append(text)
        asker.close()
    finally:
        server.stop()
    assert tally.steps
    return tally


@pytest.mark.parametrize("area", AREAS)
def test_area_keeps_its_floor(area: str) -> None:
    tally = _replayed(sorted((RECORDINGS / area).glob("*.json")))
    floor = IDENTICAL_SERVICES if area == "services" else IDENTICAL
    assert tally.holds(tally.different, floor), "\n".join(tally.different)


@pytest.mark.parametrize("areas", [("discovery", "watch"), ("configmaps", "crd")], ids=" and ".join)
def test_the_tree_in_a_plain_site_answers_the_same(areas: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the short cut; ``--no-short-cut`` replays all areas so."""
    monkeypatch.setenv(NO_SHORT_CUT, "1")
    tally = _replayed([file for area in areas for file in sorted((SELECTION / area).glob("*.json"))], EmbeddedSite)
    assert not tally.different, "\n".join(tally.different)


@pytest.mark.skipif(not RANDOM.is_dir(), reason="the answers to random requests are not beside this checkout")
def test_random_requests_keep_their_floor() -> None:
    tally = _replayed(sorted(RANDOM.rglob("*.json")))
    assert tally.holds(tally.other_objects, RANDOM_SAME), "\n".join(tally.other_objects)
    assert tally.holds(tally.different, RANDOM_IDENTICAL), "\n".join(tally.different)


def test_the_selection_is_compact() -> None:
    files = list(SELECTION.glob("*/*.json"))
    assert len({file.parent for file in files}) >= 30
    assert 1_000_000 < sum(file.stat().st_size for file in files) < MAX_SELECTION
