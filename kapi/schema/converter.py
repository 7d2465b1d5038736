"""Decodes trees like apimachinery's converter of unstructured objects (upstream: ``runtime/converter.go``).

It decodes the results of apply and of strategic merge patches.  Unlike the JSON decoder it truncates integers to the width
of the field and accepts whole numbers with a fraction or an exponent; its errors have other texts.
"""

from __future__ import annotations

from kapi.machinery.tree import Tree
from kapi.schema.decode_exact import MetadataDecoder, SavedMismatch, TypeMismatch, base64_text
from kapi.schema.quoted import go_order
from kapi.schema.types import Kind, Type

_KINDS = {dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64"}
#: types with their own JSON decoder
_OWN = frozenset((Kind.ANY, Kind.QUANTITY, Kind.INT_OR_STRING, Kind.TIME, Kind.MICRO_TIME, Kind.DURATION))
_NUMBERS = frozenset((Kind.INTEGER, Kind.NUMBER))
_INT64_MIN = -(1 << 63)


def text_of(value: object) -> str:
    """The value of a string field.  Raises TypeMismatch."""
    if isinstance(value, str):
        return value
    raise _simple_mismatch(value, "string", "string")


def _simple_mismatch(value: object, kind: str, type_: str) -> TypeMismatch:
    given = _given(value)
    convertible = given == "int64" and kind == "string" or given == "float64" and kind.startswith("int")
    if convertible:
        return TypeMismatch(f"cannot convert {given} to {type_}")
    return TypeMismatch(f"unrecognized type: {kind}")


def _given(value: object) -> str:
    if isinstance(value, int) and not _INT64_MIN <= value < -_INT64_MIN:
        return "float64"
    return next((name for class_, name in _KINDS.items() if isinstance(value, class_)), "string")


class Converter(MetadataDecoder):
    """One conversion; the first error ends it."""

    def decode(self, value: object, type_: Type) -> Tree:
        try:
            result = super().decode(value, type_)
        except TypeMismatch:  # again in the order of the type's fields, which determines the first error
            return super().decode(go_order(value, type_), type_)
        self.problems.sort()
        return result

    def _record(self, fault: SavedMismatch) -> None:
        raise fault

    def _scalar(self, value: object, type_: Type, names: tuple[str, ...], struct: str) -> Tree:
        kind = type_.kind
        if kind in _OWN:
            return super()._scalar(value, type_, (), "")
        if kind is Kind.BYTES and isinstance(value, str):
            try:
                return base64_text(value)
            except TypeMismatch as error:
                raise TypeMismatch(f"error decoding from json: {error}") from None
        if kind in _NUMBERS and isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value) if kind is Kind.NUMBER else self._integer(value, type_)
        return super()._scalar(value, type_, names, struct)

    def _integer(self, value: float, type_: Type) -> int:
        bits = type_.int_bits
        if isinstance(value, float):
            if not value.is_integer():
                raise _simple_mismatch(value, f"int{bits}", type_.go_type)
            value = int(value) if abs(value) < 1 << 63 else _INT64_MIN
        half = 1 << bits - 1
        return int((value + half) % (half << 1) - half)

    def _mismatch(
        self, value: object, type_: Type, names: tuple[str, ...], struct: str, shown: str = ""
    ) -> TypeMismatch:
        kind, given = type_.kind, _given(value)
        if kind in (Kind.LIST, Kind.BYTES):
            return TypeMismatch(f"cannot restore slice from {given}")
        if kind is Kind.MAP:
            return TypeMismatch(f"cannot restore map from {given}")
        if kind is Kind.STRUCT:
            return TypeMismatch(f"cannot restore struct from: {given}")
        if not struct:  # a type with its own JSON decoder
            return super()._mismatch(value, type_, (), "", shown)
        simple = {Kind.STRING: "string", Kind.BOOLEAN: "bool", Kind.NUMBER: "float64"}.get(kind, f"int{type_.int_bits}")
        return _simple_mismatch(value, simple, type_.go_type)
