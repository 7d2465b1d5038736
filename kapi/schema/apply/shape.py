"""The schema of a type for merges: scalar, list or map, atomic or granular, keys (upstream: structured-merge-diff ``schema``).

Shapes are derived from ``kapi.schema.types`` on first use and linked lazily, since types may be recursive.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from kapi.machinery.tree import Object, Tree
from kapi.schema.types import Field, Kind, Type

SCALAR, LIST, MAP = 1, 2, 3

_SCALARS = {
    Kind.STRING: "string",
    Kind.BYTES: "string",
    Kind.DURATION: "string",
    Kind.INTEGER: "numeric",
    Kind.NUMBER: "numeric",
    Kind.BOOLEAN: "boolean",
    Kind.TIME: "untyped",
    Kind.MICRO_TIME: "untyped",
    Kind.QUANTITY: "untyped",
}
#: kinds without a ``type`` in their schemas: any form is allowed here, decoding checks them
_TYPELESS = frozenset((Kind.ANY, Kind.INT_OR_STRING))


#: Shapes by the ``id`` of their types.  Weak, since each shape refers to this mapping: without cycles the shapes of a removed
#: definition are freed at once, and the garbage collector does not find hundreds of thousands of objects in one run.
Shapes = WeakValueDictionary[int, "Shape"]


class Shape:
    """The forms that a value may have; several only for values without a schema."""

    __slots__ = (
        "scalar",
        "is_list",
        "is_map",
        "list_atomic",
        "keys",
        "key_defaults",
        "map_atomic",
        "first",
        "_fields",
        "_elem",
        "_shapes",
        "_children",
        "type",
        "__weakref__",
    )

    def __init__(self, type_: Type | None, shapes: Shapes) -> None:
        self.type = type_
        self.scalar = ""
        self.is_list = self.is_map = False
        self.list_atomic = True
        self.map_atomic = False
        self.keys: tuple[str, ...] = ()
        self.key_defaults: Object = {}
        self._fields: dict[str, Field] = {}
        self._elem: Type | Shape | None = None
        self._shapes = shapes
        self._children: dict[str, Shape | None] = {}
        if type_ is not None:
            self._describe(type_)
        self.first = MAP if self.is_map else SCALAR if self.scalar else LIST

    def _describe(self, type_: Type) -> None:
        kind = type_.kind
        if kind is Kind.STRUCT:
            self.is_map = True
            self.map_atomic = type_.map_type == "atomic"
            self._fields = type_.fields
            if type_.preserve_unknown or not type_.fields:
                self._elem = DEDUCED
            elif type_.elem is not None:
                self._elem = type_.elem
        elif kind is Kind.MAP:
            self.is_map = True
            self.map_atomic = type_.map_type == "atomic"
            self._elem = type_.elem or DEDUCED
        elif kind is Kind.LIST:
            self.is_list = True
            self.list_atomic = type_.list_type not in ("set", "map")
            self.keys = type_.list_map_keys if type_.list_type == "map" else ()
            self._elem = type_.elem or UNTYPED
            if self.keys and type_.elem is not None:
                for key in self.keys:
                    field = type_.elem.fields.get(key)
                    if field is not None and field.has_default:
                        self.key_defaults[key] = field.default
                    elif field is not None and field.type.go_type == "v1.Protocol":
                        self.key_defaults[key] = "TCP"  # the one default of a key field that the API has
                    elif field is not None and not field.pointer and not field.omitempty:
                        self.key_defaults[key] = "" if field.type.kind is Kind.STRING else 0
        elif kind in _TYPELESS:
            model = UNTYPED if type_.name == "RawExtension" or type_.map_type == "atomic" else DEDUCED
            self.scalar, self.is_list, self.is_map = "untyped", True, True
            self.map_atomic = model.map_atomic
            self._elem = model
        else:
            self.scalar = _SCALARS[kind]

    @property
    def elem(self) -> Shape | None:
        """The shape of list items and of undeclared entries; None when undeclared entries are not allowed."""
        elem = self._elem
        if isinstance(elem, Type):
            elem = self._elem = shape_of(elem, self._shapes)
        return elem

    @property
    def item(self) -> Shape:
        """The shape of list items, never None."""
        if self is UNTYPED or self is DEDUCED or (self.is_list and self.is_map):
            return UNTYPED
        return self.elem or UNTYPED

    @property
    def type_has_fields(self) -> bool:
        return bool(self._fields)

    def declares(self, name: str) -> bool:
        return name in self._fields

    def child(self, name: str) -> Shape | None:
        """The shape of a map's entry, or None where the schema has no such entry."""
        try:
            return self._children[name]
        except KeyError:
            pass
        field = self._fields.get(name)
        if field is None:
            return self.elem
        shape = self._children[name] = shape_of(field.type, self._shapes)
        return shape

    def form(self, value: object) -> int:
        """SCALAR, LIST or MAP: the form of a value; the first possible one for null and for values that do not fit."""
        kind = type(value)
        if kind is dict:
            if self.is_map:
                return MAP
        elif kind is list:
            if self.is_list:
                return LIST
        elif value is not None and self.scalar:
            return SCALAR
        return self.first


def _without_schema(atomic: bool) -> Shape:
    shape = Shape(None, Shapes())
    shape.scalar, shape.is_list, shape.is_map, shape.map_atomic, shape.first = "untyped", True, True, atomic, MAP
    shape._elem = shape
    return shape


#: values of no known type below a list or in a raw extension: a single leaf
UNTYPED = _without_schema(atomic=True)
#: values of no known type elsewhere: maps are granular, lists atomic
DEDUCED = _without_schema(atomic=False)


def shape_of(type_: Type, shapes: Shapes) -> Shape:
    """The shape of a type, from ``shapes`` if it has one."""
    found = shapes.get(id(type_))
    if found is None:
        found = shapes[id(type_)] = Shape(type_, shapes)
    return found


#: kinds that are structs in Go
_STRUCTS = frozenset([Kind.STRUCT, Kind.TIME, Kind.MICRO_TIME])


def zero_value(type_: Type) -> Tree:
    """The empty object of a type, with the fields that Go writes although they are empty.

    ``omitempty`` has no effect on a struct that is held by value; ``omitzero`` has one.
    """
    if type_.kind is not Kind.STRUCT:
        return _ZEROES.get(type_.kind)
    zero: Object = {}
    for name, field in type_.fields.items():
        if field.omitzero or (field.omitempty and (field.pointer or field.type.kind not in _STRUCTS)):
            continue
        zero[name] = None if field.pointer else zero_value(field.type)
    return zero


_ZEROES: dict[Kind, Tree] = {
    Kind.STRING: "",
    Kind.INTEGER: 0,
    Kind.NUMBER: 0,
    Kind.BOOLEAN: False,
    Kind.QUANTITY: "0",
    Kind.INT_OR_STRING: 0,
    Kind.DURATION: "0s",
}
