"""One object that cannot be read: it is seen as such, gone around, and deleted by who may and says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kapi.authorization.interface import Attributes, Decision, Verdict
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.shared import printing
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.endpoints.test_objects import MAPS, make

TORN = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"', b'","name":"torn","namespace":"n","la'
OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
BLINDLY = {"kind": "DeleteOptions", "apiVersion": "v1", OPTION: True}


@pytest.fixture
def torn(api: MemoryAPI) -> MemoryAPI:
    make(api, "a")
    succeed(api.store.create("core/configmaps/n/torn", *TORN))
    make(api, "z")
    return api


class Careful:
    """Allows everything but blind deletion."""

    def __init__(self) -> None:
        self.asked: list[Attributes] = []

    def authorize(self, attributes: Attributes) -> Verdict:
        self.asked.append(attributes)
        allowed = attributes.verb != "unsafe-delete-ignore-read-errors"
        return Verdict(Decision.ALLOW if allowed else Decision.NO_OPINION, "no rule")


def names(answer: Any) -> list[str]:
    assert answer.code == 200, answer.written
    return [item["metadata"]["name"] for item in answer.json["items"]]


def check_corrupt(answer: Any) -> None:
    assert (answer.code, answer.json["reason"]) == (500, "InternalError")
    message = answer.json["message"]
    assert message.startswith("Internal error occurred: StorageError: corrupt object, Code: 7, Key: /registry/")
    assert "object not decodable revision=2" in message


def test_whoever_asks_for_it_is_told_so(torn: MemoryAPI) -> None:
    check_corrupt(torn.ask("GET", f"{MAPS}/torn"))
    check_corrupt(torn.ask("PUT", f"{MAPS}/torn", {"metadata": {"name": "torn"}}))
    check_corrupt(torn.ask("PATCH", f"{MAPS}/torn", {"data": {}}, type="application/merge-patch+json"))
    check_corrupt(torn.ask("DELETE", f"{MAPS}/torn"))
    again = torn.ask("POST", MAPS, {"metadata": {"name": "torn"}})
    assert (again.code, again.json["reason"]) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "application/yaml",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ],
)
def test_lists_go_around_it_and_warn(torn: MemoryAPI, accept: str) -> None:
    for query in (
        "",
        "?labelSelector=!x",
        "?limit=1",
        "?resourceVersion=0",
        "?resourceVersion=3&resourceVersionMatch=Exact",
    ):
        answer = torn.ask("GET", MAPS + query, headers={"Accept": accept})
        assert answer.code == 200
        assert b"torn" not in answer.written
        assert any("1 object(s) cannot be read and are not in this list: n/torn" in text for text in answer.warnings)
    other = torn.ask("GET", "/api/v1/namespaces/other/configmaps", headers={"Accept": accept})
    assert (other.code, other.warnings) == (200, [])


def test_a_collection_is_deleted_around_it(torn: MemoryAPI) -> None:
    assert torn.ask("DELETE", MAPS).code == 200
    assert names(torn.ask("GET", MAPS)) == []
    check_corrupt(torn.ask("GET", f"{MAPS}/torn"))


@pytest.mark.parametrize("by_query", [False, True])
def test_with_the_option_it_is_deleted(torn: MemoryAPI, by_query: bool) -> None:
    watch = torn.ask("GET", f"{MAPS}?watch=1&resourceVersion=3")
    answer = (
        torn.ask("DELETE", f"{MAPS}/torn?{OPTION}=true") if by_query else torn.ask("DELETE", f"{MAPS}/torn", BLINDLY)
    )
    assert answer.code == 200
    assert (answer.json["kind"], answer.json["status"]) == ("Status", "Success")
    assert answer.json["details"] == {"name": "torn", "kind": "configmaps"}
    assert torn.ask("GET", f"{MAPS}/torn").code == 404
    make(torn, "torn")
    torn.turn()
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in watch.events] == [("ADDED", "torn")]


def test_a_type_that_answers_what_it_deleted_answers_a_status_for_it(api: MemoryAPI) -> None:
    succeed(api.store.create("core/pods/n/p", *TORN))
    answer = api.ask("DELETE", "/api/v1/namespaces/n/pods/p", BLINDLY)
    assert (answer.code, answer.json["kind"], answer.json["details"]["name"]) == (200, "Status", "p")


def test_only_who_may_delete_blindly_does() -> None:
    authorizer = Careful()
    api: MemoryAPI = succeed(MemoryAPI.started(authorizer=authorizer))
    succeed(api.store.create("core/configmaps/n/torn", *TORN))
    answer = api.ask("DELETE", f"{MAPS}/torn", BLINDLY)
    assert (answer.code, answer.json["message"]) == (
        403,
        'configmaps "torn" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: no rule',
    )
    asked = authorizer.asked[-1]
    assert (asked.user, asked.resource, asked.namespace, asked.name) == (api.user, "configmaps", "n", "torn")
    assert api.ask("GET", f"{MAPS}/torn").code == 500


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"dryRun": ["All"]}, "dryRun"),
        ({"gracePeriodSeconds": 0}, "gracePeriodSeconds"),
        ({"propagationPolicy": "Orphan"}, "propagationPolicy"),
        ({"preconditions": {"uid": "x"}}, "preconditions"),
    ],
)
def test_the_option_stands_alone(torn: MemoryAPI, more: dict[str, Any], field: str) -> None:
    answer = torn.ask("DELETE", f"{MAPS}/torn", {**BLINDLY, **more})
    assert (answer.code, f"cannot be set together with .{field}" in answer.json["message"]) == (422, True)
    check_corrupt(torn.ask("GET", f"{MAPS}/torn"))


def test_what_can_be_read_is_deleted_as_ever_or_refused_with_the_gate(torn: MemoryAPI) -> None:
    assert torn.ask("DELETE", f"{MAPS}/a", BLINDLY).json["details"]["uid"]
    torn.environment.features = {"AllowUnsafeMalformedObjectDeletion": True}
    answer = torn.ask("DELETE", f"{MAPS}/z", BLINDLY)
    assert (answer.code, "it is exclusively used to delete corrupt object(s)" in answer.json["message"]) == (422, True)


def test_what_turns_out_to_be_unreadable_in_a_list_is_gone_around_there_and_then(api: MemoryAPI) -> None:
    """Stored by a version that took any number: syntax to those who pass it on, no number to those who decode it."""
    make(api, "a")
    head, tail = TORN[0], b'","name":"late","namespace":"n","uid":"u"},"data":{"k":1e400}}'
    succeed(api.store.create("core/configmaps/n/late", head, tail))
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    answer = api.ask("GET", MAPS, headers={"Accept": table})
    assert (answer.code, len(answer.json["rows"])) == (200, 1)
    assert api.caches.cache(GroupResource("", "configmaps")).unreadable_in("n") == ["n/late"]
    assert api.ask("DELETE", f"{MAPS}/late", BLINDLY).code == 200
    api.turn()
    assert names(api.ask("GET", MAPS)) == ["a"]


@pytest.mark.parametrize(
    ("kind", "key", "rest"),
    [
        ("ConfigMap", "core/configmaps/n/late", '"data":{"k":1e400}'),
        ("Job", "batch/jobs/n/late", '"spec":{},"status":{"conditions":[5]}'),
    ],
)
def test_a_former_state_that_cannot_be_read_is_told(api: MemoryAPI, kind: str, key: str, rest: str) -> None:
    path = MAPS if kind == "ConfigMap" else "/apis/batch/v1/namespaces/n/jobs"
    revision = put(api, kind, key, rest)
    succeed(api.store.delete(key, revision, *TORN))
    api.turn()
    table = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    assert api.ask("GET", path, headers=table).json["rows"] == []
    past = api.ask("GET", f"{path}?resourceVersion={revision}&resourceVersionMatch=Exact", headers=table)
    assert (past.code, "object not decodable" in past.json["message"]) == (500, True)


def test_a_column_that_fails_fails_the_list_once() -> None:
    asked = []

    def cell(obj: Object, now: float) -> object:
        asked.append(obj)
        raise ZeroDivisionError

    columns = printing.table(printing.column("Broken", cell))
    rows = [replace(row, table=columns) for row in BUILT_IN if row.plural == "configmaps"]
    api: MemoryAPI = succeed(MemoryAPI.started(rows))
    make(api, "a")
    answer = api.ask("GET", MAPS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    assert (answer.code, len(asked)) == (500, 1)


def put(api: MemoryAPI, kind: str, key: str, rest: str) -> int:
    """Stores JSON as another program may write it, and returns its revision; ``rest`` follows the metadata."""
    group, _, namespace, name = key.split("/")
    version = "v1" if group == "core" else f"{group}/v1"
    head = f'{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"'
    within = f'"namespace":"{namespace}",' if namespace else ""
    return succeed(api.store.create(key, head.encode(), f'",{within}"name":"{name}","uid":"u"}},{rest}}}'.encode()))


@pytest.mark.parametrize(
    "accept", ["application/json;as=Table;g=meta.k8s.io;v=v1", "application/vnd.kubernetes.protobuf"]
)
def test_lists_go_around_what_has_another_shape_than_its_kind(api: MemoryAPI, accept: str) -> None:
    jobs = "/apis/batch/v1/namespaces/n/jobs"
    for number in range(2):
        put(api, "Job", f"batch/jobs/n/bad{number}", '"spec":{},"status":{"conditions":[5]}')
    answer = api.ask("GET", jobs, headers={"Accept": accept})
    assert (answer.code, b"bad" in answer.written) == (200, False)
    assert any("2 object(s) cannot be read" in text for text in answer.warnings)
    assert api.ask("DELETE", f"{jobs}/bad0", BLINDLY).code == 200
    assert api.ask("DELETE", f"{jobs}/bad1").code == 500


@pytest.mark.parametrize(
    ("kind", "key", "rest"),
    [
        (
            "ValidatingWebhookConfiguration",
            "admissionregistration.k8s.io/validatingwebhookconfigurations//w",
            '"webhooks":"x"',
        ),
        ("ResourceQuota", "core/resourcequotas/n/q", '"spec":{"hard":[]}'),
        ("LimitRange", "core/limitranges/n/l", '"spec":{"limits":"x"}'),
        ("FlowSchema", "flowcontrol.apiserver.k8s.io/flowschemas//f", '"spec":{"rules":5}'),
        ("ServiceCIDR", "networking.k8s.io/servicecidrs//s", '"spec":{"cidrs":5}'),
    ],
)
def test_configuration_of_another_shape_stops_nobody(api: MemoryAPI, kind: str, key: str, rest: str) -> None:
    put(api, kind, key, rest)
    group, plural, namespace, name = key.split("/")
    base = "/api/v1" if group == "core" else f"/apis/{group}/v1"
    path = f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"
    make(api, "a")
    cache = api.caches.cache(GroupResource("" if group == "core" else group, plural))
    assert cache.objects() == [] and list(cache.unreadable)
    answer = api.ask("GET", f"{path}/{name}")
    assert (answer.code, "object not decodable" in answer.json["message"]) == (500, True)
    assert api.ask("DELETE", f"{path}/{name}", BLINDLY).code == 200
