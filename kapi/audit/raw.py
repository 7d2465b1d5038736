"""Edits JSON bodies for audit events without decoding them: an answer may be a list of 100 MB, and decoding blocks the thread.

Members are cut out of the text; the rest of the text is not changed.
"""

from __future__ import annotations

import msgspec

Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(Members).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_MANAGED = b'"managedFields"'


def one_line(text: bytes) -> bytes:
    """JSON without line ends: only indented JSON has any, since strings escape them."""
    return msgspec.json.format(text, indent=-1) if b"\n" in text else text


def without(text: bytes, *names: str) -> Members:
    """The members of an object except ``names``.  Raises msgspec.DecodeError when ``text`` is not an object."""
    return {name: value for name, value in _members(text).items() if name not in names}


def without_managed_fields(text: bytes) -> bytes:
    """The JSON of an object, a list or a table, without managedFields.  Raises msgspec.DecodeError when it is not an object."""
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
