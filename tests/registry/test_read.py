"""Reading from the registry: how old an answer may be, pages of one snapshot, and what continue tokens hold."""

from __future__ import annotations

import base64
import json

import pytest

from kapi.machinery.gvk import GroupResource
from kapi.machinery.selectors import Predicate, parse_fields, parse_labels
from kapi.machinery.status import BadRequest, Expired, NotFound, StatusError, Timeout
from kapi.registry.read import Page, decode_token, encode_token, get, list_page, parse_revision
from kapi.registry.resource_store import ResourceStore
from kapi.testing.memory_api import MemoryAPI, succeed


@pytest.fixture
def api() -> MemoryAPI:
    api: MemoryAPI = succeed(MemoryAPI.started())
    for name in ("a", "b"):
        assert api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    for number in range(4):
        create(api, "a", f"m{number}")
    return api


def create(api: MemoryAPI, namespace: str, name: str) -> int:
    """The revision."""
    body = {"metadata": {"name": name, "labels": {"name": name}}}
    answer = api.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    return int(answer.json["metadata"]["resourceVersion"])


def maps(api: MemoryAPI) -> ResourceStore:
    return api.registry.stores[GroupResource("", "configmaps")]


def listed(api: MemoryAPI, namespace: str = "a", predicate: Predicate | None = None, **asked: object) -> Page:
    page: Page = succeed(list_page(maps(api), namespace, predicate, **asked))  # type: ignore[arg-type]
    return page


def names(page: Page) -> list[str]:
    return [entry.name for entry in page.entries]


def test_an_object_is_there_or_it_is_not_found(api: MemoryAPI) -> None:
    assert succeed(get(maps(api), "a", "m0")).name == "m0"
    with pytest.raises(NotFound, match='configmaps "m0" not found'):
        succeed(get(maps(api), "b", "m0"))


def test_a_read_waits_for_the_revision_it_names(api: MemoryAPI) -> None:
    newest = create(api, "b", "later")
    assert succeed(get(maps(api), "b", "later", str(newest))).revision == newest


def test_all_pages_are_of_the_first_ones_revision(api: MemoryAPI) -> None:
    first = listed(api, limit=2)
    assert (names(first), first.remaining) == (["m0", "m1"], 2)
    create(api, "a", "m11")
    api.ask("DELETE", "/api/v1/namespaces/a/configmaps/m3")
    second = listed(api, limit=2, token=first.continue_)
    assert (names(second), second.revision, second.continue_) == (["m2", "m3"], first.revision, "")
    assert names(listed(api)) == ["m0", "m1", "m11", "m2"]


def test_what_is_left_is_not_counted_behind_a_selector(api: MemoryAPI) -> None:
    chosen = Predicate(parse_labels("name!=m1"))
    page = listed(api, predicate=chosen, limit=2)
    assert (names(page), page.remaining) == (["m0", "m2"], None)
    assert names(listed(api, predicate=chosen, limit=2, token=page.continue_)) == ["m3"]


def test_a_list_that_may_be_of_any_age_ignores_the_limit(api: MemoryAPI) -> None:
    page = listed(api, resource_version="0", limit=1)
    assert (names(page), page.continue_) == (["m0", "m1", "m2", "m3"], "")


def test_a_former_state_can_be_listed(api: MemoryAPI) -> None:
    before = listed(api).revision
    create(api, "a", "new")
    page = listed(api, resource_version=str(before), match="Exact")
    assert (names(page), page.revision) == (["m0", "m1", "m2", "m3"], before)


def test_a_state_that_is_forgotten_is_expired_and_its_pages_can_go_on(api: MemoryAPI) -> None:
    first = listed(api, limit=2)
    create(api, "a", "m22")
    api.caches.floor = api.caches.revision  # the history is compacted
    with pytest.raises(Expired, match="resourceVersion for the provided list is too old"):
        listed(api, resource_version=str(first.revision), match="Exact")
    with pytest.raises(Expired) as raised:
        listed(api, limit=2, token=first.continue_)
    token = raised.value.metadata["continue"]
    assert names(listed(api, limit=2, token=token)) == ["m2", "m22"], "after the same key, as things are now"


def test_a_token_goes_with_no_revision(api: MemoryAPI) -> None:
    token = listed(api, limit=1).continue_
    with pytest.raises(BadRequest, match="not allowed when using continue"):
        listed(api, resource_version="5", token=token)


def test_a_token_is_what_it_was_made_of() -> None:
    token = decode_token(encode_token("a/m0", 7))
    assert (token.revision, token.key) == (7, "a/m0\0")


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("!", "illegal base64 data at input byte 0"),
        ("AAAAA", "illegal base64 data at input byte 4"),
        ("e30=", "illegal base64 data at input byte 3"),
        ("MQ", "json: cannot unmarshal number into Go value of type storage.continueToken"),
        ("W10", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        ("", "unexpected end of JSON input"),
        ("eA", "invalid character 'x' looking for beginning of value"),
        ("e30", "server does not recognize this encoded version"),
    ],
)
def test_what_is_no_token_is_refused(token: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        decode_token(token)


@pytest.mark.parametrize("start", ["a/../b", "..", "/..", ".", "a//b", "a/", "//"])
def test_the_key_of_a_token_must_be_a_clean_path(start: str) -> None:
    with pytest.raises(BadRequest) as raised:
        decode_token(token_of({"v": "meta.k8s.io/v1", "rv": 7, "start": start}))
    assert raised.value.message == f"invalid continue token: continue key is not valid: {start}"


@pytest.mark.parametrize("start", ["a\0", "/a\0"])
def test_the_key_of_a_token_may_begin_with_a_slash(start: str) -> None:
    assert decode_token(token_of({"v": "meta.k8s.io/v1", "rv": 7, "start": start})).key == "a\0"


def test_the_fields_of_a_token_are_found_in_any_case_as_by_gos_decoder() -> None:
    assert decode_token(token_of({"V": "meta.k8s.io/v1", "Rv": 7, "START": "a", "start": None})).revision == 7
    with pytest.raises(
        BadRequest, match="cannot unmarshal number into Go struct field continueToken.start of type string"
    ):
        decode_token(token_of({"v": "meta.k8s.io/v1", "rv": 7, "start": 5}))


def test_a_token_is_checked_before_the_revision(api: MemoryAPI) -> None:
    with pytest.raises(BadRequest, match="illegal base64"):
        listed(api, resource_version="x", token="!")
    with pytest.raises(BadRequest, match="not allowed when using continue"):
        listed(api, resource_version="x", token=listed(api, limit=1).continue_)


def test_a_list_of_events_of_any_age_has_pages(api: MemoryAPI) -> None:
    for name in "ab":
        event = {"metadata": {"name": name}, "involvedObject": {"namespace": "a"}}
        assert api.ask("POST", "/api/v1/namespaces/a/events", event).code == 201
    events = api.registry.stores[GroupResource("", "events")]
    page = succeed(list_page(events, "a", None, resource_version="0", limit=1))
    assert (names(page), page.remaining) == (["a"], 1)


@pytest.mark.parametrize("match", ["Exact", "NotOlderThan", None])
def test_a_list_of_events_does_not_wait_for_a_later_revision(api: MemoryAPI, match: str | None) -> None:
    events = api.registry.stores[GroupResource("", "events")]
    with pytest.raises(Timeout) as raised:
        succeed(list_page(events, "a", None, resource_version="99999999", match=match))
    assert "Too large resource version" in raised.value.message and not raised.value.retry_after


@pytest.mark.parametrize("name", ["m0", "none"])
def test_a_limit_does_not_make_the_revision_of_a_single_object_exact(api: MemoryAPI, name: str) -> None:
    before = listed(api).revision
    create(api, "a", "none")
    chosen = Predicate(parse_labels(""), parse_fields(f"metadata.name={name}"))
    page = listed(api, predicate=chosen, resource_version=str(before), limit=1)
    assert (names(page), page.revision, page.continue_) == ([name], before + 1, "")
    assert names(listed(api, predicate=chosen, resource_version=str(before), match="Exact")) == [name][: name == "m0"]
    for asked in ({"limit": 1}, {"match": "Exact"}):
        with pytest.raises(Timeout) as raised:
            listed(api, predicate=chosen, resource_version="99999999", **asked)
        assert not raised.value.retry_after


@pytest.mark.parametrize(
    ("namespace", "fields", "present"),
    [
        ("", "metadata.name=m0", False),
        ("", "metadata.name=m0,metadata.namespace=a", True),
        ("a", "metadata.name=", False),
    ],
)
def test_objects_of_one_name_in_all_namespaces_are_not_a_single_one(
    api: MemoryAPI, namespace: str, fields: str, present: bool
) -> None:
    before = listed(api).revision
    create(api, "a", "new")
    chosen = Predicate(parse_labels(""), parse_fields(fields))
    maps = api.registry.stores[GroupResource("", "configmaps")]
    page = succeed(list_page(maps, namespace, chosen, resource_version=str(before), limit=1))
    assert page.revision == before + present


def test_the_exact_revision_zero_is_the_present(api: MemoryAPI) -> None:
    page = listed(api, resource_version="000", match="Exact")
    assert names(page) == ["m0", "m1", "m2", "m3"]


def token_of(fields: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("revision", "kind"),
    [("-9223372036854775808", ""), ("9223372036854775807", ""), ("-9223372036854775809", "number"),
     ("9223372036854775808", "number"), ("1.5", "number"), ('"7"', "string"), ("true", "bool"),
     ("[]", "array"), ("{}", "object")],
)  # fmt: skip
def test_the_revision_of_a_token_is_a_go_int64(revision: str, kind: str) -> None:
    text = '{"v":"meta.k8s.io/v1","rv":' + revision + ',"start":"a\\u0000"}'
    token = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    if not kind:
        assert decode_token(token).revision == int(revision)
        return
    with pytest.raises(BadRequest) as raised:
        decode_token(token)
    assert f"is not valid: json: cannot unmarshal {kind} " in raised.value.message
    assert raised.value.message.endswith("into Go struct field continueToken.rv of type int64")


@pytest.mark.parametrize(("listing", "code"), [(True, 400), (False, 500)])
def test_what_is_no_revision_is_refused_as_upstream_does(listing: bool, code: int) -> None:
    assert parse_revision("") == 0 and parse_revision("12") == 12
    with pytest.raises(StatusError) as raised:
        parse_revision("-1", listing=listing)
    assert raised.value.code == code and 'strconv.ParseUint: parsing "-1": invalid syntax' in raised.value.message
