"""Values at runtime: their types, equality and order (upstream: cel-go ``common/types``).

int, double, string, bytes, bool and null are Python's types; a list is a list or tuple, a map or object a dict.  So a decoded
JSON document is a value.  A bool as a key of a map is a BoolKey, since True and 1 are the same key in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from kapi.cel import types
from kapi.cel.arithmetic import Uint
from kapi.cel.errors import EvaluationError
from kapi.cel.times import TIMESTAMP_MIN, Duration, Timestamp
from kapi.cel.types import CelType, Value
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import float_text


class BoolKey:
    """A bool as a key of a map."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __repr__(self) -> str:
        return str(self.value)


TRUE_KEY = BoolKey(True)
FALSE_KEY = BoolKey(False)


def to_key(value: object) -> Value:
    """The key of a dict for a value.  Raises EvaluationError for types that cannot be keys."""
    if value is True:
        return TRUE_KEY
    if value is False:
        return FALSE_KEY
    if isinstance(value, (str, int)):
        return value
    raise EvaluationError(f"unsupported key type: {type_of(value).name}")


def from_key(key: object) -> Value:
    """The value of a dict's key."""
    return key.value if key.__class__ is BoolKey else key


def key_text(key: object) -> str:
    """A key or index in an error: Go's ``%v``, which tells no type."""
    if isinstance(key, BoolKey | bool):
        return "true" if from_key(key) else "false"
    if isinstance(key, float):
        return format_double(key)
    return str(int(key)) if isinstance(key, int) else str(key)


class Optional:
    """An optional value; NONE is the only one that is absent."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    @property
    def present(self) -> bool:
        return self is not NONE

    def value(self) -> Value:
        if self is NONE:
            raise EvaluationError("optional.none() dereference")
        return self._value


NONE = Optional(None)


class Opaque:
    """The base of values of libraries: each class has a type and an equality."""

    __slots__ = ()
    cel_type: CelType = types.DYN


class SetList(list[Value]):
    """A list of type set: comparison ignores the order, and + drops duplicates."""

    __slots__ = ()


class MapList(list[Value]):
    """A list of type map, whose elements are identified by keys."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Value], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: object) -> tuple[Value, ...]:
        return tuple(_hashable(item.get(key)) if isinstance(item, dict) else None for key in self.keys)


def _hashable(value: object) -> Value:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


class Message(dict[str, Value]):
    """A struct made by an expression, with its type."""

    __slots__ = ("cel_type",)

    def __init__(self, cel_type: CelType, fields: dict[str, Value]) -> None:
        super().__init__(fields)
        self.cel_type = cel_type


class Failed:
    """The error of an operand or an accumulator in place of its value."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error

    def again(self) -> EvaluationError:
        """The error without its stack, which would grow by each place where it is raised."""
        return self.error.with_traceback(None)


_LIST = CelType("list", "list")
_MAP = CelType("map", "map")
_OPTIONAL = CelType("opaque", "optional_type")
_BY_CLASS: dict[type, CelType] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: _LIST,
    tuple: _LIST,
    SetList: _LIST,
    MapList: _LIST,
    dict: _MAP,
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    Optional: _OPTIONAL,
    CelType: types.TYPE,
    types.StructType: types.TYPE,
}
#: what cel-go's classes are called that are not called by the type's name
_GO_TYPES = {"null_type": "Null", "google.protobuf.Timestamp": "Timestamp", "google.protobuf.Duration": "Duration"}


def type_of(value: object) -> CelType:
    """The type of a value, as ``type(x)`` returns it."""
    found = _BY_CLASS.get(value.__class__)
    if found is not None:
        return found
    cel_type = getattr(value, "cel_type", None)
    if isinstance(cel_type, CelType):
        return cel_type
    return _MAP if isinstance(value, dict) else types.DYN


def go_type(value: object) -> str:
    """The name of cel-go's class of a value, as its errors print it."""
    if value.__class__ is Failed or value.__class__ is Optional:
        return "*types.Err" if value.__class__ is Failed else "*types.Optional"
    name = type_of(value).name
    return "types." + _GO_TYPES.get(name, name.capitalize())


def equal(one: Value, other: Value) -> bool:
    """Equality of any two values: numbers by value, different types are unequal."""
    kind = one.__class__
    if kind is str or kind is bytes:
        return bool(other.__class__ is kind and one == other)
    if kind is bool or other.__class__ is bool or one is None or other is None:
        return one is other
    if kind is CelType or kind is types.StructType:
        return isinstance(other, CelType) and one.name == other.name
    if isinstance(one, (int, float)):
        return isinstance(other, (int, float)) and one == other
    if isinstance(one, (list, tuple)):
        if not isinstance(other, (list, tuple)) or len(one) != len(other):
            return False
        if kind is SetList or other.__class__ is SetList:
            return _equal_sets(one, other)
        if kind is MapList or other.__class__ is MapList:
            return _equal_map_lists(one, other)
        return all(equal(item, candidate) for item, candidate in elements(zip(one, other, strict=False)))
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        if kind is Message and other.__class__ is Message and one.cel_type != other.cel_type:  # type: ignore[attr-defined]
            return False
        for key, value in entries(one):
            if key not in other or not equal(value, other[key]):
                return False
        return True
    if kind is Optional:
        if other.__class__ is not Optional or one.present != other.present:
            return False
        return not one.present or equal(one.value(), other.value())
    return bool(one == other)


def _equal_sets(one: Value, other: Value) -> bool:
    members = Members(other)
    return all(item in members for item in elements(one))


_MAX_IDENTITY = 20_000


def _identity(value: Value, room: list[int] | None = None) -> Value:
    """A hashable key: two keys are equal exactly if the values are.

    Raises TypeError for values without one, and for those with more than ``_MAX_IDENTITY`` parts: lists may share their items,
    but keys do not.  ``room`` has the number of parts that are left.
    """
    kind = value.__class__
    if value is None or isinstance(value, (str, bytes)):
        return value
    if kind is bool:
        return (kind, value)
    if kind is int or kind is float or kind is Uint:
        return (int, value) if value == value else object()
    if kind is Timestamp or kind is Duration:
        return (kind, value.nanos)
    room = room or [_MAX_IDENTITY]
    if kind is list or kind is tuple or kind is dict:
        room[0] -= len(value)
    if room[0] < 0:
        raise TypeError(kind)
    if kind is list or kind is tuple:
        return (list, tuple(_identity(item, room) for item in elements(value)))
    if kind is dict:
        return (dict, frozenset((key, _identity(item, room)) for key, item in entries(value)))
    raise TypeError(kind)


class Steps(Protocol):
    """Counts the work of an evaluation (Frame)."""

    def steps(self, items: Iterable[Value]) -> Iterator[Value]: ...

    def tick(self) -> None: ...


class Members:
    """A set of values: JSON values are found by a key, values of libraries by comparison with each."""

    __slots__ = ("known", "compound", "unhashable", "frame")

    def __init__(self, items: Value = (), frame: Steps | None = None) -> None:
        self.known: set[Value] = set()
        self.compound: list[Value] = []  # values that may be equal to one without a key
        self.unhashable: list[Value] = []  # values without a key
        self.frame = frame
        for item in elements(items) if frame is None else frame.steps(items):
            self.add(item)

    def add(self, item: object) -> None:
        try:
            self.known.add(_identity(item))
        except TypeError:
            self.unhashable.append(item)
            self.compound.append(item)
        else:
            if not isinstance(item, (str, bytes, int, float)):
                self.compound.append(item)

    def __contains__(self, value: object) -> bool:
        try:
            if _identity(value) in self.known:
                return True
            others = self.unhashable
        except TypeError:
            others = self.compound
        if not others:
            return False
        if self.frame is not None:
            self.frame.tick()
        return any(equal(value, item) for item in elements(others))


def _equal_map_lists(one: Value, other: Value) -> bool:
    keyed = one if isinstance(one, MapList) else other
    index = {keyed.key_of(item): item for item in elements(other)}
    if len(index) != len(other):
        return False
    for item in elements(one):
        key = keyed.key_of(item)
        if key not in index or not equal(item, index[key]):
            return False
    return True


def compare(one: Value, other: Value) -> int:
    """-1, 0 or 1.  Raises EvaluationError for types without an order, and for NaN."""
    if isinstance(one, (Timestamp, Duration)) and one.__class__ is other.__class__:
        one, other = one.nanos, other.nanos
    elif one.__class__ is bool or other.__class__ is bool:
        if one.__class__ is not other.__class__:
            raise no_overload()
    elif isinstance(one, (int, float)):
        if not isinstance(other, (int, float)):
            raise no_overload()
        if one != one or other != other:
            raise EvaluationError("NaN values cannot be ordered")
        if isinstance(one, float) is not isinstance(other, float):
            one, other = float(one), float(other)
    elif not (isinstance(one, (str, bytes)) and one.__class__ is other.__class__):
        raise no_overload()
    return int(one > other) - int(one < other)


def no_overload(function: str = "") -> EvaluationError:
    return EvaluationError(f"no such overload: {function}" if function else "no such overload")


def size(value: object) -> int:
    """The number of characters, bytes, elements or entries.  Raises EvaluationError."""
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return len(value)
    raise no_overload()


def format_double(value: float) -> str:
    """The text of Go's ``%g``."""
    return float_text(value)


def is_zero(value: object) -> bool:
    """Whether ``optional.ofNonZeroValue`` returns none for the value."""
    if value is None or value is False or value == "" or value == b"":
        return True
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return value.nanos == TIMESTAMP_MIN  # the first moment of year 1, not of 1970
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value == 0
    if isinstance(value, (list, tuple, dict)):
        return not value
    return False
