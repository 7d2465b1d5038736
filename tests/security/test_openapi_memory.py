"""OpenAPI documents beside many versions of custom resources: they are made in pieces, and what they take is given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.server_process import ForkedServer, ServerProcess
from tests.security.attacker import Attacker, memory

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP, KINDS, VERSIONS = "many.example.com", 12, 40  # 480 versions: a document of 10 MB
MAX_GROWTH = 1.3
GZIP = {"Accept-Encoding": "gzip"}
PROTOBUF = "application/com.github.proto-openapi.spec.{}@v1.0+protobuf"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    process = ForkedServer("--redis-compaction-interval=5s").start()
    admin = Attacker(process, "admintoken")
    admin.ask("GET", "/openapi/v2")  # what its first use loads does not count
    for number in range(KINDS):
        admin.create(CRDS, definition(number))
    last = f"/apis/{GROUP}/v{VERSIONS}/thing{KINDS - 1}s"
    while admin.ask("GET", last).status != 200:
        time.sleep(0.1)
    yield process
    assert process.stop() == 0


def definition(number: int) -> dict[str, Any]:
    plural = f"thing{number}s"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    versions = [
        {
            "name": f"v{version}", "served": True, "storage": version == 1, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        for version in range(1, VERSIONS + 1)
    ]  # fmt: skip
    names = {"plural": plural, "kind": f"Thing{number}"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


@contextmanager
def peak(pid: int) -> Iterator[list[int]]:
    """The most bytes that the process has meanwhile, in the list at the end."""
    found, end = [memory(pid)], threading.Event()

    def look() -> None:
        while not end.wait(0.01):
            found[0] = max(found[0], memory(pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize("headers", [{}, GZIP, {"Accept": PROTOBUF.format("v2")}], ids=["JSON", "gzip", "protobuf"])
def test_the_document_of_version_2_is_never_whole_in_memory(server: ServerProcess, headers: dict[str, str]) -> None:
    admin, process = Attacker(server, "admintoken"), server.process
    assert process is not None
    before = memory(process.pid)
    with peak(process.pid) as most:
        answer = admin.ask("GET", "/openapi/v2", headers=headers)
    size = len(answer.body)
    print(f"{size >> 20} MB of text, {before >> 20} MB before, {most[0] >> 20} at most")
    assert answer.status == 200 and f"/apis/{GROUP}/v7/thing3s".encode() in answer.body or headers == GZIP
    assert most[0] < MAX_GROWTH * before


def test_all_documents_in_all_forms_are_kept_in_little_memory(server: ServerProcess) -> None:
    admin, process = Attacker(server, "admintoken"), server.process
    assert process is not None
    before, size = memory(process.pid), 0
    with peak(process.pid) as most:
        for key in admin.ask("GET", "/openapi/v3").tree["paths"]:
            for headers in ({}, {"Accept": PROTOBUF.format("v3")}):
                answer = admin.ask("GET", f"/openapi/v3/{key}", headers=headers)
                assert answer.status == 200
                size += len(answer.body)
    print(f"{size >> 20} MB of text, {before >> 20} MB before, {most[0] >> 20} at most")
    assert most[0] < MAX_GROWTH * before
