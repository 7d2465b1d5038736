"""The command ``kapi``: a client command does not load the server, and anything else starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kapi.kubectl.commands import client_command

MANIFESTS = Path(__file__).parent / "files" / "local" / "deployment.yaml"
CODE = """
import sys
from kapi.kubectl.commands import COMMANDS, module_of
for command in COMMANDS:
    __import__(module_of(command))
import kapi.kubectl.factory, kapi.kubectl.get_watch, kapi.client.rest, kapi.client.discovery_cache
bad = sorted(name for name in sys.modules if name.startswith("kapi.") and name.split(".")[1] not in
             ("kubectl", "client", "codecs", "machinery", "request", "wire")
             and name not in ("kapi.process", "kapi.process.reactor"))  # the types of Twisted's reactor
print(bad)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


def test_preferences_that_are_no_file(tmp_path: Path) -> None:
    """A link to nothing counts as no preferences, as for kubectl."""
    preferences = tmp_path / ".kube" / "kuberc"
    preferences.parent.mkdir()
    for target, said in (("kuberc", "too many levels of symbolic links"), ("gone", "")):
        preferences.symlink_to(target)
        environment = {name: value for name, value in os.environ.items() if name != "KUBERC"}
        done = subprocess.run(
            [sys.executable, "-m", "kapi", "config", "view"], env={**environment, "HOME": str(tmp_path)},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (done.stderr.rpartition(": ")[2], done.returncode) == (said, 0)
        preferences.unlink()


def test_commands_load_nothing_of_the_server() -> None:
    assert run("-c", CODE).stdout == "[]\n"


def test_get_loads_nothing_that_takes_long() -> None:
    """All that `kapi get` imports until its first request is on the way."""
    code = """
import sys
import kapi.kubectl.builder, kapi.kubectl.factory, kapi.kubectl.get, kapi.kubectl.main, kapi.kubectl.printers.table
import kapi.client.connections, kapi.client.connections, kapi.client.discovery_cache, kapi.wire.tls.client, kapi.wire.tls.trust
slow = ("fractions", "prometheus_client", "treq", "twisted.web.client", "twisted.web.http", "twisted.web.iweb", "wsproto")
print([name for name in slow if name in sys.modules])
"""
    assert run("-c", code).stdout == "[]\n"


def test_a_command_does_without_modules_that_only_others_name() -> None:
    """Of Twisted, of what verifies the server's name, and of kapi: their import was most of a command's time."""
    code = """
import os, sys
from kapi.__main__ import main
def end(code):
    ran = sorted(name for name, module in sys.modules.items() if type(module).__name__ != "_Postponed")
    os.write(1, " ".join(ran).encode())
    leave(code)
leave, os._exit = os._exit, end
main()
"""
    done = run("-c", code, "get", "pods", "--server=https://127.0.0.1:1", "--token=t", "--kubeconfig=/dev/null")
    ran = set(done.stdout.split())
    assert {"twisted.internet.defer", "service_identity", "cryptography.x509.name", "kapi.wire.tls.client"} <= ran
    assert ran.isdisjoint({"asyncio", "concurrent.futures", "http", "http.client", "http.cookiejar", "urllib.request"})
    assert ran.isdisjoint(
        {"email._parseaddr", "idna.core", "logging", "msgspec", "pickle", "tempfile", "textwrap", "yaml", "zipfile"}
    )
    assert ran.isdisjoint({"cryptography.hazmat.primitives.serialization.ssh", "twisted.python.filepath"})


@pytest.mark.parametrize(
    "arguments",
    [
        *("version --client", "config view", "options", "get --help", "create configmap a --dry-run=client -o yaml"),
        *(f"{line} --local -f {MANIFESTS}" for line in ("label a=b", "annotate a=b", "set env A=b", "patch -p {}")),
    ],
)
def test_a_command_that_waits_for_nothing_does_without_the_reactor(arguments: str) -> None:
    done = run("-X", "importtime", "-m", "kapi", *arguments.split(), "--kubeconfig=/dev/null")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert done.stdout
    assert "twisted.internet.defer" in imported
    assert imported.isdisjoint({"twisted.internet.reactor", "OpenSSL", "kapi.client.connections"})


@pytest.mark.parametrize("arguments", ["label --local -f - a=b", "create --dry-run=client -f -"])
def test_an_interrupt_ends_a_command_that_reads_its_input(arguments: str) -> None:
    command = [
        sys.executable,
        "-m",
        "kapi",
        *arguments.split(),
        "--server=http://127.0.0.1:1",
        "--kubeconfig=/dev/null",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"#" * (1 << 20))  # more than a pipe holds: it is written when most of it was read
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (1, b"", b"")


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio; asyncio.run(asyncio.sleep(0))",
        "from asyncio import *; run(wait_for(sleep(0), 60))",
        "import asyncio.subprocess; asyncio.create_subprocess_exec",
        "import asyncio as a; from asyncio import Future, Task; assert isinstance(a.Future(loop=a.new_event_loop()), Future)",
        "from asyncio import Future; assert not isinstance(1, Future); assert Future.cancelled.__name__ == 'cancelled'",
        "from asyncio import iscoroutine; assert not iscoroutine(1)",
        "import asyncio, twisted.internet.defer as defer; defer.succeed(1).asFuture(asyncio.new_event_loop()).cancel()",
        "from html import escape; import html; assert escape('<') == html.escape('<') == '&lt;'; html.unescape('&lt;')",
        "from twisted.internet import reactor, ssl; assert ssl.optionsForClientTLS('a'); assert reactor.listenUDP",
        "import tempfile, pickle, textwrap; tempfile.TemporaryFile(); pickle.loads(pickle.dumps(textwrap.dedent(' a')))",
        "from http.cookiejar import CookieJar; CookieJar()",
        "import http.cookiejar, http; http.cookiejar.CookieJar(); assert http.HTTPStatus.OK == 200",
        "from twisted.logger import STDLibLogObserver, eventAsJSON; assert STDLibLogObserver() and eventAsJSON({})",
        "from twisted.logger._legacy import fromStdlibLogLevelMapping as by; import logging; assert by[logging.ERROR]",
        "from twisted.internet.address import UNIXAddress; assert UNIXAddress('/a').name == b'/a'",
        "from twisted.internet import endpoints, reactor; assert endpoints.clientFromString(reactor, 'tcp:a:1')",
        "from cryptography.x509 import Name; assert Name.from_rfc4514_string('CN=a,O=b').rfc4514_string() == 'CN=a,O=b'",
        "from cryptography.x509 import RFC822Name; assert RFC822Name('a@b.c').value == 'a@b.c'",
        "from kapi.machinery import der; import pytest; pytest.raises(ValueError, der.private_key, b'')",
        "import idna; from importlib.util import find_spec; assert find_spec('idna').loader.get_source('idna')",
        "import platform; assert platform.python_implementation() and platform.platform()",
        "import asyncio, inspect; assert not hasattr(asyncio, 'nothing'); inspect.getsource(asyncio)",
    ],
)
def test_a_module_that_is_postponed_is_whole_for_its_users(code: str) -> None:
    done = run("-c", f"from kapi.kubectl.postponed import postpone; postpone(); {code}")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_imported_already_is_not_postponed() -> None:
    code = "import asyncio, sys; from kapi.kubectl.postponed import postpone; postpone()"
    assert run("-c", f"{code}; print(sys.modules['asyncio'] is asyncio)").stdout == "True\n"


@pytest.mark.parametrize(
    "arguments",
    [["-m", "kapi"], *(["-c", f"from kapi.dropin.{name} import main; main()"] for name in ("kube_apiserver", "etcd"))],
)
def test_the_reader_of_the_help_may_have_ended(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as output:
        command = [sys.executable, *arguments, "--help"]
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_flags_alone_are_the_servers() -> None:
    assert "Usage: kapi [flags]" in run("-m", "kapi", "--help-server").stdout
    done = run("-m", "kapi", "--no-such-flag")
    assert done.returncode != 0
    assert "no-such-flag" in done.stderr


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("get pods -n x", "get pods -n x"),
        ("-n x get pods", "get -n x pods"),
        ("--namespace=x -s http://a --insecure-skip-tls-verify get pods",
         "get --namespace=x -s http://a --insecure-skip-tls-verify pods"),
        ("-nx get", "get -nx"),
        ("-n get", None),
        ("--secure-port 1 get", None),
        ("--audit-log-path get", None),
        ("get-pods", None),
        ("--token get --bind-address x", None),
        ("-- get", None),
        ("", None),
    ],
)  # fmt: skip
def test_flags_of_all_commands_may_come_first(given: str, wanted: str | None) -> None:
    """and whatever the client does not know is the server's"""
    assert client_command(given.split()) == (None if wanted is None else wanted.split())


def test_a_command_ends_with_its_code() -> None:
    done = run("-m", "kapi", "get", "pods", "--server=http://me:secret@127.0.0.1:1", "--kubeconfig=/dev/null")
    assert (done.stdout, done.returncode) == ("", 1)
    assert (
        done.stderr
        == "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?\n"
    )
    help_text = run("-m", "kapi", "get", "--help")
    assert help_text.returncode == 0
    assert "--show-labels" in help_text.stdout


def test_a_fault_of_a_command_is_shown() -> None:
    code = """
import sys
from kapi.kubectl import get, main
get.run = lambda factory, program: [].pop()
main.main(["get", "pods"])
"""
    done = run("-c", code)
    assert done.returncode == 1
    assert "IndexError: pop from empty list" in done.stderr


def test_programs_of_the_path_are_further_commands(tmp_path: Path) -> None:
    """The longest name is taken; built-in commands come first; kinds that ``create`` does not know may be plugins, too."""
    for name in ("kubectl-foo", "kubectl-foo-a_b", "kubectl-get", "kubectl-create-foo", "kubectl-create-secret"):
        (tmp_path / name).write_text('#!/bin/sh\necho "${0##*/}" "$@"\n')
        (tmp_path / name).chmod(0o755)

    def said(line: str) -> tuple[str, str]:
        words = [sys.executable, "-m", "kapi", *line.split()]
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBERC": "off"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
        return done.stdout, done.stderr

    assert said("foo x --y z") == ("kubectl-foo x --y z\n", "")
    assert said("foo a-b -x") == ("kubectl-foo-a_b -x\n", "")
    assert said("create foo -x") == ("kubectl-create-foo -x\n", "")
    assert said("get --help")[0].startswith("Lists")
    assert "kubectl-create-secret" not in said("create secret")[0]
    assert said("fo")[1].startswith('error: unknown command "fo"')
