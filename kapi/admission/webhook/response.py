"""The ``response`` of an AdmissionReview, each field of its type (upstream: ``k8s.io/api/admission/v1``, Status of ``meta/v1``).

Whoever runs a webhook writes what it answers: a number where a text belongs must not get any further.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
_Check = Callable[[Any, str], None]


class BadReview(ValueError):
    """A request that cannot be made or an answer that is not one."""


def _wrong(value: Any, path: str, wanted: str) -> BadReview:
    match value:
        case bool():
            given = "bool"
        case int() | float():
            given = "number"
        case str():
            given = "string"
        case _:
            given = "array" if isinstance(value, list) else "object"
    return BadReview(f"json: cannot unmarshal {given} into Go struct field AdmissionReview.{path} of type {wanted}")


def _text(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise _wrong(value, path, "string")


def _truth(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, path, "bool")


def _int32(value: Any, path: str) -> None:
    if value.__class__ is not int or not -(1 << 31) <= value < 1 << 31:
        raise _wrong(value, path, "int32")


def _list(item: _Check) -> _Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise _wrong(value, path, "[]")
        for each in value:
            if each is not None:
                item(each, path)

    return check


def _texts(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, path, "map[string]string")
    for each in value.values():
        _text(each, path)


def _struct(go_type: str, /, **fields: _Check) -> _Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, path, go_type)
        for key, item in fields.items():
            if value.get(key) is not None:
                item(value[key], f"{path}.{key}")

    return check


_CAUSE = _struct("v1.StatusCause", reason=_text, message=_text, field=_text)
_DETAILS = _struct(
    "v1.StatusDetails",
    name=_text,
    group=_text,
    kind=_text,
    uid=_text,
    causes=_list(_CAUSE),
    retryAfterSeconds=_int32,
)
_STATUS = _struct("v1.Status", status=_text, message=_text, reason=_text, code=_int32, details=_DETAILS)
_RESPONSE = _struct(
    "v1.AdmissionResponse",
    uid=_text,
    allowed=_truth,
    status=_STATUS,
    patch=_text,
    patchType=_text,
    auditAnnotations=_texts,
    warnings=_list(_text),
)


def checked_response(value: Any) -> Object:
    """The same response.  Raises BadReview."""
    _RESPONSE(value, "response")
    response: Object = value
    return response
