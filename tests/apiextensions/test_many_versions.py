"""A definition may have thousands of versions: what is made of each is not made of each for all the others."""

from __future__ import annotations

import tracemalloc
from typing import Any

import orjson

from kapi.apiextensions.rows import Rows


def definition(count: int) -> bytes:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions: list[Any] = [
        {"name": f"v{number}", "served": True, "storage": number == 1, "schema": schema}
        for number in range(1, count + 1)
    ]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    status = {"acceptedNames": names, "storedVersions": ["v1"]}
    return orjson.dumps({"metadata": {"name": "things.example.com", "uid": "u"}, "spec": spec, "status": status})


def _bytes_of(data: bytes) -> int:
    tracemalloc.start()
    try:
        rows = Rows(data)
        return tracemalloc.get_traced_memory()[0] if rows.all else 0
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_number_of_versions() -> None:
    few, many = _bytes_of(definition(50)), _bytes_of(definition(400))
    assert many < 12 * few
