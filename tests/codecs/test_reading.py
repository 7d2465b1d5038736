"""Bodies as trees: what is no object, and what would be larger than a body may be."""

from __future__ import annotations

import pytest

from kapi.codecs import reading
from kapi.codecs.json_reading import Duplicated
from kapi.codecs.negotiation import CBOR, JSON, YAML
from kapi.codecs.reading import (
    MAX_BODY_BYTES,
    DecodingError,
    read_apply_body,
    read_body,
    read_patch,
    summary,
    type_meta,
)
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.status import BadRequest

MANY_ALIASES = b"a: &a " + b"x" * 100_000 + b"\nb: [" + b", ".join([b"*a"] * 40) + b"]\n"
LESS = 100_000  # bytes; parts are read one by one, and as many as there may be take a second
MANY_PARTS = b"\x9f" + b"\x80" * (LESS // 3) + b"\xff"


@pytest.mark.parametrize(
    ("media", "data", "limit"),
    [(YAML, MANY_ALIASES, MAX_BODY_BYTES), (CBOR, MANY_PARTS, LESS)],
    ids=["YAML", "CBOR"],
)
def test_a_tree_is_no_larger_than_that_of_the_largest_body(
    media: str, data: bytes, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BODY_BYTES", limit)
    with pytest.raises(status.RequestTooLarge, match=f"limit is {limit}"):
        read_body(data, media, GroupVersionKind("", "v1", "ConfigMap"))
    with pytest.raises(status.RequestTooLarge, match=f"limit is {limit}"):
        read_apply_body(data, media)


def test_the_bound_of_a_body_is_upstream_s() -> None:
    with pytest.raises(status.RequestTooLarge) as caught:
        read_body(MANY_ALIASES, YAML, GroupVersionKind("", "v1", "ConfigMap"))
    assert (caught.value.code, caught.value.message) == (413, "Request entity too large: limit is 3145728")


@pytest.mark.parametrize(
    ("data", "kind"), [(b"- a", "array"), (b"a", "string"), (b"1", "number"), (b"true", "bool"), (b'["a"]', "array")]
)
def test_what_is_applied_is_an_object(data: bytes, kind: str) -> None:
    with pytest.raises(status.BadRequest) as caught:
        read_apply_body(data)
    assert caught.value.message == (
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
        f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    )
    assert read_apply_body(b"") == ({}, [])


KIND = GroupVersionKind("", "v1", "ConfigMap")
NO_OBJECT = 'couldn\'t get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }}'  # noqa: E501
FIELD = "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{} of type string"
WHICH = "unable to determine group/version/kind: cbor: cannot unmarshal {} into Go {}"


@pytest.mark.parametrize(
    ("media", "data", "why"),
    [
        *((JSON, data, NO_OBJECT.format(kind)) for data, kind in (
            (b"[]", "array"), (b'"a"', "string"), (b"1", "number"), (b"true", "bool"))),
        (YAML, b"- a", NO_OBJECT.format("array")), (YAML, b"a", NO_OBJECT.format("string")),
        (JSON, b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (JSON, b'{"kind":1}', FIELD.format("number", "kind")), (JSON, b'{"KIND":[]}', FIELD.format("array", "kind")),
        (JSON, b'{"apiversion":{}}', FIELD.format("object", "apiVersion")),
        (YAML, b"apiVersion: true", FIELD.format("bool", "apiVersion")),
        (JSON, b'{"apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
        (YAML, b"apiVersion: a/b/c", "unexpected GroupVersion string: a/b/c"),
        (CBOR, b"\x80", WHICH.format("array", "value of type v1.TypeMeta")),
        (CBOR, b"\xa1\x44kind\x01", WHICH.format("positive integer", "struct field v1.TypeMeta.kind of type string")),
        (CBOR, b"\xa1\x4aapiVersion\x80", WHICH.format("array", "struct field v1.TypeMeta.apiVersion of type string")),
    ],
)  # fmt: skip
def test_a_body_that_is_no_object_of_a_kind(media: str, data: bytes, why: str) -> None:
    with pytest.raises(DecodingError) as caught:
        read_body(data, media, KIND)
    shown = data.decode() if data[:1] == b"{" else data.hex()
    assert str(caught.value) == f"the object provided is unrecognized (must be of type ConfigMap): {why} ({shown})"


@pytest.mark.parametrize(
    ("media", "data", "tree", "meta"),
    [
        (JSON, b"null", {}, ("", "")),
        (JSON, b'{"apiVersion":"a/b","kind":"K"}', {"apiVersion": "a/b", "kind": "K"}, ("a/b", "K")),
        (JSON, b'{"kind":"K","KIND":"L"}', {"kind": "K", "KIND": "L"}, ("", "L")),  # the last counts
        (JSON, b'{"KIND":"L","kind":"K"}', {"kind": "K", "KIND": "L"}, ("", "K")),
        (JSON, b'{"kind":null}', {"kind": None}, ("", "")),
        (JSON, b'{"Kin":"K","version123":"a"}', {"Kin": "K", "version123": "a"}, ("", "")),
        (YAML, b"kind: K\nKIND: L", {"kind": "K", "KIND": "L"}, ("", "K")),  # by name
        (YAML, b"KIND: L\nkind: K", {"kind": "K", "KIND": "L"}, ("", "K")), (YAML, b"", {}, ("", "")),
        (CBOR, b"\xa1\x44kind\x41K", {"kind": "K"}, ("", "K")), (CBOR, b"\xa1\x44KIND\x41K", {"KIND": "K"}, ("", "")),
        (CBOR, b"\xa1\x4aapiVersion\x45a/b/c", {}, ("", "")), (CBOR, b"\xf6", {}, ("", "")),
        (CBOR, b"\xa1\x4aapiVersion\x43a/b", {"apiVersion": "a/b"}, ("a/b", "")),
    ],
)  # fmt: skip
def test_a_body_and_its_kind(media: str, data: bytes, tree: object, meta: tuple[str, str]) -> None:
    document = read_body(data, media, KIND)
    assert (document, type_meta(document)) == (tree, meta)
    assert (document.source, document.raw) == (data, data if media == JSON else None)
    assert (document.duplicates, document.too_large, document.refusal) == ([], "", "")


def test_what_a_document_is_told_of_later() -> None:
    assert read_body(b'{"a":[1e400]}', JSON, KIND).too_large == "1e400"
    assert read_body(b"a: 1\na: 2\n", YAML, KIND).duplicates == ['line 2: key "a" already set in map']


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "<empty>"), (b"{" + b"a" * 29, "{" + "a" * 29), (b"{" + b"a" * 30, "{" + "a" * 29 + " ..."),
        (b"a", "61"), (b"a" * 31, "61" * 30 + " ..."), (b'{"\xff', '{"\ufffd'),
    ],
)  # fmt: skip
def test_the_beginning_of_a_body_in_messages(data: bytes, shown: str) -> None:
    assert summary(data) == shown


@pytest.mark.parametrize(
    ("data", "validation", "json_patch", "tree", "found"),
    [
        (b'{"a":1}', "Strict", False, "{'a': 1}", []), (b'{"a":1,"a":2}', "Ignore", False, "{'a': 2}", []),
        (b'{"a":{"b":1,"b":2},"c":1,"c":2,"c":3}', "Warn", False, "{'a': {'b': 2}, 'c': 3}",
         ['duplicate field "a.b"', 'duplicate field "c"']),
        (b'[{"op":"add","op":"test"}]', "Strict", True, "[Duplicated", []),
        (b'[{"op":"add"}]', "Strict", True, "[{'op': 'add'}]", []),
    ],
)  # fmt: skip
def test_patches_and_their_duplicate_fields(
    data: bytes, validation: str, json_patch: bool, tree: str, found: list[str]
) -> None:
    read, duplicates = read_patch(data, validation, json_patch=json_patch)
    if tree == "[Duplicated":
        assert isinstance(read, list) and isinstance(read[0], Duplicated)
        assert read[0].pairs == [("op", "add"), ("op", "test")]
    else:
        assert str(read) == tree
    assert duplicates == found
    with pytest.raises(status.BadRequest) as caught:
        read_patch(data[:-1], validation, json_patch=json_patch, prefix="why: ")
    assert caught.value.message == "why: unexpected end of JSON input"


@pytest.mark.parametrize(
    ("media", "data", "why"),
    [
        (YAML, b"a: [", "error converting YAML to JSON: yaml: line 1: did not find expected node content"),
        (YAML, b"- a", "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type "
         "map[string]interface {}"),
        (CBOR, b"\x80", "cbor: cannot unmarshal array into Go value of type map[string]interface {}"),
        (CBOR, b"\x81", "unexpected EOF"),
    ],
)  # fmt: skip
def test_what_cannot_be_applied(media: str, data: bytes, why: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_apply_body(data, media)
    assert caught.value.message == f"error decoding YAML: {why}"
