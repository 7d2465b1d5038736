"""Roles and bindings: what their rules, references and subjects must be."""

from __future__ import annotations

import pytest

from kapi.machinery.tree import Object
from kapi.resources import rbac
from tests.resources.strategy_kit import changes, made, problems, short

GROUP = "rbac.authorization.k8s.io"
RULE: Object = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
UNKNOWN: Object = {"matchExpressions": [{"key": "a", "operator": "X"}]}
REFERENCE: Object = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        (RULE, []),
        (
            {},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            {**RULE, "nonResourceURLs": ["/healthz"]},
            [
                'rules[0].nonResourceURLs: Invalid value: ["/healthz"]: '
                "rules cannot apply to both regular resources and non-resource URLs"
            ],
        ),
    ],
)
def test_rules_of_a_cluster_role(rule: Object, texts: list[str]) -> None:
    assert problems(rbac.CLUSTER_ROLE, rules=[rule]) == texts


def test_a_role_in_a_namespace_has_no_urls() -> None:
    assert problems(rbac.ROLE, rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"]}]) == [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'
    ]


def test_an_aggregated_role_selects_something() -> None:
    assert problems(rbac.CLUSTER_ROLE, aggregationRule={"clusterRoleSelectors": []}) == [
        "aggregationRule.clusterRoleSelectors: Required value: "
        "at least one clusterRoleSelector required if aggregationRule is non-nil"
    ]


def test_selectors_of_an_aggregated_role() -> None:
    place = "aggregationRule.clusterRoleSelectors[0]"

    def rule(**selector: Object) -> Object:
        return {"clusterRoleSelectors": [selector]}

    bad = rule(matchLabels={"a": "-"})
    assert short(problems(rbac.CLUSTER_ROLE, aggregationRule=bad)) == [
        f'{place}.matchLabels: Invalid value: "-": <label value>',
        f"{place}: Invalid value: null: invalid label selector.",
    ]
    assert problems(rbac.CLUSTER_ROLE, aggregationRule={"clusterRoleSelectors": [UNKNOWN]}) == [
        f'{place}.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator',
        f"{place}: Invalid value: null: invalid label selector.",
    ]


def test_a_changed_role_is_judged_as_a_new_one_first() -> None:
    """The rules come between what is said of the new metadata and what is said of their change."""
    old = made(rbac.ROLE, rules=[RULE])
    metadata = {**old["metadata"], "uid": "u", "resourceVersion": "1", "labels": {"a": "b c"}}
    label = f'metadata.labels: Invalid value: "b c": {LABEL}'
    assert changes(rbac.ROLE, old, metadata=metadata, rules=[{**RULE, "verbs": []}]) == [
        label,
        "rules[0].verbs: Required value: verbs must contain at least one value",
        label,
    ]


def test_references_and_subjects_get_their_group() -> None:
    obj = made(
        rbac.ROLE_BINDING,
        roleRef={"kind": "Role", "name": "r"},
        subjects=[{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
    )
    assert obj["roleRef"]["apiGroup"] == GROUP
    assert [subject.get("apiGroup") for subject in obj["subjects"]] == [GROUP, None]


@pytest.mark.parametrize(
    ("reference", "texts"),
    [
        ({**REFERENCE, "kind": "Role"}, ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"']),
        ({**REFERENCE, "name": ""}, ["roleRef.name: Required value"]),
        ({**REFERENCE, "name": "a/b"}, ["roleRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        (
            {**REFERENCE, "apiGroup": "x"},
            [f'roleRef.apiGroup: Unsupported value: "x": supported values: "{GROUP}"'],
        ),
    ],
)
def test_what_a_cluster_role_binding_refers_to(reference: Object, texts: list[str]) -> None:
    assert problems(rbac.CLUSTER_ROLE_BINDING, roleRef=reference) == texts


@pytest.mark.parametrize(
    ("subject", "texts"),
    [
        ({"kind": "User"}, ["subjects[0].name: Required value"]),
        (
            {"kind": "ServiceAccount", "name": "S", "namespace": "n"},
            ['subjects[0].name: Invalid value: "S": <subdomain>'],
        ),
        (
            {"kind": "Group", "name": "g", "apiGroup": "x"},
            [f'subjects[0].apiGroup: Unsupported value: "x": supported values: "{GROUP}"'],
        ),
        ({"kind": "ServiceAccount", "name": "s"}, ["subjects[0].namespace: Required value"]),
        (
            {"kind": "ServiceAccount", "name": "s", "namespace": "n", "apiGroup": "x"},
            ['subjects[0].apiGroup: Unsupported value: "x": supported values: ""'],
        ),
        (
            {"kind": "Robot", "name": "r"},
            ['subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'],
        ),
    ],
)
def test_subjects_of_a_cluster_role_binding(subject: Object, texts: list[str]) -> None:
    assert short(problems(rbac.CLUSTER_ROLE_BINDING, roleRef=REFERENCE, subjects=[subject])) == texts


def test_a_binding_in_a_namespace_needs_no_namespace_for_accounts() -> None:
    assert problems(rbac.ROLE_BINDING, roleRef=REFERENCE, subjects=[{"kind": "ServiceAccount", "name": "s"}]) == []


def test_the_reference_of_a_binding_is_fixed() -> None:
    old = made(rbac.ROLE_BINDING, roleRef=REFERENCE)
    assert changes(rbac.ROLE_BINDING, old, roleRef={**REFERENCE, "name": "edit"}) == [
        f'roleRef: Invalid value: {{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"edit"}}: cannot change roleRef'
    ]
