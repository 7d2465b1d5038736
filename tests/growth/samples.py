"""Bodies of the built-in types with any number of entries in one of their lists or maps, made from the types' schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
from kapi.schema.builtin import type_of
from kapi.schema.types import Kind, Type
from tests.resources.test_every_row import LEAST

_DEEPEST = 9  # fields below the object
_SCALARS: dict[Kind, Any] = {
    Kind.BOOLEAN: True,
    Kind.NUMBER: 1.5,
    Kind.QUANTITY: "1",
    Kind.TIME: "2024-01-01T00:00:00Z",
    Kind.MICRO_TIME: "2024-01-01T00:00:00.000000Z",
    Kind.DURATION: "1s",
    Kind.BYTES: "YQ==",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A list or map of a resource: the names of the fields that lead to it and the types on the way."""

    row: Resource
    names: tuple[str, ...]
    types: tuple[Type, ...]  # of the value of each name

    def __str__(self) -> str:
        return f"{self.row.group or 'core'}/{self.row.version}/{self.row.plural}:{'.'.join(self.names)}"

    def form(self) -> tuple[Any, ...]:
        """What tells the list or map from others, beside its name."""
        holder = (
            self.types[-2]
            if len(self.types) > 1
            else type_of(GroupVersionKind(self.row.group, self.row.version, self.row.kind))
        )
        field, type_ = (holder.elem or holder).fields[self.names[-1]], self.types[-1]
        assert type_.elem is not None
        return (
            type_.kind, type_.list_type, type_.list_map_keys, type_.map_type, type_.elem.kind,
            field.patch_strategy, field.patch_merge_key,
        )  # fmt: skip

    def body(self, count: int, *, distinct: bool = True, full: bool = False) -> Object:
        """An object with ``count`` entries there, which differ or are all the same (the keys of a map differ always).

        ``full``: an entry has all its scalar fields, not only those that it must have.
        """
        row = self.row
        metadata = {"name": "x", "namespace": "n"} if row.namespaced else {"name": "x"}
        tree: Object = {"kind": row.kind, "apiVersion": str(row.group_version), "metadata": metadata}
        tree |= _copy(LEAST.get(row.kind, {}))
        node: Any = tree
        for name, type_ in zip(self.names[:-1], self.types[:-1], strict=True):
            if not node.get(name):
                node[name] = sample(type_, 0, full=False)
            node = node[name]
            if type_.kind is Kind.LIST:
                node = node[0]
            elif type_.kind is Kind.MAP:
                node = next(iter(node.values()))
        type_ = self.types[-1]
        assert type_.elem is not None
        entries = [sample(type_.elem, number if distinct else 0, full=full) for number in range(count)]
        node[self.names[-1]] = (
            entries if type_.kind is Kind.LIST else {f"k{number}": entry for number, entry in enumerate(entries)}
        )
        return tree


def sample(type_: Type, number: int, *, full: bool) -> Any:
    """A value of a type; those of different numbers differ."""
    if type_.kind is Kind.STRUCT:
        return {
            name: sample(field.type, number, full=full)
            for name, field in type_.fields.items()
            if field.required or _identifies(name) or full and field.type.kind not in _NESTED
        }
    if type_.kind is Kind.LIST:
        assert type_.elem is not None
        return [sample(type_.elem, number, full=full)]
    if type_.kind is Kind.MAP:
        assert type_.elem is not None
        return {f"k{number}": sample(type_.elem, number, full=full)}
    if type_.kind in (Kind.INTEGER, Kind.INT_OR_STRING):
        return number % 60_000 + 1
    if type_.kind is Kind.ANY:
        return {}
    return _SCALARS.get(type_.kind, f"s{number}")


_NESTED = frozenset((Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.ANY))


def _identifies(name: str) -> bool:
    return name in ("name", "key", "type", "uid", "ip", "port", "containerPort", "mountPath")


def places(row: Resource) -> Iterator[Place]:
    """Every list and map of a resource; a struct within itself is entered once."""
    kind = GroupVersionKind(row.group, row.version, row.kind)
    type_ = type_of(kind)
    yield from _below(row, type_, (), (), frozenset([type_.name]))


def _below(
    row: Resource, type_: Type, names: tuple[str, ...], types: tuple[Type, ...], above: frozenset[str]
) -> Iterator[Place]:
    for name, field in type_.fields.items():
        inner = field.type
        here, way = (*names, name), (*types, inner)
        if inner.kind in (Kind.LIST, Kind.MAP) and inner.elem is not None:
            yield Place(row, here, way)
            inner = inner.elem
            if inner.kind in (Kind.LIST, Kind.MAP):
                continue
        if inner.kind is Kind.STRUCT and inner.name not in above and len(here) < _DEEPEST:
            yield from _below(row, inner, here, way, above | {inner.name})


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
