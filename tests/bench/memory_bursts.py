"""Bursts of what one client or many may do at once, for ``--only memory``: what is left of each when its clients are gone.

A burst makes ``count`` things, lets all of them go again, and may be repeated; ``turn`` is another number each time, so that
names and texts are new.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.bench import memory_objects as objects
from tests.bench import memory_openapi as openapi
from tests.bench import memory_unread as unread_stream
from tests.bench.definitions import definition
from tests.bench.http2 import Http2, Request, block
from tests.bench.load import Connection, Target
from tests.bench.memory_clients import MAPS, ask, ask_http2, body, seven_megabytes, unread
from tests.security.flood import OWN, PASSED_ON

_UNREAD_SECONDS = 3.0  # that clients stay without reading
_KEY = base64.b64encode(b"a key of sixteen").decode()
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


@dataclass(frozen=True)
class Burst:
    """``run(target, count, turn)`` does it; ``prepare`` makes what it is to find."""

    name: str
    count: int
    run: Callable[[Target, int, int], object]
    prepare: Callable[[Target], object] = lambda target: None


def _left_unread(request: Callable[[Target], bytes]) -> Callable[[Target, int, int], None]:
    def run(target: Target, count: int, turn: int) -> None:
        opened = unread(target, request(target), count)
        time.sleep(_UNREAD_SECONDS)
        begin = opened[-1].recv(12)
        assert begin in (b"HTTP/1.1 200", b"HTTP/1.1 101", b"HTTP/1.1 429"), begin
        for connection in opened:
            connection.close()

    return run


def _list(kind: str, **headers: str) -> Callable[[Target], bytes]:
    def request(target: Target) -> bytes:
        return target.request("GET", MAPS, **headers).replace(JSON.encode(), kind.encode(), 1)

    return request


def _watch(target: Target) -> bytes:
    return target.request("GET", f"{MAPS}?watch=1&resourceVersion=0")


def _websocket_watch(target: Target) -> bytes:
    return target.request(
        "GET", f"{MAPS}?watch=1&resourceVersion=0",
        Upgrade="websocket", Connection="Upgrade", Origin="https://bench", Sec_WebSocket_Key=_KEY, Sec_WebSocket_Version="13",
    )  # fmt: skip


def _streamed_list(target: Target) -> bytes:
    wanted = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    return target.request("GET", f"{MAPS}?{wanted}")


def _map(name: str, text: str, **metadata: Any) -> bytes:
    return body(metadata={"name": name, **metadata}, data={"text": text})


def _a_few(target: Target) -> None:
    ask(target, (target.request("POST", MAPS, _map(f"c{number}", "x" * 100)) for number in range(20)))


def _unread_updates(target: Target, count: int, turn: int) -> None:
    """Objects of 0.9 MB that change while watches are not read; the objects are deleted in the end."""
    opened = unread(target, _watch(target), count)
    for again in range(3):
        method = "PUT" if again else "POST"
        path = [f"{MAPS}/big{number}" if again else MAPS for number in range(count)]
        text = str(again) * 900_000
        ask(target, (target.request(method, path[n], _map(f"big{n}", text)) for n in range(count)), 4)
    for connection in opened:
        connection.close()
    ask(target, (target.request("DELETE", f"{MAPS}/big{number}") for number in range(count)))


# made and deleted


def _made_and_deleted(
    path: str, make: Callable[[str, int], dict[str, Any]], gone: bool = False
) -> Callable[[Target, int, int], None]:
    """``gone``: something has to go on until the last of them is gone."""

    def run(target: Target, count: int, turn: int) -> None:
        names = [f"burst{turn}-{number}" for number in range(count)]
        found = ask(
            target, (target.request("POST", path, body(**make(name, number))) for number, name in enumerate(names))
        )
        assert set(found) == {201}, found
        ask(target, (target.request("DELETE", f"{path}/{name}") for name in names))
        while gone and any(name in _names(target, path) for name in (names[0], names[-1], names[count // 2])):
            time.sleep(0.5)

    return run


def _names(target: Target, path: str) -> set[str]:
    connection = Connection(target)
    _, answer = connection.roundtrip(target.request("GET", path))
    connection.close()
    return {item["metadata"]["name"] for item in json.loads(answer)["items"]}


def _definitions(target: Target, count: int, turn: int) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = [definition("burst.example.com", turn * 10_000 + number) for number in range(count)]
    ask(target, (target.request("POST", path, body(**one)) for one in made))
    names = [one["metadata"]["name"] for one in made]
    for name in names:
        plural = name.partition(".")[0]
        served = f"/apis/burst.example.com/v1/namespaces/default/{plural}"
        while ask(target, [target.request("GET", served)], 1) != {200: 1}:
            time.sleep(0.02)
    ask(target, (target.request("DELETE", f"{path}/{name}") for name in names))
    while _names(target, path):
        time.sleep(0.5)


def _api_services(target: Target, count: int, turn: int) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    made = [objects.api_service(f"burst{turn}-{number}", number) for number in range(count)]
    ask(target, (target.request("POST", path, body(**one)) for one in made))
    time.sleep(2)
    ask(target, (target.request("DELETE", f"{path}/{one['metadata']['name']}") for one in made))


def _owned(target: Target, count: int, turn: int) -> None:
    """One owner of many, deleted with all that it owns by the garbage collector."""
    connection = Connection(target)
    _, answer = connection.roundtrip(target.request("POST", MAPS, _map(f"owner{turn}", "x")))
    connection.close()
    uid = json.loads(answer)["metadata"]["uid"]
    owner = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"owner{turn}", "uid": uid}]
    owned = (_map(f"owned{turn}-{number}", "x" * 500, ownerReferences=owner) for number in range(count))
    ask(target, (target.request("POST", MAPS, one) for one in owned))
    ask(target, [target.request("DELETE", f"{MAPS}/owner{turn}")])
    while any(name.startswith(f"owned{turn}-") for name in _names(target, MAPS)):
        time.sleep(0.5)


def _collection(target: Target, count: int, turn: int) -> None:
    path = "/api/v1/namespaces/default/secrets"
    text = base64.b64encode(os.urandom(7500)).decode()
    made = (body(metadata={"name": f"s{turn}-{number}"}, data={"text": text}) for number in range(count))
    ask(target, (target.request("POST", path, one) for one in made))
    ask(target, [target.request("GET", path)] * 4)
    ask(target, [target.request("DELETE", path)])


# many different texts in requests


def _texts(path: str, method: str = "GET") -> Callable[[Target, int, int], None]:
    """``{}`` stands for a text that is another one each time."""

    def run(target: Target, count: int, turn: int) -> None:
        ask(target, (target.request(method, path.format(f"t{turn}-{number}")) for number in range(count)))

    return run


def _long_texts(path: str) -> Callable[[Target, int, int], None]:
    def run(target: Target, count: int, turn: int) -> None:
        texts = ("%2C".join(f"t{turn}-{number}-{place}" for place in range(400)) for number in range(count))
        ask(target, (target.request("GET", path.format(text)) for text in texts))

    return run


def _texts_http2(path: str) -> Callable[[Target, int, int], None]:
    def run(target: Target, count: int, turn: int) -> None:
        assert not ask_http2(
            target, (block(target, "GET", path.format(f"t{turn}-{number}")) for number in range(count))
        )

    return run


def _field_managers(target: Target, count: int, turn: int) -> None:
    def requests() -> Iterator[bytes]:
        for number in range(count):
            path = f"{MAPS}/c{number % 20}?fieldManager=m{turn}-{number}"
            yield target.request("PATCH", path, body(data={f"k{number % 7}": str(number)}), MERGE)

    ask(target, requests())


def _appliers(target: Target, count: int, turn: int) -> None:
    def requests() -> Iterator[bytes]:
        for number in range(count):
            name = f"a{number // 50}"
            path = f"{MAPS}/{name}?fieldManager=m{turn}-{number}&force=true"
            one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {f"k{number}": "v"}}
            yield target.request("PATCH", path, body(**one), APPLY)

    ask(target, requests())
    ask(target, (target.request("DELETE", f"{MAPS}/a{number}") for number in range(count // 50 + 1)))


def _warnings(target: Target, count: int, turn: int) -> None:
    path = f"{MAPS}?fieldValidation=Warn&dryRun=All"
    ask(
        target,
        (
            target.request("POST", path, body(metadata={"name": "w"}, **{f"unknown{turn}x{number}": 1}))
            for number in range(count)
        ),
    )


def _tokens(target: Target, count: int, turn: int) -> None:
    """JWTs that are made by the server and used."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    connection = Connection(target)
    tokens = []
    for number in range(count):
        _, answer = connection.roundtrip(
            target.request("POST", path, body(spec={"expirationSeconds": 3600 + turn * 1000 + number % 900}))
        )
        tokens.append(json.loads(answer)["status"]["token"])
    connection.close()
    ask(
        target,
        (target.request("GET", "/version").replace(target.token.encode(), token.encode(), 1) for token in tokens),
    )


def _forged_tokens(target: Target, count: int, turn: int) -> None:
    def token(number: int) -> bytes:
        head = base64.urlsafe_b64encode(body(alg="RS256", kid="k")).rstrip(b"=")
        claims = base64.urlsafe_b64encode(body(iss="https://kubernetes.default.svc", sub=f"{turn}-{number}"))
        return head + b"." + claims.rstrip(b"=") + b"." + base64.urlsafe_b64encode(os.urandom(256)).rstrip(b"=")

    plain = target.request("GET", "/version")
    ask(target, (plain.replace(target.token.encode(), token(number), 1) for number in range(count)))


def _reviews(target: Target, count: int, turn: int) -> None:
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    asked = ({"verb": "get", "resource": f"r{turn}-{number}", "namespace": "default"} for number in range(count))
    ask(
        target,
        (
            target.request("POST", path, body(spec={"user": f"u{turn}-{number}", "resourceAttributes": attributes}))
            for number, attributes in enumerate(asked)
        ),
    )


def _impersonated(target: Target, count: int, turn: int) -> None:
    ask(
        target,
        (
            target.request("GET", MAPS + "/c1", Impersonate_User=f"u{turn}-{number}", Impersonate_Group=f"g{number}")
            for number in range(count)
        ),
    )


def _pages(target: Target, count: int, turn: int) -> None:
    """Lists that are begun and never ended."""
    ask(target, (target.request("GET", f"{MAPS}?limit={1 + number % 800}") for number in range(count)))


def _large_bodies(kind: str) -> Callable[[Target, int, int], None]:
    """Bodies of 2.5 MB, nothing of which is stored."""

    def run(target: Target, count: int, turn: int) -> None:
        one = _map("w", "") if kind == JSON else b"kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: w\n"
        many = {f"k{number}": "v" * 20 for number in range(80_000)}
        if kind == JSON:
            one = body(metadata={"name": "w"}, data=many)
        else:
            one += b"data:\n" + b"".join(f"  k{number}: {'v' * 20}\n".encode() for number in range(20_000))
        request = target.request("POST", f"{MAPS}?dryRun=All", one, kind)
        ask(target, [request] * count, 8)

    return run


def _slow_bodies(target: Target, count: int, turn: int) -> None:
    whole = target.request("POST", MAPS, _map("w", "x" * 2_000_000))
    opened = unread(target, whole[:1_500_000], count)
    time.sleep(_UNREAD_SECONDS)
    for connection in opened:
        connection.close()


def _connections(target: Target, count: int, turn: int) -> None:
    context = target.context()
    opened = [Connection(target, context) for _ in range(count)]
    for connection in opened:
        assert connection.roundtrip(target.request("GET", "/version"))[0] == 200
    for connection in opened:
        connection.close()


def _connections_http2(target: Target, count: int, turn: int) -> None:
    opened = []
    for number in range(count):
        connection = Http2(target, target.context())
        connection.begin(Request(block(target, "GET", f"{MAPS}?watch=1&labelSelector=a=t{turn}-{number}")))
        opened.append(connection)
    time.sleep(_UNREAD_SECONDS)
    for connection in opened:
        connection.close()


def _unread_http2(target: Target, count: int, turn: int) -> None:
    """Lists of 7 MB on streams of one connection that nobody reads."""
    opened = [Http2(target, target.context()) for _ in range(max(1, count // 10))]
    for connection in opened:
        for _ in range(10):
            connection.begin(Request(block(target, "GET", MAPS)))
    time.sleep(_UNREAD_SECONDS)
    for connection in opened:
        connection.close()


RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"

BURSTS = (
    Burst("unread watches", 600, _left_unread(_watch), seven_megabytes),
    Burst("unread WebSocket watches", 600, _left_unread(_websocket_watch), seven_megabytes),
    Burst("unread streamed lists", 200, _left_unread(_streamed_list), seven_megabytes),
    Burst("unread lists as JSON", 60, _left_unread(_list(JSON)), seven_megabytes),
    Burst("unread lists as gzip", 60, _left_unread(_list(JSON, Accept_Encoding="gzip")), seven_megabytes),
    Burst("unread lists as tables", 60, _left_unread(_list(TABLE)), seven_megabytes),
    Burst("unread lists as YAML", 60, _left_unread(_list(YAML)), seven_megabytes),
    Burst("unread lists as protobuf", 60, _left_unread(_list(PROTOBUF)), seven_megabytes),
    Burst("unread lists over HTTP/2", 60, _unread_http2, seven_megabytes),
    Burst("unread changes of 0.9 MB", 40, _unread_updates),
    *(
        Burst(f"unread: {name}", 1000, unread_stream.burst(stream), unread_stream.prepare)
        for name, stream in {**OWN, **PASSED_ON}.items()
    ),
    Burst("unread: 25 events of 0.9 MB", 600, unread_stream.events),
    Burst("bodies that stop", 200, _slow_bodies),
    Burst("bodies as JSON", 30, _large_bodies(JSON)),
    Burst("bodies as YAML", 10, _large_bodies(YAML)),
    Burst("connections", 1500, _connections),
    Burst("watches over HTTP/2", 600, _connections_http2, _a_few),
    Burst("definitions", 300, _definitions),
    Burst("definitions with their OpenAPI document", openapi.DEFINITIONS, openapi.defined_and_read),
    Burst("OpenAPI document of many definitions", 1, openapi.read_large_v2, openapi.beside_definitions),
    Burst("OpenAPI documents", 600, openapi.read_all),
    Burst("namespaces", 5000, _made_and_deleted("/api/v1/namespaces", objects.namespace, True)),
    Burst("pods", 3000, _made_and_deleted("/api/v1/namespaces/default/pods", objects.a_pod)),
    Burst("events", 10_000, _made_and_deleted("/api/v1/namespaces/default/events", objects.event)),
    Burst("services", 2000, _made_and_deleted("/api/v1/namespaces/default/services", objects.service)),
    Burst("roles", 3000, _made_and_deleted(f"{RBAC}/namespaces/default/roles", objects.role)),
    Burst("cluster role bindings", 3000, _made_and_deleted(f"{RBAC}/clusterrolebindings", objects.binding)),
    Burst("quotas", 500, _made_and_deleted("/api/v1/namespaces/default/resourcequotas", objects.quota)),
    Burst("admission policies", 500, _made_and_deleted(f"{ADMISSION}/validatingadmissionpolicies", objects.policy)),
    Burst(
        "webhook configurations",
        500,
        _made_and_deleted(f"{ADMISSION}/validatingwebhookconfigurations", objects.webhook),
    ),
    Burst(
        "flow schemas", 300, _made_and_deleted("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", objects.flow_schema)
    ),
    Burst("API services", 300, _api_services),
    Burst("owned objects", 5000, _owned),
    Burst("a collection of 20 MB", 2000, _collection),
    Burst("label selectors", 5000, _texts(MAPS + "?labelSelector=a={}"), _a_few),
    Burst("field selectors", 5000, _texts(MAPS + "?fieldSelector=metadata.name={}"), _a_few),
    Burst("long label selectors", 3000, _long_texts(MAPS + "?labelSelector=a%20in%20({})"), _a_few),
    Burst("label selectors over HTTP/2", 5000, _texts_http2(MAPS + "?labelSelector=a={}"), _a_few),
    Burst("field managers", 5000, _field_managers, _a_few),
    Burst("appliers", 5000, _appliers),
    Burst("warnings", 5000, _warnings),
    Burst("tokens", 2000, _tokens),
    Burst("forged tokens", 5000, _forged_tokens),
    Burst("access reviews", 5000, _reviews),
    Burst("impersonated users", 5000, _impersonated, _a_few),
    Burst("namespaces asked for", 5000, _texts("/api/v1/namespaces/{}/configmaps")),
    Burst("groups asked for", 5000, _texts("/apis/{}.example.com/v1/things")),
    Burst("pages", 2000, _pages, seven_megabytes),
)
