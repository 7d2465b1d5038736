"""Field paths and field errors (upstream: apimachinery ``util/validation/field``).

A validation appends to a plain list of FieldError; the list's order is the order of ``details.causes``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec
import orjson

from kapi.machinery import checkpoint
from kapi.machinery.golang import float_text, quote
from kapi.machinery.tree import Object


class Path(msgspec.Struct, eq=False, gc=False):
    """A field path such as ``spec.containers[0].name``: a linked list, made into text only when needed."""

    part: str | int = ""  # ".name", "[key]", or the index of an element
    parent: Path | None = None

    @property
    def name(self) -> str:
        """The name of the field at its end."""
        return str(self.part).removeprefix(".")

    def child(self, *names: str) -> Path:
        """The path of a named field below this one."""
        path = self
        for name in names:
            path = Path("." + name if path.part or path.parent is not None else name, path)
        return path

    def index(self, i: int) -> Path:
        """The path of a list element.  Every validation of a list calls it, so it is a checkpoint."""
        if checkpoint.running is not None:
            checkpoint.checkpoint()
        return Path(i, self)

    def key(self, key: str) -> Path:
        """The path of a map entry: ``data[a.b]``."""
        if checkpoint.running is not None:
            checkpoint.checkpoint()
        return Path(f"[{key}]", self)

    def __str__(self) -> str:
        parts: list[str] = []
        node: Path | None = self
        while node is not None:
            part = node.part
            parts.append(part if isinstance(part, str) else f"[{part}]")
            node = node.parent
        return "".join(reversed(parts))


class ErrorType(enum.Enum):
    """Reason of a cause, and the first words of its message."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")


OMIT = object()  #: stands for a bad value that the message leaves out
NIL = object()  #: stands for a missing value of any type
_VALUELESS = (ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL)


class FieldError:
    """One cause: type, path (text), bad value and detail; ``origin`` names the rule for ratcheting."""

    __slots__ = ("type", "field", "value", "detail", "origin")

    def __init__(self, type: ErrorType, field: Path | str, value: object, detail: str, origin: str = "") -> None:
        if checkpoint.running is not None:
            checkpoint.checkpoint()
        self.type = type
        self.field = str(field)
        self.value = value
        self.detail = detail
        self.origin = origin

    def body(self) -> str:
        """The cause's message: ``Invalid value: "x": must be ...``."""
        if checkpoint.running is not None:
            checkpoint.checkpoint()
        words = self.type.value[1]
        if self.type in _VALUELESS or self.value is OMIT:
            text = words
        else:
            text = f"{words}: {format_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def cause(self) -> Object:
        """The entry of a Status' ``details.causes``."""
        cause: Object = {"reason": self.type.value[0], "message": self.body()}
        if self.field:
            cause["field"] = self.field
        return cause

    def __str__(self) -> str:
        return f"{self.field}: {self.body()}"

    def __repr__(self) -> str:
        return f"<FieldError {self}>"


#: characters that Go's JSON encoder escapes so that its output is safe in HTML
_HTML = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class Named(str):
    """A value of a named Go type of strings: messages show it as JSON, but plain strings as Go's %q."""

    __slots__ = ()


def format_value(value: object) -> str:
    """A bad value in the form of upstream's messages."""
    if value is None or value is NIL:
        return "null"
    if isinstance(value, str) and type(value) is not Named:
        return quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    text = orjson.dumps(str(value) if isinstance(value, str) else value).decode()
    for char, escaped in _HTML.items():  # str.translate takes a fifth of a second for 3 MB
        text = text.replace(char, escaped)
    return text


MAX_ERRORS = 100_000  # errors of one object; an answer contains fewer (``status.MAX_CAUSES``)


def repeat(errors: list[FieldError], error: FieldError, times: int) -> None:
    """Appends the same error ``times`` times, as upstream does, up to ``MAX_ERRORS``."""
    errors.extend([error] * min(times, MAX_ERRORS - len(errors)))


def required(path: Path | str, detail: str = "") -> FieldError:
    return FieldError(ErrorType.REQUIRED, path, "", detail)


def invalid(path: Path | str, value: object, detail: str, origin: str = "") -> FieldError:
    return FieldError(ErrorType.INVALID, path, value, detail, origin)


def type_invalid(path: Path | str, value: object, detail: str) -> FieldError:
    return FieldError(ErrorType.TYPE_INVALID, path, value, detail)


def duplicate(path: Path | str, value: object) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, path, value, "")


def forbidden(path: Path | str, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, path, "", detail)


def not_found(path: Path | str, value: object) -> FieldError:
    return FieldError(ErrorType.NOT_FOUND, path, value, "")


def not_supported(path: Path | str, value: object, supported: Iterable[str]) -> FieldError:
    """``Unsupported value: "x": supported values: "A", "B"`` in this order."""
    names = ", ".join(quote(str(name)) for name in supported)
    value = Named(value) if isinstance(value, str) else value
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {names}" if names else "")


def too_long(path: Path | str, max_length: int) -> FieldError:
    word = "byte" if max_length == 1 else "bytes"
    detail = f"may not be more than {max_length} {word}" if max_length >= 0 else "value is too long"
    return FieldError(ErrorType.TOO_LONG, path, "", detail)


def too_many(path: Path | str, actual: int, max_items: int) -> FieldError:
    word = "item" if max_items == 1 else "items"
    detail = f"must have at most {max_items} {word}" if max_items >= 0 else "has too many items"
    return FieldError(ErrorType.TOO_MANY, path, actual if actual >= 0 else OMIT, detail)


def internal(path: Path | str, error: object) -> FieldError:
    return FieldError(ErrorType.INTERNAL, path, "", str(error))
