"""The console's files, asked for without a browser."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess

STATIC = Path(__file__).parents[2] / "kapi" / "console" / "static"
ROOT = "/kapi/console/"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ForkedServer("--enable-console") as process:
        yield process


def ask(
    server: ServerProcess, path: str, method: str = "GET", token: str = "", body: bytes | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Without credentials, unless there is a token."""
    headers = {"Content-Type": "application/json"} if body else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(server.url + path, body, headers, method=method)
    context = ssl.create_default_context(cafile=str(server.authority))
    try:
        with urllib.request.urlopen(request, context=context, timeout=120) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read(), dict(error.headers)


def test_everybody_may_read_the_files_and_nothing_else(server: ServerProcess) -> None:
    for file in STATIC.iterdir():
        code, body, headers = ask(server, ROOT + file.name)
        assert (code, body) == (200, file.read_bytes()), file.name
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(server, ROOT)[1] == (STATIC / "index.html").read_bytes()
    assert ask(server, ROOT.rstrip("/"))[:2] == ask(server, ROOT)[:2]  # by way of a redirect
    assert ask(server, ROOT, "POST")[0] == 403
    assert ask(server, ROOT + "others.js")[0] == 403
    assert ask(server, "/api/v1/namespaces")[0] == 403


def test_another_method_is_refused_to_the_administrator_too(server: ServerProcess) -> None:
    assert ask(server, ROOT, "DELETE", "admintoken")[0] == 405


def test_who_wrote_what_is_known_to_administrators_alone(server: ServerProcess) -> None:
    assert ask(server, ROOT + "authors")[0] == 403
    assert ask(server, ROOT + "authors", token="alicetoken")[0] == 403
    maps = "/api/v1/namespaces/default/configmaps"
    code, body, _ = ask(server, maps, "POST", "admintoken", b'{"metadata": {"name": "noted"}}')
    assert code == 201
    code, _, _ = ask(server, f"{maps}/noted?dryRun=All", "DELETE", "admintoken")  # leaves nothing to note
    assert code == 200
    version = json.loads(body)["metadata"]["resourceVersion"]
    code, body, _ = ask(server, ROOT + "authors", token="admintoken")
    assert code == 200
    noted = [item for item in json.loads(body)["items"] if (item["resource"], item["user"]) == ("configmaps", "admin")]
    assert noted == [{"resource": "configmaps", "resourceVersion": version, "user": "admin"}]


def test_what_a_file_refers_to_is_served(server: ServerProcess) -> None:
    named = {
        name
        for file in STATIC.iterdir()
        for name in re.findall(r'(?:from "\./|href="|src=")([\w.]+\.(?:js|css))"', file.read_text())
    }
    assert len(named) > 5
    assert [name for name in named if ask(server, ROOT + name)[0] != 200] == []


def test_without_the_flag_there_is_nothing() -> None:
    with ForkedServer() as plain:
        assert ask(plain, ROOT)[0] == 403
        assert ask(plain, ROOT, token="admintoken")[0] == 404
