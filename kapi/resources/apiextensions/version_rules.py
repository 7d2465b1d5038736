"""Validation of the parts of a version besides its schema: subresources, columns, selectable fields, deprecation warning
(upstream: apiextensions ``validation/validation.go``)."""

from __future__ import annotations

import unicodedata

from kapi.machinery.field import FieldError, Path, duplicate, invalid, required, too_many
from kapi.machinery.tree import Object
from kapi.schema.structural.field_path import field_path

MAX_SELECTABLE = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def deprecation_texts(deprecated: bool, warning: str | None) -> list[str]:
    """The error texts of a deprecation warning."""
    if warning is None:
        return []
    if not deprecated:
        return ["can only be set for deprecated versions"]
    texts = []
    if len(warning.encode()) > 256:
        texts.append("must be <= 256 characters long")
    if not warning:
        texts.append("must not be an empty string")
    position = 0
    for char in warning:
        if char != " " and unicodedata.category(char)[0] in "ZC":
            texts.append(
                f"must only contain printable UTF-8 characters; non-printable character found at index {position}"
            )
            break
        position += len(char.encode())
    return texts


def _simple_path(text: str, path: Path) -> list[FieldError]:
    if not text.startswith("."):
        return [invalid(path, text, "must be a simple json path starting with .")]
    return []


def validate_subresources(subresources: Object | None, path: Path, errors: list[FieldError]) -> None:
    """Appends the errors of the paths of a scale subresource."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for name, prefix, text in (
        ("specReplicasPath", ".spec.", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.", "should be a json path under .status"),
    ):
        value, at = scale.get(name) or "", path.child("scale." + name)
        if not value:
            errors.append(required(at))
        else:
            problems = _simple_path(value, at)
            if not problems and not value.startswith(prefix):
                problems = [invalid(at, value, text)]
            errors.extend(problems)
    value = scale.get("labelSelectorPath")
    if value:
        at = path.child("scale.labelSelectorPath")
        problems = _simple_path(value, at)
        if not problems and not value.startswith((".spec.", ".status.")):
            problems = [invalid(at, value, "should be a json path under either .spec or .status")]
        errors.extend(problems)


def validate_column(column: Object, path: Path, errors: list[FieldError]) -> None:
    """Appends the errors of an additional printer column."""
    if not column.get("name"):
        errors.append(required(path.child("name")))
    type_, text = column.get("type") or "", "must be one of " + ",".join(_COLUMN_TYPES)
    if not type_:
        errors.append(required(path.child("type"), text))
    elif type_ not in _COLUMN_TYPES:
        errors.append(invalid(path.child("type"), type_, text))
    format_ = column.get("format") or ""
    if format_ and format_ not in _COLUMN_FORMATS:
        errors.append(invalid(path.child("format"), format_, "must be one of " + ",".join(_COLUMN_FORMATS)))
    json_path = column.get("jsonPath") or ""
    if not json_path:
        errors.append(required(path.child("JSONPath")))
    else:
        errors.extend(_simple_path(json_path, path.child("JSONPath")))


def validate_selectable(fields: list[Object], schema: Object, path: Path, many: bool, errors: list[FieldError]) -> None:
    """Appends the errors of selectable fields; ``many``: the old definition has too many already."""
    seen: set[str] = set()
    for index, item in enumerate(fields):
        at, text = path.index(index).child("jsonPath"), item.get("jsonPath") or ""
        if not text:
            errors.append(required(at))
            continue
        try:
            found, node = field_path(text, schema, arrays=False)
        except ValueError as error:
            errors.append(invalid(at, text, f"is an invalid path: {error}"))
            continue
        if str(found).partition(".")[0] == "metadata":
            errors.append(invalid(at, text, "must not point to fields in metadata"))
        if node.get("type") not in ("string", "boolean", "integer"):
            errors.append(
                invalid(
                    at,
                    text,
                    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",  # noqa: E501
                )
            )
        if str(found) in seen:
            errors.append(duplicate(at, text))
        seen.add(str(found))
    if len(seen) > MAX_SELECTABLE and not many:
        errors.append(too_many(path, len(seen), MAX_SELECTABLE))
