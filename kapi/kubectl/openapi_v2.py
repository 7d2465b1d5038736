"""The OpenAPI v2 document of a server, for what kubectl still reads in it (upstream: kube-openapi ``util/proto``)."""

from __future__ import annotations

from collections.abc import Iterator

from kapi.kubectl.factory import Factory
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object

_REFERENCE = "#/definitions/"


class Models:
    """The schemas of the document, by the names of their definitions."""

    def __init__(self, document: Object) -> None:
        self._definitions: Object = document.get("definitions") or {}
        self._names = {kind: name for name in sorted(self._definitions) for kind in _kinds(self._definitions[name])}

    @classmethod
    async def read(cls, factory: Factory) -> Models:
        """Raises StatusError and ClientError."""
        return cls(await factory.client().get().abs_path("/openapi/v2").do())

    def name_of(self, kind: GroupVersionKind) -> str | None:
        """The definition of a kind."""
        return self._names.get(kind)

    def schema(self, name: str) -> Object:
        found: Object = self._definitions[name]
        return found


def reference(schema: Object) -> str:
    """The definition that the schema refers to, "" for a schema of its own."""
    return str(schema.get("$ref") or "").removeprefix(_REFERENCE)


def shape(schema: Object) -> str:
    """``fields``, ``map``, ``array``, ``any``, or a primitive type; of a schema that is no reference."""
    type_ = schema.get("type")
    if type_ in (None, "object") and schema.get("properties") is not None:
        return "fields"
    return {None: "any", "object": "map"}.get(type_) or str(type_)


def inner(schema: Object) -> Object:
    """The schema of the items of an array or of the values of a map; that of any value has the map's description."""
    if shape(schema) == "array":
        items: Object = schema["items"]
        return items
    values = schema.get("additionalProperties")
    return values if isinstance(values, dict) else {"description": schema.get("description") or ""}


def _kinds(schema: Object) -> Iterator[GroupVersionKind]:
    for one in schema.get("x-kubernetes-group-version-kind") or ():
        yield GroupVersionKind(one["group"], one["version"], one["kind"])
