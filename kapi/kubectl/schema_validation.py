"""Validation of manifests on this side, for kinds whose unknown fields the server does not report: lists, reviews, unknown kinds.

Upstream: kubectl ``validation``, cli-runtime ``resource/query_param_verifier.go``, kube-openapi ``util/proto/validation``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from kapi.client.errors import ClientError, NoMatch
from kapi.kubectl.factory import Factory
from kapi.kubectl.openapi_v2 import Models, inner, reference, shape
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.status import NotFound, StatusError
from kapi.machinery.tree import Object, Tree

_INVALID = "invalid object to validate"
_LIST = GroupVersionKind("", "v1", "List")
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")  # can be patched, too, but only as a subresource
#: types of JSON and YAML values, in this order: a bool is an int, too
_TYPES = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "map"))
#: types of values that a type accepts, beside itself
_ACCEPTED = {
    "integer": ("integer", "number"),
    "number": ("integer", "number"),
    "string": ("boolean", "integer", "number", "string"),
}


class Validator:
    """``fields`` is the value of the query parameter ``fieldValidation``, not Ignore."""

    def __init__(self, factory: Factory, fields: str) -> None:
        self._factory, self._fields = factory, fields
        self._models: Models | None = None
        self._reached = False

    async def problem(self, document: Tree) -> str:
        """What is wrong with a document of a file, or "".  Raises StatusError and ClientError."""
        found = list(dict.fromkeys(await self._problems(document)))
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""

    async def _problems(self, document: Tree) -> list[str]:
        if not isinstance(document, dict):
            return [_INVALID]
        if problems := _kind_problems(document):
            return problems
        if problem := await self._unreachable():
            return [problem]
        kind = _kind_of(document)
        if kind != _LIST and await self._is_validated_by_server(kind):
            return []
        if self._fields == "Warn":
            self._factory.err.write(
                f"W{time.strftime('%m%d %H:%M:%S')}.000000 {os.getpid():7} schema.go:145] cannot perform warn validation "
                "if server-side field validation is unsupported, skipping validation\n"
            )
            return []
        if kind != _LIST:
            return await self._of_kind(document, kind)
        items = document.get("items")
        if not isinstance(items, list):
            return [_INVALID]
        found: list[str] = []
        for item in items:
            if isinstance(item, dict):
                found += _kind_problems(item) or await self._of_kind(item, _kind_of(item))
            else:
                found.append(_INVALID)
        return found

    async def _unreachable(self) -> str:
        """Why the server's OpenAPI documents cannot be read, which kubectl does before all else, or ""."""
        try:
            if not self._reached:
                await self._factory.client().get().abs_path("/openapi/v3").do()
        except NotFound:
            pass
        except (ClientError, StatusError) as error:
            return f"failed to download openapi: {self._factory.discovery_text(error, '/openapi/v2')}"
        self._reached = True
        return ""

    async def _is_validated_by_server(self, kind: GroupVersionKind) -> bool:
        """As upstream: when its objects can be patched, since all verbs have the query parameter or none."""
        if kind == _SCALE:
            return True
        version = str(GroupVersion(kind.group, kind.version))
        try:
            mapping = await self._factory.mapper.kind_for(version, kind.kind)
        except NoMatch:
            return False
        return mapping.kind == kind.kind and "patch" in mapping.verbs

    async def _of_kind(self, obj: Object, kind: GroupVersionKind) -> list[str]:
        if self._models is None:
            self._models = await Models.read(self._factory)
        name = self._models.name_of(kind)
        return [] if name is None else list(_problems(self._models, self._models.schema(name), name, obj, kind.kind))


def _kind_problems(obj: Object) -> list[str]:
    """What is wrong with apiVersion and kind of an object."""
    found = []
    for name in ("apiVersion", "kind"):
        value = obj.get(name)
        if value is None:
            found.append(f"{name} not set")
        elif not isinstance(value, str):
            found.append(f"{name} isn't string type")
        elif name == "apiVersion" and value.count("/") > 1:
            found.append(f"unexpected GroupVersion string: {value}")
    return found


def _kind_of(obj: Object) -> GroupVersionKind:
    return GroupVersionKind(*GroupVersion.parse(obj["apiVersion"]), obj["kind"])


def _problems(models: Models, schema: Object, place: str, value: Tree, path: str) -> Iterator[str]:
    """What is wrong with a value; ``place`` is the schema's path, from its definition on, ``path`` that of the value."""
    while name := reference(schema):
        schema, place = models.schema(name), name
    form = shape(schema)
    if form == "any":
        return
    wanted = "map" if form == "fields" else form
    actual = next(name for type_, name in _TYPES if isinstance(value, type_))
    if actual not in _ACCEPTED.get(wanted, (wanted,)):
        yield f"ValidationError({path}): invalid type for {place}: got {quote(actual)}, expected {quote(wanted)}"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            where = f"{path}[{number}]"
            if item is None:
                yield f'ValidationError({path}): unknown object type "nil" in {where}'
            else:
                yield from _problems(models, inner(schema), place, item, where)
    elif isinstance(value, dict):
        for key, item in sorted(value.items()):
            where = f"{path}.{key}"
            if item is None:
                if form == "map":
                    yield f'unknown object type "nil" in {where}'
            elif form == "map":
                yield from _problems(models, inner(schema), place, item, where)
            elif key not in schema["properties"]:
                yield f"ValidationError({path}): unknown field {quote(key)} in {place}"
            else:
                yield from _problems(models, schema["properties"][key], f"{place}.{key}", item, where)
        for key in schema.get("required") or () if form == "fields" else ():
            if value.get(key) is None:
                yield f"ValidationError({path}): missing required field {quote(key)} in {place}"
