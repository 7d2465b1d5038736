"""Request bodies in JSON, YAML and CBOR as trees.

A body's tree is a ``Document``, which also has what decoding needs to report duplicate keys.
"""

from __future__ import annotations

from collections.abc import Callable

from kapi.codecs import json_reading
from kapi.codecs.negotiation import CBOR, JSON, YAML
from kapi.machinery import status
from kapi.machinery.golang import quote
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.importing import import_in_thread
from kapi.machinery.tree import Object, Tree

MAX_BODY_BYTES = 3 * 1024 * 1024
_YAML_READING, _CBOR_READING = "kapi.codecs.yaml_reading", "kapi.codecs.cbor_reading"
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_MAX_QUOTED_BYTES = 30  # bytes of a body that a message quotes


class DecodingError(status.BadRequest):
    """A body that cannot be decoded as the expected kind.  ``cause`` is the reason without the rest of the message."""

    def __init__(self, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.cause = cause or message


class Document(Object):
    """A body's tree; ``raw`` is its JSON text (None for other formats), ``duplicates`` are the duplicate keys in YAML.

    ``source`` is the body; ``too_large`` is the text of its first number beyond a float64, or "".
    ``refusal``: the reason why the body cannot be decoded as its kind, or "".
    """

    __slots__ = ("raw", "duplicates", "source", "too_large", "refusal")

    def __init__(
        self, tree: Object, raw: bytes | None = None, duplicates: list[str] | None = None, source: bytes = b""
    ) -> None:
        super().__init__(tree)
        self.raw = raw
        self.duplicates = duplicates or []
        self.source = source
        self.too_large = ""
        self.refusal = ""


class CBORDocument(Document):
    """The tree of a body in CBOR."""

    __slots__ = ()


def type_meta(tree: Object) -> tuple[str, str]:
    """apiVersion and kind, "" when missing.  Raises ValueError with Go's text.

    Go's decoder of JSON ignores the case of letters in these two names, unlike in all other names, and that of CBOR does not.
    The last value counts, in the order of the client's text, or by name where upstream writes the JSON itself: of YAML and of
    patched objects.
    """
    version = kind = ""
    if isinstance(tree, CBORDocument):
        return tree.get("apiVersion") or "", tree.get("kind") or ""
    in_order = isinstance(tree, Document) and tree.raw is not None
    for key in tree if in_order else sorted(tree):
        value = tree[key]
        if (len(key) != 4 and len(key) != 10) or value is None:
            continue
        name = key.lower()
        if name != "kind" and name != "apiversion":
            continue
        if not isinstance(value, str):
            name = "kind" if name == "kind" else "apiVersion"
            why = f"json: cannot unmarshal {json_reading.kind_of(value)} into Go struct field .{name} of type string"
            raise ValueError(f"couldn't get version/kind; json parse error: {why}")
        if name == "kind":
            kind = value
        else:
            version = value
    return version, kind


def read_body(data: bytes, media: str, kind: GroupVersionKind) -> Document:
    """The tree of a body in JSON, YAML or CBOR.

    Raises DecodingError when it is not an object, or its type is malformed, and RequestTooLarge.
    """
    try:
        document = _READERS[media](data)
        version, _ = type_meta(document)
        if version.count("/") > 1 and media == CBOR:
            document.pop("apiVersion")  # here upstream ignores one that is malformed
        elif version.count("/") > 1:
            raise ValueError(f"unexpected GroupVersion string: {version}")
    except ValueError as error:
        raise unrecognized(data, kind, str(error)) from None
    return document


def _read_json(data: bytes) -> Document:
    tree, too_large = _json(data)
    document = Document(as_object(tree), data, None, data)
    document.too_large = too_large
    return document


def _read_yaml(data: bytes) -> Document:
    tree, duplicates = _yaml(data)
    return Document(as_object(tree), None, duplicates, data)


def _read_cbor(data: bytes) -> Document:
    """The document of a body in CBOR, with other errors as ``refusal``.  Raises ValueError when its kind is unknown."""
    refusal = ""
    try:
        tree = _cbor(data)
    except ValueError as error:
        if getattr(error, "outermost", True):
            raise ValueError(f"unable to determine group/version/kind: {error}") from None
        tree, refusal = error.tree, str(error)  # type: ignore[attr-defined]  # it is Unacceptable
    if tree is not None and not isinstance(tree, dict):
        raise ValueError(f"unable to determine group/version/kind: {_no_value(tree, 'value of type v1.TypeMeta')}")
    document = CBORDocument(tree or {}, source=data)
    for name in ("kind", "apiVersion"):
        given = document.get(name)
        if given is not None and not isinstance(given, str):
            why = _no_value(given, f"struct field v1.TypeMeta.{name} of type string")
            raise ValueError(f"unable to determine group/version/kind: {why}")
    document.refusal = refusal
    return document


_READERS: dict[str, Callable[[bytes], Document]] = {JSON: _read_json, YAML: _read_yaml, CBOR: _read_cbor}


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


def _cbor(data: bytes) -> Tree:
    """The tree.  Raises ValueError, and RequestTooLarge when it needs too much memory."""
    import_in_thread(_CBOR_READING)
    from kapi.codecs import cbor_reading  # imported only when needed

    try:
        return cbor_reading.loads(data, MAX_BODY_BYTES)
    except cbor_reading.TooManyParts:
        raise too_large() from None


def _no_value(value: Tree, target: str) -> str:
    from kapi.codecs.cbor_reading import kind_of

    return f"cbor: cannot unmarshal {kind_of(value)} into Go {target}"


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
    """The tree as an object; null counts as an empty object.  Raises ValueError with Go's text."""
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
    """The tree of a patch, and errors for its duplicate fields (none when ``validation`` is Ignore).

    In a JSON patch a mapping with a duplicate key stays a ``Duplicated``: the decoders of patch and patched object report it.
    Raises BadRequest.
    """
    try:
        tree = json_reading.loads(data)
        if validation == "Ignore" or not json_reading.may_have_duplicates(data, json_reading.count_keys(tree)):
            return tree, []
        exact = json_reading.loads_exactly(data)
    except ValueError as error:
        raise status.bad_request(f"{prefix}{error}") from None
    found = list(dict.fromkeys(f"duplicate field {quote(path)}" for path in json_reading.duplicates(exact)))
    return (exact if found else tree, []) if json_patch else (tree, found[: json_reading.MAX_PROBLEMS])


def read_apply_body(data: bytes, media: str = YAML) -> tuple[Object, list[str]]:
    """The declared object of a server-side apply, and the duplicate keys in it.  Raises BadRequest and RequestTooLarge."""
    duplicates: list[str] = []
    try:
        if media == CBOR:
            tree = _cbor(data)
        else:
            tree, duplicates = _yaml(data)
    except ValueError as error:
        why = str(error) if media == CBOR else f"error converting YAML to JSON: {error}"
        raise status.bad_request(f"error decoding YAML: {why}") from None
    if tree is None:
        return {}, duplicates
    if not isinstance(tree, dict):
        target = "value of type map[string]interface {}"
        if media == CBOR:
            raise status.bad_request(f"error decoding YAML: {_no_value(tree, target)}")
        raise status.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {json_reading.kind_of(tree)} into Go {target}"
        )
    return tree, duplicates
