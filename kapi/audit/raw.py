"""Bodies in audit events, without making trees of them: an answer may be a list of 100 MB, and nobody is served meanwhile.

Members are cut out by their place in the text; what is kept stays the text that it was.
"""

from __future__ import annotations

import msgspec

Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(Members).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_MANAGED = b'"managedFields"'


def one_line(text: bytes) -> bytes:
    """JSON without the line ends of an indented form; a text in it has none."""
    return msgspec.json.format(text, indent=-1) if b"\n" in text else text


def without(text: bytes, *names: str) -> Members:
    """The members of an object but those of some names.  Raises msgspec.DecodeError for what is no object."""
    return {name: value for name, value in _members(text).items() if name not in names}


def without_managed_fields(text: bytes) -> bytes:
    """An object, a list of objects or a table, as JSON.  Raises msgspec.DecodeError for what is none of them."""
    if _MANAGED not in text:
        return text
    found = _members(text)
    items, rows, metadata = found.get("items"), found.get("rows"), found.get("metadata")
    if items is not None and _begins(items, b"["):
        found["items"] = msgspec.Raw(_encode([_trimmed(item) for item in _list(items) if _begins(item, b"{")]))
    elif rows is not None and bytes(found.get("kind", b"")) == b'"Table"' and _begins(rows, b"["):
        found["rows"] = msgspec.Raw(_encode([_row(row) for row in _list(rows)]))
    elif metadata is not None and _begins(metadata, b"{"):
        found["metadata"] = msgspec.Raw(_encode(without(bytes(metadata), "managedFields")))
    return _encode(found)


def _begins(value: msgspec.Raw, start: bytes) -> bool:
    return bytes(value)[:1] == start


def _trimmed(value: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(without_managed_fields(bytes(value)))


def _row(value: msgspec.Raw) -> msgspec.Raw:
    row = _members(value)
    shown = row.get("object")
    if shown is None or not _begins(shown, b"{"):
        return value
    row["object"] = _trimmed(shown)
    return msgspec.Raw(_encode(row))
