"""The shard selector of lists and watches, behind its feature gate (KEP-5866)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from kapi.endpoints.sharding import ShardSelectorError, parse_shards
from kapi.machinery.gvk import GroupResource, GroupVersionKind
from kapi.machinery.sharding import Shards, hashed
from kapi.schema import protobuf
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI
from kapi.watchcache.metrics import families

MAPS = "/api/v1/namespaces/n/configmaps"
EVERYWHERE = "/api/v1/configmaps"
UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"
ZERO, HALF, END = "0x0000000000000000", "0x8000000000000000", "0x10000000000000000"
LOWER = f"shardRange({UID}, '{ZERO}', '{HALF}')"
UPPER = f"shardRange({UID}, '{HALF}', '{END}')"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture
def off(api: MemoryAPI) -> MemoryAPI:
    for number in range(20):
        body = {"metadata": {"name": f"m{number:02}", "labels": {"even": str(number % 2 == 0).lower()}}}
        assert api.ask("POST", MAPS, body).code == 201
    return api


@pytest.fixture
def on(off: MemoryAPI) -> MemoryAPI:
    off.environment.features = {**off.environment.features, "ShardedListAndWatch": True}
    return off


def ask(
    api: MemoryAPI, path: str, selector: str = "", accept: str = "application/json", **options: str
) -> MemoryRequest:
    chosen = {"shardSelector": selector, **options} if selector else options
    return api.ask("GET", f"{path}?{urlencode(chosen)}", headers={"Accept": accept})


def uids(answer: MemoryRequest) -> list[str]:
    assert answer.code == 200, answer.written
    return [item["metadata"]["uid"] for item in answer.json["items"]]


def in_lower(uid: str) -> bool:
    return hashed(uid) < 1 << 63


@pytest.mark.parametrize(
    ("text", "value"), [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)]
)
def test_the_hash_is_fnv_1a(text: str, value: int) -> None:
    assert hashed(text) == value


@pytest.mark.parametrize("text", ["", "a", "b", "c", "d", "e"])
def test_a_shard_may_have_gaps(text: str) -> None:
    value = hashed(text)
    for ranges, inside in (
        ([(0, 1), (value, value + 1)], True),
        ([(value, value + 1), (value + 2, value + 3)], True),
        ([(value + 1, value + 2)], False),
        ([(0, 1), (value - 1, value)], False),
        ([(0, 1), (2, value), (value + 1, value + 2)], False),
    ):
        assert Shards.of(UID, ranges).has(text) is inside


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (LOWER, LOWER),
        (f"  {UPPER}\n", UPPER),
        (f"shardRange({NAMESPACE},'{ZERO}','{END}')", f"shardRange({NAMESPACE}, '{ZERO}', '{END}')"),
        (f"{UPPER}||{LOWER}", f"{UPPER} || {LOWER}"),
        (f"({LOWER} || {UPPER}) || {LOWER}", f"{LOWER} || {UPPER} || {LOWER}"),
        (f"shardRange({UID}, \"{ZERO}\", r'{HALF}')", LOWER),
    ],
)
def test_selectors(text: str, shown: str) -> None:
    assert str(parse_shards(text)) == shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        (f"shardRange({UID}, '0000000000000000', '{HALF}')", "hexStart must have '0x' prefix, got \"0000000000000000\""),
        (f"shardRange({UID}, '{ZERO}', '8')", "hexEnd must have '0x' prefix, got \"8\""),
        (f"shardRange({UID}, '0x', '{HALF}')", "hexStart: hex value is required after '0x'"),
        (f"shardRange(object.metadata.name, '{ZERO}', '{HALF}')",
         f'unsupported field path "object.metadata.name"; supported: {UID}, {NAMESPACE}'),
        (f"shardRange(metadata.uid, '{ZERO}', '{HALF}')",
         f'unsupported field path "metadata.uid"; supported: {UID}, {NAMESPACE}'),
        (f"other({UID}, '{ZERO}', '{HALF}')", 'unsupported function "other"; only shardRange() and || are allowed'),
        (f"has({UID})", 'unsupported function "has"; only shardRange() and || are allowed'),
        (f"[1].all(x, {LOWER})", 'unsupported function "all"; only shardRange() and || are allowed'),
        (f"{LOWER} && {UPPER}", 'unsupported function "_&&_"; only shardRange() and || are allowed'),
        (f"{UID} == 'x'", 'unsupported function "_==_"; only shardRange() and || are allowed'),
        (f"!{LOWER}", 'unsupported function "!_"; only shardRange() and || are allowed'),
        (UID, "unexpected expression kind 7; expected shardRange() call or || operator"),
        ("true", "unexpected expression kind 5; expected shardRange() call or || operator"),
        ("[]", "unexpected expression kind 4; expected shardRange() call or || operator"),
        ("{}", "unexpected expression kind 6; expected shardRange() call or || operator"),
        ("x", "unexpected expression kind 3; expected shardRange() call or || operator"),
        ("a.B{}", "unexpected expression kind 8; expected shardRange() call or || operator"),
        (f"{LOWER} || x", "unexpected expression kind 3; expected shardRange() call or || operator"),
        (f"shardRange({UID}, '0x{'0' * 18}', '{HALF}')",
         f"hexStart: hex value too long (18 chars, max 17): \"{'0' * 18}\""),
        (f"shardRange({UID}, '{ZERO}', '0x800000000000000G')",
         'hexEnd: invalid hex character "G" in "0x800000000000000G"'),
        (f"shardRange({UID}, 0, '{HALF}')", "hexStart must be a string literal, got int64"),
        (f"shardRange({UID}, true, '{HALF}')", "hexStart must be a string literal, got bool"),
        (f"shardRange({UID}, null, '{HALF}')", "hexStart must be a string literal, got structpb.NullValue"),
        (f"shardRange({UID}, 1u, '{HALF}')", "hexStart must be a string literal, got uint64"),
        (f"shardRange({UID}, '{ZERO}', 1.0)", "hexEnd must be a string literal, got float64"),
        (f"shardRange({UID}, '{ZERO}', b'x')", "hexEnd must be a string literal, got []uint8"),
        (f"shardRange({UID}, '{ZERO}', x)", "hexEnd must be a string literal (e.g. '0xff'), got expression kind 3"),
        (f"shardRange({UID}, '{ZERO}')", "shardRange() requires exactly 3 arguments, got 2"),
        (f"shardRange(f(), '{ZERO}', '{HALF}')",
         "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 1"),
        (f"{LOWER} || shardRange({NAMESPACE}, '{HALF}', '{END}')",
         f'all shard ranges must use the same field, got "{UID}" and "{NAMESPACE}"'),
        (f"shardRange({UID}, '0x0', '{HALF}')",
         f'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "{ZERO}"?)'),
        (f"shardRange({UID}, '{ZERO}', '0x10000000000000001')",
         "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x10000000000000001\""),
        (f"shardRange({UID}, '{HALF}', '{HALF}')", f"shard range start {HALF} must be less than end {HALF}"),
        (f"shardRange({UID}, '{END}', '{HALF}')", f"shard range start {END} must be less than end {HALF}"),
        ("shardRange(", "CEL parse error: Syntax error: mismatched input '<EOF>' expecting"),
    ],
)  # fmt: skip
def test_what_is_no_selector(on: MemoryAPI, text: str, why: str) -> None:
    with pytest.raises(ShardSelectorError) as caught:
        parse_shards(text)
    assert str(caught.value).startswith(why)
    for watching in ("", "1"):
        refused = ask(on, MAPS, text, watch=watching)
        assert (refused.code, refused.json["message"]) == (500, f"invalid shard selector: {caught.value}")


def test_ranges_may_overlap() -> None:
    shards = Shards.of(UID, [(5, 9), (0, 2), (8, 12), (2, 3), (20, 21)])
    assert shards.bounds == (0, 3, 5, 12, 20, 21)


def test_the_shards_of_a_list_are_its_parts(on: MemoryAPI) -> None:
    every = uids(ask(on, MAPS))
    lower, upper = ask(on, MAPS, LOWER), ask(on, MAPS, UPPER)
    assert uids(lower) == [uid for uid in every if in_lower(uid)]
    assert sorted(uids(lower) + uids(upper)) == sorted(every)
    assert lower.json["metadata"]["shardInfo"] == {"selector": LOWER}
    both = ask(on, MAPS, f"{UPPER} || {LOWER}")
    assert uids(both) == every
    assert both.json["metadata"]["shardInfo"] == {"selector": f"{UPPER} || {LOWER}"}
    assert "shardInfo" not in ask(on, MAPS).json["metadata"]


def test_without_the_gate_the_selector_is_ignored(off: MemoryAPI) -> None:
    for selector in (LOWER, "no selector"):
        answer = ask(off, MAPS, selector)
        assert uids(answer) == uids(ask(off, MAPS))
        assert "shardInfo" not in answer.json["metadata"]


def test_namespaces_as_shards(on: MemoryAPI) -> None:
    for name in ("a", "b", "c", "d"):
        path = f"/api/v1/namespaces/{name}/configmaps"
        assert on.ask("POST", path, {"metadata": {"name": name}}).code == 201
    selector = f"shardRange({NAMESPACE}, '{ZERO}', '{HALF}')"
    found = {item["metadata"]["namespace"] for item in ask(on, EVERYWHERE, selector).json["items"]}
    assert found == {name for name in ("a", "b", "c", "d", "n") if hashed(name) < 1 << 63}


def test_with_other_selectors(on: MemoryAPI) -> None:
    answer = ask(on, MAPS, LOWER, labelSelector="even=true")
    assert uids(answer) == [uid for uid in uids(ask(on, MAPS, labelSelector="even=true")) if in_lower(uid)]
    one = ask(on, MAPS).json["items"][0]["metadata"]
    mine, other = (LOWER, UPPER) if in_lower(one["uid"]) else (UPPER, LOWER)
    named = {"fieldSelector": f"metadata.name={one['name']}"}
    assert uids(ask(on, MAPS, mine, **named)) == [one["uid"]]
    assert uids(ask(on, MAPS, other, **named)) == []


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pages(on: MemoryAPI, limit: int) -> None:
    wanted = [uid for uid in uids(ask(on, MAPS)) if in_lower(uid)]
    found: list[str] = []
    token, left = "", 20
    while True:
        more = {"continue": token} if token else {}
        page = ask(on, MAPS, LOWER, limit=str(limit), **more)
        found += uids(page)
        meta = page.json["metadata"]
        assert meta["shardInfo"] == {"selector": LOWER}
        token = meta.get("continue", "")
        if not token:
            break
        # upstream takes the objects of all shards for those that remain
        assert meta["remainingItemCount"] == left - limit
        last = page.json["items"][-1]["metadata"]["name"]
        left = 20 - int(last[1:]) - 1
    assert found == wanted


def test_an_earlier_state(on: MemoryAPI) -> None:
    before = ask(on, MAPS).json
    assert on.ask("DELETE", f"{MAPS}/m00").code == 200
    at = before["metadata"]["resourceVersion"]
    answer = ask(on, MAPS, LOWER, resourceVersion=at, resourceVersionMatch="Exact")
    assert uids(answer) == [item["metadata"]["uid"] for item in before["items"] if in_lower(item["metadata"]["uid"])]


def test_other_forms_of_a_list(on: MemoryAPI) -> None:
    packed = ask(on, MAPS, LOWER, PROTOBUF)
    decoded = protobuf.decode(packed.written, GroupVersionKind("", "v1", "ConfigMapList"))
    assert decoded["metadata"]["shardInfo"] == {"selector": LOWER}
    many = len(decoded["items"])
    for kind, entries in (("Table", "rows"), ("PartialObjectMetadataList", "items")):
        found = ask(on, MAPS, LOWER, f"application/json;as={kind};v=v1;g=meta.k8s.io").json
        assert len(found[entries]) == many
        assert "shardInfo" not in found["metadata"]  # upstream does not copy it


def test_a_collection_is_deleted_by_shards(on: MemoryAPI) -> None:
    wanted = [uid for uid in uids(ask(on, MAPS)) if not in_lower(uid)]
    deleted = on.ask("DELETE", f"{MAPS}?shardSelector={quote(LOWER)}")
    assert deleted.code == 200 and deleted.json["metadata"]["shardInfo"] == {"selector": LOWER}
    assert uids(ask(on, MAPS)) == wanted


def events(watch: MemoryRequest) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("uid", "")) for event in watch.events]


def change_all(api: MemoryAPI) -> list[tuple[str, str]]:
    """Creates, changes and deletes objects; returns the events."""
    told: list[tuple[str, str]] = []
    for number in range(10):
        path = f"{MAPS}/new{number}"
        made = api.ask("POST", MAPS, {"metadata": {"name": f"new{number}"}}).json
        api.ask("PUT", path, {**made, "data": {"k": "v"}})
        api.ask("DELETE", path)
        told += [(kind, made["metadata"]["uid"]) for kind in ("ADDED", "MODIFIED", "DELETED")]
    api.turn()
    return told


def test_a_watch_gets_the_events_of_its_shard(on: MemoryAPI) -> None:
    now = ask(on, MAPS).json["metadata"]["resourceVersion"]
    lower, upper = (ask(on, MAPS, shard, watch="1", resourceVersion=now) for shard in (LOWER, UPPER))
    told = change_all(on)
    assert events(lower) == [event for event in told if in_lower(event[1])]
    assert events(upper) == [event for event in told if not in_lower(event[1])]
    late = ask(on, MAPS, LOWER, watch="1", resourceVersion=now)
    on.turn()
    assert events(late) == events(lower)


def test_a_watch_begins_with_the_objects_of_its_shard(on: MemoryAPI) -> None:
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = ask(on, MAPS, LOWER, watch="1", **initial)
    on.turn()
    wanted = [("ADDED", uid) for uid in uids(ask(on, MAPS)) if in_lower(uid)]
    assert events(watch) == [*wanted, ("BOOKMARK", "")]


def test_without_the_gate_a_watch_gets_everything(off: MemoryAPI) -> None:
    now = ask(off, MAPS).json["metadata"]["resourceVersion"]
    watch = ask(off, MAPS, LOWER, watch="1", resourceVersion=now)
    assert change_all(off) == events(watch)


def metric(api: MemoryAPI, name: str) -> float:
    found = {family.name: family.samples for family in families(api.caches, sharded=True)()}
    labels = {"group": "", "resource": "configmaps"}
    return sum(sample.value for sample in found[name] if sample.labels == labels)


def test_metrics(on: MemoryAPI) -> None:
    now = ask(on, MAPS).json["metadata"]["resourceVersion"]
    watches = [ask(on, MAPS, LOWER, watch="1", resourceVersion=now) for _ in range(2)]
    ask(on, MAPS, watch="1", resourceVersion=now)
    assert metric(on, "apiserver_watch_shards_total") == 2
    told = change_all(on)
    others = [kind for kind, uid in told if not in_lower(uid)]
    looked = len(others) + others.count("MODIFIED")  # at the former state as well
    assert metric(on, "apiserver_watch_filtered_events") == len(watches) * looked
    watches[0].disconnect()
    assert metric(on, "apiserver_watch_shards_total") == 1
    assert not any("shards" in family.name for family in families(on.caches)())


def test_an_object_without_a_uid_has_the_hash_of_nothing(on: MemoryAPI) -> None:
    entry = on.caches.cache(GroupResource("", "configmaps")).list()[0][0]
    tree: dict[str, Any] = orjson.loads(entry.data)
    del tree["metadata"]["uid"]
    assert type(entry)(entry.scope, entry.key, "n", entry.name, 1, orjson.dumps(tree)).uid == ""
