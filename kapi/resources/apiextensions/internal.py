"""The form that is validated: values that are equal in all versions are moved to the top (upstream: conversion of v1 to the
internal version, apiextensions ``v1/conversion.go``).  Error paths and texts refer to this form."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.tree import Object

_HOISTED = (
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
)


def internal_spec(spec: Object) -> Object:
    """A view of a v1 spec; parts are shared with it."""
    result = dict(spec)
    versions = [dict(version) for version in elements(spec, "versions")]
    result["versions"] = versions if spec.get("versions") is not None else None
    result.pop("conversion", None)
    for name, top in _HOISTED:
        values = [version.get(name) for version in elements(versions)]
        if values and values[0] is not None and all(value == values[0] for value in elements(values)):
            result[top] = values[0]
            for version in elements(versions):
                version.pop(name, None)
    result["version"] = versions[0].get("name", "") if versions else ""
    result["conversion"] = _conversion(spec.get("conversion"))
    return result


def _conversion(conversion: Object | None) -> Object | None:
    if conversion is None:
        return None
    webhook = conversion.get("webhook")
    result: Object = {"strategy": conversion.get("strategy", "")}
    if webhook is not None:
        result["webhookClientConfig"] = webhook.get("clientConfig")
        result["conversionReviewVersions"] = webhook.get("conversionReviewVersions") or []
    return result


def schema_of(holder: Object | None) -> Object | None:
    """The schema in a ``schema``/``validation`` object."""
    return holder.get("openAPIV3Schema") if isinstance(holder, dict) else None


def condition(crd: Object, name: str) -> Object | None:
    for item in elements(crd, "status", "conditions"):
        if item.get("type") == name:
            found: Object = item
            return found
    return None


def is_true(crd: Object, name: str) -> bool:
    found = condition(crd, name)
    return found is not None and found.get("status") == "True"


def version_schemas(spec: Object) -> dict[str, Object | None]:
    """The schema of each version; of several with the same name the first one."""
    schemas: dict[str, Object | None] = {}
    for version in elements(spec, "versions"):
        if version.get("name", "") not in schemas:
            schemas[version.get("name", "")] = schema_of(version.get("schema"))
    return schemas
