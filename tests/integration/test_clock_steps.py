"""Somebody sets the time of day while kapi runs: a stopped store is noticed all the same, and no watch ends.

Needs libfaketime (Debian: ``apt install faketime``); ``tests/options/test_clock.py`` does without.
"""

from __future__ import annotations

import base64
import datetime
import glob
import os
import signal
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from kapi.testing.process import KapiProcess
from tests.waiting import until

_LIBRARY = sorted(glob.glob("/usr/lib/*/faketime/libfaketime.so.1"))
pytestmark = pytest.mark.skipif(not _LIBRARY, reason="libfaketime is not installed")


class SteppedKapi:
    """A kapi whose time of day is set by ``step``; the monotonic clock is the real one."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._offset = directory / "offset"
        self.step(0)
        self.kapi = KapiProcess(directory=directory)
        with monkeypatch.context() as patch:
            for name, value in {
                "LD_PRELOAD": _LIBRARY[0],
                "FAKETIME_TIMESTAMP_FILE": str(self._offset),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }.items():
                patch.setenv(name, value)
            self.kapi.start()
        self._context = ssl.create_default_context(cafile=str(self.kapi.authority))

    def step(self, seconds: int) -> None:
        self._offset.write_text(f"{seconds:+d}s\n")

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.kapi.url + "/readyz", context=self._context, timeout=120) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return False

    def store(self) -> int:
        """The process id of the store's server."""
        assert self.kapi.process is not None
        for children in Path(f"/proc/{self.kapi.process.pid}/task").glob("*/children"):
            for pid in children.read_text().split():
                if "valkey" in Path(f"/proc/{pid}/cmdline").read_text():
                    return int(pid)
        raise AssertionError("there is no store")


@pytest.fixture
def stepped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedKapi]:
    made = SteppedKapi(tmp_path, monkeypatch)
    yield made
    made.kapi.stop()


def test_after_a_step_back_a_stopped_store_is_seen(stepped: SteppedKapi) -> None:
    assert stepped.ready()
    stepped.step(-7200)
    store = stepped.store()
    os.kill(store, signal.SIGSTOP)
    try:
        until(lambda: not stepped.ready())
    finally:
        os.kill(store, signal.SIGCONT)
    until(stepped.ready)


def test_after_a_step_forward_no_watch_ends(stepped: SteppedKapi, tmp_path: Path) -> None:
    context = ssl.create_default_context(cafile=str(stepped.kapi.authority))
    context.load_cert_chain(str(_client_certificate(stepped.kapi, tmp_path)))
    url = stepped.kapi.url + "/api/v1/namespaces?watch=true&resourceVersion=0&timeoutSeconds=300"
    with urllib.request.urlopen(url, context=context, timeout=120) as watch:
        assert b"ADDED" in watch.readline()
        stepped.step(3600)
        body = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"after"}}'
        request = urllib.request.Request(
            stepped.kapi.url + "/api/v1/namespaces", body, {"Content-Type": "application/json"}, method="POST"
        )
        assert all(stepped.ready() for _ in range(5))  # in each turn the timers that are due have run
        with urllib.request.urlopen(request, context=context, timeout=120) as answer:
            assert answer.status == 201
        assert any(b'"after"' in watch.readline() for _ in range(20))


def test_certificates_that_a_wrong_clock_has_made_are_made_again(stepped: SteppedKapi) -> None:
    """Those of a server that runs: its clock was years ahead when it renewed them, and is right again."""
    assert stepped.kapi.process is not None

    def begins_in(day: datetime.datetime) -> bool:
        assert stepped.kapi.process is not None
        stepped.kapi.process.send_signal(signal.SIGHUP)  # it looks at once
        pem = ssl.get_server_certificate(("127.0.0.1", int(stepped.kapi.url.rpartition(":")[2])))
        begin = x509.load_pem_x509_certificate(pem.encode()).not_valid_before_utc
        return begin < day < begin + datetime.timedelta(days=2)

    now = datetime.datetime.now(datetime.UTC)
    ahead = datetime.timedelta(days=3 * 365)
    assert begins_in(now)
    stepped.step(int(ahead.total_seconds()))
    until(lambda: begins_in(now + ahead))
    stepped.step(0)
    until(lambda: begins_in(now))


def _client_certificate(kapi: KapiProcess, directory: Path) -> Path:
    """Certificate and key of the administrator, as one file."""
    user = yaml.safe_load(kapi.kubeconfig.read_text())["users"][0]["user"]
    made = directory / "admin.pem"
    made.write_bytes(b"".join(base64.b64decode(user[name]) for name in ("client-certificate-data", "client-key-data")))
    return made
