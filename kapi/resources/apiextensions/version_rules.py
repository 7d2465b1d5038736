"""Validation of a CustomResourceDefinition's conversion, and of its versions except for their schemas.

That is subresources, columns, selectable fields and the deprecation warning.
Upstream: apiextensions ``validation/validation.go`` (validateCustomResourceConversion).
"""

from __future__ import annotations

import base64
import unicodedata

from kapi.machinery.field import FieldError, Path, duplicate, forbidden, invalid, required, too_many
from kapi.machinery.pem import authority_pool
from kapi.machinery.tree import Object, Tree
from kapi.resources.admissionregistration import webhooks
from kapi.resources.shared.rules import need, present, supported
from kapi.schema.structural.field_path import field_path

MAX_SELECTABLE = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def bad_bundle(client: Object | None) -> bool:
    """Whether the CA bundle of a conversion webhook's client configuration cannot be read."""
    bundle: Tree = (client or {}).get("caBundle")
    return bool(bundle) and bool(_bundle_errors(Path("caBundle"), bundle))


def validate_conversion(
    conversion: Object, path: Path, errors: list[FieldError], *, any_bundle: bool, known_review: bool
) -> None:
    """``any_bundle``: an unreadable CA bundle is accepted; ``known_review``: this server must know one of the review versions."""
    strategy, client = conversion.get("strategy") or "", conversion.get("webhookClientConfig")
    reviews = conversion.get("conversionReviewVersions") or []
    if need(strategy, path, errors, "strategy"):
        supported(strategy, ("None", "Webhook"), path, errors, "strategy")
    at = path.child("webhookClientConfig")
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            errors.append(forbidden(at, text))
        if reviews:
            errors.append(forbidden(path.child("conversionReviewVersions"), text))
        return
    if present(client, at, errors, detail="required when strategy is set to Webhook"):
        if (client.get("url") is None) == (client.get("service") is None):
            errors.append(required(at, "exactly one of url or service is required"))
        elif client.get("url") is not None:
            webhooks.validate_url(client["url"], at.child("url"), errors)
        else:
            webhooks.validate_service(client["service"], at.child("service"), errors)
        if client.get("caBundle") and not any_bundle:
            errors.extend(_bundle_errors(at.child("caBundle"), client["caBundle"]))
    webhooks.validate_review_versions(
        reviews, path.child("conversionReviewVersions"), errors, known_versions=known_review
    )


def _bundle_errors(path: Path, bundle: str) -> list[FieldError]:
    try:
        authority_pool(base64.b64decode(bundle))
    except ValueError as error:
        return [invalid(path, bundle, f"unable to load root certificates: {error}")]
    return []


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
        if need(value, at, errors):
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
    need(column.get("name"), path, errors, "name")
    type_, text = column.get("type") or "", "must be one of " + ",".join(_COLUMN_TYPES)
    if need(type_, path, errors, "type", detail=text) and type_ not in _COLUMN_TYPES:
        errors.append(invalid(path.child("type"), type_, text))
    format_ = column.get("format") or ""
    if format_ and format_ not in _COLUMN_FORMATS:
        errors.append(invalid(path.child("format"), format_, "must be one of " + ",".join(_COLUMN_FORMATS)))
    json_path = column.get("jsonPath") or ""
    if need(json_path, path, errors, "JSONPath"):
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
