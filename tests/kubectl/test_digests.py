"""What stands for kubectl's answers: of one version, and for whole outcomes alone."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kubectl.digests import Digests
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


def test_another_version_has_to_be_asked(tmp_path: Path) -> None:
    recorded = Digests(tmp_path / "file", "v1", {})
    recorded.note("get pods", ("", "", [0]))
    recorded.write()
    assert not Digests(tmp_path / "file", "v2", {}).known("get pods")


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
