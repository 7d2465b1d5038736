"""YAML, protobuf, queries, headers."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.bench.stall_cases.case import (
    PROTOBUF,
    SIZE,
    YAML,
    Case,
    Place,
    Request,
    chunk,
    compact,
    config,
    many,
    mapping,
    protobuf,
    varint,
)  # fmt: skip
from tests.bench.stall_cases.metadata import CORE, owner
from tests.bench.stall_cases.pods import env

_TARGET = 60_000  # bytes of a query; a request line takes few more


def _post(make: Callable[[], bytes], kind: str, plural: str = "configmaps") -> Callable[[Place], Case]:
    def case(place: Place) -> Case:
        found = place.create(CORE, plural, config())
        found.request.body, found.request.kind = make(), kind
        return found

    return case


def _get(
    make: Callable[[], str], plural: str = "configmaps", method: str = "GET", **headers: str
) -> Callable[[Place], Case]:
    return lambda place: Case(Request(method, f"{place.path(CORE, plural)}?{make()}", headers=headers))


def _requirements(size: int, text: Callable[[int], str]) -> str:
    return ",".join(many(text, size))


def _yaml(data: str) -> bytes:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\ndata:\n{data}".encode()


def _laughs() -> bytes:
    lines = ["x0: &x0 [a,a,a,a,a,a,a,a,a]"]
    lines += [f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 12)]
    return _yaml("".join(f"  {line}\n" for line in lines))


def _map_entries() -> bytes:
    return b"".join(chunk(2, chunk(1, f"k{index}".encode()) + chunk(2, b"v")) for index in range(SIZE // 14))


def _owners() -> bytes:
    one = [
        chunk(13, chunk(1, b"P") + chunk(3, b"n") + chunk(4, str(index).encode()) + chunk(5, b"v1"))
        for index in range(SIZE // 22)
    ]
    return chunk(1, chunk(1, b"p") + b"".join(one))


def _strategy_noise() -> bytes:
    return random.Random(1).randbytes(SIZE)


_ANCHORED = "  a: &a {" + ",".join(f"k{i}: v" for i in range(1000)) + "}\n"
_DATA = chunk(1, chunk(1, b"p"))

CASES: dict[str, Callable[[Place], Case]] = {
    "YAML: many keys": _post(lambda: _yaml("".join(f"  k{index}: v\n" for index in range(SIZE // 12))), YAML),
    "YAML: flow": _post(lambda: _yaml("  a: " + compact(many(env, SIZE)).decode()), YAML),
    "YAML: owners": _post(lambda: compact(config(name="y", ownerReferences=many(owner))), YAML),
    "YAML: depth": _post(lambda: _yaml("  a: " + "[" * (SIZE // 2) + "]" * (SIZE // 2)), YAML),
    "YAML: indentation": _post(lambda: b"".join(b" " * index + b"a:\n" for index in range(2300)), YAML),
    "YAML: aliases": _post(_laughs, YAML),
    "YAML: many aliases": _post(
        lambda: _yaml(_ANCHORED + "".join(f"  b{i}: *a\n" for i in range(100_000))),
        YAML,
    ),
    "YAML: merges": _post(
        lambda: _yaml(_ANCHORED + "".join(f"  b{i}: {{<<: *a}}\n" for i in range(1000))),
        YAML,
    ),
    "YAML: anchors": _post(lambda: _yaml("".join(f"  k{i}: &a{i} v\n" for i in range(SIZE // 20))), YAML),
    "YAML: same keys": _post(lambda: _yaml("  a: b\n" * (SIZE // 7)), YAML),
    "YAML: one text": _post(lambda: _yaml("  a: |\n" + "    line\n" * (SIZE // 9)), YAML),
    "YAML: quotes": _post(lambda: _yaml('  a: "' + "\\x41" * (SIZE // 4) + '"\n'), YAML),
    "YAML: plain over lines": _post(lambda: _yaml("  a: b\n" + "    c\n" * (SIZE // 6)), YAML),
    "YAML: comments": _post(lambda: b"#\n" * (SIZE // 2), YAML),
    "YAML: documents": _post(lambda: b"---\n" * (SIZE // 4), YAML),
    "YAML: question marks": _post(lambda: b"? " * (SIZE // 2), YAML),
    "YAML: dashes": _post(lambda: b"- " * (SIZE // 2), YAML),
    "protobuf: map": _post(lambda: protobuf("v1", "ConfigMap", _DATA + _map_entries()), PROTOBUF),
    "protobuf: owners": _post(lambda: protobuf("v1", "ConfigMap", _owners()), PROTOBUF),
    "protobuf: one value": _post(
        lambda: protobuf("v1", "ConfigMap", _DATA + chunk(2, chunk(1, b"k") + chunk(2, b"v" * SIZE))), PROTOBUF
    ),
    "protobuf: lengths that lie": _post(
        lambda: protobuf("v1", "ConfigMap", (varint(2 << 3 | 2) + varint(1 << 40)) * (SIZE // 8)), PROTOBUF
    ),
    "protobuf: empty parts": _post(lambda: protobuf("v1", "ConfigMap", _DATA + b"\x12\x00" * (SIZE // 2)), PROTOBUF),
    "protobuf: repeated metadata": _post(
        lambda: protobuf("v1", "ConfigMap", chunk(1, chunk(11, chunk(1, b"a") + chunk(2, b"b"))) * (SIZE // 12)), PROTOBUF
    ),
    "protobuf: unknown fields": _post(lambda: protobuf("v1", "ConfigMap", _DATA + b"\xf8\x07\x01" * (SIZE // 3)), PROTOBUF),
    "protobuf: noise": _post(lambda: protobuf("v1", "ConfigMap", _strategy_noise()), PROTOBUF),
    "query: label selector": _get(lambda: "labelSelector=" + _requirements(_TARGET, lambda i: f"k{i}!%3Dv")),
    "query: label selector, set": _get(
        lambda: "labelSelector=k+in+(" + _requirements(_TARGET, lambda i: f"v{i}") + ")"
    ),
    "query: label selector, 900 kB": _get(lambda: "labelSelector=" + _requirements(900_000, lambda i: f"k{i}!%3Dv")),
    "query: field selector": _get(lambda: "fieldSelector=" + _requirements(_TARGET, lambda i: "metadata.name!%3Dv")),
    "query: parameters": _get(lambda: "&".join(many(lambda i: f"p{i}=1", _TARGET))),
    "query: watch": _get(
        lambda: "watch=1&timeoutSeconds=1&labelSelector=" + _requirements(_TARGET, lambda i: f"k{i}!%3Dv")
    ),
    "query: accept": _get(lambda: "", Accept=",".join(["application/json;q=0.1"] * 600)),
    "headers: many": lambda place: Case(
        Request("GET", place.path(CORE, "configmaps"), headers={f"X-{index}": "a" for index in range(2000)})
    ),
    "delete collection: selector": _get(
        lambda: "labelSelector=a,!a," + _requirements(_TARGET, lambda i: f"k{i}!%3Dv"), method="DELETE"
    ),
    "delete: options": lambda place: Case(Request(
        "DELETE", f"{place.path(CORE, 'configmaps')}/none", {"dryRun": many(lambda i: "All"), "kind": "DeleteOptions"})),
    "delete: unknown options": lambda place: Case(Request(
        "DELETE", f"{place.path(CORE, 'configmaps')}/none", mapping(lambda i: f"o{i}"))),
}  # fmt: skip
