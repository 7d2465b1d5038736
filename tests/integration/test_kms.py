"""A server whose keys a KMS plugin keeps: nothing in the clear on disk, rotation, and times without the plugin."""

from __future__ import annotations

import base64
import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.server_process import ForkedServer, api_request
from tests.integration.test_encryption import SECRETS, TEXT, on_disk, put, read
from tests.store.kms_plugin import KmsPlugin
from tests.store.test_encryption import file, kms
from tests.waiting import until

pytest.importorskip("grpc")


@pytest.fixture
def plugin() -> Iterator[KmsPlugin]:
    with tempfile.TemporaryDirectory() as directory:
        made = KmsPlugin(Path(directory) / "kms.sock")
        yield made
        made.stop()


def test_a_plugin_keeps_the_keys(tmp_path: Path, plugin: KmsPlugin) -> None:
    path = tmp_path / "encryption.yaml"
    path.write_bytes(file(kms(endpoint=f"unix://{plugin.path}", timeout="60s")))
    plugin.start()
    server = ForkedServer(f"--encryption-provider-config={path}", directory=tmp_path).start()
    hidden = base64.b64encode(TEXT.encode())
    try:
        put(server, "one")
        put(server, "two")
        assert on_disk(server, hidden) == [] and on_disk(server, b"k8s:enc:kms:v2:one:") != []
        assert plugin.calls["Encrypt"] == 1
        assert api_request(server, "GET", "healthz/kms-providers") == (200, b"ok")

        server.end(signal.SIGKILL)
        server.start()
        assert read(server, "one") == TEXT and read(server, "two") == TEXT
        assert plugin.calls["Decrypt"] == 1

        server.end()
        plugin.stop()
        path.write_bytes(file(kms(endpoint=f"unix://{plugin.path}", timeout="1s")))
        server.start()
        code, body = api_request(server, "GET", f"{SECRETS}/one")
        assert code == 500 and b"corrupt object" in body
        assert api_request(server, "GET", "healthz/kms-providers")[0] == 500
        secret = {"metadata": {"name": "three"}, "data": {}}
        code, body = api_request(server, "POST", SECRETS, secret)
        assert (
            code == 500
            and b"kmsv2 Provider one is not healthy" in json.loads(body)["message"].encode()
            or (b"failed to perform status section" in body)
        )
        maps = "api/v1/namespaces/default/configmaps"
        assert api_request(server, "POST", maps, {"metadata": {"name": "free"}})[0] == 201

        plugin.start()
        until(lambda: api_request(server, "GET", f"{SECRETS}/one")[0] == 200)
        assert read(server, "two") == TEXT
        until(lambda: api_request(server, "GET", "healthz/kms-providers") == (200, b"ok"))
        until(lambda: api_request(server, "POST", SECRETS, secret)[0] == 201)  # one second may be too few
    finally:
        server.stop()
