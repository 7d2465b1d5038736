"""Checks the JSON of other programs field by field against its Go type (upstream: ``encoding/json``).

It may be anything: a text ``"false"`` in a bool field must be an error, not true.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.machinery.each import elements
from kapi.machinery.golang import base64_bytes

#: raises WrongType for a value that is not of the type; the text is the field's path
Check = Callable[[object, str], None]


class WrongType(ValueError):
    """A value of the wrong type; the text is Go's.  ``path`` is that of the field, after the name of its struct."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path.partition(".")[2]


def _wrong(value: object, path: str, wanted: str) -> WrongType:
    match value:
        case bool():
            given = "bool"
        case int() | float():
            given = "number"
        case str():
            given = "string"
        case _:
            given = "array" if isinstance(value, list) else "object"
    return WrongType(f"json: cannot unmarshal {given} into Go struct field {path} of type {wanted}", path)


def text(go_type: str) -> Check:
    def check(value: object, path: str) -> None:
        if not isinstance(value, str):
            raise _wrong(value, path, go_type)

    return check


string = text("string")


def base64(value: object, path: str) -> None:
    """Bytes: base64, or a list of numbers; ``golang.json_bytes`` reads them."""
    if isinstance(value, list):
        for each in elements(value):
            if each.__class__ is not int or not 0 <= each < 256:
                raise _wrong(each, path, "uint8")
        return
    if not isinstance(value, str):
        raise _wrong(value, path, "[]uint8")
    try:
        base64_bytes(value)
    except ValueError as error:
        raise WrongType(str(error), path) from None


def boolean(value: object, path: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(value, path, "bool")


def int32(value: object, path: str) -> None:
    if value.__class__ is not int or not -(1 << 31) <= value < 1 << 31:
        raise _wrong(value, path, "int32")


def int64(value: object, path: str) -> None:
    if value.__class__ is not int or not -(1 << 63) <= value < 1 << 63:
        raise _wrong(value, path, "int64")


def or_null(item: Check) -> Check:
    def check(value: object, path: str) -> None:
        if value is not None:
            item(value, path)

    return check


def list_of(item: Check, item_type: str = "string") -> Check:
    def check(value: object, path: str) -> None:
        if not isinstance(value, list):
            raise _wrong(value, path, f"[]{item_type}")
        for each in elements(value):
            item(each, path)

    return check


def map_of(item: Check, item_type: str = "string") -> Check:
    def check(value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, path, f"map[string]{item_type}")
        for each in elements(value.values()):
            item(each, path)

    return check


string_map = map_of(string)
string_list_map = map_of(or_null(list_of(string)), "[]string")


def struct(go_type: str, /, **fields: Check) -> Check:
    """A path in an error begins with the name of the innermost struct, in place of that of the outermost one."""
    name = go_type.rpartition(".")[2]

    def check(value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, path, go_type)
        outer = path.partition(".")[2]
        below = f"{name}.{outer}" if outer else name
        for key, item in fields.items():
            if value.get(key) is not None:
                item(value[key], f"{below}.{key}")

    return check


_CAUSE = struct("v1.StatusCause", reason=text("v1.CauseType"), message=string, field=string)
_DETAILS = struct(
    "v1.StatusDetails",
    name=string,
    group=string,
    kind=string,
    uid=text("types.UID"),
    causes=list_of(_CAUSE, "v1.StatusCause"),
    retryAfterSeconds=int32,
)
_LIST_META = struct(
    "v1.ListMeta", selfLink=string, resourceVersion=string, remainingItemCount=int64, **{"continue": string}
)
STATUS = struct(
    "v1.Status",
    metadata=_LIST_META,
    status=string,
    message=string,
    reason=text("v1.StatusReason"),
    details=_DETAILS,
    code=int32,
)
#: upstream's name for the table of the kinds that webhooks of admission and conversion answer
WEBHOOK_SCHEME = "k8s.io/apiserver/pkg/util/webhook/client.go:71"
