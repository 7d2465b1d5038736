"""The notation of the default policy: verbs, groups, resources and names as words ("core" is the group "")."""

from __future__ import annotations

from kapi.machinery.tree import Object

GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{GROUP}/v1"
_AGGREGATE = f"{GROUP}/aggregate-to-"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
BOOTSTRAPPING = "kubernetes.io/bootstrapping"


def _metadata(name: str, namespace: str = "") -> Object:
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {BOOTSTRAPPING: "rbac-defaults"}
    metadata["annotations"] = {AUTOUPDATE: "true"}
    return metadata


def _rule(words: tuple[str, ...]) -> Object:
    """(verbs, URLs) or (verbs, groups, resources[, names])."""
    verbs = words[0].split()
    if len(words) == 2:
        return {"verbs": verbs, "nonResourceURLs": words[1].split()}
    rule: Object = {
        "verbs": verbs,
        "apiGroups": ["" if group == "core" else group for group in words[1].split()],
        "resources": words[2].split(),
    }
    if len(words) > 3:
        rule["resourceNames"] = words[3].split()
    return rule


def cluster_role(name: str, *rules: tuple[str, ...], aggregate_to: str = "", aggregates: str = "") -> Object:
    """A ClusterRole; ``aggregates`` are the names of the aggregations it gathers, ``aggregate_to`` the one it feeds."""
    role: Object = {"kind": "ClusterRole", "apiVersion": _API_VERSION, "metadata": _metadata(name)}
    role["rules"] = [_rule(rule) for rule in rules] or None
    if aggregate_to:
        role["metadata"]["labels"][_AGGREGATE + aggregate_to] = "true"
    if aggregates:
        role["aggregationRule"] = {
            "clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + each: "true"}} for each in aggregates.split()]
        }
    return role


def namespaced_role(namespace: str, name: str, *rules: tuple[str, ...]) -> Object:
    return {
        "kind": "Role",
        "apiVersion": _API_VERSION,
        "metadata": _metadata(name, namespace),
        "rules": [_rule(rule) for rule in rules],
    }


def _binding(kind: str, metadata: Object, role_kind: str, role: str, subjects: tuple[Object, ...]) -> Object:
    binding: Object = {"kind": kind, "apiVersion": _API_VERSION, "metadata": metadata}
    if subjects:
        binding["subjects"] = list(subjects)
    binding["roleRef"] = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    return binding


def cluster_binding(name: str, role_kind: str, role: str, *subjects: Object) -> Object:
    return _binding("ClusterRoleBinding", _metadata(name), role_kind, role, subjects)


def namespaced_binding(namespace: str, name: str, role_kind: str, role: str, *subjects: Object) -> Object:
    return _binding("RoleBinding", _metadata(name, namespace), role_kind, role, subjects)


def user(name: str) -> Object:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
