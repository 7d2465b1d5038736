"""The Node authorizer: a kubelet may access only the objects of the pods on its node.

Upstream: ``plugin/pkg/auth/authorizer/node/node_authorizer.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kapi.authorization.interface import Attributes, Decision, RuleSet, Verdict
from kapi.authorization.node.graph import NodeGraph
from kapi.authorization.node.references import node_identity
from kapi.authorization.rbac.bootstrap_roles import DEFAULT_GATES
from kapi.authorization.rbac.policy import PolicyRule, any_allows
from kapi.machinery.golang import quote
from kapi.request.user import UserInfo

_ALLOW = Verdict(Decision.ALLOW)
_NO_OPINION = Verdict(Decision.NO_OPINION)
_LEASE_NAMESPACE = "kube-node-lease"
_OWN_OBJECT_VERBS = frozenset({"get", "create", "update", "patch", "delete"})


def _no_opinion(reason: str) -> Verdict:
    return Verdict(Decision.NO_OPINION, reason)


class NodeAuthorizer:
    """``rules``: the static rules for resources that are not checked object by object; ``gates``: the enabled feature gates."""

    def __init__(self, graph: NodeGraph, rules: Iterable[PolicyRule], gates: Collection[str] = DEFAULT_GATES) -> None:
        self.graph = graph
        self.rules = tuple(rules)
        pod_certificates = "PodCertificateRequest" in gates
        self._reads_accounts = pod_certificates or "KubeletServiceAccountTokenForCredentialProviders" in gates
        self._checks: dict[tuple[str, str], Callable[[str, Attributes], Verdict]] = {
            ("", "secrets"): lambda node, a: self._read_namespaced(node, "secret", a),
            ("", "configmaps"): lambda node, a: self._read_namespaced(node, "configmap", a),
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): lambda node, a: self._get(node, "pv", a),
            ("resource.k8s.io", "resourceclaims"): lambda node, a: self._get(node, "resourceclaim", a),
            ("storage.k8s.io", "volumeattachments"): lambda node, a: self._get(node, "volumeattachment", a),
            ("", "serviceaccounts"): self._service_account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("certificates.k8s.io", "podcertificaterequests"): self._pod_certificate
            if pod_certificates
            else lambda node, a: _NO_OPINION,
        }

    def authorize(self, attributes: Attributes) -> Verdict:
        node, is_node = node_identity(attributes.user)
        if not is_node:
            return _NO_OPINION
        if not node:
            return _no_opinion(f"unknown node for user {quote(attributes.user.name)}")
        if attributes.is_resource:
            check = self._checks.get((attributes.group, attributes.resource))
            if check is not None:
                return check(node, attributes)
        return _ALLOW if any_allows(self.rules, attributes) else _NO_OPINION

    def rules_for(self, user: UserInfo, namespace: str) -> RuleSet:
        if node_identity(user)[1]:
            return RuleSet(incomplete=True, errors=["node authorizer does not support user rule resolution"])
        return RuleSet()

    def _related(self, node: str, kind: str, attributes: Attributes) -> Verdict:
        if not attributes.name:
            return _no_opinion("No Object name found")
        if self.graph.leads_to(node, kind, attributes.namespace, attributes.name):
            return _ALLOW
        return _no_opinion(f"no relationship found between node '{node}' and this object")

    def _get(self, node: str, kind: str, attributes: Attributes) -> Verdict:
        if attributes.verb != "get":
            return _no_opinion("can only get individual resources of this type")
        if attributes.subresource:
            return _no_opinion("cannot get subresource")
        return self._related(node, kind, attributes)

    def _read_namespaced(self, node: str, kind: str, attributes: Attributes) -> Verdict:
        if attributes.verb not in ("get", "list", "watch"):
            return _no_opinion("can only read resources of this type")
        if attributes.subresource:
            return _no_opinion("cannot read subresource")
        if not attributes.namespace:
            return _no_opinion("can only read namespaced object of this type")
        return self._related(node, kind, attributes)

    def _claim(self, node: str, attributes: Attributes) -> Verdict:
        if attributes.subresource != "status":
            return self._get(node, "pvc", attributes)
        if attributes.verb not in ("update", "patch"):
            return _no_opinion("can only get/update/patch this type")
        return self._related(node, "pvc", attributes)

    def _service_account(self, node: str, attributes: Attributes) -> Verdict:
        if attributes.verb == "get" and not attributes.subresource:
            if not self._reads_accounts:
                return _no_opinion("not allowed to get service accounts")
            return self._read_namespaced(node, "serviceaccount", attributes)
        if attributes.verb != "create" or not attributes.name:
            return _no_opinion("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no_opinion("can only create token subresource of serviceaccount")
        return self._related(node, "serviceaccount", attributes)

    def _lease(self, node: str, attributes: Attributes) -> Verdict:
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != _LEASE_NAMESPACE:
            return _no_opinion(f"can only access leases in the {quote(_LEASE_NAMESPACE)} system namespace")
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access node lease with the same name as the requesting node")
        return _ALLOW

    def _csi_node(self, node: str, attributes: Attributes) -> Verdict:
        if attributes.verb not in _OWN_OBJECT_VERBS:
            return _no_opinion("can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return _no_opinion("cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node:
            return _no_opinion("can only access CSINode with the same name as the requesting node")
        return _ALLOW

    def _slice(self, node: str, attributes: Attributes) -> Verdict:
        if attributes.subresource:
            return _no_opinion("cannot authorize ResourceSlice subresources")
        verb = attributes.verb
        if verb == "create":
            return _ALLOW
        if verb in ("get", "update", "patch", "delete"):
            return self._related(node, "resourceslice", attributes)
        if verb in ("watch", "list", "deletecollection"):
            if _selects(attributes, "spec.nodeName", node):
                return _ALLOW
            return _no_opinion("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _no_opinion(
            "only the following verbs are allowed for a ResourceSlice: "
            "get, watch, list, create, update, patch, delete, deletecollection"
        )

    def _pod_certificate(self, node: str, attributes: Attributes) -> Verdict:
        """Admission (NodeRestriction) checks the pods for which a node requests certificates."""
        if attributes.subresource:
            return _no_opinion("nodes may not access the podcertificaterequests subresources")
        if attributes.verb == "create":
            return _ALLOW
        if attributes.verb == "get":
            return self._related(node, "podcertificaterequest", attributes)
        if attributes.verb in ("list", "watch"):
            if _selects(attributes, "spec.nodeName", node):
                return _ALLOW
            return _no_opinion("can only list/watch podcertificaterequests with nodeName field selector")
        return _no_opinion("only the following verbs are allowed for a PodCertificateRequest: get, watch, list, create")

    def _node(self, node: str, attributes: Attributes) -> Verdict:
        subresource, verb = attributes.subresource, attributes.verb
        if not subresource:
            if verb in ("create", "update", "patch"):
                return _ALLOW
            if verb in ("get", "list", "watch"):
                if attributes.name == node:
                    return _ALLOW
                if not attributes.name:
                    return _no_opinion(f"node '{node}' cannot read all nodes, only its own Node object")
                return _no_opinion(f"node '{node}' cannot read '{attributes.name}', only its own Node object")
        elif subresource == "status" and verb in ("update", "patch"):
            return _ALLOW
        return _NO_OPINION

    def _pod(self, node: str, attributes: Attributes) -> Verdict:
        subresource, verb = attributes.subresource, attributes.verb
        if not subresource:
            if verb == "get":
                return self._get(node, "pod", attributes)
            if verb in ("list", "watch"):
                if _selects(attributes, "spec.nodeName", node):
                    return _ALLOW
                if attributes.name:
                    return self._related(node, "pod", attributes)
                return _no_opinion("can only list/watch pods with spec.nodeName field selector")
            if verb in ("create", "delete"):
                return _ALLOW
        elif subresource == "status" and verb in ("update", "patch"):
            return _ALLOW
        elif subresource == "eviction" and verb == "create":
            return _ALLOW
        return _NO_OPINION


def _selects(attributes: Attributes, field: str, value: str) -> bool:
    return any(
        key == field and operator in ("=", "==") and selected == value
        for key, operator, selected in attributes.field_requirements
    )
