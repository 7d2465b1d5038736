"""Go's zero values in JSON, which are written for unset fields."""

from __future__ import annotations

from kapi.machinery import tree
from kapi.machinery.tree import Tree
from kapi.schema.types import Field, Kind, Type

_ZEROS: dict[Kind, Tree] = {
    Kind.STRING: "",
    Kind.DURATION: "0s",
    Kind.INTEGER: 0,
    Kind.NUMBER: 0,
    Kind.BOOLEAN: False,
    Kind.QUANTITY: "0",
    Kind.INT_OR_STRING: 0,
}
#: kinds that are structs in Go: omitempty never drops them when they are held by value
_STRUCTS = frozenset([Kind.STRUCT, Kind.QUANTITY, Kind.INT_OR_STRING, Kind.TIME, Kind.MICRO_TIME, Kind.DURATION])
#: (struct, field) of omitempty lists for which validation distinguishes empty from missing, as Go distinguishes empty from nil;
#: empty ones are refused or dropped later, so none is ever stored
_NOT_NIL = frozenset(
    {
        ("HPAScalingRules", "policies"),
        ("IngressSpec", "rules"),
        *(
            ("EphemeralContainer", name) for name in ("ports", "resizePolicy", "restartPolicyRules")
        ),  # forbidden, even empty
    }
)
_emitted: dict[Type, tuple[tuple[str, Tree], ...]] = {}


def keeps_empty(type_: Type, name: str) -> bool:
    """Whether decoding keeps an empty list of a struct's omitempty field."""
    return (type_.name, name) in _NOT_NIL


def zero(type_: Type) -> Tree:
    """The JSON of an unset value of the type; null for what is nil."""
    if type_.kind is Kind.STRUCT:
        return tree.copy(dict(always_emitted(type_)))
    return _ZEROS.get(type_.kind)


def is_zero(value: object, type_: Type) -> bool:
    """Whether a value as Go writes it is the type's zero value."""
    return bool(value == zero(type_))


def is_always_emitted(field: Field) -> bool:
    """Whether the field is written even when it is not set."""
    if not field.omitempty:
        return True
    if field.pointer or field.omitzero:
        return False
    return field.type.kind in _STRUCTS or (field.type.kind is Kind.ANY and field.type.name == "RawExtension")


def always_emitted(type_: Type) -> tuple[tuple[str, Tree], ...]:
    """(name, zero value) of the fields that a struct always writes.  The values are shared: copy before keeping."""
    found = _emitted.get(type_)
    if found is None:
        found = tuple(
            (name, None if field.pointer else zero(field.type))
            for name, field in type_.fields.items()
            if is_always_emitted(field)
        )
        _emitted[type_] = found
    return found
