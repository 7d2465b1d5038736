"""Bodies that are bombs, half text, or another form than they say (classes 2, 4, 5; encodings)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess
from tests.security.attacker import APPLY, JSON_PATCH, MERGE, STRATEGIC, Attacker, cpu, memory

YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"
REFUSED = {400, 413, 415, 422}
#: seconds of its processor for a body that is refused; what holds the thread longer holds everybody
SOON = 10.0


def bomb(depth: int) -> bytes:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for number in range(depth):
        name, before = chr(98 + number), chr(97 + number)
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    return "\n".join([*lines, "kind: ConfigMap", "apiVersion: v1", "metadata: {name: m}", "data: {x: *a}"]).encode()


DEEP = b"[" * 100_000 + b"]" * 100_000
BODIES: list[tuple[str, str, Callable[[], bytes]]] = [
    ("alias bomb", YAML, lambda: bomb(9)),
    ("many aliases", YAML, lambda: b"a: &a x\nb: [" + b"*a," * 300_000 + b"]\n"),
    ("merge keys", YAML, lambda: b"a: &a {x: 1}\n" + b"".join(b"k%d: {<<: *a}\n" % n for n in range(50_000))),
    ("deep YAML", YAML, lambda: b"a: " + b"[" * 100_000),
    ("deep YAML mappings", YAML, lambda: b"{a: " * 50_000),
    ("deep YAML blocks", YAML, lambda: b"\n".join(b" " * n + b"a:" for n in range(1200))),
    ("indented YAML", YAML, lambda: b"- " * 200_000),
    ("pathological scan", YAML, lambda: b"{? " * 100_000),
    ("quoted YAML", YAML, lambda: b'"' * 300_001),
    ("YAML comments", YAML, lambda: b"a: b #" + b" #" * 400_000),
    ("YAML document markers", YAML, lambda: b"---\n" * 200_000),
    ("YAML anchors", YAML, lambda: b"".join(b"a%d: &b%d x\n" % (n, n) for n in range(60_000))),
    ("YAML tags", YAML, lambda: b"!a " * 200_000),
    ("deep JSON", "application/json", lambda: DEEP),
    ("deep JSON objects", "application/json", lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    (
        "deep data",
        "application/json",
        lambda: b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"},"data":' + DEEP + b"}",
    ),
    ("huge number", "application/json", lambda: b'{"kind":"ConfigMap","data":' + b"9" * 1_000_000 + b"}"),
    ("too large", "application/json", lambda: b'{"kind":"ConfigMap","data":{"a":"' + b"x" * 4_000_000 + b'"}}'),
]


@pytest.mark.parametrize(
    ("make", "kind"), [(make, kind) for _, kind, make in BODIES], ids=[name for name, _, _ in BODIES]
)
def test_a_bomb_is_refused_soon(
    server: ServerProcess, admin: Attacker, namespace: str, make: Callable[[], bytes], kind: str
) -> None:
    """CVE-2019-11253, CVE-2019-11254: in bounded time and memory."""
    assert server.process is not None
    body = make()
    before, began = memory(server.process.pid), cpu(server.process.pid)
    answer = admin.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body, kind)
    assert answer.status in REFUSED, answer
    assert cpu(server.process.pid) - began < SOON
    assert memory(server.process.pid) - before < 300 << 20
    applied = admin.ask("PATCH", f"/api/v1/namespaces/{namespace}/configmaps/m?fieldManager=x", body, APPLY)
    assert applied.status in REFUSED, applied
    assert admin.ask("GET", "/readyz").status == 200


def test_aliases_of_one_large_text(server: ServerProcess, admin: Attacker, alice: Attacker, namespace: str) -> None:
    """A body is as large as it would be without aliases; a review may quote all of it in its answer."""
    assert server.process is not None
    large = b"a: &a {k: " + b"x" * 1_000_000 + b"}\n"
    many = b"".join(b"  k%d: *a\n" % number for number in range(1500))
    before = memory(server.process.pid)
    review = large + b"kind: SelfSubjectAccessReview\napiVersion: authorization.k8s.io/v1\nmetadata:\n"
    maps = large + b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: m}\ndata:\n"
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    for who, method, path, kind, body in (
        (alice, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", YAML, review + many),
        (admin, "POST", configmaps, YAML, maps + many),
        (admin, "PATCH", f"{configmaps}/m?fieldManager=x", APPLY, maps + many),
        (admin, "DELETE", configmaps, YAML, large + b"kind: DeleteOptions\napiVersion: v1\nx:\n" + many),
    ):
        answer = who.ask(method, path, body, kind)
        assert (answer.status, answer.message) == (413, "Request entity too large: limit is 3145728"), answer
        assert answer.tree["reason"] == "RequestEntityTooLarge"
    assert memory(server.process.pid) - before < 100 << 20
    few = maps.partition(b"\n")[2] + b"  k0: &a " + b"x" * 400_000 + b"\n  k1: *a\n"
    assert admin.ask("POST", configmaps, few, YAML).status == 201


def test_patches_that_copy_and_copy(server: ServerProcess, admin: Attacker, namespace: str) -> None:
    """CVE-2019-1002100: the number of operations is bounded, and so is what they copy."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    admin.create(path, {"metadata": {"name": "m"}, "data": {"a": "x" * 500_000}})
    assert server.process is not None
    before = memory(server.process.pid)
    many = [{"op": "copy", "from": "/data/a", "path": f"/data/b{n}"} for n in range(10_001)]
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/d{n}"} for n in range(40)]
    labels = [{"op": "add", "path": "/metadata/annotations", "value": {"a": "y" * 1000}}]
    labels += [{"op": "copy", "from": "/metadata", "path": f"/metadata/x{n}"} for n in range(30)]
    for patch, expected in ((many, {413}), (many[:5000], {413, 422}), (doubling, {413, 422}), (labels, {413, 422})):
        answer = admin.ask("PATCH", f"{path}/m", patch, JSON_PATCH)
        assert answer.status in expected, answer
    assert memory(server.process.pid) - before < 300 << 20
    assert set(admin.ask("GET", f"{path}/m").tree["data"]) == {"a"}


@pytest.mark.parametrize("make", [lambda: b" " * 200_000_000, lambda: b'{"a":"' + b"x" * 50_000_000 + b'"}'])
def test_a_compressed_body_is_as_large_as_what_it_holds(
    server: ServerProcess, admin: Attacker, namespace: str, make: Callable[[], bytes]
) -> None:
    assert server.process is not None
    before = memory(server.process.pid)
    headers = {"Content-Encoding": "gzip"}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = admin.ask("POST", path, gzip.compress(make(), 9), headers=headers)
    assert answer.status in REFUSED, answer
    assert memory(server.process.pid) - before < 100 << 20


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{"name":"m"},"data":{"a":NaN}}', b'{"metadata":{"name":"m"},"data":{"a":Infinity}}',
        b'{"metadata":{"name":"m"},"binaryData":{"a":1e999}}', b'{"metadata":{"name":"m","generation":1e999}}',
        b'{"metadata":{"name":"\\ud800"}}', b'{"metadata":{"name":"m\\u0000"}}', b'{"metadata":{"name":"m"}}{"a":1}',
        b'{"metadata":{"name":"m"},}', b"{'metadata':{}}", b'{"metadata":{"name":"m"}', b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00",
        b'{"metadata":{"name":"m","generation":9223372036854775808}}', b'{"metadata":{"name":01}}', b"null", b"5", b"[]", b'"a"',
        b"", b"\x00", b'{"kind":5,"metadata":{"name":"m"}}', b'{"metadata":[]}', b'{"metadata":{"name":"m","labels":{"a":5}}}',
    ],
)  # fmt: skip
def test_text_that_is_no_json(admin: Attacker, namespace: str, body: bytes) -> None:
    answer = admin.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert answer.status in REFUSED, answer


def test_a_field_given_twice_is_refused_or_told(admin: Attacker, namespace: str) -> None:
    """Who checks the first and stores the second was fooled."""
    body = b'{"metadata":{"name":"m"},"data":{"a":"first"},"data":{"a":"second","a":"third"}}'
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    strict = admin.ask("POST", f"{path}?fieldValidation=Strict", body)
    assert strict.status == 400 and "duplicate field" in strict.message
    warned = admin.ask("POST", f"{path}?fieldValidation=Warn", body)
    assert warned.status == 201 and "duplicate field" in warned.headers.get("Warning", "")
    found = admin.ask("GET", f"{path}/m").tree["data"]
    assert found == warned.tree["data"]


def test_text_that_is_no_utf_8(admin: Attacker, namespace: str) -> None:
    """It is replaced or refused, as upstream; nothing is stored that no client can read."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    def field(number: int, data: bytes) -> bytes:
        length, size = b"", len(data)
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + data

    for bad in (b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"):
        entry = field(1, b"k") + field(2, b"a" + bad)
        obj = field(1, field(1, b"m")) + field(2, entry)
        unknown = b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, obj)
        text = b'{"metadata":{"name":"m"},"data":{"a":"' + bad + b'"}}'
        for body, kind in ((unknown, PROTOBUF), (text, "application/json")):
            answer = admin.ask("POST", path, body, kind)
            assert answer.status in (201, *REFUSED), (bad, answer)
            if answer.status == 201:
                found = admin.ask("GET", f"{path}/m").body.decode("utf-8")
                assert "\ufffd" in json.loads(found)["data"]["a" if kind != PROTOBUF else "k"]
                admin.ask("DELETE", f"{path}/m")
        listed = admin.ask("GET", path)
        listed.body.decode("utf-8")
        assert listed.status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"", b"k8s", b"k8s\x00", b"k8s\x00\xff\xff\xff\xff\xff", b"k8s\x00" + b"\x0a" * 100_000,
        b"k8s\x00\x12\x80\x80\x80\x80\x7f",
    ],
)  # fmt: skip
def test_protobuf_that_is_none(admin: Attacker, namespace: str, data: bytes) -> None:
    answer = admin.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", data, PROTOBUF)
    assert answer.status in REFUSED, answer


@pytest.mark.parametrize(
    "kind",
    [
        "text/html", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json-patch+json",
        "application/merge-patch+json", "application/jsonx", "text/plain", "*/*", "application/json, text/html",
        "application/vnd.kubernetes.protobuf", "application/cbor",
    ],
)  # fmt: skip
def test_bodies_are_what_they_say_they_are(admin: Attacker, namespace: str, kind: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = admin.ask("POST", path, b'{"metadata":{"name":"m"}}', kind)
    assert answer.status in {400, 415}, answer
    assert admin.ask("GET", f"{path}/m").status == 404


def test_a_patch_is_read_as_its_type_says(admin: Attacker, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    admin.create(path, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    merge: Any = {"data": {"a": None}}
    for kind in ("application/json", "text/plain", "application/json-patch+json ; x", JSON_PATCH, ""):
        assert admin.ask("PATCH", f"{path}/m", merge, kind).status in REFUSED, kind
    for kind in (MERGE, STRATEGIC):
        for body in (
            b"[]",
            b"5",
            b'"a"',
            b"",
            b"{",
            b'[{"op":"remove","path":"/data"}]',
            b'{"data":5}',
            b'{"metadata":[]}',
        ):
            assert admin.ask("PATCH", f"{path}/m", body, kind).status in REFUSED, (kind, body)
    assert admin.ask("GET", f"{path}/m").tree["data"] == {"a": "b"}
