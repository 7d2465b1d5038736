"""Types from the OpenAPI 2 definitions that upstream tests managed fields with (upstream: kube-openapi ``schemaconv``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kapi.schema.types import Field, Kind, Type

VECTORS = Path(__file__).parent.parent / "vectors" / "managedfields"
_SCALARS = {"string": Kind.STRING, "integer": Kind.INTEGER, "number": Kind.NUMBER, "boolean": Kind.BOOLEAN}
_NAMED = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Kind.QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Kind.INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": Kind.TIME,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": Kind.ANY,
}


class Swagger:
    """``definitions`` as they are read; ``type`` makes one of them."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = json.loads((VECTORS / "swagger-definitions.json").read_text())
        self._types: dict[str, Type] = {}

    def type(self, name: str) -> Type:
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = Type(_NAMED.get(name, Kind.STRUCT), name=name.rpartition(".")[2])
            if found.kind is Kind.STRUCT:
                for field, schema in self.definitions[name].get("properties", {}).items():
                    found.fields[field] = Field(field, self._of(schema))
        return found

    def _of(self, schema: dict[str, Any]) -> Type:
        if "$ref" in schema:
            return self.type(schema["$ref"].rpartition("/")[2])
        kind = schema["type"]
        if kind == "array":
            list_type, keys = relation(schema)
            return Type(Kind.LIST, elem=self._of(schema["items"]), list_type=list_type, list_map_keys=keys)
        if kind == "object":
            return Type(Kind.MAP, elem=self._of(schema["additionalProperties"]))
        if schema.get("format") == "byte":
            return Type(Kind.BYTES)
        return Type(_SCALARS[kind])


def relation(schema: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """How a list is merged: as its list type says, else as strategic merge patch would."""
    if "x-kubernetes-list-type" in schema:
        return schema["x-kubernetes-list-type"], tuple(schema.get("x-kubernetes-list-map-keys", ()))
    if "merge" in schema.get("x-kubernetes-patch-strategy", "").split(","):
        key = schema.get("x-kubernetes-patch-merge-key")
        return ("map", (key,)) if key else ("set", ())
    return "atomic", ()
