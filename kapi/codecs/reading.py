"""Request bodies in JSON and YAML as trees.

A body's tree is a ``Document``, which also has what decoding needs to report duplicate keys.
"""

from __future__ import annotations

from kapi.codecs import json_reading
from kapi.codecs.negotiation import YAML
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.importing import import_in_thread
from kapi.machinery.tree import Object, Tree

MAX_BODY_BYTES = 3 * 1024 * 1024
_YAML_READING = "kapi.codecs.yaml_reading"
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_MAX_QUOTED_BYTES = 30  # bytes of a body that a message quotes


class DecodingError(status.BadRequest):
    """A body that cannot be decoded as the expected kind.  ``cause`` is the reason without the rest of the message."""

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause or message


class Document(Object):
    """A body's tree; ``raw`` is its JSON text (None for YAML), ``duplicates`` the keys that YAML has twice.

    ``source`` is the body; ``too_large`` the text of its first number that no float64 can hold, or "".
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


def type_meta(tree: Object) -> tuple[str, str]:
    """apiVersion and kind, "" when missing.  Raises ValueError with Go's text.

    Go's decoder finds these two, unlike all other fields, in any case of letters.
    """
    found = []
    for name in ("apiVersion", "kind"):
        value = tree.get(name)
        if value is None:
            folded = name.lower()
            value = next((tree[key] for key in tree if key.lower() == folded and tree[key] is not None), "")
        if not isinstance(value, str):
            why = f"json: cannot unmarshal {json_reading.kind_of(value)} into Go struct field .{name} of type string"
            raise ValueError(f"couldn't get version/kind; json parse error: {why}")
        found.append(value)
    return found[0], found[1]


def read_body(data: bytes, media: str, kind: GroupVersionKind) -> Document:
    """The tree of a body in JSON or YAML.

    Raises DecodingError when it is no object, or its type is malformed, and RequestTooLarge.
    """
    try:
        if media == YAML:
            tree, duplicates = _yaml(data)
            document = Document(as_object(tree), None, duplicates, data)
        else:
            tree, too_large = _json(data)
            document = Document(as_object(tree), data, None, data)
            document.too_large = too_large
        version, _ = type_meta(document)
        if version.count("/") > 1:
            raise ValueError(f"unexpected GroupVersion string: {version}")
    except ValueError as error:
        cause = str(error)
        raise unrecognized(data, kind, cause) from None
    return document


def too_large() -> status.RequestTooLarge:
    """The error for a body beyond the limit."""
    return status.RequestTooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}", details={})


def _yaml(data: bytes) -> tuple[Tree, list[str]]:
    """The tree and its duplicate keys.  Raises ValueError, and RequestTooLarge when aliases make it too large."""
    import_in_thread(_YAML_READING)
    from kapi.codecs import yaml_reading  # imported only when needed

    try:
        return yaml_reading.loads(data, max_bytes=MAX_BODY_BYTES)
    except yaml_reading.TooLarge:
        raise too_large() from None


def unrecognized(data: bytes, kind: GroupVersionKind, cause: str) -> DecodingError:
    """The error for a body whose type is missing or malformed."""
    wrapped = f"the object provided is unrecognized (must be of type {kind.kind}): {cause} ({summary(data)})"
    return DecodingError(wrapped, cause)


def _json(data: bytes) -> tuple[Tree, str]:
    """The tree, and the text of a number too large for a float64, which the decoder reports with its field."""
    try:
        return json_reading.loads(data), ""
    except json_reading.NumberTooLarge as error:
        return error.tree, error.number
    except ValueError as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from None


def as_object(tree: object) -> Object:
    """The tree as an object; null is an empty one.  Raises ValueError with Go's text."""
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ValueError(
            "couldn't get version/kind; json parse error: "
            f"json: cannot unmarshal {json_reading.kind_of(tree)} into Go value of type {_TYPE_META}"
        )
    return tree


def summary(data: bytes) -> str:
    """The beginning of a body for messages: as text when it looks like JSON, else in hexadecimal."""
    if not data:
        return "<empty>"
    start = data[:_MAX_QUOTED_BYTES]
    shown = start.decode("utf-8", "replace") if data[:1] == b"{" else start.hex()
    return shown + " ..." if len(data) > _MAX_QUOTED_BYTES else shown


def read_patch(
    data: bytes, validation: str, *, json_patch: bool = False, prefix: str = "error decoding patch: "
) -> tuple[Tree, list[str]]:
    """The tree of a patch and errors for its duplicate fields (none when ``validation`` is Ignore).

    In a JSON patch a mapping with a duplicate key stays a ``Duplicated``: its decoder reports it, and so does the patched object.
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
    return (exact if found else tree, []) if json_patch else (tree, found[: json_reading.MAX_PROBLEMS])


def read_apply_body(data: bytes) -> tuple[Object, list[str]]:
    """The declared object of a server-side apply, and the duplicate keys in it.  Raises BadRequest and RequestTooLarge."""
    try:
        tree, duplicates = _yaml(data)
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
