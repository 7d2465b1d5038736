"""A definition may have thousands of versions: what is made of each is not made of each for all the others."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import orjson

from kapi.resources.definition import Resource
from kapi.servers.apiextensions.outline import outline
from kapi.servers.apiextensions.rows import Rows
from tests.growth.counting import stretches


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
        rows = Rows(outline(data))
        return tracemalloc.get_traced_memory()[0] if rows.all else 0
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_number_of_versions() -> None:
    few, many = _bytes_of(definition(50)), _bytes_of(definition(400))
    assert many < 12 * few


def test_no_schema_is_decoded_before_it_is_needed() -> None:
    properties = {f"p{number}": {"type": "string"} for number in range(20_000)}
    crd = orjson.loads(definition(1))
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = properties
    data = orjson.dumps(crd)
    assert _bytes_of(data) < len(data) / 4
    assert len(Rows(outline(data)).type("v1").fields) == 20_003


def test_what_an_outline_cannot_read_is_read_whole() -> None:
    """As a name that is a number, which no validation lets in today."""
    crd = orjson.loads(definition(2))
    crd["metadata"]["generation"] = "two"
    found = outline(orjson.dumps(crd))
    assert found["metadata"]["generation"] == "two"
    assert [bytes(version["schema"]) for version in found["spec"]["versions"]] == [
        b'{"openAPIV3Schema":{"type":"object"}}'
    ] * 2


def test_other_versions_are_made_when_they_are_asked_for() -> None:
    rows = Rows(outline(definition(3)))
    row = rows.all["v2"]
    assert row.other_versions is not None
    others = row.other_versions()
    assert list(others) == ["example.com/v1", "example.com/v3"] and len(others) == 2
    assert others.get("example.com/v2") is None and others.get("v1") is None
    there, back = others["example.com/v1"][1:]
    assert there({"apiVersion": "example.com/v2"}) == {"apiVersion": "example.com/v1"}
    assert back({"apiVersion": "example.com/v1"}) == {"apiVersion": "example.com/v2"}
    assert set(rows.types) == {"v1"}


def test_the_newest_version_is_named_in_the_warnings_of_deprecated_ones() -> None:
    crd = orjson.loads(definition(4))
    for version in crd["spec"]["versions"][:2]:
        version["deprecated"] = True
    crd["spec"]["versions"][1]["deprecationWarning"] = "gone soon"
    rows = Rows(outline(orjson.dumps(crd)))
    assert [row.deprecated for row in rows.all.values()] == [
        "example.com/v1 Thing is deprecated; use example.com/v4 Thing",
        "gone soon",
        "",
        "",
    ]


def test_rows_are_made_in_steps() -> None:
    """Whatever the number of versions."""
    crd = outline(definition(1000))
    found = stretches(lambda: Rows(crd))
    assert found.longest < 1600, found.where


def test_what_served_a_definition_is_freed_at_once() -> None:
    """In parts, where the garbage collector would free it in one piece."""

    def count() -> int:
        return sum(isinstance(each, Resource) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = count()
        rows = Rows(outline(definition(50)))
        kept = rows.stored
        assert count() == before + 50
        rows.release()
        assert count() == before + 1
    finally:
        gc.enable()
    assert kept.schema is not None and kept.schema() is not None, "a request that has begun goes on"
