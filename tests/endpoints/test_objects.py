"""Create, read, update and delete, as a client sees them."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from kapi.admission.interface import CREATE, AdmissionChain, Attributes, Plugin, denied
from kapi.authorization.fixed import AlwaysAllow
from kapi.registry import metadata as meta
from kapi.testing.memory_api import MemoryAPI

MAPS = "/api/v1/namespaces/n/configmaps"


def make(api: MemoryAPI, name: str = "a", **more: Any) -> Any:
    metadata = {"name": name, **more.pop("metadata", {})}
    answer = api.ask("POST", MAPS, {"metadata": metadata, **more})
    assert answer.code == 201, answer.written
    return answer.json


def test_create_answers_what_is_stored(api: MemoryAPI) -> None:
    created = make(api, data={"k": "v"})
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")
    assert created["metadata"]["namespace"] == "n"
    assert created["metadata"]["uid"] and created["metadata"]["creationTimestamp"]
    assert api.ask("GET", f"{MAPS}/a").json == created


def test_what_the_server_decides_is_not_taken_from_the_client(api: MemoryAPI) -> None:
    sent = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z"}
    metadata = make(api, metadata=sent)["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in metadata


def test_create_twice_is_a_conflict_that_changes_nothing(api: MemoryAPI) -> None:
    first = make(api, data={"k": "v"})
    again = api.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "w"}})
    assert (again.code, again.json["reason"]) == (409, "AlreadyExists")
    assert again.json["message"] == 'configmaps "a" already exists'
    assert api.ask("GET", f"{MAPS}/a").json == first


def test_generated_names_differ(api: MemoryAPI) -> None:
    names = {api.ask("POST", MAPS, {"metadata": {"generateName": "x-"}}).json["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


@pytest.mark.parametrize("free", [7, 8])
def test_eight_generated_names_are_tried(api: MemoryAPI, free: int) -> None:
    """Upstream: ``withRetry`` with ``maxNameGenerationCreateAttempts``."""
    for number in range(free):
        assert api.ask("POST", MAPS, {"metadata": {"name": f"x-{number}"}}).code == 201
    tried: list[str] = []

    def generate(base: str, suffix: str = "") -> str:
        tried.append(f"{base}{len(tried)}")
        return tried[-1]

    with patch.object(meta, "generate_name", generate):
        answer = api.ask("POST", MAPS, {"metadata": {"generateName": "x-"}})
    assert tried == [f"x-{number}" for number in range(8)]
    if free == 7:
        assert (answer.code, answer.json["metadata"]["name"]) == (201, "x-7")
    else:
        assert (answer.code, answer.json["details"]["retryAfterSeconds"]) == (409, 1)
        assert answer.json["message"] == (
            'configmaps "x-7" already exists, the server was not able to generate a unique name for the object'
        )


@pytest.mark.parametrize("name", ["..", ".", "a%252Fb", "a%2525b"])
def test_a_name_that_leads_elsewhere_is_refused(api: MemoryAPI, name: str) -> None:
    answer = api.ask("GET", f"{MAPS}/{name}")
    assert answer.code in (400, 404)
    assert answer.json["kind"] == "Status"


@pytest.mark.parametrize(
    ("name", "shown", "text"),
    [
        ("a%25b", "a%b", "may not contain '%'"),
        ("%2E", ".", "may not be '.'"),
        ("%2E%2E", "..", "may not be '..'"),
    ],
)
def test_a_name_that_is_no_segment_of_a_path_is_said_to_be_none(
    api: MemoryAPI, name: str, shown: str, text: str
) -> None:
    answer = api.ask("GET", f"{MAPS}/{name}")
    assert (answer.code, answer.json["message"]) == (400, f'Name parameter invalid: "{shown}": {text}')


def test_update_needs_the_version_it_was_made_from(api: MemoryAPI) -> None:
    old = make(api, data={"k": "v"})
    new = api.ask("PUT", f"{MAPS}/a", {**old, "data": {"k": "w"}})
    assert new.code == 200
    stale = api.ask("PUT", f"{MAPS}/a", {**old, "data": {"k": "x"}})
    assert (stale.code, stale.json["reason"]) == (409, "Conflict")
    assert "the object has been modified" in stale.json["message"]
    assert api.ask("GET", f"{MAPS}/a").json["data"] == {"k": "w"}


def test_update_without_a_version_overwrites(api: MemoryAPI) -> None:
    make(api, data={"k": "v"})
    assert api.ask("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"z": "1"}}).json["data"] == {"z": "1"}


def test_an_update_that_changes_nothing_keeps_the_version(api: MemoryAPI) -> None:
    old = make(api, data={"k": "v"})
    watch = api.ask("GET", f"{MAPS}?watch=1&resourceVersion={old['metadata']['resourceVersion']}&timeoutSeconds=9")
    api.clock.advance(5)
    assert api.ask("PUT", f"{MAPS}/a", old).json == old
    api.turn()
    assert watch.events == []


def test_names_in_body_and_path_must_agree(api: MemoryAPI) -> None:
    make(api)
    other = api.ask("PUT", f"{MAPS}/a", {"metadata": {"name": "b"}})
    assert (other.code, other.json["message"]) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    elsewhere = api.ask("POST", MAPS, {"metadata": {"name": "c", "namespace": "m"}})
    assert elsewhere.code == 400


def test_update_of_nothing_is_not_found(api: MemoryAPI) -> None:
    answer = api.ask("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}})
    assert (answer.code, answer.json["message"]) == (404, 'configmaps "a" not found')


def test_delete_answers_what_went(api: MemoryAPI) -> None:
    uid = make(api)["metadata"]["uid"]
    gone = api.ask("DELETE", f"{MAPS}/a")
    assert (gone.code, gone.json["status"], gone.json["details"]["uid"]) == (200, "Success", uid)
    assert api.ask("GET", f"{MAPS}/a").code == 404
    assert api.ask("DELETE", f"{MAPS}/a").code == 404


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_delete_preconditions(api: MemoryAPI, field: str) -> None:
    found = make(api)["metadata"][field]
    wrong = api.ask("DELETE", f"{MAPS}/a", {"preconditions": {field: "0"}})
    assert (wrong.code, wrong.json["reason"]) == (409, "Conflict")
    assert api.ask("DELETE", f"{MAPS}/a", {"preconditions": {field: found}}).code == 200


def test_an_object_with_finalizers_stays_until_the_last_one_goes(api: MemoryAPI) -> None:
    make(api, metadata={"finalizers": ["example.com/x"]})
    going = api.ask("DELETE", f"{MAPS}/a")
    assert going.code == 200 and going.json["metadata"]["deletionTimestamp"]
    assert api.ask("POST", MAPS, {"metadata": {"name": "a"}}).json["message"].startswith("object is being deleted")
    added = api.ask(
        "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/y"]}}, type="application/merge-patch+json"
    )
    assert (added.code, added.json["reason"]) == (422, "Invalid")
    freed = api.ask("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, type="application/merge-patch+json")
    assert freed.code == 200
    assert api.ask("GET", f"{MAPS}/a").code == 404


@pytest.mark.parametrize(
    ("query", "finalizer"),
    [
        ("propagationPolicy=Orphan", "orphan"), ("propagationPolicy=Foreground", "foregroundDeletion"),
        ("propagationPolicy=Background", ""), ("orphanDependents=true", "orphan"), ("orphanDependents=false", ""), ("", ""),
    ],
)  # fmt: skip
def test_propagation_is_left_to_the_collector_by_a_finalizer(api: MemoryAPI, query: str, finalizer: str) -> None:
    make(api)
    answer = api.ask("DELETE", f"{MAPS}/a?{query}")
    if finalizer:
        assert answer.json["metadata"]["finalizers"] == [finalizer]
    else:
        assert answer.json["status"] == "Success"


@pytest.mark.parametrize(
    ("query", "code"), [("orphanDependents=false", 202), ("orphanDependents=true", 200), ("", 200)]
)
def test_who_wants_to_wait_for_dependents_is_told_that_an_object_is_still_there(
    api: MemoryAPI, query: str, code: int
) -> None:
    make(api, metadata={"finalizers": ["example.com/x"]})
    answer = api.ask("DELETE", f"{MAPS}/a?{query}")
    assert (answer.code, "deletionTimestamp" in answer.json["metadata"]) == (code, True)


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_preconditions_of_a_query(api: MemoryAPI, field: str) -> None:
    """The first value counts, as of all options; an empty one is none."""
    found = make(api)["metadata"][field]
    wrong = api.ask("DELETE", f"{MAPS}/a?{field}=0&{field}={found}")
    assert (wrong.code, wrong.json["reason"]) == (409, "Conflict")
    assert api.ask("DELETE", f"{MAPS}/a?dryRun=All&{field}=").code == 200
    assert api.ask("DELETE", f"{MAPS}/a?{field}={found}&{field}=0").code == 200


def test_delete_collection_takes_what_is_selected(api: MemoryAPI) -> None:
    for name in "abcd":
        make(api, name, metadata={"labels": {"even": str(ord(name) % 2 == 0)}})
    gone = api.ask("DELETE", f"{MAPS}?labelSelector=even=True")
    assert [item["metadata"]["name"] for item in gone.json["items"]] == ["b", "d"]
    left = api.ask("GET", MAPS).json["items"]
    assert [item["metadata"]["name"] for item in left] == ["a", "c"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("labelSelector=a%20b", "unable to parse requirement"),
        ("fieldSelector=x=1", '"x" is not a known field selector'),
    ],
)
@pytest.mark.parametrize("body", [{"kind": "x"}, {"propagationPolicy": "x"}, {"dryRun": "All"}])
def test_the_selection_of_a_collection_is_checked_before_the_body(
    api: MemoryAPI, query: str, message: str, body: dict[str, Any]
) -> None:
    answer = api.ask("DELETE", f"{MAPS}?{query}", body)
    assert answer.code == 400 and answer.json["message"].startswith(message)


def test_a_collection_is_deleted_as_it_was_at_the_named_revision(api: MemoryAPI) -> None:
    make(api, "a")
    before = api.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    make(api, "b")
    body = {"kind": "DeleteOptions", "apiVersion": "v1"}  # without one, the revision is also a precondition
    gone = api.ask("DELETE", f"{MAPS}?resourceVersion={before}", body)
    assert [item["metadata"]["name"] for item in gone.json["items"]] == ["a"]
    assert [item["metadata"]["name"] for item in api.ask("GET", MAPS).json["items"]] == ["b"]
    again = api.ask("DELETE", f"{MAPS}?resourceVersion={before}", body)
    assert [item["metadata"]["name"] for item in again.json["items"]] == ["a"]
    rest = api.ask("DELETE", f"{MAPS}?resourceVersion=0", body)
    assert [item["metadata"]["name"] for item in rest.json["items"]] == ["b"]


def test_jobs_of_a_collection_are_warned_of_once_and_also_without_any(api: MemoryAPI) -> None:
    answer = api.ask("DELETE", "/apis/batch/v1/namespaces/n/jobs")
    assert answer.code == 200 and len(answer.warnings) == 1
    assert "child pods are preserved by default" in answer.warnings[0]
    assert not api.ask("DELETE", "/apis/batch/v1/namespaces/n/jobs?propagationPolicy=Orphan").warnings


def test_indented_answers_end_without_a_line_break(api: MemoryAPI) -> None:
    make(api)
    for path in (f"{MAPS}/a?pretty=true", f"{MAPS}?pretty=true", f"{MAPS}/none?pretty=true", "/apis/apps?pretty=true"):
        assert api.ask("GET", path).written.endswith(b"\n}"), path
    assert api.ask("GET", f"{MAPS}/a").written.endswith(b"}\n")


@pytest.mark.parametrize("path", ["none", "a"])
def test_an_error_is_indented_when_its_form_is_not_accepted(api: MemoryAPI, path: str) -> None:
    make(api)
    accept = "application/json;as=" + ("Table;v=v1;g=meta.k8s.io" if path == "none" else "x;v=v1;g=meta.k8s.io")
    answer = api.ask("GET", f"{MAPS}/{path}", headers={"Accept": accept})
    assert (answer.code, answer.json["kind"]) == (404 if path == "none" else 406, "Status")
    assert answer.written.startswith(b'{\n  "kind": "Status",') and answer.written.endswith(b"\n}")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_dry_run_leaves_no_trace(api: MemoryAPI, method: str) -> None:
    make(api, data={"k": "v"})
    before = api.ask("GET", MAPS).json
    path = {"POST": MAPS}.get(method, f"{MAPS}/a")
    body = {"metadata": {"name": "b" if method == "POST" else "a"}, "data": {"z": "1"}}
    patch = "application/merge-patch+json" if method == "PATCH" else ""
    answer = api.ask(method, f"{path}?dryRun=All", None if method == "DELETE" else body, type=patch)
    assert answer.code in (200, 201)
    assert api.ask("GET", MAPS).json == before


def test_a_dry_run_tells_of_the_conflict_it_would_meet(api: MemoryAPI) -> None:
    make(api)
    assert api.ask("POST", f"{MAPS}?dryRun=All", {"metadata": {"name": "a"}}).json["reason"] == "AlreadyExists"


def test_claim_templates_are_claims_whatever_they_say(api: MemoryAPI) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "x/v9", "kind": "Other", "metadata": {"name": "d"}, "spec": storage}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "volumeClaimTemplates": [claim]}
    answer = api.ask("POST", "/apis/apps/v1/namespaces/n/statefulsets", {"metadata": {"name": "s"}, "spec": spec})
    assert answer.code == 201, answer.json
    made = answer.json["spec"]["volumeClaimTemplates"][0]
    assert (made["apiVersion"], made["kind"]) == ("v1", "PersistentVolumeClaim")


def test_a_tolerations_operator_has_a_default(api: MemoryAPI) -> None:
    wish = {"deviceClassName": "c", "tolerations": [{"key": "a", "value": "b"}]}
    body = {"metadata": {"name": "r"}, "spec": {"devices": {"requests": [{"name": "q", "exactly": wish}]}}}
    answer = api.ask("POST", "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims", body)
    assert answer.code == 201, answer.json
    assert answer.json["spec"]["devices"]["requests"][0]["exactly"]["tolerations"][0]["operator"] == "Equal"


@pytest.mark.parametrize(("query", "root"), [("", "/registry"), ("?dryRun=All", "")])
def test_a_dry_run_knows_the_key_of_an_object_without_its_prefix(api: MemoryAPI, query: str, root: str) -> None:
    path = "/api/v1/namespaces/n/configmaps"
    assert api.ask("POST", path, {"metadata": {"name": "a"}}).code == 201
    answer = api.ask("PUT", f"{path}/a{query}", {"metadata": {"name": "a", "uid": "other"}})
    assert answer.code == 409
    assert f"Code: 4, Key: {root}/configmaps/n/a, " in answer.json["message"]


def test_a_body_that_is_no_protobuf_is_quoted(api: MemoryAPI) -> None:
    answer = api.ask("POST", "/api/v1/namespaces/n/configmaps", b"{}", type="application/vnd.kubernetes.protobuf")
    why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})"
    assert (answer.code, answer.json["message"].partition("): ")[2]) == (400, why)


@pytest.mark.parametrize(("group", "name"), [("", "events"), ("events.k8s.io", "events.events.k8s.io")])
def test_errors_of_events_name_the_group_that_was_asked(api: MemoryAPI, group: str, name: str) -> None:
    path = f"/{f'apis/{group}/v1' if group else 'api/v1'}/namespaces/n/events"
    for method in ("GET", "DELETE"):
        answer = api.ask(method, f"{path}/none")
        assert answer.code == 404 and answer.json["message"] == f'{name} "none" not found'
        assert answer.json["details"].get("group", "") == group
    bad = api.ask("GET", f"{path}/none?resourceVersion=x")
    assert bad.code == 400 and bad.json["message"].startswith("invalid resource version: resourceVersion: ")


def test_a_kind_that_a_server_does_not_know_is_told_with_its_scheme(api: MemoryAPI) -> None:
    for group, scheme in (
        ("apiregistration.k8s.io", "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28"),
        ("apps", "pkg/api/legacyscheme/scheme.go:30"),
    ):
        plural = "apiservices" if group.startswith("api") else "namespaces/n/deployments"
        body = {"apiVersion": f"{group}/v1", "kind": "Nope", "metadata": {"name": "x"}}
        answer = api.ask("POST", f"/apis/{group}/v1/{plural}", body)
        assert answer.code == 400 and answer.json["message"].endswith(f'in scheme "{scheme}"')


@pytest.mark.parametrize(("plural", "part"), [("configmaps", "binaryData"), ("secrets", "data")])
def test_an_empty_map_is_a_change_of_what_is_immutable(api: MemoryAPI, plural: str, part: str) -> None:
    """Go tells it from a missing one in these fields, but not in the data of a ConfigMap."""
    path = f"/api/v1/namespaces/n/{plural}"
    body = {"metadata": {"name": "a"}, "immutable": True, part: {}}
    assert api.ask("POST", path, body).code == 201
    merge = "application/merge-patch+json"
    answers = [
        api.ask("PUT", f"{path}/a", body),
        api.ask("PATCH", f"{path}/a", {part: {}}, type=merge),
        api.ask("PUT", f"{path}/a", {"metadata": {"name": "a"}, "immutable": True}),
        api.ask("PATCH", f"{path}/a", {"metadata": {"labels": {"a": "b"}}}, type=merge),
    ]
    assert [answer.code for answer in answers] == [422, 422, 200, 200]
    assert answers[0].json["details"]["causes"][0]["field"] == part


def test_an_event_of_the_future_is_refused_at_once(api: MemoryAPI) -> None:
    path = "/api/v1/namespaces/n/events"
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "n"}}
    version = api.ask("POST", path, event).json["metadata"]["resourceVersion"]
    assert api.ask("GET", f"{path}/e?resourceVersion={version}").code == 200
    answer = api.ask("GET", f"{path}/e?resourceVersion=99999")  # upstream has no cache of events that could wait
    assert answer.code == 504
    assert "retryAfterSeconds" not in answer.json["details"]
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_an_object_that_goes_at_once_is_answered_with_the_finalizers_that_it_had(api: MemoryAPI) -> None:
    path = "/api/v1/persistentvolumes"
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    assert api.ask("POST", path, {"metadata": {"name": "v"}, "spec": spec}).code == 201
    change = {"metadata": {"finalizers": ["foregroundDeletion"]}}
    assert api.ask("PATCH", f"{path}/v", change, type="application/merge-patch+json").code == 200
    answer = api.ask("DELETE", f"{path}/v?propagationPolicy=Background")
    assert (answer.code, answer.json["metadata"]["finalizers"]) == (200, ["foregroundDeletion"])
    assert "deletionTimestamp" not in answer.json["metadata"]
    assert api.ask("GET", f"{path}/v").code == 404


class Refuses(Plugin):
    operations = frozenset({CREATE})

    def validate(self, attributes: Attributes) -> None:
        raise denied(attributes, "no")


def test_what_admission_refuses_is_not_stored(api: MemoryAPI) -> None:
    api.registry.admit_by(AdmissionChain([Refuses()]))
    answer = api.ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert (answer.code, answer.json["message"]) == (403, 'configmaps "a" is forbidden: no')
    assert api.ask("GET", f"{MAPS}/a").code == 404


def test_without_an_authorizer_an_update_creates_nothing(api: MemoryAPI) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"
    body = {"metadata": {"name": "l"}}
    api.environment.authorizer = None
    answer = api.ask("PUT", path, body)
    assert (answer.code, "no authorizer provided, unable to authorize" in answer.json["message"]) == (500, True)
    api.environment.authorizer = AlwaysAllow()
    assert api.ask("PUT", path, body).code == 201


def test_a_job_whose_status_is_written_without_labels_has_those_of_its_pods(api: MemoryAPI) -> None:
    """Upstream stores it without, and fills them in whenever it reads the object."""
    jobs = "/apis/batch/v1/namespaces/n/jobs"
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    made = api.ask("POST", jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}).json
    labels = made["spec"]["template"]["metadata"]["labels"]
    for query in ("?dryRun=All", ""):
        written = api.ask("PUT", f"{jobs}/j/status{query}", {"metadata": {"name": "j"}, "status": {"active": 1}})
        assert (written.code, written.json["metadata"]["labels"]) == (200, labels), written.json
    assert api.ask("GET", f"{jobs}/j").json["metadata"]["labels"] == labels != {}
