"""What stands for kubectl's answers: of one version, and for whole outcomes alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kubectl.digests import Digests, without_choices
from tests.kubectl.test_command_lines import HERE, LINES, normal, of_this_run


def test_an_outcome_agrees_in_all_its_parts(tmp_path: Path) -> None:
    recorded = Digests(tmp_path / "file", "v1", {"127.0.0.1:1": "SERVER"})
    recorded.note("get pods", ("127.0.0.1:1\n", "no\n", [1]))
    recorded.write()
    digests = Digests(tmp_path / "file", "v1", {"127.0.0.1:2": "SERVER"})
    assert digests.known("get pods") and not digests.known("get")
    assert digests.agree("get pods", ("127.0.0.1:2\n", "no\n", [1]))
    for other in (("127.0.0.1:1\n", "no\n", [1]), ("127.0.0.1:2\n", "", [1]), ("127.0.0.1:2\n", "no\n", [1, 0])):
        assert not digests.agree("get pods", other)


def test_they_do_not_depend_on_where_the_checkout_is() -> None:
    """Its path, too, has the name of kubectl, in whose place outcomes have kapi's."""
    said = normal(f"{HERE}/files /srv/kubectl/root 127.0.0.1:1")
    for found, word in of_this_run(Path("/srv/kubectl/root"), "127.0.0.1:1").items():
        said = said.replace(found, word)
    assert said == "HERE/files ROOT SERVER"


def test_another_minor_version_has_to_be_asked(tmp_path: Path) -> None:
    recorded = Digests(tmp_path / "file", "Client Version: v1.37.1\nKustomize Version: v5.8.1\n", {})
    recorded.note("get pods", ("", "", [0]))
    recorded.write()
    assert Digests(tmp_path / "file", "Client Version: v1.37.10\nKustomize Version: v5.8.2\n", {}).known("get pods")
    for other in ("v1.36.1", "v1.370.1", "v2.37.1"):
        assert not Digests(tmp_path / "file", f"Client Version: {other}\n", {}).known("get pods")


def an_object(uid: str, owner: str, version: str, time: str) -> str:
    return (
        f'{{uid: {uid}, owner: {owner}, resourceVersion: "{version}", made: {time}, volume: kube-api-access-{uid[:5]}, '
        f"ca: -----BEGIN CERTIFICATE-----\n{uid}\n-----END CERTIFICATE-----, generation: 7}}"
    )


ONE, OTHER = "11111111-2222-3333-4444-555555555555", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SAID = an_object(ONE, OTHER, "12", "2026-01-01T00:00:00Z")


def test_what_another_server_chooses_otherwise_is_the_same() -> None:
    other = an_object(OTHER, ONE, "3456", "2027-02-03T04:05:06.789Z")
    assert without_choices(other) == without_choices(SAID)
    assert without_choices(json.dumps(other)) == without_choices(json.dumps(SAID))


@pytest.mark.parametrize(
    "other",
    [
        an_object(ONE, ONE, "12", "2026-01-01T00:00:00Z"),  # which of two uids it is
        SAID.replace('"12"', "12"),
        SAID.replace("generation: 7", "generation: 8"),
        SAID.replace("2026-01-01T00:00:00Z", "2026-01-01"),
        SAID.replace(ONE, "none", 1),
    ],
)
def test_all_else_is_not(other: str) -> None:
    assert without_choices(other) != without_choices(SAID)


def test_what_another_run_says_otherwise_is_left_out(tmp_path: Path) -> None:
    for said in ("one", "two"):
        recorded = Digests(tmp_path / "file", "v1", {})
        recorded.note("same", ("", "", [0]))
        recorded.note("random", (said, "", [0]))
        recorded.write()
    digests = Digests(tmp_path / "file", "v1", {})
    assert digests.known("same") and not digests.known("random")


def test_digests_are_of_the_table() -> None:
    recorded = json.loads((HERE / "kubectl_digests.json").read_text())["digests"]
    assert [line for line in recorded if line not in LINES] == []
    assert len(recorded) > 600
