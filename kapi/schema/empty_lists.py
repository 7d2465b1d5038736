"""Empty lists and maps, which are not in upstream's storage (protobuf has none).

In fields that Go always writes they become null there.  The fields of a type in which this may happen are found once, so that a
write visits only these.
"""

from __future__ import annotations

from kapi.machinery.each import elements, entries
from kapi.machinery.tree import Object, Tree
from kapi.schema.types import Kind, Type

#: for a struct: (field, whether it is such a list itself, LIST, MAP or STRUCT if there may be such lists below, their type)
_Plan = tuple[tuple[str, bool, "Kind | None", "Type | None"], ...]
_plans: dict[Type, _Plan] = {}


def nil_empty_lists(obj: Object, type_: Type) -> None:
    """Changes ``obj`` in place."""
    for name, own, kind, below in elements(_plan(type_)):
        value = obj.get(name)
        if own and value is not None and not value:
            obj[name] = None
        elif value and below is not None:
            if kind is Kind.STRUCT:
                nil_empty_lists(value, below)
            else:
                for item in value if kind is Kind.LIST else value.values():
                    if item:
                        nil_empty_lists(item, below)


def adds_empty(sent: Tree, found: Tree, type_: Type) -> bool:
    """Whether a client sent an empty list or map that is missing in ``found``, the object with its defaults.

    In Go an empty value differs from nil, which it becomes in the storage.
    """
    kind, inner = type_.kind, type_.elem
    if kind is Kind.STRUCT and isinstance(sent, dict):
        fields, found = type_.fields, found or {}
        return any(
            adds_empty(item, found.get(name), fields[name].type) for name, item in entries(sent) if name in fields
        )
    if kind is Kind.LIST and isinstance(sent, list) or kind is Kind.MAP and isinstance(sent, dict):
        if not sent or not found:
            return not sent and not found
        if inner is not None and isinstance(sent, list):
            return any(adds_empty(item, there, inner) for item, there in elements(zip(sent, found, strict=False)))
        if inner is not None and isinstance(sent, dict):
            return any(adds_empty(item, found.get(name), inner) for name, item in entries(sent))
    return False


def _plan(type_: Type) -> _Plan:
    plan = _plans.get(type_)
    if plan is None:
        _plans[type_] = ()  # for a type that contains itself
        steps = []
        for name, field in type_.fields.items():
            kind, inner = field.type.kind, field.type
            own = kind in (Kind.LIST, Kind.MAP) and not field.omitempty and not field.pointer
            if kind in (Kind.LIST, Kind.MAP) and inner.elem is not None:
                inner = inner.elem
            below = inner if inner.kind is Kind.STRUCT and _plan(inner) else None
            if own or below is not None:
                steps.append((name, own, kind if below is not None else None, below))
        plan = _plans[type_] = tuple(steps)
    return plan
