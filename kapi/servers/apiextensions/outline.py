"""A CustomResourceDefinition with its large parts left undecoded: most events concern only names and conditions.

Schemas and columns stay JSON bytes, which takes a tenth of the time, and there are no large trees to free.
"""

from __future__ import annotations

from typing import TypedDict

import msgspec
import orjson
from msgspec import Raw

from kapi.codecs import json_pieces
from kapi.machinery.tree import Object, Tree

#: fields of a version that stay bytes
_RAW_FIELDS = ("schema", "additionalPrinterColumns")


# not classes, whose attributes no code would read
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
    """The definition in stored bytes; ``decode_raw`` decodes the Raw parts of its versions."""
    try:
        found: Tree = _read(data)
    except (msgspec.DecodeError, RecursionError):  # an older form, or nested too deeply for msgspec
        found = orjson.loads(data)
        for version in found["spec"].get("versions") or ():
            version.update({name: Raw(orjson.dumps(version[name])) for name in _RAW_FIELDS if name in version})
    crd: Object = found
    return crd


def decode_raw(raw: Raw | None) -> Tree:
    """The tree of an undecoded field; None if it is missing."""
    return None if raw is None else json_pieces.loads(bytes(raw))
