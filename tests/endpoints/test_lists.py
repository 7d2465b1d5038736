"""Lists: selectors, pages of one snapshot, versions, forms."""

from __future__ import annotations

import base64
import json
from typing import Any
from unittest.mock import call, patch

import pytest

from kapi.endpoints import listing
from kapi.endpoints.listing import Joined
from kapi.machinery.gvk import GroupResource
from kapi.testing.memory_api import MemoryAPI
from kapi.watchcache.entry import Entry

MAPS = "/api/v1/namespaces/n/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture
def five(api: MemoryAPI) -> MemoryAPI:
    for name in "abcde":
        body = {"metadata": {"name": name, "labels": {"v": str(name in "ace").lower()}}}
        assert api.ask("POST", MAPS, body).code == 201
    return api


def names(answer: Any) -> list[str]:
    assert answer.code == 200, answer.written
    return [item["metadata"]["name"] for item in answer.json["items"]]


@pytest.mark.parametrize("cut", [0, len(b'{"kind":"X",')])
@pytest.mark.parametrize("count", [1, 2, 127, 128, 129, 300, 4096, 4097, 8200])
@pytest.mark.parametrize("sizes", [[1], [30_000], [600_000, 1], [1, 300_000], [50_000, 300_000, 7, 200_000]])
def test_stored_bytes_are_joined_in_parts_of_bounded_size(sizes: list[int], count: int, cut: int) -> None:
    scope: Any = None
    texts = ["x" * size for size in sizes]
    count = min(count, max(8, 8_000_000 // max(sizes)))
    entries = [
        Entry(scope, str(n), "", str(n), n, b'{"kind":"X","n":"%s"}' % texts[n % len(texts)].encode())
        for n in range(count)
    ]
    body = Joined(b'{"items":[', entries, cut)
    parts = list(body)
    assert sum(map(len, parts)) == body.size
    assert all(len(part) <= 256 * 1024 or part.count(b'"n":') == 1 for part in parts)
    assert len(parts) <= 1 + 2 * body.size // (252 * 1024)
    wanted = [{"n": text} if cut else {"kind": "X", "n": text} for text in (texts * count)[:count]]
    assert (b"".join(parts)[-1:], json.loads(b"".join(parts)) == {"items": wanted}) == (b"\n", True)


@pytest.mark.parametrize("form", ["application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml"])
def test_what_is_decoded_for_a_list_counts_as_a_large_tree(five: MemoryAPI, form: str) -> None:
    """60 lists of 7 MB as tables, which nobody read, left 25 MB behind."""
    with patch.object(listing, "expect_tree") as expected:
        assert five.ask("GET", MAPS).code == 200
        assert expected.mock_calls == []
        assert five.ask("GET", MAPS, headers={"Accept": form}).code == 200
    stored = sum(len(entry.data) for entry in five.caches.cache(GroupResource("", "configmaps")).list()[0])
    assert expected.mock_calls == [call(stored)]


def test_items_are_sorted_and_carry_no_type(five: MemoryAPI) -> None:
    answer = five.ask("GET", MAPS)
    assert names(answer) == list("abcde")
    assert answer.json["kind"] == "ConfigMapList"
    assert all("kind" not in item and "apiVersion" not in item for item in answer.json["items"])


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("labelSelector=v=true", "ace"),
        ("labelSelector=v!=true", "bd"),
        ("labelSelector=v%20in%20(true,false)", "abcde"),
        ("labelSelector=!v", ""),
        ("fieldSelector=metadata.name=c", "c"),
        ("fieldSelector=metadata.name!=c", "abde"),
        ("fieldSelector=metadata.namespace=m", ""),
    ],
)
def test_selectors(five: MemoryAPI, query: str, wanted: str) -> None:
    assert names(five.ask("GET", f"{MAPS}?{query}")) == list(wanted)


@pytest.mark.parametrize(
    "query",
    ["labelSelector=a%20in", "fieldSelector=data.k=v", "limit=x", "continue=garbage", "resourceVersion=x"],
)
def test_what_cannot_be_read_is_a_bad_request(five: MemoryAPI, query: str) -> None:
    answer = five.ask("GET", f"{MAPS}?{query}")
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "label"), [("spec.z=1,data.k!=2", "data.k"), ("status=x,=0", ""), ("a=,metadata.name=b", "a")]
)
def test_of_several_unknown_fields_the_first_by_text_is_told(five: MemoryAPI, selector: str, label: str) -> None:
    answer = five.ask("GET", f"{MAPS}?fieldSelector={selector}")
    assert answer.code == 400
    assert answer.json["message"].startswith(f'"{label}" is not a known field selector')


@pytest.mark.parametrize("query", ["limit=", "watch=true&timeoutSeconds=", "limit=1.5"])
def test_a_number_that_is_none_is_refused_in_the_words_of_go(five: MemoryAPI, query: str) -> None:
    answer = five.ask("GET", f"{MAPS}?{query}")
    text = query.rpartition("=")[2]
    assert (answer.code, answer.json["message"]) == (400, f'strconv.ParseInt: parsing "{text}": invalid syntax')


def test_a_watch_that_begins_with_what_there_is_takes_no_continue_token(five: MemoryAPI) -> None:
    answer = five.ask("GET", f"{MAPS}?watch=true&continue=x")
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "resourceVersionMatch"


def test_the_proxy_prefix_is_served_no_more(five: MemoryAPI) -> None:
    answer = five.ask("GET", "/api/v1/proxy/namespaces/n/configmaps/a")
    assert (answer.code, answer.json["message"]) == (404, "the server could not find the requested resource")


def test_pages_are_one_snapshot_while_writers_run(five: MemoryAPI) -> None:
    first = five.ask("GET", f"{MAPS}?limit=2")
    assert names(first) == ["a", "b"] and first.json["metadata"]["remainingItemCount"] == 3
    five.ask("DELETE", f"{MAPS}/d")
    five.ask("POST", MAPS, {"metadata": {"name": "bb"}})
    second = five.ask("GET", f"{MAPS}?limit=2&continue={first.json['metadata']['continue']}")
    assert names(second) == ["c", "d"]
    third = five.ask("GET", f"{MAPS}?limit=2&continue={second.json['metadata']['continue']}")
    assert names(third) == ["e"] and "continue" not in third.json["metadata"]
    versions = {page.json["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(versions) == 1
    assert names(five.ask("GET", MAPS)) == ["a", "b", "bb", "c", "e"]


def test_an_exact_version_is_the_past(five: MemoryAPI) -> None:
    version = five.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    five.ask("DELETE", f"{MAPS}/a")
    past = five.ask("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert names(past) == list("abcde") and past.json["metadata"]["resourceVersion"] == version
    now = five.ask("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert names(now) == list("bcde")


def test_a_version_of_the_future_times_out(five: MemoryAPI) -> None:
    answer = five.ask("GET", f"{MAPS}?resourceVersion=99999")
    assert not answer.finished
    for _ in range(8):
        five.turn(1)
    assert (answer.code, answer.json["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ({"v": "meta.k8s.io/v9", "rv": 1, "start": "a"}, "does not recognize this encoded version meta.k8s.io/v9"),
        ({"v": "meta.k8s.io/v1", "rv": 0, "start": "a"}, "incorrect encoded start resourceVersion"),
        ({"v": "meta.k8s.io/v1", "rv": 1}, "encoded start key empty"),
        ({"v": "meta.k8s.io/v1", "rv": 1, "start": "../secrets/x"}, "is not valid: ../secrets/x"),
    ],
)
def test_forged_continue_tokens(five: MemoryAPI, token: dict[str, Any], said: str) -> None:
    text = base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")
    answer = five.ask("GET", f"{MAPS}?limit=1&continue={text}")
    assert answer.code == 400 and said in answer.json["message"]


def test_tables_have_rows_instead_of_items(five: MemoryAPI) -> None:
    table = five.ask("GET", f"{MAPS}?limit=2", headers=TABLE).json
    assert table["kind"] == "Table" and table["metadata"]["continue"]
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    bare = five.ask("GET", f"{MAPS}?includeObject=None", headers=TABLE).json
    assert bare["rows"][0]["object"] is None
    assert five.ask("GET", f"{MAPS}?includeObject=x", headers=TABLE).code == 400


def test_metadata_only(five: MemoryAPI) -> None:
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    answer = five.ask("GET", MAPS, headers=accept).json
    assert answer["kind"] == "PartialObjectMetadataList"
    assert all("data" not in item for item in answer["items"])


def test_all_namespaces_are_listed_by_namespace_and_name(five: MemoryAPI) -> None:
    five.ask("POST", "/api/v1/namespaces/m/configmaps", {"metadata": {"name": "z"}})
    items = five.ask("GET", "/api/v1/configmaps").json["items"]
    assert [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items][:2] == [("m", "z"), ("n", "a")]


def test_a_list_whose_token_has_expired_can_go_on_after_the_same_key(five: MemoryAPI) -> None:
    first = five.ask("GET", f"{MAPS}?limit=2")
    assert names(first) == ["a", "b"]
    assert five.ask("POST", MAPS, {"metadata": {"name": "c1"}}).code == 201
    assert five.ask("DELETE", f"{MAPS}/d").code == 200
    five.caches.floor = five.caches.revision  # the history is compacted
    expired = five.ask("GET", f"{MAPS}?limit=2&continue={first.json['metadata']['continue']}")
    assert (expired.code, expired.json["reason"]) == (410, "Expired")
    assert "use the continue token in this response" in expired.json["message"]
    following = five.ask("GET", f"{MAPS}?limit=2&continue={expired.json['metadata']['continue']}")
    assert names(following) == ["c", "c1"]
    assert following.json["metadata"]["resourceVersion"] == str(five.caches.revision)
    assert names(five.ask("GET", f"{MAPS}?limit=2&continue={following.json['metadata']['continue']}")) == ["e"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("resourceVersion={}&resourceVersionMatch=Exact", 410),
        ("resourceVersion={}&resourceVersionMatch=Exact&limit=1", 410),
        ("resourceVersion={}&limit=1", 410),  # exact, too
        ("resourceVersion={}", 200),
        ("resourceVersion={}&resourceVersionMatch=NotOlderThan&limit=1", 200),
        ("resourceVersion=0", 200),
        ("watch=true&resourceVersion={}", 200),
    ],
)
def test_what_is_asked_of_a_compacted_revision(five: MemoryAPI, query: str, code: int) -> None:
    old = five.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    assert five.ask("POST", MAPS, {"metadata": {"name": "c1"}}).code == 201
    five.caches.floor = five.caches.revision  # the history is compacted
    assert five.ask("GET", f"{MAPS}/a?resourceVersion={old}").code == 200
    answer = five.ask("GET", f"{MAPS}?{query.format(old)}")
    assert answer.code == code
    if code == 410:
        assert answer.json["reason"] == "Expired"
        assert answer.json["message"] == "The resourceVersion for the provided list is too old."
        assert answer.json["metadata"] == {}
    if "watch" in query:
        (event,) = answer.events
        assert event["type"] == "ERROR"
        wanted = f"too old resource version: {old} ({five.caches.floor})"
        assert {key: event["object"][key] for key in ("code", "reason", "message")} == {
            "code": 410, "reason": "Expired", "message": wanted,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("labelSelector=a%20in%20b&resourceVersionMatch=Exact", "unable to parse requirement: found 'b' expected: '('"),
        (
            "labelSelector=a%3C-",
            "unable to parse requirement: [values[0]: Invalid value: \"-\": for 'Gt', 'Lt' operators, "
            "the value must be an integer, "
            'values[0][a]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'MyValue',  or 'my_value',  or '12345', "
            "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]",
        ),
        ("fieldSelector=x0&sendInitialEvents=true", "invalid selector: 'x0'; can't understand 'x0'"),
        ("fieldSelector=metadata.name!=%5C", "invalid field selector: invalid escape sequence: \\"),
        (
            "fieldSelector=metadata.x%5C=1",
            '"metadata.x\\\\" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            "continue=eyJ2IjoiYmFkIn0&resourceVersion=1",
            "invalid continue token: continue key is not valid: server does not recognize this encoded version bad",
        ),
    ],
)
def test_what_cannot_be_read_is_told_before_what_does_not_fit(five: MemoryAPI, query: str, wanted: str) -> None:
    answer = five.ask("GET", f"{MAPS}?{query}")
    assert (answer.code, answer.json["message"]) == (400, wanted)


def test_a_field_selector_of_nothing_selects_everything(five: MemoryAPI) -> None:
    assert names(five.ask("GET", f"{MAPS}?fieldSelector==")) == list("abcde")
    assert names(five.ask("GET", f"{MAPS}?fieldSelector==,metadata.name=b")) == ["b"]


def test_a_table_of_what_was_not_stored_has_no_version(five: MemoryAPI) -> None:
    answer = five.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "x"}}, headers=TABLE)
    assert (answer.code, answer.json["kind"], answer.json["metadata"]) == (201, "Table", {})


def test_a_watch_that_takes_yaml_alone_is_refused_when_all_else_is_right(five: MemoryAPI) -> None:
    yaml = {"Accept": "application/yaml"}
    assert five.ask("GET", f"{MAPS}?watch=true&labelSelector=!!a", headers=yaml).code == 400
    assert five.ask("GET", f"{MAPS}?watch=true", headers=yaml).code == 406


@pytest.mark.parametrize("count", [1, 128, 129, 300])
def test_a_list_is_as_long_as_it_says(api: MemoryAPI, count: int) -> None:
    """Its slices are made after its length was told."""
    path = "/api/v1/namespaces/default/configmaps"
    for number in range(count):
        api.ask("POST", path, {"metadata": {"name": f"m-{number}"}, "data": {"a": "ö" * number}})
    request = api.ask("GET", path)
    assert request.responseHeaders.getRawHeaders("content-length") == [str(len(request.written))]
    assert len(request.json["items"]) == count
    assert len({item["metadata"]["name"] for item in request.json["items"]}) == count


def test_namespaces_can_be_asked_for_of_what_has_none(api: MemoryAPI) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert api.ask("POST", path, {"metadata": {"name": "p"}, "value": 1}).code == 201

    def names(selector: str) -> list[str]:
        items = api.ask("GET", f"{path}?fieldSelector={selector}").json["items"]
        return [item["metadata"]["name"] for item in items if item["metadata"]["name"] == "p"]

    assert names("metadata.namespace%3Dx") == []
    assert names("metadata.namespace%3D") == names("metadata.namespace!%3Dx") == ["p"]
    for path in ("/api/v1/nodes", "/api/v1/namespaces"):
        answer = api.ask("GET", f"{path}?fieldSelector=metadata.namespace%3Dx")
        assert (answer.code, answer.json["message"]) == (400, "field label not supported: metadata.namespace")


@pytest.mark.parametrize("accepted", ["gzip;q=0", "gzip;q=1", "GZIP", "x-gzip", "*"])
def test_only_the_word_gzip_alone_asks_for_compression(api: MemoryAPI, accepted: str) -> None:
    path = "/api/v1/namespaces/n/configmaps"
    assert api.ask("POST", path, {"metadata": {"name": "big"}, "data": {"k": "x" * 200_000}}).code == 201
    answer = api.ask("GET", path, headers={"Accept-Encoding": accepted})
    assert answer.header("content-encoding") == "" and len(answer.json["items"]) == 1


def test_a_full_page_of_a_selection_goes_on_while_objects_follow(api: MemoryAPI) -> None:
    path = "/api/v1/namespaces/n/configmaps"
    for name, value in (("a", "x"), ("b", "x"), ("c", "y")):
        api.ask("POST", path, {"metadata": {"name": name, "labels": {"l": value}}})
    first = api.ask("GET", f"{path}?labelSelector=l=x&limit=2").json
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert "remainingItemCount" not in first["metadata"]
    last = api.ask("GET", f"{path}?labelSelector=l=x&limit=2&continue={first['metadata']['continue']}").json
    assert (last["items"], last["metadata"].get("continue", "")) == ([], "")
    assert "continue" not in api.ask("GET", f"{path}?labelSelector=l=y&limit=1").json["metadata"]
