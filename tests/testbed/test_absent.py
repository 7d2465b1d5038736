"""A server without ``--testbed`` has nothing of the testbed: no module, no path, no parameter, no flag."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapi.extensions import extension_for
from tests.integration.server_process import ForkedServer, api_request, run_to_end

PATHS = ("/kapi/settled", "/kapi/faults", "/kapi/clock", "/kapi/objects", "/kapi/changes", "/clusters", "/snapshots")
FLAGS = ("--enable-fault-injection", "--enable-logical-clusters")
CODE = """
import sys
from pathlib import Path

import kapi.app
import kapi.embedding
import kapi.tap
import kapi.twistd
import kapi.workers.worker
from tests.assembly.assembled import assembled

assembled(Path(sys.argv[1]), *sys.argv[2:])
print(*sorted(name for name in sys.modules if name.startswith("kapi.")), sep="\\n")
"""


def modules(directory: Path, *flags: str) -> list[str]:
    command = [sys.executable, "-c", CODE, str(directory), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_its_modules_are_imported_with_the_switch_alone(tmp_path: Path) -> None:
    assert not [name for name in modules(tmp_path / "off") if name.startswith("kapi.testbed")]
    assert "kapi.testbed.settled" in modules(tmp_path / "on", "--testbed")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkedServer]:
    with ForkedServer("--controllers=") as process:
        yield process


@pytest.mark.parametrize("path", [*PATHS, "/clusters/one/api/v1/namespaces"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_its_paths_are_unknown(server: ForkedServer, method: str, path: str) -> None:
    unknown = api_request(server, method, "kapi/nothing")
    assert unknown[0] == 404
    assert api_request(server, method, path[1:]) == unknown
    assert path not in api_request(server, "GET", "")[1].decode()


def test_its_parameter_is_ignored_as_any_unknown(server: ForkedServer) -> None:
    path = "api/v1/namespaces/kube-system"
    known = api_request(server, "GET", path)
    assert known[0] == 200
    for parameter in ("kapiRevision=1", "nothing=1"):
        assert api_request(server, "GET", f"{path}?{parameter}") == known


@pytest.mark.parametrize("flag", FLAGS)
def test_its_flags_are_unknown(flag: str, tmp_path: Path) -> None:
    code, printed = run_to_end(f"--data-dir={tmp_path}", flag)
    assert (code, printed.strip().splitlines()) == (1, [f"kapi: unknown flag: {flag}"])
    assert flag not in run_to_end("--help-server")[1]
    assert flag in run_to_end("--testbed", "--help-server")[1]


def test_the_last_switch_wins() -> None:
    for given, on in (
        ((), False), (("--testbed",), True), (("--testbed=true", "--v=2"), True), (("--testbed", "--testbed=false"), False),
        (("--testbed=1",), True), (("--testbed=nonsense",), False), (("--testbeds",), False),
    ):  # fmt: skip
        assert (extension_for(given) is not None) is on, given


def test_a_value_that_is_no_bool_is_refused(tmp_path: Path) -> None:
    code, printed = run_to_end(f"--data-dir={tmp_path}", "--testbed=nonsense")
    assert code == 1 and "--testbed" in printed
