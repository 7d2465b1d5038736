"""The files of a service: a tac file and units of systemd.  Ways of starting: ``test_ways_of_starting.py``."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kapi.options.options import Options
from kapi.tap import flags_from_file

ROOT = Path(__file__).parents[2]
FLAGS = ["--bind-address=127.0.0.1", "--secure-port=0"]


@contextmanager
def service(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def address(process: subprocess.Popen[str]) -> str:
    """Where it serves, read from its output once it is ready."""
    assert process.stdout is not None
    url = ""
    for line in process.stdout:
        found = re.search(r"serving at (https://\S+)", line)
        url = found[1] if found else url
        if "export KUBECONFIG=" in line:
            return url
    raise AssertionError("it ended before it was ready")


def ready(url: str, data: Path) -> bytes:
    context = ssl.create_default_context(cafile=str(data / "pki" / "ca.crt"))
    with urllib.request.urlopen(f"{url}/readyz", context=context, timeout=120) as answer:
        content: bytes = answer.read()
    return content


def test_the_tac_file_takes_its_flags_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "kapi.conf").write_text("# of a test\n--nosuch\n")
    command = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
    with service([*command, "--python", "etc/kapi.tac"], KAPI_CONFIG=str(tmp_path / "kapi.conf")) as process:
        output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (1, "kapi: unknown flag: --nosuch\n")


def test_systemd_is_told_when_it_serves_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(120)
        command = [sys.executable, "-m", "kapi", f"--data-dir={tmp_path / 'data'}", *FLAGS]
        with service(command, NOTIFY_SOCKET=str(tmp_path / "notify")) as process:
            assert systemd.recv(100) == b"READY=1"
            assert ready(address(process), tmp_path / "data") == b"ok"  # it is, at the latest, when systemd knows
            process.send_signal(signal.SIGHUP)  # ExecReload
            process.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            assert process.wait(120) == 0


def test_the_flags_of_the_service_are_good() -> None:
    options = Options.from_command_line(flags_from_file(str(ROOT / "etc" / "kapi.conf")))
    unit = (ROOT / "etc" / "kapi.service").read_text()
    state = re.search(r"^StateDirectory=(\S+)$", unit, re.MULTILINE)
    assert state is not None and options.storage.data_dir == f"/var/lib/{state[1]}"


def test_the_flags_of_the_template_unit_are_good(tmp_path: Path) -> None:
    flags = [
        flag.replace("/etc/kapi/store-password", str(tmp_path / "password"))
        for flag in flags_from_file(str(ROOT / "etc" / "kapi-several.conf"))
    ]
    (tmp_path / "password").write_text("secret\n")
    options = Options.from_command_line(flags)
    assert len(options.storage.redis_servers) == 1
    assert options.serving.permit_port_sharing and options.controllers.leader_elect
    unit = (ROOT / "etc" / "kapi@.service").read_text()
    state = re.search(r"^StateDirectory=(\S+)$", unit, re.MULTILINE)
    assert state is not None and options.serving.cert_dir == f"/var/lib/{state[1]}/pki"
    assert f"--data-dir=/var/lib/{state[1]}/%i" in unit


@pytest.mark.parametrize("name", ["kapi.service", "kapi@.service"])
def test_the_service_may_write_the_audit_log_of_the_documentation(name: str) -> None:
    """All else is read-only to it, but for its data."""
    path = re.search(r"--audit-log-path=(\S+)", (ROOT / "docs" / "howto" / "audit.rst").read_text())
    unit = (ROOT / "etc" / name).read_text()
    logs = re.search(r"^LogsDirectory=(\S+)$", unit, re.MULTILINE)
    assert "ProtectSystem=strict" in unit
    assert path is not None and logs is not None and Path(path[1]).parent == Path("/var/log", logs[1])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
@pytest.mark.parametrize("name", ["kapi.service", "kapi@.service"])
def test_systemd_understands_the_units(tmp_path: Path, name: str) -> None:
    unit = tmp_path / name
    text = (ROOT / "etc" / name).read_text()
    unit.write_text(text.replace("ExecStart=/opt/kapi/bin/kapi", f"ExecStart={sys.executable}"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
