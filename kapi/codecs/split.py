"""Objects as two halves of JSON, between which the store inserts the resourceVersion.

The order of keys is kind, apiVersion, metadata, the rest, as upstream; resourceVersion is the first key of metadata, so that its
position is known without a search.
"""

from __future__ import annotations

from functools import lru_cache

import orjson

from kapi.codecs import json_pieces
from kapi.machinery.checkpoint import checkpoint
from kapi.machinery.raw import RawObject
from kapi.machinery.tree import Object

_EMPTY = b"{}"


def encode_halves(obj: Object) -> tuple[bytes, bytes]:
    """``head + revision + tail`` are the stored bytes.  ``obj`` is not changed; its resourceVersion is left out."""
    checkpoint()
    rest = dict(obj)
    metadata = rest.pop("metadata")
    if "resourceVersion" in metadata:
        metadata = dict(metadata)
        del metadata["resourceVersion"]
    head = _head(rest.pop("kind"), rest.pop("apiVersion"))
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


@lru_cache(1024)
def _head(kind: str, version: str) -> bytes:
    texts = orjson.dumps(kind), orjson.dumps(version)
    return b'{"kind":%b,"apiVersion":%b,"metadata":{"resourceVersion":"' % texts
