"""What is stored can be read by all that reads it, whatever JSON was sent."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kapi.machinery.gvk import GroupResource
from kapi.testing.memory_api import MemoryAPI, succeed
from kapi.watchcache.caches import Caches
from tests.examples import examples

REVISIONS = "/apis/apps/v1/namespaces/n/controllerrevisions"
_SURROGATES = st.integers(0xD800, 0xDFFF).map(lambda code: f"\\u{code:04x}")
_PIECES = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=4).map(
        lambda text: orjson.dumps(text).decode()[1:-1]
    ),
    _SURROGATES,
    st.sampled_from(["\\u0000", "\\ufffd", "\\ud83d\\ude00", "\\ude00\\ud83d", "\\/", "\u2028"]),
)
STRINGS = st.lists(_PIECES, max_size=4).map(lambda pieces: f'"{"".join(pieces)}"')
NUMBERS = st.one_of(
    st.integers(-(2**80), 2**80).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-999, 999).map(lambda exponent: f"1e{exponent}"),
    st.sampled_from(
        ["-0", "-0.0", "1E400", "-1e400", "1e-400", "9" * 400, "9" * 5000, str(2**63), str(2**64), "1.0", "0.1e1"]
    ),
)
SCALARS = st.one_of(st.sampled_from(["null", "true", "false"]), STRINGS, NUMBERS)


def _object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(STRINGS, inner), max_size=3).map(_object),  # keys may come twice
        st.tuples(inner, st.integers(1, 300)).map(lambda pair: "[" * pair[1] + pair[0] + "]" * pair[1]),
    ),
    max_leaves=8,
)
OBJECTS = st.lists(st.tuples(STRINGS, VALUES), max_size=3).map(_object)


def check_readable(api: MemoryAPI, uri: str, resource: GroupResource) -> None:
    """Every way to read answers, and a server that starts over the same store reads the same."""
    unreadable = [error.why for error in api.caches.cache(resource).unreadable.values()]
    assert not unreadable
    for name in [item["metadata"]["name"] for item in api.ask("GET", uri).json["items"]]:
        read = api.ask("GET", f"{uri}/{name}")
        assert read.code == 200
        assert orjson.loads(read.written)["metadata"]["name"] == name
    for query in ("", "?labelSelector=a%3Db", "?labelSelector=a!%3Db", "?fieldSelector=metadata.name%3Da", "?limit=1"):
        assert api.ask("GET", uri + query).code == 200
    for form in (
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/yaml",
    ):
        assert api.ask("GET", uri, headers={"Accept": form}).code == 200
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    assert api.ask("GET", f"{uri}?includeObject=Object", headers={"Accept": table}).code == 200
    again = Caches(api.store, api.clock)
    succeed(again.start())
    mine, theirs = (caches.cache(resource).list()[0] for caches in (api.caches, again))
    assert [(entry.key, entry.object) for entry in mine] == [(entry.key, entry.object) for entry in theirs]
    assert [dict(entry.labels) for entry in mine] == [dict(entry.labels) for entry in theirs]
    api.store._follower = api.caches


@pytest.fixture(scope="module")
def shared() -> MemoryAPI:
    started: MemoryAPI = succeed(MemoryAPI.started())
    return started


def _watching(api: MemoryAPI, uri: str) -> list[Any]:
    """Watches in the forms that look into objects."""
    return [
        api.ask("GET", f"{uri}?watch=1&labelSelector=a%3Db"),
        api.ask(
            "GET",
            f"{uri}?watch=1&resourceVersion=0",
            headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"},
        ),
        api.ask("GET", f"{uri}?watch=1"),
    ]


def _end(api: MemoryAPI, uri: str, watches: list[Any]) -> None:
    for _ in range(20):
        api.turn()
    for watch in watches:
        for event in watch.events:
            assert event["type"] != "ERROR", event
        watch.disconnect()
    for item in api.ask("GET", uri).json["items"]:
        assert api.ask("DELETE", f"{uri}/{item['metadata']['name']}").code == 200


_SETTINGS = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@_SETTINGS
@given(OBJECTS, st.lists(st.tuples(STRINGS, STRINGS), max_size=2).map(_object))
def test_what_a_create_is_answered_201_for_can_be_read(shared: MemoryAPI, data: str, annotations: str) -> None:
    watches = _watching(shared, REVISIONS)
    body = f'{{"metadata":{{"name":"a","labels":{{"a":"b"}},"annotations":{annotations}}},"data":{data},"revision":1}}'
    created = shared.ask("POST", REVISIONS, body)
    assert created.code in (201, 400, 422), created.written
    check_readable(shared, REVISIONS, GroupResource("apps", "controllerrevisions"))
    _end(shared, REVISIONS, watches)


@_SETTINGS
@given(OBJECTS, VALUES, st.sampled_from(["json", "merge", "strategic", "apply", "put"]))
def test_what_a_patch_is_answered_200_for_can_be_read(shared: MemoryAPI, data: str, value: str, how: str) -> None:
    assert shared.ask("POST", REVISIONS, '{"metadata":{"name":"a"},"data":{"x":1},"revision":1}').code == 201
    watches = _watching(shared, REVISIONS)
    head = '{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a","labels":{"a":"b"}}'
    labels = '{"op":"add","path":"/metadata/labels","value":{"a":"b"}}'
    within = '{"metadata":{"labels":{"a":"b"}},"data":'
    media, body = {
        "json": ("json-patch+json", f'[{labels},{{"op":"add","path":"/data/x","value":{value}}}]'),
        "merge": ("merge-patch+json", within + f'{{"x":{value}}}}}'),
        "strategic": ("strategic-merge-patch+json", within + data + "}"),
        "apply": ("apply-patch+yaml", f'{head},"data":{data},"revision":1}}'),
        "put": ("json", f'{head},"data":{data},"revision":1}}'),
    }[how]
    method = "PUT" if how == "put" else "PATCH"
    query = "?fieldManager=t&force=true" if how == "apply" else ""
    answer = shared.ask(method, f"{REVISIONS}/a{query}", body, type=f"application/{media}")
    assert answer.code in (200, 400, 409, 422), answer.written
    check_readable(shared, REVISIONS, GroupResource("apps", "controllerrevisions"))
    _end(shared, REVISIONS, watches)


@_SETTINGS
@given(OBJECTS, st.sampled_from(["yaml", "protobuf"]))
def test_the_other_forms_of_a_body_are_no_way_around(shared: MemoryAPI, data: str, form: str) -> None:
    head = '{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a","labels":{"a":"b"}},"revision":1,"data":'
    watches = _watching(shared, REVISIONS)
    if form == "yaml":
        answer = shared.ask("POST", REVISIONS, head + data + "}", type="application/yaml")
    else:
        meta = _field(1, b"a") + _field(11, _field(1, b"a") + _field(2, b"b"))
        raw = _field(1, meta) + _field(2, _field(1, data.encode())) + b"\x18\x01"
        kind = _field(1, _field(1, b"apps/v1") + _field(2, b"ControllerRevision"))
        body = b"k8s\0" + kind + _field(2, raw)
        answer = shared.ask("POST", REVISIONS, body, type="application/vnd.kubernetes.protobuf")
    assert answer.code in (201, 400, 422), answer.written
    check_readable(shared, REVISIONS, GroupResource("apps", "controllerrevisions"))
    _end(shared, REVISIONS, watches)


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes in protobuf."""
    size, length = len(content), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_half_a_surrogate_pair_is_stored_as_the_replacement_character(api: MemoryAPI) -> None:
    answer = api.ask("POST", REVISIONS, b'{"metadata":{"name":"a"},"data":{"v":"\\ud800"},"revision":1}')
    assert answer.code == 201
    assert api.ask("GET", f"{REVISIONS}/a").json["data"] == {"v": "\ufffd"}


def test_a_number_that_no_reader_takes_is_refused_in_go_s_words(api: MemoryAPI) -> None:
    answer = api.ask("POST", REVISIONS, b'{"metadata":{"name":"a"},"data":{"v":1e400},"revision":1}')
    assert answer.code == 400
    assert answer.json["message"] == (
        'ControllerRevision in version "v1" cannot be handled as a ControllerRevision: '
        "json: cannot unmarshal number 1e400 into Go value of type float64"
    )
    assert api.ask("GET", REVISIONS).json["items"] == []


def test_a_number_too_large_for_a_typed_field_keeps_the_words_of_its_type(api: MemoryAPI) -> None:
    answer = api.ask("POST", REVISIONS, b'{"metadata":{"name":"a"},"revision":1e400}')
    assert (answer.code, "ControllerRevision.revision of type int64" in answer.json["message"]) == (400, True)
