"""Secrets are nowhere in the store's files: not after writes, kills, rotation and deletion."""

from __future__ import annotations

import base64
import json
import signal
from pathlib import Path
from typing import Any

from tests.integration.server_process import ForkedServer, ServerProcess, api_request
from tests.store.test_encryption import file, provider
from tests.waiting import until

SECRETS = "api/v1/namespaces/default/secrets"
TEXT = "hunter2-nobody-may-read-this"


def on_disk(server: ServerProcess, text: bytes) -> list[str]:
    """The store's files in which a text stands."""
    files = [path for path in (server.data / "store").rglob("*") if path.is_file()]
    assert any(b"default" in path.read_bytes() for path in files)
    return [path.name for path in files if text in path.read_bytes()]


def read(server: ServerProcess, name: str) -> Any:
    code, body = api_request(server, "GET", f"{SECRETS}/{name}")
    assert code == 200, body
    return base64.b64decode(json.loads(body)["data"]["k"]).decode()


def put(server: ServerProcess, name: str) -> None:
    secret = {"metadata": {"name": name}, "data": {"k": base64.b64encode(TEXT.encode()).decode()}}
    assert api_request(server, "POST", SECRETS, secret)[0] == 201


def test_the_stores_files_hold_no_secret_through_kill_rotation_and_deletion(tmp_path: Path) -> None:
    path = tmp_path / "encryption.yaml"
    path.write_bytes(file(provider("aescbc", "a")))
    server = ForkedServer(
        f"--encryption-provider-config={path}", "--encryption-provider-config-automatic-reload", directory=tmp_path
    ).start()
    hidden = base64.b64encode(TEXT.encode())
    try:
        for name in ("one", "two"):
            put(server, name)
        assert on_disk(server, hidden) == [] and on_disk(server, b"k8s:enc:aescbc:v1:key-a:") != []
        server.end(signal.SIGKILL)
        server.start()
        assert read(server, "one") == TEXT

        path.write_bytes(file(provider("aesgcm", "b"), provider("aescbc", "a")))
        code, body = api_request(server, "GET", f"{SECRETS}/one")
        metrics = "apiserver_encryption_config_controller_automatic_reloads_total"
        until(lambda: f'{metrics}{{apiserver_id_hash="' in api_request(server, "GET", "metrics")[1].decode())
        until(lambda: 'status="success"' in api_request(server, "GET", "metrics")[1].decode().partition(metrics)[2])
        assert code == 200
        same = json.loads(body)
        code, body = api_request(server, "PUT", f"{SECRETS}/one", same)  # unchanged, and yet written: kubectl replace
        assert code == 200 and json.loads(body)["metadata"]["resourceVersion"] != same["metadata"]["resourceVersion"]
        again = json.loads(body)
        code, body = api_request(server, "PUT", f"{SECRETS}/one", again)
        assert json.loads(body)["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
        assert on_disk(server, b"k8s:enc:aesgcm:v1:key-b:") != []

        assert api_request(server, "DELETE", f"{SECRETS}/two")[0] == 200
        assert on_disk(server, hidden) == []

        path.write_bytes(file(provider("aesgcm", "b")))
        assert server.end() == 0
        server.start()
        assert read(server, "one") == TEXT
        path.write_bytes(file(provider("aesgcm", "c")))
        server.end()
        server.start()
        code, body = api_request(server, "GET", f"{SECRETS}/one")
        assert code == 500 and b"is not transformable" in body, "without its key it is there, and nobody can read it"
        assert on_disk(server, hidden) == []
    finally:
        server.stop()
