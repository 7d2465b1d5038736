"""What a kubelet may change (NodeRestriction), asked as the catalogue makes the plugin."""

from __future__ import annotations

from typing import Any

import pytest

from kapi.admission.interface import DELETE, UPDATE, Attributes, Plugin
from kapi.admission.plugins import (
    node_restriction,
)
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo
from tests.admission.fakes import attributes, initializer, pod
from tests.admission.plugin_kit import Rules, admit, cluster, refusal

NODE = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))


class TestNodeRestriction:
    def plugin(self, **more: Any) -> Plugin:
        client = cluster()
        client.put("", "nodes", {"metadata": {"name": "n1", "uid": "u1"}})
        client.put("", "pods", {**pod("mine", nodeName="n1")}, {**pod("other", nodeName="n2")})
        return node_restriction.NodeRestriction(initializer(client, **more))

    def node(self, labels: dict[str, str], name: str = "n1", **spec: Any) -> Object:
        return {"metadata": {"name": name, "labels": labels}, "spec": spec}

    def change(self, new: Object, old: Object) -> Attributes:
        return attributes(new, old, operation=UPDATE, resource="nodes", kind="Node", namespace="", user=NODE)

    def test_others_are_free(self) -> None:
        admit(self.plugin(), attributes(pod()))

    def test_only_its_own_node(self) -> None:
        request = self.change(self.node({}, "n2"), self.node({}, "n2"))
        assert refusal(self.plugin(), request) == (
            'nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"'
        )

    @pytest.mark.parametrize(
        ("label", "allowed"),
        [
            ("example.com/x", True),
            ("plain", True),
            ("kubernetes.io/hostname", True),
            ("node.kubernetes.io/x", True),
            ("a.kubelet.kubernetes.io/x", True),
            ("node-restriction.kubernetes.io/x", False),
            ("a.node-restriction.kubernetes.io/x", False),
            ("node-role.kubernetes.io/master", False),
            ("x.k8s.io/y", False),
        ],
    )
    def test_labels(self, label: str, allowed: bool) -> None:
        request = self.change(self.node({label: "1"}), self.node({}))
        if allowed:
            admit(self.plugin(), request)
        else:
            assert f"is not allowed to modify labels: {label}" in refusal(self.plugin(), request)

    def test_taints_stay(self) -> None:
        request = self.change(self.node({}, taints=[]), self.node({}, taints=[{"key": "a", "effect": "NoSchedule"}]))
        assert 'node "n1" is not allowed to modify taints' in refusal(self.plugin(), request)

    def test_mirror_pods(self) -> None:
        plugin = self.plugin()
        mirror = pod("m", nodeName="n1")
        assert "can only create mirror pods" in refusal(plugin, attributes(mirror, user=NODE))
        mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        assert "with an owner reference set to itself" in refusal(plugin, attributes(mirror, user=NODE))
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2", "controller": True}
        mirror["metadata"]["ownerReferences"] = [owner]
        assert "node n1 UID mismatch: expected u2 got u1" in refusal(plugin, attributes(mirror, user=NODE))
        owner["uid"] = "u1"
        admit(plugin, attributes(mirror, user=NODE))
        mirror["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "s"}}]
        assert "can not create pods that reference secrets" in refusal(plugin, attributes(mirror, user=NODE))

    def test_deletes_and_evicts_its_own_pods(self) -> None:
        plugin = self.plugin()
        admit(plugin, attributes(None, pod("mine", nodeName="n1"), operation=DELETE, user=NODE))
        text = refusal(plugin, attributes(None, pod("other", nodeName="n2"), operation=DELETE, user=NODE))
        assert "can only delete pods with spec.nodeName set to itself" in text
        eviction = attributes({"metadata": {"name": "other"}}, subresource="eviction", user=NODE)
        assert "node n1 can only evict pods" in refusal(plugin, eviction)

    def token(self, name: str, uid: str, *audiences: str) -> Attributes:
        ref = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
        obj = {"metadata": {"name": "sa"}, "spec": {"boundObjectRef": ref, "audiences": list(audiences)}}
        return attributes(obj, resource="serviceaccounts", kind="TokenRequest", subresource="token", user=NODE)

    def test_tokens(self) -> None:
        plugin = self.plugin(authorizer=Rules(("request-serviceaccounts-token-audience", "vault")))
        mine = plugin.initializer.lister("", "pods").get("n", "mine")  # type: ignore[attr-defined]
        other = plugin.initializer.lister("", "pods").get("n", "other")  # type: ignore[attr-defined]
        token = {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "own"}}]}, "name": "t"}
        mine["spec"]["volumes"] = [token]
        admit(plugin, self.token("mine", mine["metadata"]["uid"], "own"))
        admit(plugin, self.token("mine", mine["metadata"]["uid"], "vault"))
        text = refusal(plugin, self.token("mine", mine["metadata"]["uid"], "else"))
        assert 'audience "else" not found in pod spec volume' in text
        assert "does not match the UID in record" in refusal(plugin, self.token("mine", "wrong"))
        assert "scheduled on a different node" in refusal(plugin, self.token("other", other["metadata"]["uid"]))

    def test_leases(self) -> None:
        def lease(name: str, where: str) -> Attributes:
            obj = {"metadata": {"name": name, "namespace": where}}
            group = "coordination.k8s.io"
            return attributes(obj, resource="leases", group=group, kind="Lease", namespace=where, user=NODE)

        admit(self.plugin(), lease("n1", "kube-node-lease"))
        assert "with the same name as the requesting node" in refusal(self.plugin(), lease("n2", "kube-node-lease"))
        assert 'can only access leases in the "kube-node-lease"' in refusal(self.plugin(), lease("n1", "n"))
