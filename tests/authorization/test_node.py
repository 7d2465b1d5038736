"""A kubelet reaches what belongs to the pods on its node."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from kapi.authorization.interface import Decision
from kapi.authorization.node.authorizer import NodeAuthorizer
from kapi.authorization.node.graph import NodeGraph
from kapi.authorization.node.references import pod_secrets, volume_secrets
from kapi.authorization.rbac.bootstrap import node_rules
from kapi.machinery.tree import Object
from kapi.process.slices import Slices
from kapi.request.user import UserInfo
from tests.authorization.policies import ask
from tests.growth.counting import stretches
from tests.turns import one_turn

MANY = 2000

N1 = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))
N2 = UserInfo("system:node:n2", groups=("system:nodes", "system:authenticated"))
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "x"},
    "spec": {
        "nodeName": "n1",
        "serviceAccountName": "app",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "init"}}]}],
        "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}]}],
        "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "debug"}}]}],
        "volumes": [
            {"name": "s", "secret": {"secretName": "volume"}},
            {
                "name": "j",
                "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "map"}}]},
            },
            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "e", "ephemeral": {}},
        ],
        "resourceClaims": [{"name": "g", "resourceClaimName": "gpu"}, {"name": "t", "resourceClaimTemplateName": "tt"}],
    },
    "status": {
        "resourceClaimStatuses": [{"name": "t", "resourceClaimName": "made"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    },
}
VOLUME = {
    "metadata": {"name": "pv"},
    "spec": {
        "claimRef": {"namespace": "x", "name": "claim"},
        "csi": {
            "nodeStageSecretRef": {"name": "stage", "namespace": "s"},
            "controllerExpandSecretRef": {"name": "ctl"},
        },
    },
}


def node_authorizer() -> NodeAuthorizer:
    graph = NodeGraph()
    graph.on_pod("ADDED", POD)
    graph.on_volume("ADDED", VOLUME)
    graph.on_attachment("ADDED", {"metadata": {"name": "va"}, "spec": {"nodeName": "n1"}})
    graph.on_slice("ADDED", {"metadata": {"name": "slice"}, "spec": {"nodeName": "n1"}})
    return NodeAuthorizer(graph, node_rules())


RELATED = [
    ("secrets", "pull"),
    ("secrets", "env"),
    ("secrets", "debug"),
    ("secrets", "volume"),
    ("secrets", "projected"),
    ("configmaps", "init"),
    ("configmaps", "map"),
    ("persistentvolumeclaims", "claim"),
    ("persistentvolumeclaims", "p-e"),
    ("serviceaccounts", "app"),
    ("pods", "p"),
]


@pytest.mark.parametrize(("resource", "name"), RELATED)
def test_objects_of_its_pods(resource: str, name: str) -> None:
    nodes = node_authorizer()
    assert nodes.authorize(ask(N1, "get", resource, "x", name=name)).decision is Decision.ALLOW
    verdict = nodes.authorize(ask(N2, "get", resource, "x", name=name))
    assert verdict.decision is Decision.NO_OPINION
    assert verdict.reason == "no relationship found between node 'n2' and this object"
    assert nodes.authorize(ask(N1, "get", resource, "y", name=name)).decision is Decision.NO_OPINION


def test_claims_volumes_attachments_and_slices() -> None:
    nodes = node_authorizer()
    for who, expected in ((N1, Decision.ALLOW), (N2, Decision.NO_OPINION)):
        for name in ("gpu", "made", "extended"):
            question = ask(who, "get", "resourceclaims", "x", "resource.k8s.io", name=name)
            assert nodes.authorize(question).decision is expected
        assert nodes.authorize(ask(who, "get", "persistentvolumes", name="pv")).decision is expected
        assert nodes.authorize(ask(who, "get", "secrets", "s", name="stage")).decision is expected
        assert (
            nodes.authorize(ask(who, "get", "volumeattachments", "", "storage.k8s.io", name="va")).decision is expected
        )
        assert (
            nodes.authorize(ask(who, "delete", "resourceslices", "", "resource.k8s.io", name="slice")).decision
            is expected
        )
    assert nodes.authorize(ask(N1, "get", "secrets", "x", name="ctl")).decision is Decision.NO_OPINION


def test_access_ends_with_the_pod() -> None:
    nodes = node_authorizer()
    nodes.graph.on_pod("DELETED", POD)
    for resource, name in RELATED:
        assert nodes.authorize(ask(N1, "get", resource, "x", name=name)).decision is Decision.NO_OPINION
    assert nodes.authorize(ask(N1, "get", "persistentvolumes", name="pv")).decision is Decision.NO_OPINION


def test_a_mirror_pod_lends_nothing() -> None:
    graph = NodeGraph()
    graph.on_pod("ADDED", {**POD, "metadata": {**POD["metadata"], "annotations": {"kubernetes.io/config.mirror": "h"}}})
    nodes = NodeAuthorizer(graph, node_rules())
    assert nodes.authorize(ask(N1, "get", "secrets", "x", name="volume")).decision is Decision.NO_OPINION
    assert nodes.authorize(ask(N1, "get", "pods", "x", name="p")).decision is Decision.ALLOW


def test_collections_only_with_the_own_node_selected() -> None:
    nodes = node_authorizer()
    own = (("spec.nodeName", "=", "n1"),)
    assert nodes.authorize(ask(N1, "list", "pods", field_requirements=own)).decision is Decision.ALLOW
    refused = nodes.authorize(ask(N2, "list", "pods", field_requirements=own))
    assert refused.reason == "can only list/watch pods with spec.nodeName field selector"
    assert nodes.authorize(ask(N1, "list", "secrets", "x")).reason == "No Object name found"
    assert nodes.authorize(ask(N1, "list", "secrets", "x", name="env")).decision is Decision.ALLOW


def test_its_own_node_lease_and_csinode() -> None:
    nodes = node_authorizer()
    assert nodes.authorize(ask(N1, "get", "nodes", name="n1")).decision is Decision.ALLOW
    assert "only its own Node object" in nodes.authorize(ask(N1, "get", "nodes", name="n2")).reason
    lease = ask(N1, "update", "leases", "kube-node-lease", "coordination.k8s.io", name="n1")
    assert nodes.authorize(lease).decision is Decision.ALLOW
    lease.name = "n2"
    assert nodes.authorize(lease).decision is Decision.NO_OPINION
    assert nodes.authorize(ask(N1, "get", "csinodes", "", "storage.k8s.io", name="n2")).decision is Decision.NO_OPINION


def test_tokens_for_accounts_of_its_pods_only() -> None:
    nodes = node_authorizer()
    assert nodes.authorize(ask(N1, "create", "serviceaccounts/token", "x", name="app")).decision is Decision.ALLOW
    assert nodes.authorize(ask(N2, "create", "serviceaccounts/token", "x", name="app")).decision is Decision.NO_OPINION
    assert (
        nodes.authorize(ask(N1, "create", "serviceaccounts/token", "x", name="other")).decision is Decision.NO_OPINION
    )


def test_the_group_makes_the_node() -> None:
    nodes = node_authorizer()
    assert nodes.authorize(ask(UserInfo("system:node:n1"), "get", "nodes", name="n1")) == (Decision.NO_OPINION, "", "")
    unknown = UserInfo("system:node:", groups=("system:nodes",))
    assert nodes.authorize(ask(unknown, "get", "nodes", name="n1")).reason == 'unknown node for user "system:node:"'


def test_rules_cannot_be_listed() -> None:
    assert node_authorizer().rules_for(N1, "x").incomplete
    assert not node_authorizer().rules_for(UserInfo("alice"), "x").incomplete


def test_requests_for_certificates_of_its_pods() -> None:
    request = {"metadata": {"name": "r", "namespace": "x"}, "spec": {"nodeName": "n1"}}
    plain = node_authorizer()
    nodes = NodeAuthorizer(plain.graph, node_rules(), {"PodCertificateRequest"})
    nodes.graph.on_pod_certificate("ADDED", request)

    def may(user: UserInfo, verb: str, subresource: str = "", **more: Any) -> bool:
        asked = ask(user, verb, f"podcertificaterequests{subresource}", "x", group="certificates.k8s.io", **more)
        assert plain.authorize(asked).decision is Decision.NO_OPINION
        return nodes.authorize(asked).decision is Decision.ALLOW

    own = (("spec.nodeName", "=", "n1"),)
    assert may(N1, "create") and may(N1, "get", name="r") and not may(N2, "get", name="r")
    assert may(N1, "list", field_requirements=own) and not may(N2, "watch", field_requirements=own)
    assert not may(N1, "update", name="r") and not may(N1, "get", subresource="/status", name="r")
    nodes.graph.on_pod_certificate("DELETED", request)
    assert not may(N1, "get", name="r")


def reading(*secrets: str) -> Object:
    """A pod on a node."""
    env = [{"valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}} for name in secrets]
    return {"metadata": {"name": "p", "namespace": "x"}, "spec": {"nodeName": "n1", "containers": [{"env": env}]}}


def test_a_pod_that_reads_thousands_of_secrets_is_taken_in_in_steps() -> None:
    graph = NodeGraph()
    first, second = (reading(*(f"{start}{number}" for number in range(MANY))) for start in "ab")
    for event, pod in (("ADDED", first), ("MODIFIED", second), ("DELETED", second)):
        found = stretches(lambda event=event, pod=pod: graph.on_pod(event, pod))  # type: ignore[misc]
        assert found.longest < MANY / 2, found.where


def test_while_a_pod_changes_its_node_keeps_what_stays() -> None:
    graph, clock = NodeGraph(), Clock()
    call = Slices(clock, length=-1.0).call
    before, after = ([f"s{number}" for number in range(start, start + 100)] for start in (0, 50))
    graph.on_pod("ADDED", reading(*before))
    changed, turns = call(graph.on_pod, "MODIFIED", reading(*after)), 0
    while not changed.called:
        turns += 1
        assert all(graph.leads_to("n1", "secret", "x", name) for name in {*before} & {*after})
        one_turn(clock)
    assert turns
    assert [name for name in before if graph.leads_to("n1", "secret", "x", name)] == before[50:]
    assert all(graph.leads_to("n1", "secret", "x", name) for name in after)


@pytest.mark.parametrize(
    ("verb", "name", "subresource", "reason"),
    [
        ("create", "app", "token", ""),
        ("create", "", "token", "can only create tokens for individual service accounts"),
        ("update", "app", "token", "can only create tokens for individual service accounts"),
        ("get", "app", "token", "can only create tokens for individual service accounts"),
        ("create", "app", "", "can only create token subresource of serviceaccount"),
        ("create", "other", "token", "no relationship found between node 'n1' and this object"),
    ],
)
def test_of_a_service_account_a_node_makes_tokens(verb: str, name: str, subresource: str, reason: str) -> None:
    resource = f"serviceaccounts/{subresource}".rstrip("/")
    found = node_authorizer().authorize(ask(N1, verb, resource, "x", name=name))
    assert (found.decision is Decision.ALLOW, found.reason) == (not reason, reason)


@pytest.mark.parametrize(
    ("gates", "allowed"),
    [
        ({"KubeletServiceAccountTokenForCredentialProviders"}, True),
        ({"PodCertificateRequest"}, True),
        (set(), False),
    ],
)
def test_a_node_reads_the_service_accounts_of_its_pods_while_a_gate_needs_it(gates: set[str], allowed: bool) -> None:
    nodes = NodeAuthorizer(node_authorizer().graph, node_rules(frozenset(gates)), gates)
    found = nodes.authorize(ask(N1, "get", "serviceaccounts", "x", name="app"))
    assert (found.decision is Decision.ALLOW, found.reason) == (
        allowed,
        "" if allowed else "not allowed to get service accounts",
    )
    other = nodes.authorize(ask(N1, "get", "serviceaccounts", "x", name="other"))
    assert other.decision is Decision.NO_OPINION
    assert nodes.authorize(ask(N1, "create", "serviceaccounts/token", "x", name="app")).decision is Decision.ALLOW


NO_RELATION = "no relationship found between node 'n1' and this object"
READ, GET = "can only read resources of this type", "can only get individual resources of this type"
LEASE = "can only get, create, update, patch, or delete a node lease"
CSI_NODE = "can only get, create, update, patch, or delete a CSINode"
SLICES = "can only list/watch/deletecollection resourceslices with nodeName field selector"
SLICE_VERBS = (
    "only the following verbs are allowed for a ResourceSlice: "
    "get, watch, list, create, update, patch, delete, deletecollection"
)
PODS = "can only list/watch pods with spec.nodeName field selector"
NODES = "node 'n1' cannot read all nodes, only its own Node object"
NODE = "node 'n1' cannot read 'n2', only its own Node object"


@pytest.mark.parametrize(
    ("verbs", "resource", "place", "reason"),
    [
        ("get list watch", "secrets", "x/volume", ""), ("get list watch", "configmaps", "x/map", ""),
        ("create update patch delete deletecollection", "secrets", "x/volume", READ),
        ("get", "secrets/status", "x/volume", "cannot read subresource"),
        ("get list", "secrets", "/volume", "can only read namespaced object of this type"),
        ("get", "persistentvolumeclaims", "x/claim", ""), ("list watch update", "persistentvolumeclaims", "x/claim", GET),
        ("update patch", "persistentvolumeclaims/status", "x/claim", ""),
        ("update", "persistentvolumeclaims/status", "x/other", NO_RELATION),
        ("get create delete", "persistentvolumeclaims/status", "x/claim", "can only get/update/patch this type"),
        ("get", "persistentvolumeclaims/odd", "x/claim", "cannot get subresource"),
        ("get", "persistentvolumes", "/pv", ""), ("list watch update delete", "persistentvolumes", "/pv", GET),
        ("get", "persistentvolumes/status", "/pv", "cannot get subresource"),
        ("get", "persistentvolumes", "/", "No Object name found"), ("get", "persistentvolumes", "/other", NO_RELATION),
        ("get update patch delete", "leases.coordination.k8s.io", "kube-node-lease/n1", ""),
        ("create", "leases.coordination.k8s.io", "kube-node-lease/", ""),
        ("list watch deletecollection", "leases.coordination.k8s.io", "kube-node-lease/n1", LEASE),
        ("get create update", "leases.coordination.k8s.io", "x/n1",
         'can only access leases in the "kube-node-lease" system namespace'),
        ("get update patch delete", "leases.coordination.k8s.io", "kube-node-lease/n2",
         "can only access node lease with the same name as the requesting node"),
        ("get update patch delete", "csinodes.storage.k8s.io", "/n1", ""), ("create", "csinodes.storage.k8s.io", "/", ""),
        ("list watch", "csinodes.storage.k8s.io", "/n1", CSI_NODE),
        ("get", "csinodes/status.storage.k8s.io", "/n1", "cannot authorize CSINode subresources"),
        ("get update patch delete", "csinodes.storage.k8s.io", "/n2",
         "can only access CSINode with the same name as the requesting node"),
        ("create", "resourceslices.resource.k8s.io", "/", ""),
        ("get update patch delete", "resourceslices.resource.k8s.io", "/slice", ""),
        ("get update patch delete", "resourceslices.resource.k8s.io", "/other", NO_RELATION),
        ("list watch deletecollection", "resourceslices.resource.k8s.io", "/", SLICES),
        ("proxy", "resourceslices.resource.k8s.io", "/slice", SLICE_VERBS),
        ("get", "resourceslices/status.resource.k8s.io", "/slice", "cannot authorize ResourceSlice subresources"),
        ("create update patch", "nodes", "/n1", ""), ("get list watch", "nodes", "/n1", ""),
        ("get list watch", "nodes", "/n2", NODE), ("list watch", "nodes", "/", NODES), ("delete", "nodes", "/n1", "-"),
        ("update patch", "nodes/status", "/n1", ""), ("get", "nodes/status", "/n1", "-"), ("update", "nodes/odd", "/n1", "-"),
        ("get list watch", "pods", "x/p", ""), ("get list", "pods", "x/q", NO_RELATION), ("list watch", "pods", "x/", PODS),
        ("create delete", "pods", "x/q", ""), ("update patch deletecollection", "pods", "x/p", "-"),
        ("update patch", "pods/status", "x/q", ""), ("get create", "pods/status", "x/p", "-"),
        ("create", "pods/eviction", "x/q", ""), ("update", "pods/eviction", "x/q", "-"), ("create", "pods/binding", "x/q", "-"),
        ("get", "services", "x/s", ""), ("update", "services", "x/s", "-"),  # by the rules of all nodes
    ],
)  # fmt: skip
def test_what_a_node_may_ask(verbs: str, resource: str, place: str, reason: str) -> None:
    """``-``: the authorizer has nothing to say."""
    plural, _, group = resource.partition(".")
    namespace, _, name = place.partition("/")
    for verb in verbs.split():
        found = node_authorizer().authorize(ask(N1, verb, plural, namespace, group, name=name))
        decision = Decision.NO_OPINION if reason else Decision.ALLOW
        assert (found.decision, found.reason) == (decision, reason.strip("-")), verb


@pytest.mark.parametrize(
    ("verbs", "resource"),
    [("list watch", "pods"), ("list watch deletecollection", "resourceslices.resource.k8s.io")],
)
def test_what_a_node_selects_is_its_own(verbs: str, resource: str) -> None:
    plural, _, group = resource.partition(".")
    for verb in verbs.split():
        for field, operator, value, allowed in (
            ("spec.nodeName", "=", "n1", True), ("spec.nodeName", "==", "n1", True), ("spec.nodeName", "!=", "n1", False),
            ("spec.nodeName", "=", "n2", False), ("metadata.name", "=", "n1", False),
        ):  # fmt: skip
            asked = ask(N1, verb, plural, group=group, field_requirements=((field, operator, value),))
            assert (node_authorizer().authorize(asked).decision is Decision.ALLOW) is allowed


@pytest.mark.parametrize("kind", ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"])
def test_secrets_of_volumes_of_each_kind(kind: str) -> None:
    """Those of a pod's volume are of its namespace; those of a persistent one may be of another."""
    pod = {**POD, "spec": {"nodeName": "n1", "volumes": [{"name": "v", kind: {"secretRef": {"name": "a"}}}]}}
    assert pod_secrets(pod) == {"a"}
    for given, where in (({}, "x"), ({"namespace": "s"}, "s")):
        volume = {"spec": {"claimRef": {"namespace": "x"}, kind: {"secretRef": {"name": "a", **given}}}}
        assert volume_secrets(volume) == {(where, "a")}
    assert volume_secrets({"spec": {"claimRef": {"namespace": "x"}, kind: {"secretRef": {}}}}) == set()


def test_secrets_of_other_volumes() -> None:
    for source in ({"azureFile": {"secretName": "a"}}, {"csi": {"nodePublishSecretRef": {"name": "a"}}}):
        assert pod_secrets({"spec": {"volumes": [source]}}) == {"a"}
    claim = {"claimRef": {"namespace": "x"}}
    for given, where in (({}, "x"), ({"secretNamespace": "s"}, "s")):
        assert volume_secrets({"spec": {**claim, "azureFile": {"secretName": "a", **given}}}) == {(where, "a")}
    assert volume_secrets({"spec": {**claim, "azureFile": {"secretNamespace": "s"}}}) == set()
    for name in ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"):
        assert volume_secrets({"spec": {**claim, "csi": {name: {"name": "a"}}}}) == {("x", "a")}
    for name in ("controllerExpandSecretRef", "controllerPublishSecretRef"):
        assert volume_secrets({"spec": {**claim, "csi": {name: {"name": "a"}}}}) == set()
