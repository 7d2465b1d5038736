"""What is asked of pods beside reading and writing them: binding, eviction, graceful deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kapi.admission.interface import Attributes, Plugin
from kapi.endpoints.pods.eviction import decrement
from kapi.machinery.status import Forbidden, StatusError
from kapi.testing.memory_api import MemoryAPI

PODS = "/api/v1/namespaces/n/pods"
BUDGETS = "/apis/policy/v1/namespaces/n/poddisruptionbudgets"
MERGE = "application/merge-patch+json"


def pod(api: MemoryAPI, name: str, node: str = "", **status: Any) -> None:
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "nodeName": node}
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"a": "b"}}, "spec": spec}
    assert api.ask("POST", PODS, body).code == 201
    if status:
        assert api.ask("PATCH", f"{PODS}/{name}/status", {"status": status}, type=MERGE).code == 200


def budget(api: MemoryAPI, name: str, allowed: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    body = {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": name}, "spec": spec}
    assert api.ask("POST", BUDGETS, body).code == 201
    state = {"disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1, "expectedPods": 2}
    state["observedGeneration"] = 1
    assert api.ask("PATCH", f"{BUDGETS}/{name}/status", {"status": state}, type=MERGE).code == 200


def evict(api: MemoryAPI, name: str, version: str = "policy/v1", **more: Any) -> Any:
    body = {"kind": "Eviction", "apiVersion": version, "metadata": {"name": name, "namespace": "n"}, **more}
    return api.ask("POST", f"{PODS}/{name}/eviction", body)


RUNNING: dict[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_an_eviction_uses_up_the_budget(api: MemoryAPI, version: str) -> None:
    budget(api, "b", 1)
    pod(api, "p", **RUNNING)
    pod(api, "q", **RUNNING)
    assert evict(api, "p", version).code == 201
    assert api.ask("GET", f"{PODS}/p").code == 404
    state = api.ask("GET", f"{BUDGETS}/b").json["status"]
    assert (state["disruptionsAllowed"], list(state["disruptedPods"])) == (0, ["p"])
    answer = evict(api, "q", version)
    assert (answer.code, answer.json["reason"]) == (429, "TooManyRequests")
    assert api.ask("GET", f"{PODS}/q").code == 200


def test_pods_that_do_not_run_need_no_budget(api: MemoryAPI) -> None:
    budget(api, "b", 0)
    pod(api, "p")
    assert evict(api, "p").code == 201


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "code"),
    [
        ("AlwaysAllow", 0, 1, 201),
        ("IfHealthyBudget", 0, 1, 429),
        ("IfHealthyBudget", 1, 1, 201),
        ("IfHealthyBudget", 1, 0, 429),
        (None, 0, 1, 429),
    ],
)
def test_a_pod_that_is_not_ready_may_need_no_budget(
    api: MemoryAPI, policy: str | None, healthy: int, desired: int, code: int
) -> None:
    budget(api, "b", 0)
    patch = {"spec": {"unhealthyPodEvictionPolicy": policy}}
    generation = api.ask("PATCH", f"{BUDGETS}/b", patch, type=MERGE).json["metadata"]["generation"]
    state = {"currentHealthy": healthy, "desiredHealthy": desired, "observedGeneration": generation}
    assert api.ask("PATCH", f"{BUDGETS}/b/status", {"status": state}, type=MERGE).code == 200
    pod(api, "p", phase="Running")
    assert evict(api, "p").code == code


@pytest.mark.parametrize(
    ("selector", "code"),
    [({"matchLabels": {"a": "b"}}, 429), ({}, 429), (None, 201), ({"matchLabels": {"a": "c"}}, 201)],
)
def test_a_budget_is_for_the_pods_that_it_selects(api: MemoryAPI, selector: Any, code: int) -> None:
    """An empty selector is one of all pods, none of no pods."""
    spec = {"minAvailable": 1, "selector": selector}
    body = {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": "b"}, "spec": spec}
    assert api.ask("POST", BUDGETS, body).code == 201
    state = {"disruptionsAllowed": 0, "observedGeneration": 1}
    assert api.ask("PATCH", f"{BUDGETS}/b/status", {"status": state}, type=MERGE).code == 200
    pod(api, "p", **RUNNING)
    assert evict(api, "p").code == code


@pytest.mark.parametrize(
    "status", [RUNNING, {"phase": "Pending"}, {"phase": "Succeeded"}], ids=lambda status: status["phase"]
)
@pytest.mark.parametrize(("current", "code"), [(True, 201), (False, 409)])
def test_an_eviction_of_a_revision(api: MemoryAPI, status: Any, current: bool, code: int) -> None:
    pod(api, "p", **status)
    version = api.ask("GET", f"{PODS}/p").json["metadata"]["resourceVersion"] if current else "99"
    assert evict(api, "p", deleteOptions={"preconditions": {"resourceVersion": version}}).code == code
    assert api.ask("GET", f"{PODS}/p").code == (404 if current else 200)


NOW = "2024-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("state", "left", "conditions"),
    [
        ({"disruptionsAllowed": 2, "observedGeneration": 3}, 1, []),
        ({"disruptionsAllowed": 1, "observedGeneration": 3}, 0, [{
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": 3, "lastTransitionTime": NOW,
            "reason": "InsufficientPods", "message": ""}]),
        ({"disruptionsAllowed": 2, "observedGeneration": 2}, None, "The disruption budget b is still being processed"),
        ({"disruptionsAllowed": -1, "observedGeneration": 3}, None, "pdb disruptions allowed is negative"),
        ({"disruptionsAllowed": 0, "observedGeneration": 3}, None, "The disruption budget b "),
        ({"disruptionsAllowed": 1, "observedGeneration": 3, "disruptedPods": dict.fromkeys(map(str, range(2001)), NOW)}, None,
         "DisruptedPods map too big"),
        ({"disruptionsAllowed": 5, "observedGeneration": 4, "disruptedPods": dict.fromkeys(map(str, range(2000)), NOW)}, 4, []),
    ],
)  # fmt: skip
def test_a_disruption_less(state: Any, left: int | None, conditions: Any) -> None:
    budget = {"metadata": {"name": "b", "generation": 3}, "status": state}
    if left is None:
        with pytest.raises(StatusError) as caught:
            decrement(budget, "p", NOW)
        told = [each["message"] for each in (caught.value.details or {}).get("causes", ())]
        assert conditions in "\n".join([caught.value.message, *told])
        return
    changed = decrement(budget, "p", NOW)["status"]
    assert (changed["disruptionsAllowed"], changed.get("conditions", []), changed["disruptedPods"]["p"]) == (
        left,
        conditions,
        NOW,
    )
    assert "p" not in (state.get("disruptedPods") or {})


def test_two_budgets_are_one_too_many(api: MemoryAPI) -> None:
    budget(api, "b", 1)
    budget(api, "d", 1)
    pod(api, "p", **RUNNING)
    answer = evict(api, "p")
    assert answer.code == 500 and "more than one PodDisruptionBudget" in answer.json["message"]


def test_a_rehearsed_eviction_leaves_the_pod(api: MemoryAPI) -> None:
    budget(api, "b", 1)
    pod(api, "p", **RUNNING)
    assert evict(api, "p", deleteOptions={"dryRun": ["All"]}).code == 201
    assert api.ask("GET", f"{PODS}/p").code == 200
    assert api.ask("GET", f"{BUDGETS}/b").json["status"]["disruptionsAllowed"] == 1


def test_a_pod_is_bound_once(api: MemoryAPI) -> None:
    pod(api, "p")
    body = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "one"}}
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert api.ask("POST", f"{PODS}/p/binding", body).json == done
    bound = api.ask("GET", f"{PODS}/p").json
    assert bound["spec"]["nodeName"] == "one"
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    answer = api.ask("POST", f"{PODS}/p/binding", {**body, "target": {"kind": "Node", "name": "two"}})
    assert (answer.code, answer.json["reason"]) == (409, "Conflict")


def test_a_pod_that_goes_or_waits_is_not_bound(api: MemoryAPI) -> None:
    metadata: dict[str, Any] = {"name": "goes", "finalizers": ["example.com/x"]}
    gated = {"schedulingGates": [{"name": "wait"}]}
    for more, why in (
        ({}, "pod goes is being deleted, cannot be assigned to a host"),
        (gated, "pod waits has non-empty .spec.schedulingGates"),
    ):
        name = metadata["name"]
        spec = {"containers": [{"name": "c", "image": "i"}], **more}
        assert api.ask("POST", PODS, {"metadata": metadata, "spec": spec}).code == 201
        if name == "goes":
            assert api.ask("DELETE", f"{PODS}/{name}").code == 200
        answer = api.ask("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "one"}})
        assert (answer.code, answer.json["message"].endswith(why)) == (409, True), answer.json
        metadata = {"name": "waits"}


def test_a_binding_that_names_no_pod(api: MemoryAPI) -> None:
    body = {"kind": "Binding", "apiVersion": "v1", "target": {"kind": "Node", "name": "one"}}
    answer = api.ask("POST", "/api/v1/namespaces/n/bindings", body)
    assert (answer.code, answer.json["message"]) == (400, "Name parameter required.")
    answer = api.ask("POST", "/api/v1/namespaces/n/bindings", {**body, "metadata": {"name": "a/b"}})
    assert (answer.code, answer.json["message"]) == (400, "Name parameter invalid: \"a/b\": may not contain '/'")


def test_the_uid_counts_in_the_binding_of_a_pod_alone(api: MemoryAPI) -> None:
    body = {"metadata": {"name": "p", "uid": "other"}, "target": {"name": "node"}}
    pod(api, "p")
    answer = api.ask("POST", f"{PODS}/p/binding", body)
    assert answer.code == 409 and "UID in precondition" in answer.json["message"]
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert api.ask("POST", "/api/v1/namespaces/n/bindings", body, headers=table).code == 406
    assert api.ask("POST", "/api/v1/namespaces/n/bindings", body).code == 201


def test_a_placed_pod_goes_when_its_node_says_so(api: MemoryAPI) -> None:
    pod(api, "p", node="one")
    marked = api.ask("DELETE", f"{PODS}/p").json["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30 and marked["deletionTimestamp"]
    sooner = api.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=5").json["metadata"]
    assert sooner["deletionGracePeriodSeconds"] == 5
    assert api.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0").code == 200
    assert api.ask("GET", f"{PODS}/p").code == 404
    pod(api, "q")
    assert api.ask("DELETE", f"{PODS}/q").code == 200
    assert api.ask("GET", f"{PODS}/q").code == 404


def test_a_bound_pod_has_no_nomination(api: MemoryAPI) -> None:
    pod(api, "p", nominatedNodeName="one")
    body = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "one"}}
    assert api.ask("POST", f"{PODS}/p/binding", body).code == 201
    assert "nominatedNodeName" not in api.ask("GET", f"{PODS}/p").json["status"]


def test_what_a_binding_changes_without_the_gates(api: MemoryAPI) -> None:
    gates = ("ClearingNominatedNodeNameAfterBinding", "PodTopologyLabelsAdmission")
    api.environment.features = dict.fromkeys(gates, False)
    pod(api, "p", nominatedNodeName="one")
    metadata = {"name": "p", "labels": {"zone": "z"}, "annotations": {"c": "d"}}
    body = {"kind": "Binding", "apiVersion": "v1", "metadata": metadata, "target": {"kind": "Node", "name": "one"}}
    assert api.ask("POST", f"{PODS}/p/binding", body).code == 201
    bound = api.ask("GET", f"{PODS}/p").json
    assert bound["status"]["nominatedNodeName"] == "one"
    assert (bound["metadata"]["labels"], bound["metadata"]["annotations"]) == ({"a": "b"}, {"c": "d"})


def test_a_binding_of_another_revision(api: MemoryAPI) -> None:
    pod(api, "p")
    metadata = {"name": "p", "resourceVersion": "999"}
    body = {"kind": "Binding", "apiVersion": "v1", "metadata": metadata, "target": {"kind": "Node", "name": "one"}}
    answer = api.ask("POST", f"{PODS}/p/binding", body)
    version = api.ask("GET", f"{PODS}/p").json["metadata"]["resourceVersion"]
    assert answer.code == 409 and answer.json["message"].endswith(
        "Key: /registry/pods/n/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"ResourceVersion in precondition: 999, ResourceVersion in object meta: {version}"
    )


def test_a_pending_pod_on_a_node_is_told_why_it_goes(api: MemoryAPI) -> None:
    pod(api, "p", node="one")
    assert evict(api, "p").code == 201
    marked = api.ask("GET", f"{PODS}/p").json
    assert marked["metadata"]["deletionTimestamp"]
    assert [(entry["type"], entry["reason"]) for entry in marked["status"]["conditions"]] == [
        ("DisruptionTarget", "EvictionByEvictionAPI")
    ]


def test_an_eviction_of_this_very_revision(api: MemoryAPI) -> None:
    pod(api, "p", node="one", **RUNNING)
    metadata = api.ask("GET", f"{PODS}/p").json["metadata"]
    other = evict(api, "p", deleteOptions={"preconditions": {"resourceVersion": "999"}})
    assert (other.code, other.json["details"]) == (409, {"name": "p", "kind": "Pod"})
    assert "the ResourceVersion in the precondition (999) does not match" in other.json["message"]
    other = evict(api, "p", deleteOptions={"preconditions": {"uid": "u"}})
    assert "the UID in the precondition (u) does not match" in other.json["message"]
    same = {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}
    assert api.ask("GET", f"{PODS}/p").json["metadata"] == metadata
    assert evict(api, "p", deleteOptions={"preconditions": same}).code == 201
    assert api.ask("GET", f"{PODS}/p").json["metadata"]["deletionTimestamp"]


def before_the_next_write(api: MemoryAPI, act: Callable[[], object]) -> None:
    """Another writer is first: ``act`` runs when the server has decided on its next update, and before it is stored."""
    update = api.store.update

    async def interrupted(*given: Any, **more: Any) -> int:
        api.store.update = update  # type: ignore[method-assign]
        act()
        return await update(*given, **more)

    api.store.update = interrupted  # type: ignore[method-assign]


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_pending_pod_that_starts_during_its_eviction_needs_a_budget(api: MemoryAPI, allowed: int) -> None:
    budget(api, "b", allowed)
    pod(api, "p", node="one")
    running = {"status": RUNNING}
    before_the_next_write(api, lambda: api.ask("PATCH", f"{PODS}/p/status", running, type=MERGE))
    answer = evict(api, "p")
    assert answer.code == (201 if allowed else 429)
    assert ("deletionTimestamp" in api.ask("GET", f"{PODS}/p").json["metadata"]) == bool(allowed)
    assert api.ask("GET", f"{BUDGETS}/b").json["status"]["disruptionsAllowed"] == 0


def test_another_change_of_a_pending_pod_does_not_prevent_its_eviction(api: MemoryAPI) -> None:
    budget(api, "b", 0)
    pod(api, "p", node="one")
    before_the_next_write(api, lambda: api.ask("PATCH", f"{PODS}/p", {"metadata": {"labels": {"c": "d"}}}, type=MERGE))
    assert evict(api, "p").code == 201


def test_an_unready_pod_that_becomes_ready_during_its_eviction_is_asked_for_again(api: MemoryAPI) -> None:
    budget(api, "b", 0)
    unready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    pod(api, "p", node="one", **unready)
    ready = {"status": RUNNING}
    before_the_next_write(api, lambda: api.ask("PATCH", f"{PODS}/p/status", ready, type=MERGE))
    answer = evict(api, "p")
    assert (answer.code, answer.json["details"]["retryAfterSeconds"]) == (429, 10)
    assert answer.json["details"]["causes"][0]["message"].startswith("The disruption budget b is still being processed")
    assert "deletionTimestamp" not in api.ask("GET", f"{PODS}/p").json["metadata"]


def test_an_eviction_reads_what_is_stored(api: MemoryAPI) -> None:
    pod(api, "p")
    name = "ignoreStoreReadErrorWithClusterBreakingPotential"
    answer = evict(api, "p", deleteOptions={name: True})
    text = "Invalid value: true: can not be set for pod eviction, try after removing the option"
    cause = {"reason": "FieldValueInvalid", "message": text, "field": f"deleteOptions.{name}"}
    assert (answer.code, answer.json["details"]["causes"]) == (422, [cause])


@pytest.mark.parametrize(
    ("reason", "message", "current", "text"),
    [
        ("SyncFailed", "no scale", 0, "does not allow evicting pods currently because it failed sync: no scale"),
        ("SyncFailed", "", 1, "needs 1 healthy pods and has 1 currently"),
        ("InsufficientPods", "wait", 2, "does not allow evicting pods currently (InsufficientPods): wait"),
        ("InsufficientPods", "", 2, "does not allow evicting pods currently"),
    ],
)
def test_why_a_budget_holds_a_pod(api: MemoryAPI, reason: str, message: str, current: int, text: str) -> None:
    budget(api, "b", 0)
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }
    state = {"currentHealthy": current, "conditions": [condition]}
    assert api.ask("PATCH", f"{BUDGETS}/b/status", {"status": state}, type=MERGE).code == 200
    pod(api, "p", **RUNNING)
    causes = evict(api, "p").json["details"]["causes"]
    assert causes == [{"reason": "DisruptionBudget", "message": f"The disruption budget b {text}"}]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"disruptionsAllowed": -1}, "pdb disruptions allowed is negative"),
        (
            {"disruptionsAllowed": 1, "disruptedPods": dict.fromkeys(map(str, range(2001)), "")},
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ),
    ],
)
def test_a_budget_that_its_controller_has_left_in_disorder(state: dict[str, Any], why: str) -> None:
    with pytest.raises(Forbidden, match=f'poddisruptionbudget "b" is forbidden: {why}'):
        decrement({"metadata": {"name": "b"}, "status": state}, "p", "")


def test_a_budget_that_others_change_each_time(api: MemoryAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    budget(api, "b", 1)
    pod(api, "p", **RUNNING)

    def late(found: Any, name: str, now: str) -> Any:
        changed = decrement(found, name, now)
        changed["metadata"]["resourceVersion"] = "1"
        return changed

    monkeypatch.setattr("kapi.endpoints.pods.eviction.decrement", late)
    answer = evict(api, "p")
    assert (answer.code, answer.json["message"]) == (
        504,
        'Timeout: couldn\'t update PodDisruptionBudget "b" due to conflicts',
    )
    assert api.ask("GET", f"{PODS}/p").code == 200


def test_the_options_of_an_eviction_are_judged(api: MemoryAPI) -> None:
    pod(api, "p", **RUNNING)
    wrong = evict(api, "p", deleteOptions={"propagationPolicy": "Sideways"})
    assert (wrong.code, wrong.json["details"]["kind"]) == (422, "DeleteOptions")
    body = {
        "kind": "Eviction",
        "apiVersion": "policy/v1",
        "metadata": {"name": "p"},
        "deleteOptions": {"dryRun": ["x"]},
    }
    other = api.ask("POST", f"{PODS}/p/eviction?dryRun=All", body)
    assert (other.code, other.json["message"]) == (
        500,
        "Non-matching dry-run options in request and content: [All] and [x]",
    )
    assert api.ask("GET", f"{PODS}/p").code == 200


def test_an_eviction_into_another_namespace_is_refused(api: MemoryAPI) -> None:
    pod(api, "p")
    why = "the namespace of the provided object does not match the namespace sent on the request"
    for metadata in ({"name": "p", "namespace": "other"}, {"namespace": "other"}):  # its name is looked at later
        body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": metadata}
        answer = api.ask("POST", f"{PODS}/p/eviction", body)
        assert (answer.code, answer.json["message"]) == (400, why)
    assert api.ask("GET", f"{PODS}/p").code == 200


@pytest.mark.parametrize("sub", ["resize", "ephemeralcontainers"])
def test_some_views_of_a_pod_have_no_table(api: MemoryAPI, sub: str) -> None:
    pod(api, "p")
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert api.ask("PATCH", f"{PODS}/p/{sub}", {}, type=MERGE, headers={"Accept": table}).code == 406
    assert api.ask("GET", f"{PODS}/p/{sub}", headers={"Accept": table}).code == 406
    both = api.ask("GET", f"{PODS}/p/{sub}", headers={"Accept": f"{table}, application/json"})
    assert (both.code, both.json["kind"]) == (200, "Pod")
    assert api.ask("GET", f"{PODS}/p/status", headers={"Accept": table}).json["kind"] == "Table"


@pytest.mark.parametrize("field", ["resizePolicy", "ports", "lifecycle", "livenessProbe"])
def test_an_ephemeral_container_may_not_even_have_empty_forbidden_fields(api: MemoryAPI, field: str) -> None:
    pod(api, "p")
    empty: Any = {} if field in ("lifecycle", "livenessProbe") else []
    patch = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i", field: empty}]}}
    answer = api.ask("PATCH", f"{PODS}/p/ephemeralcontainers", patch, type=MERGE)
    causes = [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]
    why = "Forbidden: cannot be set for an Ephemeral Container"
    assert (f"spec.ephemeralContainers[0].{field}", why) in causes


@pytest.mark.parametrize("kind", ["Binding", "Eviction"])
@pytest.mark.parametrize("name", ["none", "", "p"])
def test_admission_comes_before_the_name_and_the_pod(api: MemoryAPI, kind: str, name: str) -> None:
    class Refusing(Plugin):
        def admit(self, attributes: Attributes) -> None:
            raise Forbidden("no")

    assert (
        api.ask("POST", f"{PODS}/p/{kind.lower()}", {"metadata": {"name": name}, "target": {"name": "x"}}).code != 403
    )
    api.registry.admission.__init__([Refusing()])  # type: ignore[misc]
    answer = api.ask("POST", f"{PODS}/p/{kind.lower()}", {"metadata": {"name": name}, "target": {"name": "x"}})
    assert (answer.code, answer.json["message"]) == (403, "no")


def test_admission_may_name_the_pod_of_an_older_binding(api: MemoryAPI) -> None:
    class Naming(Plugin):
        def admit(self, attributes: Attributes) -> None:
            if attributes.kind.kind == "Binding" and attributes.obj is not None:
                attributes.obj["metadata"]["name"] = "p"

    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert api.ask("POST", PODS, body).code == 201
    api.registry.admission.__init__([Naming()])  # type: ignore[misc]
    bound = api.ask("POST", "/api/v1/namespaces/n/bindings", {"metadata": {"name": "q"}, "target": {"name": "x"}})
    assert bound.code == 201, bound.json
    assert api.ask("GET", f"{PODS}/p").json["spec"]["nodeName"] == "x"


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
def test_owners_given_twice_are_warned_of(api: MemoryAPI, subresource: str) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    body = {
        "metadata": {"name": "p", "namespace": "n", "ownerReferences": [owner, owner]},
        "target": {"kind": "Node", "name": "x"},
    }
    answer = api.ask("POST", f"{PODS}/p/{subresource}?fieldValidation=Ignore", body)
    assert answer.code == 404
    assert ["ownerReferences contains duplicate entries" in text for text in answer.warnings] == [True]


def test_every_method_is_passed_on_to_a_pod_but_those_that_have_no_route(api: MemoryAPI) -> None:
    pod(api, "p")
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
        assert api.ask(method, f"{PODS}/p/proxy/x").code == 400, method  # it has no address
    assert api.ask("TRACE", f"{PODS}/p/proxy/x").code == 405
    assert api.ask("HEAD", f"{PODS}/p/exec").code == 405


@pytest.mark.parametrize("path", ["binding/x", "eviction/.", "log/x", "exec/a/b", "status/x"])
def test_nothing_is_below_a_subresource(api: MemoryAPI, path: str) -> None:
    """Only a proxy has paths of its own."""
    pod(api, "p")
    for method in ("GET", "POST"):
        answer = api.ask(method, f"{PODS}/p/{path}", {} if method == "POST" else None)
        assert (answer.code, answer.json["message"]) == (404, "the server could not find the requested resource")


@pytest.mark.parametrize("path", ["scale/./", "scale/x"])
def test_nothing_is_below_a_scale(api: MemoryAPI, path: str) -> None:
    answer = api.ask("GET", f"/apis/apps/v1/namespaces/n/deployments/none/{path}")
    assert (answer.code, answer.json["details"]) == (404, {})


@pytest.mark.parametrize(
    ("part", "added"), [("ephemeralcontainers", {"ephemeralContainers": [{"name": "e", "image": "i"}]}), ("resize", {})]
)
def test_a_write_of_a_part_owns_what_else_the_body_changes(api: MemoryAPI, part: str, added: dict[str, Any]) -> None:
    """The rest of the body has no effect on the pod, but takes fields from their owners, as in kube-apiserver."""
    body: dict[str, Any] = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}
    one = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    assert api.ask("POST", PODS, {**body, "spec": {"nodeName": "x", "containers": [one]}}).code == 201
    body["metadata"]["labels"] = {"a": "b"}
    body["spec"] = {"containers": [{**one, "image": "j"}], **added}
    patch = api.ask("PATCH", f"{PODS}/p/{part}?fieldManager=m", body, type="application/strategic-merge-patch+json")
    assert patch.code == 200, patch.json
    entry, first = sorted(patch.json["metadata"]["managedFields"], key=lambda each: each["manager"])
    assert (entry["manager"], entry["subresource"]) == ("m", part)
    assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}
    container = 'k:{"name":"c"}'
    assert "f:image" in entry["fieldsV1"]["f:spec"]["f:containers"][container]
    assert "f:image" not in first["fieldsV1"]["f:spec"]["f:containers"][container]
    assert patch.json["spec"]["containers"][0]["image"] == "i"
