"""The default bindings (upstream: ``bootstrappolicy/policy.go``, ``controller_policy.go``)."""

from __future__ import annotations

from kapi.authorization.rbac.bootstrap_controllers import CONTROLLER_ROLES
from kapi.authorization.rbac.bootstrap_table import (
    account,
    cluster_binding,
    group,
    namespaced_binding,
    user,
)

_CONTROLLER = "system:controller:"

#: each controller's service account holds the role of its name
CLUSTER_ROLE_BINDINGS = (
    cluster_binding("cluster-admin", "ClusterRole", "cluster-admin", group("system:masters")),
    cluster_binding("system:basic-user", "ClusterRole", "system:basic-user", group("system:authenticated")),
    cluster_binding("system:discovery", "ClusterRole", "system:discovery", group("system:authenticated")),
    cluster_binding(
        "system:kube-controller-manager",
        "ClusterRole",
        "system:kube-controller-manager",
        user("system:kube-controller-manager"),
    ),
    cluster_binding("system:kube-dns", "ClusterRole", "system:kube-dns", account("kube-dns", "kube-system")),
    cluster_binding("system:kube-scheduler", "ClusterRole", "system:kube-scheduler", user("system:kube-scheduler")),
    cluster_binding("system:monitoring", "ClusterRole", "system:monitoring", group("system:monitoring")),
    cluster_binding("system:node", "ClusterRole", "system:node"),
    cluster_binding("system:node-proxier", "ClusterRole", "system:node-proxier", user("system:kube-proxy")),
    cluster_binding(
        "system:public-info-viewer",
        "ClusterRole",
        "system:public-info-viewer",
        group("system:authenticated"),
        group("system:unauthenticated"),
    ),
    cluster_binding(
        "system:service-account-issuer-discovery",
        "ClusterRole",
        "system:service-account-issuer-discovery",
        group("system:serviceaccounts"),
    ),
    cluster_binding("system:volume-scheduler", "ClusterRole", "system:volume-scheduler", user("system:kube-scheduler")),
    *(
        cluster_binding(name, "ClusterRole", name, account(name.removeprefix(_CONTROLLER), "kube-system"))
        for name in (role["metadata"]["name"] for role in CONTROLLER_ROLES)
    ),
)

ROLE_BINDINGS = (
    namespaced_binding(
        "kube-public",
        "system:controller:bootstrap-signer",
        "Role",
        "system:controller:bootstrap-signer",
        account("bootstrap-signer", "kube-system"),
    ),
    namespaced_binding(
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "Role",
        "extension-apiserver-authentication-reader",
        user("system:kube-controller-manager"),
        user("system:kube-scheduler"),
    ),
    namespaced_binding(
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "Role",
        "system::leader-locking-kube-controller-manager",
        user("system:kube-controller-manager"),
        account("kube-controller-manager", "kube-system"),
        account("leader-election-controller", "kube-system"),
    ),
    namespaced_binding(
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "Role",
        "system::leader-locking-kube-scheduler",
        user("system:kube-scheduler"),
        account("kube-scheduler", "kube-system"),
    ),
    namespaced_binding(
        "kube-system",
        "system:controller:bootstrap-signer",
        "Role",
        "system:controller:bootstrap-signer",
        account("bootstrap-signer", "kube-system"),
    ),
    namespaced_binding(
        "kube-system",
        "system:controller:cloud-provider",
        "Role",
        "system:controller:cloud-provider",
        account("cloud-provider", "kube-system"),
    ),
    namespaced_binding(
        "kube-system",
        "system:controller:token-cleaner",
        "Role",
        "system:controller:token-cleaner",
        account("token-cleaner", "kube-system"),
    ),
)
