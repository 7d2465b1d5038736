"""Protobuf is written to the byte as Go writes it, and says what JSON says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import protobuf
from kapi.schema.builtin import type_of
from kapi.schema.decode import decode_tree
from kapi.schema.protobuf_writing import (
    NoProtobuf,
    encode,
    encode_tree,
    envelope,
    item_of_list,
    kind_of,
    list_head,
    message_of,
    varint,
    watch_frame,
)
from tests.protobuf_fields import fields

VECTORS = Path(__file__).parents[1] / "vectors" / "roundtrip"
NAMES = sorted(path.stem for path in VECTORS.glob("*.json"))
MAP = GroupVersionKind("", "v1", "ConfigMap")


@pytest.mark.parametrize("name", NAMES)
def test_objects_with_every_field_are_written_as_by_go(name: str) -> None:
    obj = orjson.loads((VECTORS / f"{name}.json").read_bytes())
    assert encode(obj, kind_of(obj)) == (VECTORS / f"{name}.pb").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_objects_with_every_field_are_read_as_by_go(name: str) -> None:
    obj = orjson.loads((VECTORS / f"{name}.json").read_bytes())
    kind = kind_of(obj)
    found = protobuf.decode((VECTORS / f"{name}.pb").read_bytes(), kind)
    assert decode_tree(found, type_of(kind), strict=False)[0] == decode_tree(obj, type_of(kind), strict=False)[0]


def test_what_go_holds_by_value_is_written_though_it_is_empty() -> None:
    # name, generateName, namespace, selfLink, uid, resourceVersion, generation, creationTimestamp
    meta = b"\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00"
    assert message_of(MAP)({}) == b"\x0a" + varint(len(meta)) + meta
    assert encode({}, MAP).startswith(b"k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12")
    assert encode({}, MAP).endswith(b"\x1a\x00\x22\x00")  # content encoding and type


def test_maps_are_sorted_by_key() -> None:
    raw = message_of(MAP)({"data": {"b": "2", "a": "1"}})
    assert raw.endswith(b"\x12\x06\x0a\x01a\x12\x011\x12\x06\x0a\x01b\x12\x012")


def test_a_list_is_its_head_and_its_items() -> None:
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "data": {"k": "v"}}]
    kind = MAP._replace(kind="ConfigMapList")
    meta: dict[str, Any] = {"resourceVersion": "7", "continue": "x", "remainingItemCount": 3}
    raw = list_head(meta) + b"".join(item_of_list(message_of(MAP)(item)) for item in items)
    whole = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": items}
    assert envelope(kind, raw) == encode_tree(whole)
    assert protobuf.decode(encode_tree(whole), kind)["metadata"] == {"selfLink": "", **meta}


def test_a_watch_event_is_framed_by_its_length() -> None:
    frame = watch_frame("ADDED", encode({"metadata": {"name": "a"}}, MAP))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    parts = {number: value for number, _, value in fields(frame[4:])}
    assert parts[1] == b"ADDED" and isinstance(parts[2], bytes)
    ((_, _, obj),) = fields(parts[2])
    assert isinstance(obj, bytes) and protobuf.decode(obj, MAP)["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "Foo", "apiVersion": "example.com/v1"},
        {"kind": "Table", "apiVersion": "meta.k8s.io/v1"},
        {"kind": "ConfigMap"},
    ],
)
def test_other_kinds_have_no_protobuf_form(tree: dict[str, Any]) -> None:
    with pytest.raises(NoProtobuf):
        encode_tree(tree)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_of_any_size_and_sign_come_back(number: int) -> None:
    kind = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")
    found = protobuf.decode(encode({"metadata": {"generation": number}, "value": 0}, kind), kind)
    assert found["metadata"]["generation"] == number


_text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(st.dictionaries(_text, _text), st.dictionaries(_text, st.binary(max_size=20)))
def test_texts_and_bytes_come_back(texts: dict[str, str], blobs: dict[str, bytes]) -> None:
    import base64

    obj: dict[str, Any] = {
        "data": texts,
        "binaryData": {key: base64.b64encode(data).decode() for key, data in blobs.items()},
    }
    found = protobuf.decode(encode(obj, MAP), MAP)
    assert (found.get("data", {}), found.get("binaryData", {})) == (obj["data"], obj["binaryData"])


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 16_383, 16_384])
def test_texts_and_messages_of_any_size_come_back(size: int) -> None:
    obj: dict[str, Any] = {"metadata": {"name": "n" * size, "labels": {"a": "l" * size}}, "data": {"b": "d" * size}}
    found = protobuf.decode(encode(obj, MAP), MAP)
    assert found["metadata"].get("name", "") == "n" * size
    assert (found["metadata"]["labels"], found["data"]) == ({"a": "l" * size}, {"b": "d" * size})


def test_the_verbs_of_a_resource_are_a_message_of_their_own() -> None:
    kind = GroupVersionKind("", "v1", "APIResourceList")
    resource = {"name": "pods", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}
    raw = encode({"groupVersion": "v1", "resources": [resource]}, kind)
    (verbs,) = [value for number, _, value in fields(_inside(raw, 2)) if number == 4]
    assert [(number, value) for number, _, value in fields(verbs)] == [(1, b"get"), (1, b"list")]
    assert protobuf.decode(raw, kind)["resources"][0]["verbs"] == ["get", "list"]
    none = encode({"groupVersion": "v1", "resources": [{"name": "pods"}]}, kind)
    assert 4 not in [number for number, _, _ in fields(_inside(none, 2))]


def _inside(raw: bytes, number: int) -> bytes:
    """The message in a field of the object of an envelope."""
    found: bytes = dict((at, value) for at, _, value in fields(protobuf.envelope(raw).raw))[number]
    return found
