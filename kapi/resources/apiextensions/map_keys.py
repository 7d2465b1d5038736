"""The keys of lists that are maps (upstream: apiextensions ``validation.go``)."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.field import FieldError, Path, forbidden, required
from kapi.schema.structural.structure import Schema, required_properties


def map_key_errors(path: Path, schema: Schema) -> list[FieldError]:
    """Elements of sets and keyed lists must not be null; keys must be there."""
    items, kind = schema.get("items"), schema.get("x-kubernetes-list-type")
    if not isinstance(items, dict) or kind not in ("set", "map"):
        return []
    errors: list[FieldError] = []
    if items.get("nullable"):
        errors.append(
            forbidden(path.child("items", "nullable"), f"cannot be nullable when x-kubernetes-list-type is {kind}")
        )
    if kind == "map":
        properties = items.get("properties") or {}
        needed = required_properties(items)
        for key in elements(schema, "x-kubernetes-list-map-keys"):
            prop = properties.get(key)
            if prop is None:
                continue
            at = path.child("items", "properties").key(key)
            if key not in needed and prop.get("default") is None:
                errors.append(
                    required(
                        at.child("default"),
                        "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                    )
                )
            if prop.get("nullable"):
                errors.append(
                    forbidden(
                        at.child("nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
                    )
                )
    return errors
