"""The complete decoder: all rules and error texts of Go's decoder, for trees that the fast walk does not handle.

Upstream: sigs.k8s.io/json (case-sensitive, strict), Go's ``encoding/json``, apimachinery's types with own decoders.  Structs that
Go embeds in others (``json:",inline"`` in ``k8s.io/api``) are invisible in JSON, but named in the paths of errors.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from kapi.codecs.json_reading import MAX_PROBLEMS, Duplicated, Literal, kind_of
from kapi.machinery import quantity, tree
from kapi.machinery import time as times
from kapi.machinery.each import elements, entries
from kapi.machinery.golang import base64_bytes, json_integer, quote
from kapi.machinery.tree import Object, Tree
from kapi.schema.types import Field, Kind, Type
from kapi.schema.zero import always_emitted, is_zero, keeps_empty, zero

_LOCAL = {"name": "LocalObjectReference.name"}
_RULE = {name: f"Rule.{name}" for name in ("apiGroups", "apiVersions", "resources", "scope")}
_CONFIGURATION = {"opaque": "DeviceConfiguration.opaque"}
#: structs in which some fields belong to embedded structs
_SOME = {
    "ConfigMapEnvSource": _LOCAL,
    "ConfigMapKeySelector": _LOCAL,
    "ConfigMapProjection": _LOCAL,
    "ConfigMapVolumeSource": _LOCAL,
    "SecretEnvSource": _LOCAL,
    "SecretKeySelector": _LOCAL,
    "SecretProjection": _LOCAL,
    "DeviceAllocationConfiguration": _CONFIGURATION,
    "DeviceClaimConfiguration": _CONFIGURATION,
    "DeviceClassConfiguration": _CONFIGURATION,
    "IngressRule": {"http": "IngressRuleValue.http"},
    "Probe": {name: f"ProbeHandler.{name}" for name in ("exec", "grpc", "httpGet", "tcpSocket")},
    "RuleWithOperations": _RULE,
    "NamedRuleWithOperations": {
        "operations": "RuleWithOperations.operations",
        **{name: f"RuleWithOperations.{path}" for name, path in _RULE.items()},
    },
}
#: structs in which all fields but these belong to one embedded struct
_ALL_BUT = {
    "Volume": ("VolumeSource", frozenset({"name"})),
    "EphemeralContainer": ("EphemeralContainerCommon", frozenset({"targetContainerName"})),
    "PersistentVolumeSpec": (
        "PersistentVolumeSource",
        frozenset(
            {
                "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
                "storageClassName", "volumeAttributesClassName", "volumeMode",
            }
        ),
    ),
}  # fmt: skip
_TYPE_META = ("kind", "apiVersion")
_INT32, _INT64 = 1 << 31, 1 << 63
_STRING = Type(Kind.STRING, go_type="string")
_INTEGER = Type(Kind.INTEGER, go_type="int32", int_bits=32)
_OWN_DECODERS = frozenset((Kind.QUANTITY, Kind.INT_OR_STRING, Kind.TIME, Kind.MICRO_TIME, Kind.DURATION))


def embedded_name(type_: Type, name: str) -> str:
    """A field's name with the embedded structs before it: ``VolumeSource.configMap``."""
    some = _SOME.get(type_.name)
    if some is not None:
        return some.get(name, name)
    most = _ALL_BUT.get(type_.name)
    if most is not None:
        return name if name in most[1] else f"{most[0]}.{name}"
    if name in _TYPE_META and tuple(type_.fields)[:2] == _TYPE_META:
        return f"TypeMeta.{name}"
    return name


class TypeMismatch(ValueError):
    """A value that the type cannot hold; the text is Go's."""


class SavedMismatch(TypeMismatch):
    """An error after which Go's decoder continues; it returns the first such error at its end."""


class FieldMismatch(SavedMismatch):
    """A value of the wrong kind."""

    def __init__(self, shown: str, names: tuple[str, ...], struct: str, go_type: str) -> None:
        where = f"Go struct field {struct}.{'.'.join(names)}" if struct else "Go value"
        super().__init__(f"json: cannot unmarshal {shown} into {where} of type {go_type}")
        self._shown, self._names, self._go_type = shown, names, go_type

    def below(self, names: tuple[str, ...], struct: str) -> FieldMismatch:
        """The same error for a value inside of another field."""
        return FieldMismatch(self._shown, (*names, *self._names), struct, self._go_type)


def go_number(value: object) -> str:
    """The text of a number, in the client's form if it is known."""
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, float) and value.is_integer() and abs(value) >= 1 << 63:
        return str(int(value))
    return repr(value)


def go_float(value: float) -> float:
    """A number in Go's form of a float64: a whole number with all its digits, of which 17 are significant."""
    number = float(value)
    if number.is_integer() and abs(number) < 1 << 63:
        return json_integer(number)
    return number


class _Struct:
    """The state of decoding a struct: its fields in Go's form, and the last given value of each."""

    __slots__ = ("given", "inner", "out")

    def __init__(self) -> None:
        self.out: Object = {}
        self.given: Object = {}
        self.inner: Object = {}  # states of fields that are structs (_Struct) or maps and not null


class ExactDecoder:
    """One decoding.  ``problems`` collects unknown and duplicate fields in the order of the text."""

    _shown: Callable[[str], str] = staticmethod(quote)  # a field's path in problems

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: set[str] = set()
        self._first: SavedMismatch | None = None

    def decode(self, value: object, type_: Type) -> Tree:
        """The tree after Go's decoder and encoder.  Raises TypeMismatch."""
        decoded = self._value(value, type_, "", (), "")
        if self._first is not None:
            raise self._first
        return decoded

    def _record(self, fault: SavedMismatch) -> None:
        self._first = self._first or fault

    def _problem(self, what: str, path: str) -> None:
        text = f"{what} field {self._shown(path)}"
        if text not in self._seen and len(self.problems) < MAX_PROBLEMS:
            self._seen.add(text)
            self.problems.append(text)

    def _mismatch(
        self, value: object, type_: Type, names: tuple[str, ...], struct: str, shown: str = ""
    ) -> TypeMismatch:
        return FieldMismatch(shown or kind_of(value), names, struct, type_.go_type)

    def _value(self, value: object, type_: Type, path: str, names: tuple[str, ...], struct: str) -> Tree:
        """Decodes a value.  ``path`` (with indexes) is for unknown fields, ``names`` and ``struct`` are Go's error context."""
        if value is None:
            return zero(type_)
        kind = type_.kind
        if kind is Kind.STRUCT:
            if not isinstance(value, dict):
                raise self._mismatch(value, type_, names, struct)
            return self._struct(value, type_, path, names)
        if kind is Kind.MAP:
            return self._map(value, type_, path, names, struct)
        if kind is Kind.LIST:
            if not isinstance(value, list):
                raise self._mismatch(value, type_, names, struct)
            assert type_.elem is not None
            elem = type_.elem
            return [self._item(item, elem, f"{path}[{i}]", names, struct) for i, item in enumerate(elements(value))]
        return self._scalar(value, type_, names, struct)

    def _item(self, value: object, type_: Type, path: str, names: tuple[str, ...], struct: str) -> Tree:
        try:
            return self._value(value, type_, path, names, struct)
        except SavedMismatch as fault:
            self._record(fault)
            return zero(type_)

    def _struct(
        self, value: Object, type_: Type, path: str, names: tuple[str, ...], earlier: _Struct | None = None
    ) -> Object:
        """``earlier`` is the state of a duplicate field's first value: Go decodes the second value into the first."""
        state = earlier or _Struct()
        out, given, seen = state.out, state.given, set[str]()
        for key, item in elements(value.pairs if isinstance(value, Duplicated) else value.items()):
            below = f"{path}.{key}" if path else key
            field = type_.fields.get(key)
            if field is None:
                self._problem("unknown", below)
                continue
            if key in seen:
                self._problem("duplicate", below)
            seen.add(key)
            if key in given:
                item = _second_value(given[key], item, field)
            given[key] = item
            out.pop(key, None)
            place = (*names, embedded_name(type_, key))
            try:
                decoded = self._field(item, field.type, below, place, type_.name, key, state)
            except SavedMismatch as fault:
                self._record(fault)
                continue
            if item is None and (field.pointer or field.omitempty or decoded is None):
                continue
            if _kept(field, decoded) or keeps_empty(type_, key):
                out[key] = decoded
        result = dict(out)
        for key, template in always_emitted(type_):
            if key not in out:
                result[key] = tree.copy(template)
        return result

    def _field(
        self, value: object, type_: Type, path: str, names: tuple[str, ...], struct: str, key: str, state: _Struct
    ) -> Tree:
        """Decodes a field; a struct or map is merged into a former value of the field."""
        if not isinstance(value, dict) or type_.kind not in (Kind.STRUCT, Kind.MAP):
            state.inner.pop(key, None)
            return self._value(value, type_, path, names, struct)
        inner = state.inner.get(key)
        if type_.kind is Kind.MAP:
            if inner is None:
                inner = state.inner[key] = {}
            return self._map(value, type_, path, names, struct, inner)
        if inner is None:
            inner = state.inner[key] = _Struct()
        return self._struct(value, type_, path, names, inner)

    def _map(
        self, value: object, type_: Type, path: str, names: tuple[str, ...], struct: str, out: Object | None = None
    ) -> Object:
        if not isinstance(value, dict):
            raise self._mismatch(value, type_, names, struct)
        assert type_.elem is not None
        if out is None:
            out = {}
        seen: set[str] = set()
        for key, item in elements(value.pairs if isinstance(value, Duplicated) else value.items()):
            below = f"{path}.{key}" if path else key
            if key in seen:
                self._problem("duplicate", below)
            seen.add(key)
            out[key] = self._item(item, type_.elem, below, names, struct)
            if out[key] is None and type_.elem.kind is Kind.BYTES:
                out[key] = ""  # upstream's protobuf storage has no null
        return out

    def _scalar(self, value: object, type_: Type, names: tuple[str, ...], struct: str) -> Tree:
        kind = type_.kind
        try:
            if kind is Kind.ANY:
                return self._any(value, type_)
            if kind in _OWN_DECODERS:
                return self._own(value, type_)
        except FieldMismatch as fault:  # the type has its own decoder, whose error ends the decoding
            raise TypeMismatch(str(fault.below(names, struct) if struct else fault)) from None
        if kind is Kind.BYTES and isinstance(value, list):
            return base64.b64encode(bytes([self._byte(item, names, struct) for item in elements(value)])).decode()
        if kind in (Kind.STRING, Kind.BYTES):
            if not isinstance(value, str):
                raise self._mismatch(value, type_, names, struct)
            return base64_text(value) if kind is Kind.BYTES else value
        if kind is Kind.BOOLEAN:
            if not isinstance(value, bool):
                raise self._mismatch(value, type_, names, struct)
            return value
        return self._number(value, type_, names, struct)

    def _number(self, value: object, type_: Type, names: tuple[str, ...], struct: str) -> Tree:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._mismatch(value, type_, names, struct)
        if type_.kind is Kind.NUMBER:
            return go_float(value)
        limit = _INT32 if type_.int_bits == 32 else _INT64
        if not isinstance(value, int) or not -limit <= value < limit:
            raise self._mismatch(value, type_, names, struct, f"number {go_number(value)}")
        return value

    def _own(self, value: object, type_: Type) -> Tree:
        """A value of a type that has its own decoder."""
        kind = type_.kind
        if kind is Kind.QUANTITY:
            return _quantity(value)
        if kind is Kind.INT_OR_STRING:
            return value if isinstance(value, str) else self._number(value, _INTEGER, (), "")
        if not isinstance(value, str):
            raise self._mismatch(value, _STRING, (), "")
        return _text(value, kind)

    def _byte(self, value: object, names: tuple[str, ...], struct: str) -> int:
        """One of the numbers that Go also takes for a ``[]byte``; null is 0."""
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 256:
            return value
        shown = "" if isinstance(value, bool) or not isinstance(value, (int, float)) else f"number {go_number(value)}"
        raise self._mismatch(value, Type(Kind.INTEGER, go_type="uint8"), names, struct, shown)

    def _any(self, value: object, type_: Type) -> Tree:
        """Raw JSON; the schema alternatives of CRDs are decoded leniently, each by a decoder of its own."""
        if type_.unions:
            schema = type_.unions[0]
            if isinstance(value, dict):
                return ExactDecoder().decode(value, schema)
            if isinstance(value, list) and type_.name == "JSONSchemaPropsOrArray":
                return [ExactDecoder().decode(item, schema) for item in elements(value)]
            if isinstance(value, bool) and type_.name == "JSONSchemaPropsOrBool":
                return value
            if type_.name == "JSONSchemaPropsOrBool":
                raise TypeMismatch("boolean or JSON schema expected")
            if type_.name == "JSONSchemaPropsOrStringArray" and isinstance(value, list):
                return ExactDecoder().decode(value, Type(Kind.LIST, go_type="[]string", elem=_STRING))
            return None  # neither: set, but empty
        return _plain(value)


class MetadataDecoder(ExactDecoder):
    """Decodes the metadata of a custom resource, as upstream's converter: the paths of problems have no escapes."""

    _shown = staticmethod('"{}"'.format)


def _plain(value: object) -> Tree:
    """Raw JSON without Literal and Duplicated."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in entries(value)}
    if isinstance(value, list):
        return [_plain(item) for item in elements(value)]
    return float(value) if isinstance(value, Literal) else value


def _second_value(first: object, second: object, field: Field) -> Tree:
    """The value to decode for a field that is given twice."""
    kind = field.type.kind
    if second is None and not field.pointer and kind not in (Kind.MAP, Kind.LIST, Kind.BYTES):
        return {} if kind is Kind.STRUCT and isinstance(first, dict) else first
    return second


def _kept(field: Field, value: object) -> bool:
    """Whether Go writes a field with this value."""
    if field.omitzero and not field.pointer:
        return not is_zero(value, field.type)
    if field.pointer or not field.omitempty:
        return True
    if field.type.kind in (Kind.STRUCT, Kind.QUANTITY, Kind.INT_OR_STRING, Kind.TIME, Kind.MICRO_TIME, Kind.ANY):
        return True  # structs in Go, which are never empty
    return bool(value)


def _quantity(value: object) -> str:
    if isinstance(value, str):
        return quantity.canonical(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return quantity.canonical("true" if value is True else "{")
    return quantity.canonical(go_number(value))


def _text(value: str, kind: Kind) -> str | None:
    if type(value) is times.AnyYear:
        return str(value)
    if kind is Kind.TIME:
        return times.time(value)
    if kind is Kind.MICRO_TIME:
        return times.micro_time(value)
    return value


def base64_text(value: str) -> str:
    """Base64 in Go's form.  Raises SavedMismatch with the position of the first error."""
    try:
        return base64.b64encode(base64_bytes(value)).decode()
    except ValueError as error:
        raise SavedMismatch(str(error)) from None
