"""What a case is made of, and how large lists are filled."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kapi.machinery.tree import Object
from tests.bench.load import Target

SIZE = 2_900_000  # bytes of a body; 3 MiB are allowed
STORED = (
    900_000  # bytes of an object that is stored first; managed fields and defaults make up to three times as much of it
)
_DEEPEST = 100_000  # levels
JSON, MERGE, STRATEGIC = "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json"
PATCH, APPLY, YAML = "application/json-patch+json", "application/apply-patch+yaml", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(slots=True)
class Request:
    method: str
    path: str
    body: bytes | Object | list[Any] = b""
    kind: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    expected: tuple[int, ...] = (200, 201, 202)
    patience: float = 0.0  # seconds in which it is repeated until it is answered so

    def data(self, target: Target) -> bytes:
        body = self.body if isinstance(self.body, bytes) else compact(self.body)
        return target.request(self.method, self.path, body, self.kind, **self.headers)


@dataclass(slots=True)
class Case:
    """``request`` is measured; ``before`` prepares it, ``after`` cleans up; ``wait``: seconds between preparing and it;
    ``settle``: seconds after the answer in which what follows from it counts, too.  ``fill`` makes first what is too much
    for requests one after the other."""

    request: Request
    before: list[Request] = field(default_factory=list)
    after: list[Request] = field(default_factory=list)
    wait: float = 0.0
    settle: float = 0.0
    fill: Callable[[Target], None] | None = None


@dataclass(slots=True)
class Place:
    """Where the cases run, and how a webhook is configured: (kind, "mutate" or "validate", namespace) -> object."""

    namespace: str
    hook: Callable[[str, str, str], Object]
    _numbers: Iterable[int] = field(default_factory=itertools.count)

    def name(self) -> str:
        return f"s-{next(iter(self._numbers))}"

    def path(self, prefix: str, plural: str) -> str:
        return f"{prefix}/namespaces/{self.namespace}/{plural}"

    def create(
        self, prefix: str, plural: str, obj: Object, *, namespaced: bool = True, query: str = "", **more: Any
    ) -> Case:
        """Creates an object, with a name unless it has one."""
        collection = self.path(prefix, plural) if namespaced else f"{prefix}/{plural}"
        metadata = obj.setdefault("metadata", {})
        name = metadata.setdefault("name", self.name())
        after = [
            Request("PATCH", f"{collection}/{name}", {"metadata": {"finalizers": None}}, MERGE),  # else it would stay
            Request("DELETE", f"{collection}/{name}?gracePeriodSeconds=0"),
        ]
        return Case(Request("POST", collection + query, obj, **more), after=after)

    def change(self, case: Case, body: Any, kind: str, method: str = "PATCH", suffix: str = "", **more: Any) -> Case:
        """First what ``case`` creates, then a change of it."""
        assert isinstance(case.request.body, dict)
        path = f"{case.request.path.partition('?')[0]}/{case.request.body['metadata']['name']}{suffix}"
        return dataclasses.replace(
            case, before=[*case.before, case.request], request=Request(method, path, body, kind, **more)
        )


def compact(tree: Any) -> bytes:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEEPEST)  # some are deep on purpose
    try:
        return json.dumps(tree, separators=(",", ":")).encode()
    finally:
        sys.setrecursionlimit(limit)


def many(entry: Callable[[int], Any], size: int = SIZE) -> list[Any]:
    """Entries whose JSON is together about ``size`` bytes."""
    found: list[Any] = []
    while size > 0:
        found.append(entry(len(found)))
        size -= len(compact(found[-1])) + 1
    return found


def mapping(key: Callable[[int], str], value: Any = "", size: int = SIZE) -> Object:
    return dict.fromkeys(many(key, size - size // 4), value)


def config(**metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def protobuf(version: str, kind: str, message: bytes) -> bytes:
    """The envelope of a message."""
    meta = chunk(1, version.encode()) + chunk(2, kind.encode())
    return b"k8s\x00" + chunk(1, meta) + chunk(2, message)


def chunk(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
