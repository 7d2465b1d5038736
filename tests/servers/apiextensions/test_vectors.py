"""Gateway API's definitions install, and their sample objects are judged as upstream's tests expect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from kapi.machinery import field, tree
from kapi.machinery.tree import Object
from kapi.resources.apiextensions.customresourcedefinitions import RESOURCE
from kapi.resources.definition import StrategyContext
from kapi.schema.structural.listtypes import list_errors
from kapi.schema.structural.pruning import prune
from kapi.servers.apiextensions.outline import outline
from kapi.servers.apiextensions.rows import Rows

_ROOT = Path(__file__).parents[2] / "vectors" / "gateway-api"
_CONTEXT = StrategyContext("default", "x", now="2026-01-01T00:00:00Z")


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: dates stay text."""


_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for key, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _documents(path: Path) -> list[Object]:
    return [item for item in yaml.load_all(path.read_text(), _Loader) if item]


def _definitions() -> list[Object]:
    return [
        item
        for path in sorted(_ROOT.glob("crds/*.yaml"))
        for item in _documents(path)
        if item["kind"] == "CustomResourceDefinition"
    ]


def _installed() -> dict[tuple[str, str], Any]:
    rows = {}
    for crd in _definitions():
        RESOURCE.strategy.default(crd)
        crd["status"] = {"acceptedNames": crd["spec"]["names"], "storedVersions": []}
        made = Rows(outline(orjson.dumps(crd)))
        for row in made.served:
            rows[f"{row.group}/{row.version}", row.kind] = (row, made.schemas[row.version])
    return rows


_ROWS: dict[tuple[str, str], Any] = {}


def _samples(folder: str) -> list[Any]:
    return [
        pytest.param(item, id=f"{path.relative_to(_ROOT)}-{index}")
        for path in sorted((_ROOT / folder).rglob("*.yaml"))
        for index, item in enumerate(_documents(path))
        if "gateway.networking" in item.get("apiVersion", "")
    ]


def _errors(obj: Object) -> list[Any]:
    if not _ROWS:
        _ROWS.update(_installed())
    row, schema = _ROWS[obj["apiVersion"], obj["kind"]]
    obj = tree.copy(obj)
    obj["metadata"].setdefault("namespace", "default")
    if not row.namespaced:
        del obj["metadata"]["namespace"]
    prune(obj, schema.schema)
    row.strategy.default(obj)
    row.strategy.prepare_for_create(obj, _CONTEXT)
    found: list[Any] = row.strategy.validate(obj, _CONTEXT)
    return found


@pytest.mark.parametrize("crd", [pytest.param(crd, id=crd["metadata"]["name"]) for crd in _definitions()])
def test_a_definition_is_valid(crd: Object) -> None:
    crd = tree.copy(crd)
    crd["metadata"].pop("creationTimestamp", None)
    RESOURCE.strategy.default(crd)
    RESOURCE.strategy.prepare_for_create(crd, _CONTEXT)
    assert RESOURCE.strategy.validate(crd, _CONTEXT) == []


@pytest.mark.parametrize("obj", _samples("valid"))
def test_a_valid_object_is_taken(obj: Object) -> None:
    assert _errors(obj) == []


@pytest.mark.parametrize("obj", _samples("invalid"))
def test_an_invalid_object_is_refused(obj: Object) -> None:
    assert _errors(obj)


def test_an_unchanged_invalid_part_is_let_through_on_update() -> None:
    """Ratcheting: what was wrong before and is the same now does not stand in the way."""
    for param in _samples("invalid"):
        obj = tree.copy(param.values[0])
        _errors(obj)
        row, _ = _ROWS[obj["apiVersion"], obj["kind"]]
        obj["metadata"].update(
            {"namespace": "default", "resourceVersion": "1", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
        )
        new = tree.copy(obj)
        new["metadata"]["labels"] = {"changed": "yes"}
        row.strategy.default(new)
        row.strategy.default(obj)
        if list_errors(field.Path(""), row.strategy.schema.schema, obj):
            continue  # of two elements with the same keys only the first one is found again, so the list counts as changed
        assert row.strategy.validate_update(new, obj, _CONTEXT) == []
