"""Requests and answers in CBOR."""

from __future__ import annotations

from typing import Any

from kapi.codecs.cbor_reading import loads
from kapi.codecs.cbor_writing import dumps
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI

CBOR, APPLY = "application/cbor", "application/apply-patch+cbor"
SUPPORTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


def ask(
    api: MemoryAPI, method: str, uri: str, body: Any = None, accept: str = CBOR, content_type: str = CBOR
) -> MemoryRequest:
    data = body if body is None or isinstance(body, bytes) else dumps(body)
    return api.ask(method, uri, data, headers={"Accept": accept}, type=content_type)


def answered(answer: MemoryRequest, code: int = 200) -> dict[str, Any]:
    assert answer.header("content-type") == CBOR, answer.written
    assert answer.written.startswith(b"\xd9\xd9\xf7")
    found: dict[str, Any] = loads(answer.written)
    assert answer.code == code, found
    return found
