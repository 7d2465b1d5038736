"""Query and path parameters of operations, with upstream's texts (``parameters.txt``)."""

from __future__ import annotations

import functools
from pathlib import Path

import orjson

from kapi.machinery.tree import Object
from kapi.schema import builtin

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
TEXTS = Path(__file__).with_name("parameters.txt")
_ANY = "*"  # options that several kinds have in common


@functools.cache
def _known() -> dict[str, dict[str, Object]]:
    """Kind of the options -> name -> parameter."""
    found: dict[str, dict[str, Object]] = {}
    for line in TEXTS.read_text().splitlines():
        if line.startswith("#"):
            continue
        kind, name, type_, *text = line.split(" ", 3)
        description = orjson.loads(text[0]) if text else builtin.descriptions()[_META + kind][name]
        schema = {"type": type_, "uniqueItems": True}
        found.setdefault(kind, {})[name] = {"description": description, "in": "query", "name": name, "schema": schema}
    return found


def query(name: str, kind: str = _ANY) -> Object:
    return _known()[kind][name]


def in_path(name: str, text: str) -> Object:
    schema = {"type": "string", "uniqueItems": True}
    return {"description": text, "in": "path", "name": name, "required": True, "schema": schema}


def of_list() -> list[Object]:
    """ListOptions."""
    names = (
        "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
        "resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch",
    )  # fmt: skip
    return [query(name) for name in names]


def of_write() -> list[Object]:
    """CreateOptions and UpdateOptions."""
    return [query("dryRun", "DeleteOptions"), query("fieldManager"), query("fieldValidation")]


def of_patch() -> list[Object]:
    """PatchOptions."""
    return [
        query("dryRun", "DeleteOptions"),
        query("fieldManager", "PatchOptions"),
        query("fieldValidation"),
        query("force"),
    ]


def of_delete() -> list[Object]:
    """DeleteOptions."""
    return list(_known()["DeleteOptions"].values())


def of_connection(kind: str) -> list[Object]:
    """The options of a connection (``PodExecOptions``); none for a kind without."""
    return list(_known().get(kind, {}).values())
