"""Objects by key, and by values that index functions return (upstream: client-go ``tools/cache`` Store and Indexer)."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import orjson

from kapi.machinery.tree import Object, Tree

#: returns the values under which an object is found
IndexFunction = Callable[[Object], Iterable[str]]


def key_of(obj: Object) -> str:
    """``namespace/name``, or the name alone."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def split_key(key: str) -> tuple[str, str]:
    """Namespace ("" for none) and name."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


Stored = Object | bytes  # an object, or its JSON


class Indexer:
    """Objects are shared: copy an object before you change it.  With ``packed`` they are stored as JSON, decoded at each read."""

    def __init__(self, indices: Mapping[str, IndexFunction] | None = None, *, packed: bool = False) -> None:
        self._objects: dict[str, Stored] = {}
        self.changes = 0  # number of changes so far
        self._pack: Callable[[Object], Stored] = orjson.dumps if packed else _as_it_is
        self._unpack: Callable[[Stored], Object] = cast(
            Callable[[Stored], Object], orjson.loads if packed else _as_it_is
        )
        self._functions = {"namespace": _namespace, **(indices or {})}
        self._indices: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def get(self, key: str) -> Object | None:
        found = self._objects.get(key)
        return None if found is None else self._unpack(found)

    def keys(self) -> builtins.list[str]:
        return list(self._objects)

    def list(self) -> builtins.list[Object]:
        return [self._unpack(found) for found in self._objects.values()]

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Raises KeyError when there is no such index."""
        return [self._unpack(self._objects[key]) for key in self._indices[name].get(value, ())]

    def index_values(self, name: str) -> builtins.list[str]:
        return list(self._indices[name])

    def put(self, obj: Object) -> Object | None:
        """Stores an object.  Returns the previous one."""
        key = key_of(obj)
        previous = self.get(key)
        if previous is not None:
            self._forget(key, previous)
        self._objects[key] = self._pack(obj)
        self.changes += 1
        for name, function in self._functions.items():
            for value in function(obj):
                self._indices[name].setdefault(value, {})[key] = None
        return previous

    def remove(self, key: str) -> Object | None:
        previous = self.get(key)
        if previous is not None:
            del self._objects[key]
            self.changes += 1
            self._forget(key, previous)
        return previous

    def _forget(self, key: str, obj: Object) -> None:
        for name, function in self._functions.items():
            index = self._indices[name]
            for value in function(obj):
                members = index.get(value)
                if members is not None:
                    members.pop(key, None)
                    if not members:
                        del index[value]


def _as_it_is(obj: object) -> Tree:
    return obj


def _namespace(obj: Object) -> Iterable[str]:
    return (obj["metadata"].get("namespace") or "",)
