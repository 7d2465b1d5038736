"""What a kubelet may ask for in the name of the pods on its node: tokens for audiences, certificates; and what it may report."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.interface import DELETE, UPDATE, Attributes, Plugin
from kapi.admission.plugins import node_restriction
from kapi.machinery import tree
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from tests.admission.fakes import FakeClient, attributes, finish, initializer, pod

NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))


class Node:
    """A plugin, and a cluster with a node ``n1`` and a pod ``p`` on it."""

    def __init__(self, **features: bool) -> None:
        self.client = FakeClient()
        self.client.put("", "nodes", {"metadata": {"name": "n1", "uid": "node-uid"}})
        self.client.put("", "serviceaccounts", {"metadata": {"name": "sa", "namespace": "n", "uid": "sa-uid"}})
        self.pod = pod("p", nodeName="n1", serviceAccountName="sa")
        self.pod["metadata"]["uid"] = "pod-uid"
        self.client.put("", "pods", self.pod)
        self.plugin: Plugin = node_restriction.NodeRestriction(initializer(self.client, features=features))

    def ask(self, request: Attributes) -> None:
        finish(self.plugin.admit(request))

    def refusal(self, request: Attributes) -> StatusError:
        with pytest.raises(StatusError) as caught:
            self.ask(request)
        return caught.value


class TestAudiences:
    def request(self, *audiences: str) -> Attributes:
        ref = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "pod-uid"}
        obj = {"metadata": {"name": "sa"}, "spec": {"boundObjectRef": ref, "audiences": list(audiences)}}
        return attributes(obj, resource="serviceaccounts", kind="TokenRequest", subresource="token", user=NODE)

    def driver(self, node: Node, name: str, *audiences: str) -> None:
        requests = [{"audience": audience} for audience in audiences]
        node.client.put(
            "storage.k8s.io", "csidrivers", {"metadata": {"name": name}, "spec": {"tokenRequests": requests}}
        )

    def test_a_driver_of_a_volume_names_them(self) -> None:
        node = Node()
        node.pod["spec"]["volumes"] = [{"name": "v", "csi": {"driver": "d"}}]
        self.driver(node, "d", "vault")
        node.ask(self.request("vault"))
        assert 'audience "else" not found in pod spec volume' in node.refusal(self.request("else")).message

    @pytest.mark.parametrize(
        ("volume", "claim"),
        [
            ({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, "c"),
            ({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}, "p-v"),
        ],
    )
    @pytest.mark.parametrize(
        ("disk", "driver"),
        [({"csi": {"driver": "d"}}, "d"), ({"awsElasticBlockStore": {"volumeID": "x"}}, "ebs.csi.aws.com")],
    )
    def test_claims_lead_to_the_driver(self, volume: Object, claim: str, disk: Object, driver: str) -> None:
        node = Node()
        node.pod["spec"]["volumes"] = [volume]
        self.driver(node, driver, "vault")
        missing = node.refusal(self.request("vault")).message
        assert f'error validating audience "vault": persistentvolumeclaim "{claim}" not found' in missing
        client = node.client
        client.put(
            "",
            "persistentvolumeclaims",
            {"metadata": {"name": claim, "namespace": "n"}, "spec": {"volumeName": "disk"}},
        )
        assert 'persistentvolume "disk" not found' in node.refusal(self.request("vault")).message
        client.put("", "persistentvolumes", {"metadata": {"name": "disk"}, "spec": disk})
        node.ask(self.request("vault"))

    def test_no_more_than_one(self) -> None:
        assert "node may only request 0 or 1 audiences" in Node().refusal(self.request("a", "b")).message


class TestPodCertificates:
    GOOD = {
        "nodeName": "n1",
        "nodeUID": "node-uid",
        "podName": "p",
        "podUID": "pod-uid",
        "serviceAccountName": "sa",
        "serviceAccountUID": "sa-uid",
    }

    def request(self, **spec: Any) -> Attributes:
        obj = {"metadata": {"name": "r", "namespace": "n"}, "spec": {**self.GOOD, **spec}}
        return attributes(
            obj,
            group="certificates.k8s.io",
            version="v1beta1",
            resource="podcertificaterequests",
            kind="PodCertificateRequest",
            user=NODE,
        )

    def test_for_a_pod_on_the_node(self) -> None:
        Node(PodCertificateRequest=True).ask(self.request())
        assert "feature gate is disabled" in Node().refusal(self.request()).message

    @pytest.mark.parametrize(
        ("spec", "code", "said"),
        [
            ({"nodeName": "n2"}, 403, 'Spec.NodeName="n2", which is not the requesting node "n1"'),
            ({"nodeUID": "x"}, 500, 'names node UID "x", inconsistent with the running node ("node-uid")'),
            (
                {"podName": "gone"},
                500,
                'while retrieving pod "n/gone" named in the PodCertificateRequest: pod "gone" not',
            ),
            ({"podUID": "x"}, 500, 'contains pod UID ("x") which differs from running pod "pod-uid"'),
            (
                {"serviceAccountName": "x"},
                403,
                'contains serviceAccountName ("x") that differs from running pod ("sa")',
            ),
            (
                {"serviceAccountUID": "x"},
                500,
                'service account UID "x", which differs from the running service account',
            ),
        ],
    )
    def test_that_is_what_the_request_says(self, spec: Object, code: int, said: str) -> None:
        error = Node(PodCertificateRequest=True).refusal(self.request(**spec))
        assert (error.code, said in error.message) == (code, True), error.message

    def test_not_for_mirror_pods_and_pods_elsewhere(self) -> None:
        node = Node(PodCertificateRequest=True)
        node.pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        assert 'pod "n/p" is a mirror pod' in node.refusal(self.request()).message
        node.pod["spec"]["nodeName"] = "n2"
        assert 'pod "n/p" is not running on node "n1"' in node.refusal(self.request()).message


class TestReports:
    def status(self, node: Node, **changes: Any) -> Attributes:
        new = tree.copy(node.pod)
        for key, value in changes.items():
            (new["metadata"] if key == "labels" else new.setdefault("status", {}))[key] = value
        return attributes(new, node.pod, operation=UPDATE, subresource="status", user=NODE)

    def test_of_its_pods_but_not_their_labels_and_claims(self) -> None:
        node = Node()
        node.ask(self.status(node, phase="Running"))
        assert "cannot update labels through pod status" in node.refusal(self.status(node, labels={"a": "b"})).message
        claims = [{"name": "c", "resourceClaimName": "x"}]
        text = node.refusal(self.status(node, resourceClaimStatuses=claims)).message
        assert "cannot update resource claim statues" in text
        node.pod["spec"]["nodeName"] = "n2"
        assert "for pods with spec.nodeName set to itself" in node.refusal(self.status(node)).message

    def test_of_claims_but_their_size(self) -> None:
        node = Node()
        old = {"metadata": {"name": "c", "namespace": "n"}, "spec": {}, "status": {"phase": "Bound"}}
        bigger = {**old, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}
        lost = {**old, "status": {"phase": "Lost"}}

        def request(new: Object, subresource: str = "status") -> Attributes:
            resource = "persistentvolumeclaims"
            return attributes(new, old, operation=UPDATE, resource=resource, subresource=subresource, user=NODE)

        node.ask(request(bigger))
        assert "other than status.quantity and status.conditions" in node.refusal(request(lost)).message
        assert "may only update PVC status" in node.refusal(request(bigger, "")).message

    def test_of_devices_on_itself(self) -> None:
        node = Node()

        def request(name: str, operation: str = "CREATE") -> Attributes:
            obj = {"metadata": {"name": "s"}, "spec": {"nodeName": name}}
            pair = (None, obj) if operation == DELETE else (obj, None)
            more = {"group": "resource.k8s.io", "resource": "resourceslices", "namespace": "", "user": NODE}
            return attributes(*pair, operation=operation, **more)

        node.ask(request("n1"))
        node.ask(request("n1", DELETE))
        assert "can only create ResourceSlice" in node.refusal(request("n2")).message
        assert "can only delete ResourceSlice" in node.refusal(request("n2", DELETE)).message

    def test_a_user_of_the_group_without_a_nodes_name_is_nobody(self) -> None:
        request = attributes(pod(), user=UserInfo("someone", groups=("system:nodes",)))
        finish(Node().plugin.admit(request))
        nameless = attributes(pod(), user=UserInfo("system:node:", groups=("system:nodes",)))
        assert 'could not determine node from user "system:node:"' in Node().refusal(nameless).message
