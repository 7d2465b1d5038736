"""The public test kit, as somebody who tests an operator uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kapi.testing.process import KapiProcess
from tests.integration.server_process import ForkedServer
from tests.waiting import MAX_WAIT


def test_a_cluster_for_the_length_of_a_block() -> None:
    from kubernetes import client, config

    with KapiProcess("--controllers=") as kapi:
        assert kapi.process is not None
        pid, root = kapi.process.pid, kapi.root
        api = client.CoreV1Api(config.new_client_from_config(str(kapi.kubeconfig)))
        assert {item.metadata.name for item in api.list_namespace().items} >= {"default", "kube-system"}
    assert not root.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_is_wrong_with_the_flags_is_in_the_error() -> None:
    kapi = KapiProcess("--no-such-flag=1")
    with pytest.raises(RuntimeError, match="no-such-flag"):
        kapi.start()
    assert not kapi.root.exists()


class Unread(KapiProcess):
    """Ends at once; what it has printed is read when its end is known."""

    def __init__(self) -> None:
        super().__init__()
        self.known = threading.Event()

    def command(self) -> list[str]:
        return [sys.executable, "-c", "raise SystemExit('kapi: broken')"]

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert self.known.wait(MAX_WAIT)
        super()._read(process, ready)

    def end(self, number: int = signal.SIGTERM, seconds: float = 60.0) -> int:
        self.known.set()
        return super().end(number, seconds)


def test_the_error_has_all_that_was_printed_before_the_end() -> None:
    with pytest.raises(RuntimeError, match="kapi: broken"):
        Unread().start()


def test_a_directory_of_ones_own_stays_and_is_served_again(tmp_path: Path) -> None:
    with ForkedServer("--controllers=", directory=tmp_path) as first:
        authority = first.authority.read_bytes()
    with ForkedServer("--controllers=", directory=tmp_path) as second:
        assert second.authority.read_bytes() == authority
    assert (tmp_path / "data").is_dir()
