"""Types of built-in and custom resources, in one model.

Decoding, field validation, defaulting, pruning, strategic merge, server-side apply, OpenAPI and CEL declarations
all walk these objects.  Built-in types come from the compact file made at build time (see ``builtin.py``); a custom
resource's come from its structural schema.  Types are immutable once built; a type may contain itself.
Upstream: kube-openapi ``x-kubernetes-*`` extensions, structured-merge-diff ``schema``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from kapi.machinery.freeing import has_parts
from kapi.machinery.tree import Object, Tree


class Kind(enum.Enum):
    """The JSON form of a type's values."""

    STRUCT = "struct"  # known fields
    MAP = "map"  # string keys, values of one type
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ANY = "any"  # RawExtension, JSON, preserve-unknown-fields: never inspected
    QUANTITY = "quantity"  # string or number on the wire; kept as the canonical string
    INT_OR_STRING = "int-or-string"
    TIME = "time"  # RFC 3339, whole seconds
    MICRO_TIME = "micro-time"
    DURATION = "duration"
    BYTES = "bytes"  # base64 text


@dataclass(slots=True, eq=False, repr=False)
class Type:
    """A type.  Unused attributes keep their defaults, e.g. ``fields`` is empty unless ``kind`` is STRUCT."""

    kind: Kind
    name: str = ""  # definition name without package: "PodSpec"; "" for anonymous ones
    definition: str = ""  # of a built-in STRUCT or special type: "io.k8s.api.core.v1.PodSpec"
    go_type: str = ""  # how Go's messages name it: "v1.PodSpec", "map[string]string", "int32", "string"
    fields: dict[str, Field] = field(default_factory=dict)
    elem: Type | None = None  # element of LIST, value of MAP
    list_type: str = "atomic"  # atomic | set | map   (x-kubernetes-list-type)
    list_map_keys: tuple[str, ...] = ()
    map_type: str = "granular"  # granular | atomic  (x-kubernetes-map-type, of MAP and STRUCT)
    preserve_unknown: bool = False  # STRUCT that keeps fields it does not know
    nullable: bool = False
    int_bits: int = 64  # INTEGER: 32 or 64
    unions: tuple[Tree, ...] = ()
    has_embedded: bool = False  # a custom resource that has embedded ones
    schema: Object | None = None  # the JSON schema it came from (custom resources): keywords, rules, default

    def __repr__(self) -> str:
        """A short text, since a type may contain itself."""
        return f"<Type {self.kind.value} {self.go_type or self.name}>"


@dataclass(slots=True, eq=False)
class Field:
    """A field of a STRUCT."""

    name: str
    type: Type
    required: bool = False
    pointer: bool = True  # a pointer in Go: an explicit zero value is kept
    omitempty: bool = True  # False: always emitted, as its zero value if need be
    omitzero: bool = False  # a struct held by value is left out when empty, too (without it Go always writes it)
    default: Tree = None
    has_default: bool = False
    patch_strategy: str = ""  # "", merge, replace, retainKeys, "merge,retainKeys"
    patch_merge_key: str = ""
    description: str = ""


has_parts(Type, "fields", "elem", "schema")
has_parts(Field, "type", "default")
