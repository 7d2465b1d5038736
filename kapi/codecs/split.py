"""Objects as two halves of JSON, between which the store inserts the resourceVersion.

The order of keys is kind, apiVersion, metadata, the rest, as upstream's; resourceVersion is the first key of metadata, so that
its position is known without a search.
"""

from __future__ import annotations

import orjson

from kapi.codecs import json_pieces
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.raw import RawObject
from kapi.machinery.tree import Object

_EMPTY = b"{}"


def encode_halves(obj: Object) -> tuple[bytes, bytes]:
    """``head + revision + tail`` are the stored bytes.  ``obj`` is not changed; its resourceVersion is left out."""
    checkpoint()
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    head = (
        b'{"kind":'
        + orjson.dumps(obj["kind"])
        + b',"apiVersion":'
        + orjson.dumps(obj["apiVersion"])
        + b',"metadata":{"resourceVersion":"'
    )
    meta = json_pieces.dumps(metadata)
    tail = b'"}' if meta == _EMPTY else b'",' + meta[1:]
    for key, value in rest.items():
        if type(value) is RawObject:
            rest[key] = orjson.Fragment(value.text)
    body = json_pieces.dumps(rest)
    checkpoint()
    if len(body) >= json_pieces.LARGE:
        return head, b"".join((tail, b",", memoryview(body)[1:]))
    return head, tail + (b"}" if body == _EMPTY else b"," + body[1:])
