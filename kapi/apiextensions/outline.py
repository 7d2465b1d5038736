"""A definition without what may be large in it: of most events nothing but its names and conditions matters.

Schemas and columns stay the bytes that they are, which costs a tenth of decoding them, and nothing is to be freed afterwards.
"""

from __future__ import annotations

from typing import TypedDict

import msgspec
import orjson
from msgspec import Raw

from kapi.codecs import json_pieces
from kapi.machinery.tree import Object, Tree

#: what stays bytes of a version
_LEFT = ("schema", "additionalPrinterColumns")


# as classes they would have attributes that nobody reads
_Metadata = TypedDict(  # noqa: UP013
    "_Metadata",
    {
        "name": str,
        "uid": str,
        "generation": int,
        "resourceVersion": str,
        "deletionTimestamp": str | None,
        "annotations": dict[str, str] | None,
        "finalizers": list[str] | None,
    },
    total=False,
)
_Version = TypedDict(  # noqa: UP013
    "_Version",
    {
        "name": str,
        "served": bool,
        "storage": bool,
        "deprecated": bool,
        "deprecationWarning": str | None,
        "subresources": Tree,
        "selectableFields": Tree,
        "schema": Raw,
        "additionalPrinterColumns": Raw,
    },
    total=False,
)
_Spec = TypedDict(  # noqa: UP013
    "_Spec",
    {
        "group": str,
        "scope": str,
        "names": Tree,
        "versions": list[_Version] | None,
        "conversion": Tree,
        "preserveUnknownFields": bool | None,
    },
    total=False,
)
_Definition = TypedDict("_Definition", {"metadata": _Metadata, "spec": _Spec, "status": Tree}, total=False)  # noqa: UP013


_read = msgspec.json.Decoder(_Definition).decode


def outline(data: bytes) -> Object:
    """The definition in stored bytes; see ``whole`` for what is Raw in its versions."""
    try:
        found: Tree = _read(data)
    except (msgspec.DecodeError, RecursionError):  # an older form, or deeper than this reader goes
        found = orjson.loads(data)
        for version in found["spec"].get("versions") or ():
            version.update({name: Raw(orjson.dumps(version[name])) for name in _LEFT if name in version})
    crd: Object = found
    return crd


def whole(raw: Raw | None) -> Tree:
    """What stands there; None for nothing."""
    return None if raw is None else json_pieces.loads(bytes(raw))
