"""How often, and by which rules, the metadata of each kind are judged: upstream's rooms differ in that."""

from __future__ import annotations

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.registry.metadata import validate, validate_update
from kapi.resources.catalogue import BUILT_IN
from kapi.resources.definition import Resource, StrategyContext
from tests.resources.strategy_kit import changes, made, problems

#: kind -> what its own rules say of a label that is not valid, when an object is changed
COMPLAINTS = {
    "runtimeclasses": 2, "roles": 2, "clusterroles": 2, "rolebindings": 2, "clusterrolebindings": 2, "namespaces": 2,
    "nodes": 2, "configmaps": 2, "secrets": 2, "serviceaccounts": 2, "persistentvolumeclaims": 2, "ingresses": 2,
    "persistentvolumes": 2, "ingressclasses": 2, "ipaddresses": 2, "storageclasses": 2, "csistoragecapacities": 2,
    "volumeattributesclasses": 2, "apiservices": 2, "certificatesigningrequests": 2, "deviceclasses": 2,
    "resourceclaims": 2, "resourceclaimtemplates": 2, "endpoints": 2,
    "validatingwebhookconfigurations": 1, "mutatingwebhookconfigurations": 1, "validatingadmissionpolicies": 1,
    "validatingadmissionpolicybindings": 1, "mutatingadmissionpolicies": 1, "mutatingadmissionpolicybindings": 1,
    "flowschemas": 1, "prioritylevelconfigurations": 1, "limitranges": 1, "resourcequotas": 1, "leases": 1,
    "priorityclasses": 1, "services": 1, "endpointslices": 1, "networkpolicies": 1, "servicecidrs": 1, "csidrivers": 1,
    "csinodes": 1, "volumeattachments": 1, "resourceslices": 1,
}  # fmt: skip
#: the same of a change of the status; the others say it once
STATUS_COMPLAINTS = {"flowschemas": 0, "prioritylevelconfigurations": 0, "validatingadmissionpolicies": 0}
#: kinds whose finalizers need no domain
FREE_FINALIZERS = {
    "runtimeclasses", "leases", "apiservices", "customresourcedefinitions", "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
}  # fmt: skip
ROWS = {row.plural: row for row in BUILT_IN if not row.handler and row.to_storage is None}


def complaints(texts: list[str], of: str) -> int:
    return sum(text.startswith(f"metadata.{of}") for text in texts)


@pytest.mark.parametrize("plural", COMPLAINTS)
def test_a_bad_label_in_an_update(plural: str) -> None:
    row = ROWS[plural]
    old = made(row)
    metadata = {**old["metadata"], "uid": "u", "resourceVersion": "1", "labels": {"bad label": ""}}
    assert complaints(changes(row, old, metadata=metadata), "labels") == COMPLAINTS[plural]


@pytest.mark.parametrize("plural", sorted(STATUS_COMPLAINTS) + ["resourcequotas", "nodes", "ingresses", "services"])
def test_a_bad_finalizer_in_an_update_of_the_status(plural: str) -> None:
    row = ROWS[plural]
    old = made(row, metadata={"finalizers": ["free"]})
    found = changes(row, old, subresource="status", status=old.get("status") or {})
    assert complaints(found, "finalizers") == STATUS_COMPLAINTS.get(plural, 1)


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.plural)
def test_finalizers_without_a_domain(row: Resource) -> None:
    if row.plural in ("poddisruptionbudgets", "events"):
        pytest.skip("the metadata of new ones are left to the rules of all kinds")
    found = problems(row, metadata={"finalizers": ["free"]})
    assert bool(complaints(found, "finalizers")) == (row.plural not in FREE_FINALIZERS)


#: what may be wrong with the metadata of a new object of any kind
WRONG: dict[str, Object] = {
    "name": {"name": "a/b"}, "dots": {"name": ".."}, "percent": {"name": "a%b"}, "no name": {"name": ""},
    "prefix": {"generateName": "a/b"}, "namespace": {"namespace": "A"}, "no namespace": {"namespace": ""},
    "a namespace": {"namespace": "n"}, "generation": {"generation": -1}, "labels": {"labels": {"bad label": ""}},
    "annotations": {"annotations": {"bad key": ""}}, "finalizers": {"finalizers": ["bad finalizer"]},
    "owners": {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
    "fields": {"managedFields": [{"operation": "Create"}]},
    "manager": {"managedFields": [{"operation": "Apply", "manager": "\n"}]},
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_any_metadata_is_wrong_for_each_kind_that_judges_it_alone(wrong: str) -> None:
    """Of these kinds the general rules are not asked."""
    rows = [row for row in ROWS.values() if row.strategy.covers_metadata]
    assert {"configmaps", "secrets", "pods"} <= {row.plural for row in rows}
    for row in rows:
        obj = made(row)
        obj["metadata"].update(WRONG[wrong])
        context = StrategyContext(obj["metadata"].get("namespace", ""), "x")
        if validate(obj, row.namespaced):
            found = [str(error) for error in row.strategy.validate(obj, context)]
            assert any(text.startswith("metadata.") for text in found), (row.plural, found)


#: what may be wrong with a change of the metadata of any kind, besides
CHANGED: dict[str, Object] = {
    "another uid": {"uid": "other"}, "another name": {"name": "b"}, "no version": {"resourceVersion": ""},
    "created later": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "going": {"deletionTimestamp": "2025-01-01T00:00:00Z"},
    "type of fields": {"managedFields": [{"operation": "Apply", "fieldsType": "FieldsV2"}]},
    "subresource": {"managedFields": [{"operation": "Apply", "subresource": "s" * 257}]},
    "long manager": {"managedFields": [{"operation": "Apply", "manager": "\u00e9" * 65}]},
    "nothing": {"managedFields": [{"operation": "Update", "manager": "m" * 128, "fieldsType": "FieldsV1"}]},
    "two owners": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "ab"
    ]},
}  # fmt: skip


@pytest.mark.parametrize("wrong", [*WRONG, *CHANGED])
def test_what_is_wrong_with_a_change_of_any_metadata_is_told_whoever_finds_it(wrong: str) -> None:
    """Of kinds that judge what may change in the metadata the general rules ask only for the rest, when these find nothing."""
    seen = set()
    for row in ROWS.values():
        strategies = [row.strategy, *(sub.strategy for sub in row.subresources if sub.strategy is not None)]
        for strategy in strategies:
            if not strategy.covers_metadata_changes:
                continue
            old = made(row, metadata={"uid": "u", "resourceVersion": "1", "generation": 2})
            new = tree.copy(old)
            new["metadata"].update({**WRONG, **CHANGED}[wrong])
            context = StrategyContext(new["metadata"].get("namespace", ""), "a")
            if strategy.validate_update(tree.copy(new), old, context):
                continue  # then they are asked for all
            whole = validate_update(new, old, row.namespaced)
            rest = validate_update(new, old, row.namespaced, judged=True)
            assert list(map(str, rest)) == list(map(str, whole)), row.plural
            seen.add(row.plural)
    assert seen or wrong != "nothing"


def test_common_kinds_judge_what_may_change_in_their_metadata() -> None:
    plurals = {row.plural for row in ROWS.values() if row.strategy.covers_metadata_changes}
    assert {"configmaps", "secrets", "pods", "leases", "deployments"} <= plurals
    assert not {"flowschemas", "limitranges", "endpointslices"} & plurals  # upstream's rules for these ask for less


def test_an_api_service_is_named_after_its_group_version() -> None:
    row, spec = ROWS["apiservices"], {"group": "g.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    assert problems(row, metadata={"name": "v1.g.io"}, spec=spec) == []
    text = 'must be `spec.version+"."+spec.group`: "v1.g.io"'
    assert problems(row, metadata={"name": "x", "generateName": "y", "labels": {"bad label": ""}}, spec=spec)[:2] == [
        f'metadata.generateName: Invalid value: "y": {text}',
        f'metadata.name: Invalid value: "x": {text}',
    ]
    assert problems(row, metadata={"name": ""}, spec=spec) == [
        "metadata.name: Required value: name or generateName is required"
    ]
