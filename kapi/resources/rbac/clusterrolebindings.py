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
        printing.NAME,
        printing.column(
            "Role",
            role,
            "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be "
            "resolved, the Authorizer must return an error.",
        ),
        printing.AGE,
        printing.column("Users", named("User"), "Users in the clusterRoleBinding", priority=1),
        printing.column("Groups", named("Group"), "Groups in the clusterRoleBinding", priority=1),
        printing.column(
            "ServiceAccounts", named("ServiceAccount"), "ServiceAccounts in the clusterRoleBinding", priority=1
        ),
    ),
)
