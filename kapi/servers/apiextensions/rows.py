"""Catalogue rows of a custom resource, one for each version, with its table's columns.

Upstream: apiextensions ``apiserver/customresource_handler.go``, ``registry/customresource/tableconvertor``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from msgspec import Raw
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from kapi.endpoints.discovery.groups import sort_versions
from kapi.machinery import tree
from kapi.machinery.ages import since
from kapi.machinery.each import costly, elements, entries, popped
from kapi.machinery.freeing import free_in_steps
from kapi.machinery.go_json import json_text
from kapi.machinery.golang import is_int64, value_text
from kapi.machinery.gvk import GroupVersion
from kapi.machinery.jsonpath import Below, JSONPathError, Template
from kapi.machinery.time import time
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import SCALE, Column, Resource, ScaleMapping, Subresource, TableColumns
from kapi.resources.shared import printing
from kapi.schema.structural.convert import type_of
from kapi.schema.structural.pruning import prune
from kapi.schema.structural.structure import Schema
from kapi.schema.types import Type
from kapi.servers.apiextensions.conversion import Begin, FunctionConverter, Post, WebhookConverter
from kapi.servers.apiextensions.outline import decode_raw
from kapi.servers.apiextensions.strategy import CustomResourceStrategy, CustomStatusStrategy, VersionSchema

MAX_FOUND = 100_000  # values of a step: ``..`` after ``..`` finds each value many times
_NO_INT64 = -(1 << 63)  # Go's conversion of a float that is too large
_AGE_COLUMN = {
    "name": "Age",
    "type": "date",
    "description": printing.AGE_TEXT,
    "jsonPath": ".metadata.creationTimestamp",
}


class _Columns(Sequence[Column]):
    """The columns of a version; there may be thousands, so they are made with the first table."""

    def __init__(self, raw: Raw | None) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._shown)

    @overload
    def __getitem__(self, index: int) -> Column: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Column]: ...
    def __getitem__(self, index: int | slice) -> Column | Sequence[Column]:
        return self._shown[index]

    @cached_property
    def _given(self) -> list[tuple[Object, Template]]:
        """The columns before the first one whose path cannot be read."""
        found = []
        for column in elements(decode_raw(self._raw) or [_AGE_COLUMN]):
            try:
                found.append((column, _template(column.get("jsonPath", ""))))
            except JSONPathError:
                break
        return found

    @cached_property
    def _shown(self) -> list[Column]:
        columns = [_column(column) for column, _ in elements(self._given)]
        return [Column("Name", "string", printing.NAME_TEXT, "name"), *columns]

    @cached_property
    def _readers(self) -> list[tuple[str, Template]]:
        return [(column.get("type", ""), template) for column, template in elements(self._given)]

    def cells(self, obj: Object, now: float) -> list[Tree]:
        row: list[Tree] = [obj["metadata"].get("name", "")]
        below = Below(obj)
        for type_, template in costly(self._readers):
            try:
                found = template.first(obj, below)
            except JSONPathError:
                found = []
            row.append(cell(type_, found[0], now) if found else None)
        return row


def _column(given: Object) -> Column:
    path = given.get("jsonPath", "")
    return Column(
        given.get("name", ""),
        given.get("type", ""),
        given.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        given.get("format") or "",
        given.get("priority") or 0,
    )


def table(columns: Raw | None) -> TableColumns:
    """The table of a version; ``columns`` is the JSON of its additionalPrinterColumns."""
    made = _Columns(columns)
    return TableColumns(made, made.cells)


def _template(path: str) -> Template:
    return Template(f"{{{path}}}", limit=MAX_FOUND)


def cell(type_: str, value: object, now: float) -> Tree:
    """The cell of a value in a column of a type; null for a value that does not fit."""
    if type_ == "string":
        return _text(value)
    if value is None:
        return None
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    if type_ == "date":
        return _since(value, now) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if type_ != "integer":
        return float(value)
    return number if is_int64(number := int(value)) else _NO_INT64


def _since(text: str, now: float) -> str:
    try:
        return since(text if text not in ("", "null") and time(text) else None, now)
    except ValueError:
        return "<invalid>"


def _text(value: object) -> str:
    """A value as Go prints it, objects and lists as JSON."""
    if value is None:
        return "<no value>"
    return json_text(value) if isinstance(value, dict | list) else value_text(value)


def selectable(path: str) -> Callable[[Object], str]:
    """A function that returns the text of a selectable field, "" when it is absent."""
    try:
        template = _template(path)
    except JSONPathError:
        return lambda obj: ""

    def read(obj: Object) -> str:
        try:
            found = template.first(obj)
        except JSONPathError:
            return ""
        return "" if not found or found[0] is None else value_text(found[0])

    return read


VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
Convert = Callable[[Object], Object]


def storage_version(crd: Object) -> str:
    for version in elements(crd["spec"], "versions"):
        if version.get("storage"):
            return str(version["name"])
    return ""


def serving_state(crd: Object) -> tuple[Tree, ...]:
    """The parts of a definition that determine how it is served: uid, generation, accepted names, stored versions."""
    metadata, state = crd["metadata"], crd.get("status") or {}
    return (
        metadata.get("uid", ""),
        metadata.get("generation", 1),
        state.get("acceptedNames"),
        state.get("storedVersions"),
    )


class Rows:
    """The rows of one definition; ``stored`` is the row of the storage version, which need not be served.

    ``crd`` is an outline of it (``kapi/servers/apiextensions/outline.py``).
    """

    def __init__(
        self,
        crd: Object,
        post: Post | None = None,
        begin: Begin = Deferred.fromCoroutine,
        convert: Callable[[Object, str], Object] | None = None,
        taken: Container[GroupVersion] = (),
    ) -> None:
        """``post`` calls conversion webhooks; ``convert`` takes their place: (object, apiVersion) -> the object in it.

        Versions that are ``taken`` by built-in resources are not served.
        """
        spec = crd["spec"]
        #: state of the definition for which the rows were made
        self.state = serving_state(crd)
        #: the part of it that clients can see in the objects
        self.shown = self.state[:3]
        self.converter: WebhookConverter | FunctionConverter | None = convert and FunctionConverter(convert)
        if (spec.get("conversion") or {}).get("strategy") == "Webhook" and post is not None:
            self.converter = WebhookConverter(crd, post, begin)
        self.group: str = spec["group"]
        names = (crd.get("status") or {}).get("acceptedNames") or spec["names"]
        self.kind: str = names["kind"]
        self.plural: str = names["plural"]
        self.names = names
        self.namespaced = spec.get("scope") == "Namespaced"
        self.storage = storage_version(crd)
        versions = spec.get("versions") or ()
        self.schemas = {
            version["name"]: VersionSchema(functools.partial(_schema, raw), len(raw or b""))
            for version in elements(versions)
            for raw in [version.get("schema")]
        }
        self._by_api_version = {self.api_version(name): schema for name, schema in entries(self.schemas)}
        self.types: dict[str, Type] = {}
        several = len(self.schemas) > 1
        stored = (crd.get("status") or {}).get("storedVersions") or []
        # whether stored objects may differ from the current storage version: in another version, with fields that its schema has
        # lost, or without defaults that it has got
        self._mixed = several or len(stored) > 1 or crd["metadata"].get("generation", 1) > 1
        self._stored_form = self._to_storage() if several or len(stored) > 1 else None
        self._replicas_paths = {
            self.api_version(version["name"]): _parts(scale["specReplicasPath"]) if scale else ()
            for version in elements(versions)
            for scale in [(version.get("subresources") or {}).get("scale")]
        }
        newest = _newest(versions)
        self.all = {version["name"]: self._row(version, newest) for version in costly(versions)}
        self.served = [
            self.all[version["name"]]
            for version in elements(versions)
            if version.get("served") and GroupVersion(self.group, version["name"]) not in taken
        ]

    @property
    def stored(self) -> Resource:
        return self.all[self.storage]

    def refuse_new(self, terminating: bool) -> None:
        """Refuses new objects in all versions while the definition is terminating."""
        for row in elements(self.all.values()):
            assert isinstance(row.strategy, CustomResourceStrategy)
            row.strategy.refuses_new = row.group_resource if terminating else None

    def release(self) -> None:
        """Frees schemas and types in steps; call it when the rows are not served any more.  Requests that use a row keep it.

        Rows refer to this object: with thousands of versions the garbage collector would free all in one piece.
        """
        for name, schema in entries(self.schemas):
            made = self.types.get(name)
            if made is not None:
                free_in_steps(made, schema.size)
            schema.release()
        self.served.clear()
        for name in elements(list(self.all)):
            del self.all[name]

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}"

    def type(self, version: str) -> Type:
        found = self.types.get(version)
        if found is None:
            made = type_of(self.schemas[version].schema, self.kind)
            found = self.types.setdefault(version, made)  # another request may have made it meanwhile
        return found

    def _converter(self, version: str) -> Convert:
        """Converts a stored object to a version, after pruning and defaulting by the schema of its own version."""
        schema, api_version, converter = self.schemas[version], self.api_version(version), self.converter
        by_api_version = self._by_api_version  # one closure for all versions, of which there may be thousands

        def convert(obj: Object) -> Object:
            result: Object = tree.copy(obj)
            given = result.get("apiVersion", "")
            own = by_api_version.get(given)
            if own is not None and own.schema is not None:
                prune(result, own.schema)
                own.decoded(result)
            if given == api_version:
                return result
            if converter is not None:
                result = converter.convert(result, api_version)
            result["apiVersion"] = api_version
            if schema.schema is not None:
                prune(result, schema.schema)
            return result

        return convert

    def _to_storage(self) -> Convert:
        """Converts an object of any version to the storage version, and prunes it."""
        stored, target, converter = self.schemas[self.storage], self.api_version(self.storage), self.converter

        def convert(obj: Object) -> Object:
            if obj.get("apiVersion") == target:
                return obj
            result: Object = tree.copy(obj) if converter is None else converter.convert(obj, target)
            result["apiVersion"] = target
            if stored.schema is not None:
                prune(result, stored.schema)
            return result

        return convert

    def between(self, api_version: str) -> Convert:
        """Converts to a version without pruning, for managed fields."""

        def convert(obj: Object) -> Object:
            if self.converter is not None:
                return self.converter.convert(obj, api_version)
            return {**obj, "apiVersion": api_version}

        return convert

    def _row(self, version: Object, newest: str) -> Resource:
        name = version["name"]
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale")
        has_status = subresources.get("status") is not None
        strategy = CustomResourceStrategy(
            self.api_version(name), self.kind, self.namespaced, self.schemas[name], has_status, scale
        )
        is_stored = name == self.storage
        converted = not is_stored or self._mixed
        return Resource(
            group=self.group,
            version=name,
            kind=self.kind,
            plural=self.plural,
            singular=self.names.get("singular", ""),
            list_kind=self.names.get("listKind", ""),
            namespaced=self.namespaced,
            verbs=VERBS,
            short_names=tuple(self.names.get("shortNames") or ()),
            categories=tuple(self.names.get("categories") or ()),
            subresources=self._subresources(name, strategy, has_status, scale),
            strategy=strategy,
            table=table(version.get("additionalPrinterColumns")),
            selectable_fields={
                item["jsonPath"].removeprefix("."): selectable(item["jsonPath"])
                for item in version.get("selectableFields") or ()
                if item.get("jsonPath")
            },
            storage_version="" if is_stored else self.storage,
            stored_form=self._stored_form,
            other_versions=functools.partial(OtherVersions, self, name),
            from_storage=self._converter(name) if converted else None,
            schema=lambda: self.type(name),
            published_schema=self.schemas[name].published,
            schema_digest=f"{self.state[0]} {self.state[1]}",
            deprecated=_deprecation(self.group, self.kind, version, newest),
            typed_items=True,
            converter=self.converter,
        )

    def _subresources(
        self, version: str, strategy: CustomResourceStrategy, has_status: bool, scale: Object | None
    ) -> tuple[Subresource, ...]:
        found: list[Subresource] = []
        if has_status:
            found.append(Subresource("status", strategy=CustomStatusStrategy(strategy)))
        if scale is not None:
            mapping = ScaleMapping(
                _parts(scale.get("specReplicasPath")),
                _parts(scale.get("statusReplicasPath")),
                _selector(scale.get("labelSelectorPath")),
                self._replicas_paths,
            )
            found.append(replace(SCALE, scale=mapping))
        return tuple(found)


def _parts(path: str | None) -> tuple[str, ...]:
    return tuple((path or "").removeprefix(".").split("."))


def _selector(path: str | None) -> Callable[[Object], str]:
    parts = _parts(path)

    def read(obj: Object) -> str:
        value = tree.dig(obj, *parts) if path else None
        return value if isinstance(value, str) else ""

    return read


def _schema(raw: Raw | None) -> Schema | None:
    """The schema of a version, with its properties sorted: upstream stores them sorted, and reports errors in that order."""
    found: Schema | None = (decode_raw(raw) or {}).get("openAPIV3Schema")
    waiting: list[Tree] = [found]
    for node in popped(waiting):
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            waiting.extend(map(node.get, ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf")))
            if node.get("properties"):
                node["properties"] = dict(sorted(node["properties"].items()))
                waiting.extend(node["properties"].values())
    return found


def _newest(versions: Iterable[Object]) -> str:
    """The newest version that is served and not deprecated; "" when there is none."""
    newest = ""
    for item in elements(versions):
        if item.get("served") and not item.get("deprecated"):
            newest = sort_versions([newest, item["name"]])[0] if newest else item["name"]
    return newest


def _deprecation(group: str, kind: str, version: Object, newest: str) -> str:
    """The warning of a deprecated version; it names the newest version that is not deprecated, if that is newer."""
    if not version.get("deprecated"):
        return ""
    own = version.get("deprecationWarning")
    if own:
        return str(own)
    name = version["name"]
    text = f"{group}/{name} {kind} is deprecated"
    if newest and sort_versions([newest, name])[0] != name:
        text += f"; use {group}/{newest} {kind}"
    return text


class OtherVersions(Mapping[str, tuple[Type, Convert, Convert]]):
    """The versions other than one: apiVersion -> (type, conversion to it, conversion back).  There may be thousands."""

    def __init__(self, rows: Rows, version: str) -> None:
        self._rows = rows
        self._version = version
        self._prefix = f"{rows.group}/"

    def __getitem__(self, api_version: str) -> tuple[Type, Convert, Convert]:
        rows = self._rows
        name = api_version.removeprefix(self._prefix)
        if name == self._version or name == api_version or name not in rows.schemas:
            raise KeyError(api_version)
        return rows.type(name), rows.between(api_version), rows.between(rows.api_version(self._version))

    def __iter__(self) -> Iterator[str]:
        return (self._rows.api_version(name) for name in elements(self._rows.schemas) if name != self._version)

    def __len__(self) -> int:
        return len(self._rows.schemas) - 1
