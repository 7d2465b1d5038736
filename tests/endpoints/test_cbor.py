"""CBOR behind its feature gate: every verb takes and answers it, and without the gate nobody does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import cbor2
import orjson
import pytest
import yaml

from kapi.codecs import reading
from kapi.codecs.cbor_reading import loads
from kapi.codecs.cbor_writing import dumps
from kapi.endpoints.discovery.handler import DiscoveryHandler
from kapi.endpoints.openapi.handler import OpenAPIHandler
from kapi.endpoints.watch_form import message
from kapi.machinery import status
from kapi.resources.catalogue import BUILT_IN
from kapi.schema.cbor import encode_tree
from kapi.testing.http import MemoryRequest
from kapi.testing.memory_api import MemoryAPI
from tests.endpoints.built_in_groups import groups_of
from tests.endpoints.cbor_case import APPLY, CBOR, SUPPORTED, answered, ask
from tests.endpoints.test_discovery import context
from tests.endpoints.test_openapi import answer

SEQUENCE = "application/cbor-seq"
MAPS = "/api/v1/namespaces/n/configmaps"
DEPLOYMENTS, PODS = "/apis/apps/v1/namespaces/n/deployments", "/api/v1/namespaces/n/pods"
SCALE = "/apis/apps/v1/namespaces/n/deployments/d/scale"
PARTIAL = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
LIST = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = ";as=Table;g=meta.k8s.io;v=v1"
PATCHES = (
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, "
    "application/apply-patch+yaml"
)


@pytest.fixture
def on(api: MemoryAPI) -> MemoryAPI:
    api.table.cbor = True
    return api


def items(data: bytes) -> Iterator[dict[str, Any]]:
    """The data items of a sequence."""
    stream = io.BytesIO(data)
    while stream.tell() < len(data):
        start = stream.tell()
        cbor2.load(stream)
        yield loads(data[start : stream.tell()])


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment() -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template}}


#: method, path, body, code, what the answer has
VERBS: list[tuple[str, str, Any, int, dict[str, Any]]] = [
    ("POST", MAPS, config("b", k="v"), 201, {"kind": "ConfigMap", "data": {"k": "v"}}),
    ("GET", f"{MAPS}/a", None, 200, {"kind": "ConfigMap", "data": {"k": "v"}}),
    ("GET", MAPS, None, 200, {"kind": "ConfigMapList", "apiVersion": "v1"}),
    ("PUT", f"{MAPS}/a", config("a", k="w"), 200, {"data": {"k": "w"}}),
    ("PUT", SCALE, {"metadata": {"name": "d", "namespace": "n"}, "spec": {"replicas": 3}}, 200, {"kind": "Scale"}),
    ("GET", SCALE, None, 200, {"kind": "Scale", "apiVersion": "autoscaling/v1"}),
    ("DELETE", f"{MAPS}/a", {"kind": "DeleteOptions", "apiVersion": "v1"}, 200, {"kind": "Status", "status": "Success"}),
    ("DELETE", MAPS, {"kind": "DeleteOptions", "apiVersion": "v1"}, 200, {"kind": "ConfigMapList"}),
]  # fmt: skip


def create_what_verbs_need(api: MemoryAPI) -> None:
    assert api.ask("POST", MAPS, config("a", k="v")).code == 201
    assert api.ask("POST", DEPLOYMENTS, deployment()).code == 201


@pytest.mark.parametrize(("method", "path", "body", "code", "has"), VERBS)
def test_every_verb_takes_and_answers_it(
    on: MemoryAPI, method: str, path: str, body: Any, code: int, has: dict[str, Any]
) -> None:
    create_what_verbs_need(on)
    found = answered(ask(on, method, path, body), code)
    assert {name: found[name] for name in has} == has


@pytest.mark.parametrize(("method", "path", "body", "code", "has"), VERBS)
def test_without_the_gate_it_is_neither_taken_nor_answered(
    api: MemoryAPI, method: str, path: str, body: Any, code: int, has: dict[str, Any]
) -> None:
    create_what_verbs_need(api)
    answer = ask(api, method, path, body)
    assert (answer.code, answer.header("content-type")) == (406, "application/json")
    assert answer.json["message"].startswith(f"406: Not Acceptable\n\nAvailable representations: {SUPPORTED}")
    assert CBOR not in answer.json["message"]
    if body is not None:
        answer = ask(api, method, path, body, accept="application/json")
        assert answer.code == 415
        assert answer.json["message"] == (
            f"the body of the request was in an unknown format - accepted media types include: {SUPPORTED}"
        )


def test_the_answer_says_what_json_says(on: MemoryAPI) -> None:
    assert on.ask("POST", DEPLOYMENTS, deployment()).code == 201
    for path in ("/apis/apps/v1/namespaces/n/deployments/d", "/apis/apps/v1/deployments", SCALE):
        assert answered(ask(on, "GET", path)) == on.ask("GET", path).json


def test_an_apply(on: MemoryAPI) -> None:
    path = f"{MAPS}/a?fieldManager=m"
    first = answered(ask(on, "PATCH", path, config("a", k="v"), content_type=APPLY), 201)
    assert first["metadata"]["managedFields"][0]["operation"] == "Apply"
    second = answered(ask(on, "PATCH", path, config("a", l="w"), content_type=APPLY))
    assert second["data"] == {"l": "w"}
    conflict = ask(on, "PATCH", f"{MAPS}/a?fieldManager=o", config("a", l="x"), content_type=APPLY)
    assert answered(conflict, 409)["reason"] == "Conflict"
    unmanaged = ask(on, "PATCH", f"{MAPS}/a", config("a"), content_type=APPLY)
    assert "fieldManager: Required value: is required for apply patch" in answered(unmanaged, 422)["message"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xa1", "unexpected EOF"),
        (b"", "EOF"),
        (b"\x80", "cbor: cannot unmarshal array into Go value of type map[string]interface {}"),
        (bytes.fromhex("a2416101616102"), 'cbor: found duplicate map key "a" at map element index 1'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict"])
def test_an_apply_that_cannot_be_read(on: MemoryAPI, validation: str, body: bytes, why: str) -> None:
    path = f"{MAPS}/a?fieldManager=m&fieldValidation={validation}"
    assert answered(ask(on, "PATCH", path, body, content_type=APPLY), 400)["message"] == f"error decoding YAML: {why}"


def test_the_other_patches_stay_json(on: MemoryAPI) -> None:
    assert on.ask("POST", MAPS, config("a", k="v")).code == 201
    patch = ask(on, "PATCH", f"{MAPS}/a", b'{"data":{"k":"w"}}', content_type="application/merge-patch+json")
    assert answered(patch)["data"] == {"k": "w"}
    for kind in (CBOR, "application/merge-patch+cbor"):
        refused = ask(on, "PATCH", f"{MAPS}/a", {}, content_type=kind)
        assert (refused.code, refused.json["message"]) == (415, "415: Unsupported Media Type")


def test_patch_types_without_the_gate(api: MemoryAPI) -> None:
    refused = ask(api, "PATCH", f"{MAPS}/a?fieldManager=m", config("a"), "application/json", APPLY)
    assert (refused.code, refused.json["message"]) == (415, "415: Unsupported Media Type")


@pytest.mark.parametrize(
    ("accept", "path", "kind"),
    [
        (CBOR + PARTIAL, f"{MAPS}/a", "PartialObjectMetadata"),
        (CBOR + LIST, MAPS, "PartialObjectMetadataList"),
    ],
)
def test_metadata(on: MemoryAPI, accept: str, path: str, kind: str) -> None:
    assert on.ask("POST", MAPS, config("a", k="v")).code == 201
    found = answered(ask(on, "GET", path, accept=accept))
    assert (found["kind"], found["apiVersion"]) == (kind, "meta.k8s.io/v1")


def test_a_table_has_no_form_in_cbor(on: MemoryAPI) -> None:
    refused = ask(on, "GET", MAPS, accept=CBOR + TABLE)
    assert answered_error(refused, 406) == f"only the following media types are accepted: {SUPPORTED}, {CBOR}"
    other = ask(on, "GET", MAPS, accept=f"{CBOR}{TABLE},application/json{TABLE}")
    assert (other.code, other.json["kind"]) == (200, "Table")


def answered_error(answer: MemoryRequest, code: int) -> str:
    assert (answer.code, answer.header("content-type")) == (code, "application/json"), answer.written
    message: str = answer.json["message"]
    return message


def test_media_types_that_are_listed(on: MemoryAPI) -> None:
    refused = ask(on, "GET", f"{MAPS}/a", accept="text/html")
    known = f"406: Not Acceptable\n\nAvailable representations: {SUPPORTED}, {CBOR}"
    assert answered_error(refused, 406) == known
    streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch, " + SEQUENCE
    assert answered_error(ask(on, "GET", MAPS, accept="text/html"), 406) == f"{known}, {streams}"
    refused = ask(on, "GET", MAPS, accept=SEQUENCE)
    assert answered_error(refused, 406) == f"only the following media types are accepted: {SUPPORTED}, {CBOR}"
    refused = ask(on, "GET", f"{MAPS}?watch=1", accept="application/yaml")
    assert yaml.safe_load(refused.written)["message"] == f"only the following media types are accepted: {streams}"
    refused = ask(on, "POST", MAPS, {}, "application/json", "text/html")
    assert answered_error(refused, 415) == (
        f"the body of the request was in an unknown format - accepted media types include: {SUPPORTED}, {CBOR}"
    )


def test_a_watch_is_a_sequence(on: MemoryAPI) -> None:
    watch = ask(on, "GET", f"{MAPS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
                           "&resourceVersionMatch=NotOlderThan")  # fmt: skip
    assert answered(ask(on, "POST", MAPS, config("a", k="v")), 201)
    assert answered(ask(on, "DELETE", f"{MAPS}/a"))
    on.turn()
    assert (watch.code, watch.header("content-type")) == (200, SEQUENCE)
    events = list(items(watch.written))
    assert [event["type"] for event in events] == ["BOOKMARK", "ADDED", "DELETED"]
    assert events[0]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert events[1]["object"]["data"] == {"k": "v"}
    assert all(event["object"]["kind"] == "ConfigMap" for event in events)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_events_are_of_the_watched_version(on: MemoryAPI, version: str) -> None:
    """Also where rows of a table are made from the stored version."""
    path = "/namespaces/n/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}
    assert ask(on, "POST", f"/apis/autoscaling/v2{path}", body).code == 201
    watch = ask(on, "GET", f"/apis/autoscaling/{version}{path}?watch=1")
    on.turn()
    [event] = items(watch.written)
    assert event["object"]["apiVersion"] == f"autoscaling/{version}"


def test_a_watch_that_cannot_begin_ends_with_a_status(on: MemoryAPI) -> None:
    options = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999999"
    watch = ask(on, "GET", f"{MAPS}?watch=1&{options}")
    on.turn(60)
    [event] = items(watch.written)
    assert (event["type"], event["object"]["kind"], event["object"]["reason"]) == ("ERROR", "Status", "Timeout")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "unable to determine group/version/kind: EOF (<empty>)"),
        (b"\xa1", "unable to determine group/version/kind: unexpected EOF (a1)"),
        (b"\x80", "unable to determine group/version/kind: cbor: cannot unmarshal array into Go value of type v1.TypeMeta (80)"),
        (b"\xa1\x44kind\x01", "unable to determine group/version/kind: cbor: cannot unmarshal positive integer into Go "
                              "struct field v1.TypeMeta.kind of type string (a1446b696e6401)"),
        (b"\xa2\x41a\x01\x61a\x02", "unable to determine group/version/kind: "
                                    'cbor: found duplicate map key "a" at map element index 1 (a2416101616102)'),
    ],
)  # fmt: skip
def test_a_body_without_a_kind(on: MemoryAPI, body: bytes, why: str) -> None:
    message = answered(ask(on, "POST", MAPS, body), 400)["message"]
    assert message == f"the object provided is unrecognized (must be of type ConfigMap): {why}"


def test_what_is_refused_below_names_the_kind(on: MemoryAPI) -> None:
    twice = b"\xa2" + dumps("metadata")[3:] + b"\xa1\x44name\x41a" + dumps("data")[3:] + b"\xa2\x41k\x41v\x41k\x41w"
    for validation in ("Ignore", "Warn", "Strict"):
        message = answered(ask(on, "POST", f"{MAPS}?fieldValidation={validation}", twice), 400)["message"]
        assert message == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            'cbor: found duplicate map key "k" at map element index 1'
        )


NO_STRUCT = "cannot decode CBOR array to struct without toarray option"


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (MAPS, {"metadata": {"name": 1}}, "positive integer into Go struct field v1.ConfigMap.metadata of type string"),
        (MAPS, {"metadata": {"name": -1}}, "negative integer into Go struct field v1.ConfigMap.metadata of type string"),
        (MAPS, {"metadata": {"name": 1.5}}, "primitives into Go struct field v1.ConfigMap.metadata of type string"),
        (MAPS, {"metadata": []}, f"array into Go struct field v1.ConfigMap.metadata of type v1.ObjectMeta ({NO_STRUCT})"),
        (MAPS, {"metadata": {"name": []}}, "array into Go struct field v1.ConfigMap.metadata of type string"),
        (MAPS, {"data": []}, "array into Go struct field v1.ConfigMap.data of type map[string]string"),
        (PODS, {"spec": {"containers": [{"name": "a"}, []]}},
         f"array into Go struct field v1.Pod.spec of type v1.Container ({NO_STRUCT})"),
        (MAPS, {"data": {"a": "x", "k": True}}, "primitives into Go struct field v1.ConfigMap.data of type string"),
        (MAPS, {"data": {"a": "x", "k": -5}}, "negative integer into Go struct field v1.ConfigMap.data of type string"),
        (MAPS, {"data": "x"}, "byte string into Go struct field v1.ConfigMap.data of type map[string]string"),
        (DEPLOYMENTS, {"spec": {"replicas": 99999999999}},
         "positive integer into Go struct field v1.Deployment.spec of type int32 (99999999999 overflows int32)"),
        (DEPLOYMENTS, {"spec": {"replicas": -99999999999}},
         "negative integer into Go struct field v1.Deployment.spec of type int32 (-99999999999 overflows int32)"),
        (DEPLOYMENTS, {"spec": {"replicas": 1.5}}, "primitives into Go struct field v1.Deployment.spec of type int32"),
        (DEPLOYMENTS, {"spec": {"replicas": {}}}, "map into Go struct field v1.Deployment.spec of type int32"),
        (PODS, {"spec": {"containers": [{"name": "a"}, {"name": -7}]}},
         "negative integer into Go struct field v1.Pod.spec of type string"),
        (PODS, {"spec": {"containers": [{"name": "a"}, {"image": -7}]}},
         "negative integer into Go struct field v1.Pod.spec of type string"),
        (PODS, {"spec": {"containers": [{"name": "a"}, {"name": "b", "livenessProbe": {"exec": {"command": [-7]}}}]}},
         "negative integer into Go struct field v1.Pod.spec of type string"),
    ],
)  # fmt: skip
def test_values_of_another_type(on: MemoryAPI, path: str, body: Any, why: str) -> None:
    message = answered(ask(on, "POST", path, body), 400)["message"]
    assert message.endswith(f": cbor: cannot unmarshal {why}")


def test_values_with_errors_of_their_own(on: MemoryAPI) -> None:
    secret = ask(on, "POST", "/api/v1/namespaces/n/secrets", {"metadata": {"name": "s"}, "data": {"k": "!"}})
    why = "cbor: failed to decode base64 from byte string: illegal base64 data at input byte 0"
    assert answered(secret, 400)["message"].endswith(f": {why}")
    pod = ask(on, "POST", PODS, {"metadata": {"creationTimestamp": "x"}})
    assert 'as a Pod: parsing time "x" as "2006-01-02T15:04:05Z07:00"' in answered(pod, 400)["message"]


def test_unknown_fields(on: MemoryAPI) -> None:
    body = {**config("a", k="v"), "more": {"x": 1}, "other": 2}
    message = answered(ask(on, "POST", f"{MAPS}?fieldValidation=Strict", body), 400)["message"]
    why = "cbor: found unknown field at map element index 4"
    assert message == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: {why}'
    warned = ask(on, "POST", MAPS, body)
    assert answered(warned, 201)["data"] == {"k": "v"}
    assert warned.warnings == [f'299 - "{why}"']
    ignored = ask(on, "POST", f"{MAPS}?fieldValidation=Ignore", {**body, "metadata": {"name": "b"}})
    assert answered(ignored, 201) and not ignored.warnings


def test_texts_and_byte_strings_are_the_same(on: MemoryAPI) -> None:
    assert answered(ask(on, "POST", MAPS, cbor2.dumps(config("a", k="v"))), 201)["data"] == {"k": "v"}
    secrets = "/api/v1/namespaces/n/secrets"
    raw = cbor2.dumps({"metadata": {"name": "s"}, "data": {"k": cbor2.CBORTag(22, b"\x01\x02\x03")}})
    assert answered(ask(on, "POST", secrets, raw), 201)["data"] == {"k": "AQID"}
    again = answered(ask(on, "GET", f"{secrets}/s"))
    assert answered(ask(on, "PUT", f"{secrets}/s", again))["data"] == {"k": "AQID"}


def test_bytes_are_bytes(on: MemoryAPI) -> None:
    """With the tag that says that they are base64 in JSON."""
    secrets = "/api/v1/namespaces/n/secrets"
    assert on.ask("POST", secrets, {"metadata": {"name": "s"}, "data": {"k": "AQID", "empty": ""}}).code == 201
    wanted = {b"k": cbor2.CBORTag(22, b"\x01\x02\x03"), b"empty": cbor2.CBORTag(22, b"")}
    watch = ask(on, "GET", f"{secrets}?watch=1&resourceVersion=0")
    on.turn()
    event = cbor2.loads(watch.written[3:])
    one = cbor2.loads(ask(on, "GET", f"{secrets}/s").written[3:])
    [item] = cbor2.loads(ask(on, "GET", secrets).written[3:])[b"items"]
    assert one[b"data"] == item[b"data"] == event[b"object"][b"data"] == wanted


@pytest.mark.parametrize("text", ["AQ*ID", "AQI", "A=QI"])
def test_bytes_that_are_no_base64_stay_text(text: str) -> None:
    """Another program may have stored them."""
    secret = {"kind": "Secret", "apiVersion": "v1", "data": {"k": text}}
    assert cbor2.loads(encode_tree(secret)[3:])[b"data"] == {b"k": text.encode()}


def test_an_api_version_that_is_malformed_counts_as_none(on: MemoryAPI) -> None:
    body = {**config("a"), "apiVersion": "x/y/z"}
    assert answered(ask(on, "POST", MAPS, body), 201)["apiVersion"] == "v1"
    assert on.ask("POST", MAPS, body).code == 400  # in JSON
    for odd in ({"Kind": 1}, {"APIVERSION": "x"}):  # in JSON these are the kind and the version
        assert ask(on, "POST", f"{MAPS}?dryRun=All", {**config("b"), **odd}).code == 201
    assert ask(on, "DELETE", f"{MAPS}/a", {"kind": "DeleteOptions", "apiVersion": "x/y/z"}).code == 200


def test_delete_options_that_cannot_be_read(on: MemoryAPI) -> None:
    assert on.ask("POST", MAPS, config("a")).code == 201
    refused = ask(on, "DELETE", f"{MAPS}/a", b"\xa1")
    assert answered(refused, 400)["message"] == "unable to determine group/version/kind: unexpected EOF"
    other = ask(on, "DELETE", f"{MAPS}/a", {"preconditions": {"uid": "x"}})
    assert answered(other, 409)["reason"] == "Conflict"


def test_errors_of_a_resource_are_answered_in_it(on: MemoryAPI) -> None:
    missing = answered(ask(on, "GET", f"{MAPS}/missing"), 404)
    assert (missing["kind"], missing["reason"], missing["details"]["name"]) == ("Status", "NotFound", "missing")
    wrong = ask(on, "POST", f"{MAPS}/a", config("a"))  # found by the router
    assert (wrong.code, wrong.header("content-type")) == (405, "application/json")


def test_a_body_of_many_containers_is_too_large(on: MemoryAPI) -> None:
    many = b"\xa1\x41x\x9f" + b"\x80" * 35_000 + b"\xff"
    with patch.object(reading, "MAX_BODY_BYTES", 100_000):
        assert answered(ask(on, "POST", MAPS, many), 413)["reason"] == "RequestEntityTooLarge"


def test_discovery_of_group_versions(on: MemoryAPI) -> None:
    documents = DiscoveryHandler(lambda: groups_of(BUILT_IN), lambda: "192.0.2.1:6443", cbor=True)
    for path in ("/api/v1", "/apis/apps/v1"):
        response = documents.handle(context(path, accept=CBOR))
        assert response is not None and isinstance(response.body, bytes) and response.content_type == CBOR.encode()
        assert loads(response.body)["kind"] == "APIResourceList"
    for path in ("/api", "/apis", "/apis/apps"):  # the server's own serializer has no CBOR
        with pytest.raises(status.NotAcceptable, match=f"{SUPPORTED}$"):
            documents.handle(context(path, accept=CBOR))


def test_discovery_that_is_aggregated_comes_later() -> None:
    """Upstream has it in CBOR from 1.37 on; clients of that release accept JSON, too."""
    documents = DiscoveryHandler(lambda: groups_of(BUILT_IN), lambda: "192.0.2.1:6443", cbor=True)
    aggregated = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    for path in ("/api", "/apis"):
        with pytest.raises(status.NotAcceptable, match=f"{SUPPORTED}$"):
            documents.handle(context(path, accept=f"{CBOR}{aggregated}"))
        response = documents.handle(context(path, accept=f"{CBOR}{aggregated},application/json{aggregated};q=0.9"))
        assert response is not None and response.content_type == f"application/json{aggregated}".encode()


def operation(handler: OpenAPIHandler, path: str) -> Any:
    document = answer(handler, context(path))
    assert document is not None and isinstance(document.body, bytes)
    return orjson.loads(document.body)["paths"]["/api/v1/namespaces/{namespace}/configmaps"]


def test_openapi_names_it(on: MemoryAPI) -> None:
    rows = [row for row in BUILT_IN if (row.group, row.version, row.plural) == ("", "v1", "configmaps")]
    streams = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]
    for cbor in (False, True):
        handler = OpenAPIHandler(lambda: groups_of(rows), cbor=cbor)
        content = operation(handler, "/openapi/v3/api/v1")["get"]["responses"]["200"]["content"]
        assert ([CBOR, SEQUENCE] == list(content)[:2]) is cbor
        whole = operation(handler, "/openapi/v2")
        added = [CBOR] if cbor else []
        assert whole["get"]["produces"] == [*SUPPORTED.split(", "), *added, *streams, *([SEQUENCE] if cbor else [])]
        assert whole["post"]["produces"] == [*SUPPORTED.split(", "), *added]
        one = orjson.loads(answer(handler, context("/openapi/v2")).body)["paths"]
        patch = one["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"]
        assert patch["consumes"] == [*PATCHES.split(", "), *([APPLY] if cbor else [])]


def test_a_message_of_a_websocket_is_an_event_without_the_length_that_protobuf_has() -> None:
    assert message(b"ab", True) == b"\x82\x02ab"
    assert message(b"\x00\x00\x00\x02ab", True, 4) == b"\x82\x02ab"
    assert message(b"ab", False) == b"\x81\x02ab"


@pytest.mark.parametrize(
    ("size", "head"),
    [
        (1, b"\x01"),
        (125, b"\x7d"),
        (126, b"\x7e\x00\x7e"),
        (65535, b"\x7e\xff\xff"),
        (65536, b"\x7f\x00\x00\x00\x00\x00\x01\x00\x00"),
    ],
)
def test_the_length_of_a_message_has_one_three_or_nine_bytes(size: int, head: bytes) -> None:
    assert message(b"x" * size, True) == b"\x82" + head + b"x" * size
