"""ClusterRoleBinding (rbac.authorization.k8s.io/v1).  Escalation is checked by a guard (``kapi/registry/escalation.py``).

Upstream: ``pkg/apis/rbac/validation``."""

from __future__ import annotations

from kapi.resources.definition import Resource
from kapi.resources.rbac.rolebindings import RoleBindingStrategy, named, role
from kapi.resources.shared import printing


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    namespaced = False
    kinds = ("ClusterRole",)


RESOURCE = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    namespaced=False,
    storage_version_hash="48tpQ8gZHFc=",
    strategy=ClusterRoleBindingStrategy(),
    table=printing.table(
        "ClusterRoleBinding", printing.name, role, printing.age, named("User"), named("Group"), named("ServiceAccount")
    ),
)
