"""What a kubelet may ask for in the name of the pods on its node: tokens for audiences, certificates; and what it may report."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kapi.admission.interface import CREATE, DELETE, UPDATE, Attributes, Plugin
from kapi.admission.plugins import node_restriction
from kapi.machinery import tree
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from tests.admission.certificates import make_request
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

    def why(self, request: Attributes) -> str:
        """Why it is forbidden."""
        error = self.refusal(request)
        assert error.code == 403, error.message
        return error.message.partition(" is forbidden: ")[2]


OWNER: Object = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}


def mirror(owners: list[Object] | None = None, node: str = "n1", **spec: Any) -> Object:
    made = pod("m", nodeName=node, **spec)
    made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    made["metadata"]["ownerReferences"] = [OWNER] if owners is None else owners
    return made


def container(**parts: Any) -> list[Object]:
    return [{"name": "c", "image": "i", **parts}]


def volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def projected(**source: Any) -> Object:
    return volume(projected={"sources": [{"downwardAPI": {}}, source]})


OF_ITSELF = 'node "n1" can only create pods with an owner reference set to itself'
CONTROLLER = 'node "n1" can only create pods with a controller owner reference set to itself'


class TestMirrorPods:
    @pytest.mark.parametrize(
        ("made", "text"),
        [
            (pod("m", nodeName="n1"),
             'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods'),
            (mirror(node="n2"), 'node "n1" can only create pods with spec.nodeName set to itself'),
            (mirror(node=""), 'node "n1" can only create pods with spec.nodeName set to itself'),
            (mirror([OWNER, OWNER]), 'node "n1" can only create pods with a single owner reference set to itself'),
            (mirror([]), OF_ITSELF),
            (mirror([{**OWNER, "apiVersion": "v2"}]), OF_ITSELF),
            (mirror([{**OWNER, "kind": "Pod"}]), OF_ITSELF),
            (mirror([{**OWNER, "name": "n2"}]), OF_ITSELF),
            (mirror([{**OWNER, "controller": False}]), CONTROLLER),
            (mirror([{**OWNER, "controller": None}]), CONTROLLER),
            (mirror([{**OWNER, "blockOwnerDeletion": True}]), 'node "n1" must not set blockOwnerDeletion on an owner reference'),
            (mirror([{**OWNER, "uid": "x"}]), "node n1 UID mismatch: expected x got node-uid"),
        ],
    )  # fmt: skip
    def test_belong_to_the_node(self, made: Object, text: str) -> None:
        assert Node().why(attributes(made, user=NODE)) == text

    def test_of_a_node_that_is_missing(self) -> None:
        node = Node()
        node.client.resource("", "nodes").objects.clear()
        error = node.refusal(attributes(mirror(), user=NODE))
        assert (error.code, error.message) == (404, 'node "n1" not found')

    @pytest.mark.parametrize(
        ("spec", "reference"),
        [
            ({"serviceAccountName": "a"}, "serviceaccounts"),
            ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
            ({"containers": container(envFrom=[{"secretRef": {"name": "s"}}])}, "secrets"),
            (
                {"initContainers": container(env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s"}}}])},
                "secrets",
            ),
            ({"containers": container(envFrom=[{"configMapRef": {"name": "m"}}])}, "configmaps"),
            ({"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}, "resourceclaims"),
            (volume(configMap={"name": "m"}), "configmaps"),
            (volume(configMap={}), "configmaps (via configmap volumes)"),
            (volume(secret={"secretName": "s"}), "secrets"),
            (volume(secret={"defaultMode": 420}), "secrets (via secret volumes)"),
            (volume(csi={"driver": "d"}), "csidrivers (via CSI volumes)"),
            (volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "s"}}), "secrets"),
            (volume(glusterfs={"endpoints": "e"}), "endpoints (via glusterFS volumes)"),
            (volume(persistentVolumeClaim={"claimName": "c"}), "persistentvolumeclaims"),
            (volume(ephemeral={"volumeClaimTemplate": {}}), "persistentvolumeclaims (via ephemeral volumes)"),
            (volume(azureFile={"shareName": "s"}), "secrets (via azureFile volumes)"),
            (volume(azureFile={"secretName": "s", "shareName": "s"}), "secrets"),
            (projected(configMap={"name": "m"}), "configmaps"),
            (projected(configMap={}), "configmaps (via projected volumes)"),
            (projected(secret={"name": "s"}), "secrets"),
            (projected(secret={"items": []}), "secrets (via projected volumes)"),
            (projected(serviceAccountToken={"path": "t"}), "serviceaccounts (via projected volumes)"),
            (projected(clusterTrustBundle={"path": "t"}), "clustertrustbundles"),
            (projected(podCertificate={}), "podcertificates"),
        ],
    )
    def test_name_no_objects_of_the_api(self, spec: Object, reference: str) -> None:
        text = Node().why(attributes(mirror(**spec), user=NODE))
        assert text == f'node "n1" can not create pods that reference {reference}'

    @pytest.mark.parametrize(
        "spec",
        [
            {}, volume(hostPath={"path": "/"}), volume(emptyDir={}), volume(downwardAPI={}), volume(image={"reference": "i"}),
            volume(cephfs={"secretRef": {"name": ""}}), projected(downwardAPI={}), {"imagePullSecrets": [{"name": ""}]},
            {"containers": container(env=[{"name": "E", "value": "v"}], envFrom=[{"secretRef": {"optional": True}}])},
        ],
    )  # fmt: skip
    def test_what_they_may_use(self, spec: Object) -> None:
        Node().ask(attributes(mirror(**spec), user=NODE))
        Node().ask(attributes(mirror([{**OWNER, "blockOwnerDeletion": False}], **spec), user=NODE))


class TestPods:
    def request(self, operation: str, subresource: str = "", name: str = "p") -> Attributes:
        obj = {"metadata": {"name": name}}
        pair = (None, obj) if operation == DELETE else (obj, obj if operation == UPDATE else None)
        return attributes(*pair, operation=operation, subresource=subresource, user=NODE)

    @pytest.mark.parametrize(
        ("operation", "subresource", "text"),
        [
            (UPDATE, "", 'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods'),
            (CREATE, "status", 'unexpected operation "CREATE"'),
            (DELETE, "status", 'unexpected operation "DELETE"'),
            (UPDATE, "eviction", "unexpected operation UPDATE"),
            (CREATE, "binding", "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed"),
            (UPDATE, "resize", "unexpected pod subresource \"resize\", only 'status' and 'eviction' are allowed"),
        ],
    )
    def test_are_only_reported_deleted_and_evicted(self, operation: str, subresource: str, text: str) -> None:
        assert Node().why(self.request(operation, subresource)) == text

    def test_are_evicted_and_deleted_where_they_run(self) -> None:
        node = Node()
        node.ask(self.request(DELETE))
        node.ask(self.request(CREATE, "eviction"))
        for request in (self.request(DELETE, name="x"), self.request(CREATE, "eviction", name="x")):
            error = node.refusal(request)
            assert (error.code, error.message) == (404, 'pod "x" not found')

    def test_the_eviction_names_the_pod_where_its_path_does_not(self) -> None:
        node = Node()
        request = self.request(CREATE, "eviction")
        request.name = ""
        node.ask(request)
        request.obj = {"metadata": {}}
        assert node.why(request) == "could not determine pod from request data"
        node.pod["spec"]["nodeName"] = "n2"
        assert node.why(self.request(CREATE, "eviction")) == (
            "node n1 can only evict pods with spec.nodeName set to itself"
        )


KUBELET_LABELS = (
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
    "kubelet.kubernetes.io/x", "a.kubelet.kubernetes.io/x", "node.kubernetes.io/x", "a.node.kubernetes.io/x",
)  # fmt: skip


class TestNodes:
    def request(self, new: Object, old: Object | None = None) -> Attributes:
        """``metadata`` and ``spec`` of a node of that name."""

        def node(parts: Object) -> Object:
            return {"metadata": {"name": "n1", **parts.get("metadata", {})}, "spec": parts.get("spec", {})}

        pair = (node(new), None if old is None else node(old))
        operation = CREATE if old is None else UPDATE
        return attributes(*pair, operation=operation, resource="nodes", kind="Node", namespace="", user=NODE)

    @pytest.mark.parametrize("label", KUBELET_LABELS)
    def test_labels_of_kubelets(self, label: str) -> None:
        labelled = {"metadata": {"labels": {label: "1"}}}
        for new, old in ((labelled, None), (labelled, {}), ({}, labelled)):
            Node().ask(self.request(new, old))

    @pytest.mark.parametrize("label", ["node-restriction.kubernetes.io/x", "kubernetes.io/x", "k8s.io/x", "a.k8s.io/x"])
    def test_labels_of_others(self, label: str) -> None:
        labelled, other = ({"metadata": {"labels": {label: value, "a": value}}} for value in "12")
        text = f'node "n1" is not allowed to set the following labels: {label}'
        assert Node().why(self.request(labelled)) == text
        for new, old in ((labelled, {}), ({}, labelled), (labelled, other)):
            assert Node().why(self.request(new, old)) == f"is not allowed to modify labels: {label}"
        Node().ask(self.request(labelled, labelled))

    @pytest.mark.parametrize(
        ("new", "old", "text"),
        [
            ({"spec": {"configSource": {}}}, None, "create pods with a non-nil configSource"),
            ({"spec": {"configSource": {"a": "b"}}}, {}, "update configSource to a new non-nil configSource"),
            ({"spec": {"configSource": {"a": "b"}}}, {"spec": {"configSource": {}}},
             "update configSource to a new non-nil configSource"),
            ({"spec": {"configSource": {}}}, {"spec": {"configSource": {}}}, ""),
            ({}, {"spec": {"configSource": {}}}, ""),
            ({"spec": {"taints": [{"key": "k"}]}}, None, ""),
            ({"spec": {"taints": [{"key": "k"}]}}, {}, "modify taints"),
            ({"spec": {"taints": []}}, {}, ""),
            ({"metadata": {"ownerReferences": [OWNER]}}, None, ""),
            ({"metadata": {"ownerReferences": [OWNER]}}, {}, "modify ownerReferences"),
            ({}, {"metadata": {"ownerReferences": [OWNER]}}, "modify ownerReferences"),
            ({"metadata": {"ownerReferences": []}}, {}, ""),
        ],
    )  # fmt: skip
    def test_fields(self, new: Object, old: Object | None, text: str) -> None:
        request = self.request(new, old)
        if text:
            assert Node().why(request) == f'node "n1" is not allowed to {text}'
        else:
            Node().ask(request)


class TestOwnObjects:
    @pytest.mark.parametrize(
        ("group", "resource", "namespace", "text"),
        [
            ("coordination.k8s.io", "leases", "kube-node-lease", "can only access node lease with"),
            ("storage.k8s.io", "csinodes", "", "can only access CSINode with"),
        ],
    )
    def test_have_the_name_of_the_node(self, group: str, resource: str, namespace: str, text: str) -> None:
        for operation in (CREATE, UPDATE, DELETE):
            for name in ("n1", "n2"):
                obj = {"metadata": {"name": name}}
                pair = (None, obj) if operation == DELETE else (obj, obj if operation == UPDATE else None)
                request = attributes(
                    *pair, operation=operation, group=group, resource=resource, namespace=namespace, user=NODE
                )
                if operation == CREATE:
                    request.name = ""
                if name == "n1":
                    Node().ask(request)
                else:
                    assert Node().why(request) == f"{text} the same name as the requesting node"

    @pytest.mark.parametrize("signer", ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"])
    def test_certificates_are_for_the_node(self, signer: str) -> None:
        def request(name: str, signer: str, operation: str = CREATE) -> Attributes:
            encoded = base64.b64encode(make_request(name)).decode() if name else ""
            obj = {"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": encoded}}
            return attributes(
                obj, obj if operation == UPDATE else None, operation=operation, group="certificates.k8s.io",
                resource="certificatesigningrequests", namespace="", user=NODE,
            )  # fmt: skip

        Node().ask(request("system:node:n1", signer))
        for name in ("system:node:n2", "n1"):
            assert Node().why(request(name, signer)) == "can only create a node CSR with CN=system:node:n1"
            Node().ask(request(name, "example.com/other"))
            Node().ask(request(name, signer, UPDATE))
        text = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
        assert Node().why(request("", signer)) == text


class TestTokens:
    REF: Object = {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "pod-uid"}

    @pytest.mark.parametrize(
        ("ref", "text"),
        [
            (None, "node requested token not bound to a pod"),
            ({**REF, "apiVersion": "v2"}, "node requested token not bound to a pod"),
            ({**REF, "kind": "Secret"}, "node requested token not bound to a pod"),
            ({**REF, "name": ""}, "node requested token not bound to a pod"),
            ({**REF, "uid": ""}, "node requested token with a pod binding without a uid"),
            ({**REF, "uid": "x"}, "the UID in the bound object reference (x) does not match the UID in record. The object "
             "might have been deleted and then recreated"),
        ],
    )  # fmt: skip
    def test_are_bound_to_a_pod(self, ref: Object | None, text: str) -> None:
        assert Node().why(self.request(ref)) == text

    def request(self, ref: Object | None, subresource: str = "token") -> Attributes:
        obj = {"metadata": {"name": "sa"}, "spec": {"boundObjectRef": ref, "audiences": []}}
        return attributes(obj, resource="serviceaccounts", kind="TokenRequest", subresource=subresource, user=NODE)

    def test_of_a_pod_on_the_node(self) -> None:
        node = Node(ServiceAccountNodeAudienceRestriction=False)
        node.ask(self.request(self.REF))
        node.pod["spec"]["nodeName"] = "n2"
        assert node.why(self.request(self.REF)) == "node requested token bound to a pod scheduled on a different node"
        assert node.refusal(self.request({**self.REF, "name": "x"})).message == 'pod "x" not found'
        node.ask(self.request(None, subresource=""))


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

    @pytest.mark.parametrize(
        ("field", "driver"),
        [
            ("awsElasticBlockStore", "ebs.csi.aws.com"), ("azureDisk", "disk.csi.azure.com"),
            ("azureFile", "file.csi.azure.com"), ("cinder", "cinder.csi.openstack.org"),
            ("gcePersistentDisk", "pd.csi.storage.gke.io"), ("portworxVolume", "pxd.portworx.com"),
            ("vsphereVolume", "csi.vsphere.vmware.com"),
        ],
    )  # fmt: skip
    def test_volumes_of_old_plugins_are_of_the_driver_that_replaces_them(self, field: str, driver: str) -> None:
        node = Node()
        node.pod["spec"]["volumes"] = [{"name": "v", field: {}}]
        missing = node.why(self.request("vault"))
        assert missing == f'error validating audience "vault": csidriver.storage.k8s.io "{driver}" not found'
        self.driver(node, driver, "vault", "")
        node.ask(self.request("vault"))
        node.ask(self.request())
        node.pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
        assert "not found in pod spec volume" in node.why(self.request("vault"))

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

    def test_that_the_node_and_the_account_are_there(self) -> None:
        for plural, named in (("nodes", 'node "n1"'), ("serviceaccounts", 'service account "n/sa"')):
            node = Node(PodCertificateRequest=True)
            node.client.resource("", plural).objects.clear()
            error = node.refusal(self.request())
            name = "n1" if plural == "nodes" else "sa"
            assert (error.code, error.message) == (
                500,
                f'while retrieving {named} named in the PodCertificateRequest: {plural.removesuffix("s")} "{name}" not found',
            )

    def test_is_made_and_no_more(self) -> None:
        node, changed, status = Node(PodCertificateRequest=True), self.request(), self.request()
        changed.operation, status.subresource = UPDATE, "status"
        assert node.why(changed) == "unexpected operation UPDATE"
        assert node.why(status) == "unexpected subresource status"

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
        extended = {"resourceClaimName": "x", "requestMappings": []}
        assert node.why(self.status(node, extendedResourceClaimStatus=extended)) == (
            'node "n1" cannot update extended resource claim status'
        )
        node.pod["spec"]["nodeName"] = "n2"
        assert "for pods with spec.nodeName set to itself" in node.refusal(self.status(node)).message

    def test_of_claims_but_their_size(self) -> None:
        node = Node()
        old: Object = {"metadata": {"name": "c", "namespace": "n"}, "spec": {}, "status": {"phase": "Bound"}}
        bigger = {**old, "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}
        lost = {**old, "status": {"phase": "Lost"}}

        def request(new: Object, subresource: str = "status") -> Attributes:
            resource = "persistentvolumeclaims"
            return attributes(new, old, operation=UPDATE, resource=resource, subresource=subresource, user=NODE)

        node.ask(request(bigger))
        created = request(bigger)
        created.operation = CREATE
        assert node.why(created) == 'unexpected operation "CREATE"'
        for field in ("conditions", "allocatedResourceStatuses", "allocatedResources"):
            node.ask(request({**old, "status": {"phase": "Bound", field: [{"a": "b"}]}}))
        for field in ("resourceVersion", "managedFields"):
            node.ask(request({**old, "metadata": {**old["metadata"], field: "1"}}))
        for new in (
            {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}},
            {**old, "spec": {"volumeName": "v"}},
        ):
            assert "is not allowed to update fields other than" in node.why(request(new))
            assert ": @@ -" in node.why(request(new)) and "+" in node.why(request(new))
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
