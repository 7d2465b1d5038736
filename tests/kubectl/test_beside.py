"""Client commands find the server that was started in their directory, unless a kubeconfig is named or there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from kapi.serving.notify import announcement
from tests import fork_server
from tests.integration.server_process import kubectl_path
from tests.waiting import until

CONFIG = """\
apiVersion: v1
kind: Config
current-context: {name}
contexts: [{{name: {name}, context: {{cluster: {name}}}}}]
clusters: [{{name: {name}, cluster: {{server: "http://127.0.0.1:1/{name}"}}}}]
"""
TOLD = "Using .kapi/admin.kubeconfig, that of the server in this directory: no other kubeconfig is there.\n"
REFUSED = "The connection to the server {} was refused - did you specify the right host or port?\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / ".kapi").mkdir()
    (tmp_path / ".kapi" / "admin.kubeconfig").write_text(CONFIG.format(name="beside"))
    return tmp_path


def said(place: Path, *arguments: str, command: str = "get --raw /version", **environment: str) -> str:
    kept = {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")}
    with contextlib.chdir(place):
        done = fork_server.run([*command.split(), *arguments], env={**kept, "HOME": str(place), **environment})
    assert done.returncode == 1
    return done.stderr


def test_the_server_of_the_directory_is_found_and_told(place: Path) -> None:
    assert said(place) == TOLD + REFUSED.format("127.0.0.1:1")


def test_a_kubeconfig_that_is_there_or_named_comes_first(place: Path) -> None:
    assert said(place, KUBECONFIG="/dev/null") == REFUSED.format("localhost:8080")
    assert said(place, "--server=http://127.0.0.1:2") == REFUSED.format("127.0.0.1:2")
    (place / ".kube").mkdir()
    (place / ".kube" / "config").write_text(CONFIG.format(name="own"))
    assert said(place) == REFUSED.format("127.0.0.1:1")


@pytest.mark.parametrize(
    ("verb", "times", "path", "before", "after"),
    [
        *(
            (
                verb, 1, "openapi/v2",
                'error: error validating "maps.yaml": error validating data: failed to download openapi: ',
                "; if you choose to ignore these errors, turn validation off with --validate=false\n",
            )
            for verb in ("create", "apply")
        ),
        *((verb, 2, "api", 'unable to recognize "maps.yaml": ', "\n") for verb in ("get", "delete")),
    ],
)  # fmt: skip
def test_files_tell_of_a_server_that_is_not_there_and_not_of_kinds(
    place: Path, verb: str, times: int, path: str, before: str, after: str
) -> None:
    """As kubectl: for each object, or once where files are validated first."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
    (place / "maps.yaml").write_text(text)
    why = f'Get "http://127.0.0.1:1/beside/{path}?timeout=32s": dial tcp 127.0.0.1:1: connect: connection refused'
    assert said(place, command=f"{verb} -f maps.yaml") == TOLD + times * f"{before}{why}{after}"


DEPLOYMENT = Path(__file__).parent / "files" / "local" / "deployment.yaml"
ANONYMOUS = ("--server=https://127.0.0.1:1", "--kubeconfig=/dev/null")


def asked_for_a_user(command: list[str], place: Path, *arguments: str) -> bytes:
    """What a command shows on a terminal, where a name and a password are typed when they are asked for."""
    controlling, terminal = os.openpty()
    shown, typed = b"", [(b"Username: ", b"me\n"), (b"Password: ", b"geheim\n")]
    environment = {**os.environ, "HOME": str(place), "KUBERC": "off"}
    with subprocess.Popen(
        [*command, *arguments], stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as running:
        os.close(terminal)
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(controlling, 4096):
                shown += data
                if typed and shown.endswith(typed[0][0]):
                    if len(typed) == 1:
                        until(lambda: not termios.tcgetattr(controlling)[3] & termios.ECHO)
                    os.write(controlling, typed.pop(0)[1])
        running.wait(120)
    os.close(controlling)
    return shown


def test_a_user_whom_nothing_identifies_is_asked(place: Path) -> None:
    """For name and password, which the terminal does not show, as by kubectl."""
    arguments = ("get", "--raw", "/version", *ANONYMOUS)
    shown = asked_for_a_user([sys.executable, "-m", "kapi"], place, *arguments)
    refused = REFUSED.format("127.0.0.1:1").replace("\n", "\r\n").encode()
    assert shown == b"Please enter Username: me\r\nPlease enter Password: " + refused
    if (kubectl := kubectl_path()) is not None:
        assert shown == asked_for_a_user([kubectl], place, *arguments)


@pytest.mark.parametrize(
    ("flags", "text", "wanted"),
    [
        ("get pods", "", "Please enter Username: error: EOF\n"),
        (
            "get pods",
            "  me x",
            "Please enter Username: Please enter Password: error: error reading input for Password\n",
        ),
        ("get pods --password=x", "", "Please enter Username: error: EOF\n"),
        ("version", "", "Please enter Username: error: EOF\n"),
        ("get --raw / --username=me", "", REFUSED.format("127.0.0.1:1")),
        ("get --raw / --token=t", "", REFUSED.format("127.0.0.1:1")),
        ("get --raw / --server=http://127.0.0.1:1", "", REFUSED.format("127.0.0.1:1")),
        (f"label --local -f {DEPLOYMENT} z=y", "", "deployment.apps/web labeled\n"),
    ],
)
def test_without_a_terminal_nothing_can_be_asked(place: Path, flags: str, text: str, wanted: str) -> None:
    """A command that needs no server asks nothing."""
    done = fork_server.run_binary([*ANONYMOUS, *flags.split()], env={"HOME": str(place)}, stdin=text.encode())
    assert (done.stdout + done.stderr).decode() == wanted


def test_a_start_tells_on_a_terminal_what_to_type_next() -> None:
    two = "kapi is serving at https://127.0.0.1:6443\nexport KUBECONFIG=/x"
    assert announcement("https://127.0.0.1:6443", "/x", "0.0.0.0", terminal=False) == two
    text = announcement("https://127.0.0.1:6443", "/x", "0.0.0.0", terminal=True)
    assert text.startswith(two) and "kapi get namespaces" in text and "--bind-address=127.0.0.1" in text
    assert "--bind-address" not in announcement("https://127.0.0.1:6443", "/x", "127.0.0.1", terminal=True)
