"""Request bodies as JSON trees, whichever of the text forms they come in.

A tree of a body remembers what decoding needs to report duplicate keys: see ``Document``.
"""

from __future__ import annotations

from kapi.codecs import json_reading
from kapi.codecs.negotiation import YAML
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object, Tree

_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_MAX_QUOTED_BYTES = 30  # bytes of a body that a message quotes


class DecodingError(status.BadRequest):
    """A body that cannot be taken for the wanted kind.  ``cause`` is the reason without the words around it."""

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause or message


class Document(Object):
    """A body's tree; ``raw`` is its JSON text (None for YAML), ``duplicates`` the keys that YAML has twice.

    ``source`` is the body as it came; ``too_large`` the first number in it that no float64 can hold, as it was written.
    """

    __slots__ = ("raw", "duplicates", "source", "too_large")

    def __init__(
        self, tree: Object, raw: bytes | None = None, duplicates: list[str] | None = None, source: bytes = b""
    ) -> None:
        super().__init__(tree)
        self.raw = raw
        self.duplicates = duplicates or []
        self.source = source
        self.too_large = ""


def read_body(data: bytes, media: str, kind: GroupVersionKind, validation: str) -> Document:
    """The body of a write, by media type.  Raises DecodingError when it is no object with a readable type."""
    try:
        if media == YAML:
            from kapi.codecs import yaml_reading  # for those alone who send it

            tree, duplicates = yaml_reading.loads(data)
            document = Document(as_object(tree), None, duplicates, data)
        else:
            tree, too_large = _json(data)
            document = Document(as_object(tree), data, None, data)
            document.too_large = too_large
        for name in ("apiVersion", "kind"):
            value = document.get(name)
            if value is not None and not isinstance(value, str):
                found = json_reading.kind_of(value)
                raise ValueError(
                    "couldn't get version/kind; json parse error: "
                    f"json: cannot unmarshal {found} into Go struct field .{name} of type string"
                )
        version = document.get("apiVersion") or ""
        if version.count("/") > 1:
            raise ValueError(f"unexpected GroupVersion string: {version}")
    except ValueError as error:
        cause = str(error)
        raise unrecognized(data, kind, cause) from None
    return document


def unrecognized(data: bytes, kind: GroupVersionKind, cause: str) -> DecodingError:
    """The refusal of a body that does not say what it is."""
    wrapped = f"the object provided is unrecognized (must be of type {kind.kind}): {cause} ({summary(data)})"
    return DecodingError(wrapped, cause)


def _json(data: bytes) -> tuple[Tree, str]:
    """The tree, and the number in it that is for the decoder to refuse (it knows the field)."""
    try:
        return json_reading.loads(data), ""
    except json_reading.NumberTooLarge as error:
        return error.tree, error.number
    except ValueError as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from None


def as_object(tree: object) -> Object:
    """What was sent as an object, null as an empty one.  Raises ValueError with Go's words."""
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ValueError(
            "couldn't get version/kind; json parse error: "
            f"json: cannot unmarshal {json_reading.kind_of(tree)} into Go value of type {_TYPE_META}"
        )
    return tree


def summary(data: bytes) -> str:
    """The start of a body: as text when it looks like JSON, else in hexadecimal."""
    if not data:
        return "<empty>"
    start = data[:_MAX_QUOTED_BYTES]
    shown = start.decode("utf-8", "replace") if data[:1] == b"{" else start.hex()
    return shown + " ..." if len(data) > _MAX_QUOTED_BYTES else shown


def read_patch(
    data: bytes, validation: str, *, json_patch: bool = False, prefix: str = "error decoding patch: "
) -> tuple[Tree, list[str]]:
    """The tree of a patch and the duplicate fields in it (not looked for when ``validation`` is Ignore).

    In a JSON patch a mapping with a key twice stays a ``Duplicated``, so that the object it goes into reports it, too.
    Raises BadRequest.
    """
    try:
        tree = json_reading.loads(data)
        if validation == "Ignore" or not json_reading.may_have_duplicates(data, json_reading.count_keys(tree)):
            return tree, []
        exact = json_reading.loads_exactly(data)
    except ValueError as error:
        raise status.bad_request(f"{prefix}{error}") from None
    found = list(dict.fromkeys(f'duplicate field "{path}"' for path in json_reading.duplicates(exact)))
    return exact if json_patch and found else tree, found[: json_reading.MAX_PROBLEMS]


def read_apply_body(data: bytes) -> tuple[Object, list[str]]:
    """The declared object of a server-side apply, and the duplicate keys in it.  Raises BadRequest."""
    from kapi.codecs import yaml_reading  # for those alone who apply

    try:
        tree, duplicates = yaml_reading.loads(data)
    except ValueError as error:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if tree is None:
        return {}, duplicates
    if not isinstance(tree, dict):
        found = json_reading.kind_of(tree)
        raise status.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return tree, duplicates
