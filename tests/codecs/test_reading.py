"""Bodies as trees: what is no object, and what would be larger than a body may be."""

from __future__ import annotations

import pytest

from kapi.codecs import reading
from kapi.codecs.negotiation import CBOR, YAML
from kapi.codecs.reading import MAX_BODY_BYTES, read_apply_body, read_body
from kapi.machinery import status
from kapi.machinery.gvk import GroupVersionKind

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
