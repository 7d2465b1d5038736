"""The default roles of users, components and controllers (upstream: ``bootstrappolicy/{policy,controller_policy}.go``).

They are in the table ``bootstrap_roles.txt``.
"""

from __future__ import annotations

from pathlib import Path

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


def _rule(words: list[str]) -> Object:
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


def _role(line: str) -> Object:
    """A role without rules, from the first line of its paragraph."""
    kind, *names = line.split()
    if kind == "Role":
        return {"kind": kind, "apiVersion": _API_VERSION, "metadata": _metadata(names[1], names[0]), "rules": []}
    role: Object = {"kind": kind, "apiVersion": _API_VERSION, "metadata": _metadata(names[0]), "rules": None}
    for word in names[1:]:
        what, _, aggregations = word.partition("=")
        if what == "to":
            role["metadata"]["labels"][_AGGREGATE + aggregations] = "true"
        else:
            selectors = [{"matchLabels": {_AGGREGATE + name: "true"}} for name in aggregations.split(",")]
            role["aggregationRule"] = {"clusterRoleSelectors": selectors}
    return role


def _read() -> list[tuple[Object, ...]]:
    """The parts of the table: roles of users and components, in namespaces, of controllers."""
    parts: list[list[Object]] = []
    for line in Path(__file__).with_name("bootstrap_roles.txt").read_text().splitlines():
        if line.startswith("# --"):
            parts.append([])
        elif line.startswith(" "):
            role = parts[-1][-1]
            role["rules"] = [*(role["rules"] or []), _rule(line.split(" | "))]
        elif not line.startswith("#"):
            parts[-1].append(_role(line))
    return [tuple(part) for part in parts]


def _binding(kind: str, metadata: Object, role_kind: str, role: str, subjects: tuple[Object, ...]) -> Object:
    binding: Object = {"kind": kind, "apiVersion": _API_VERSION, "metadata": metadata}
    if subjects:
        binding["subjects"] = list(subjects)
    binding["roleRef"] = {"apiGroup": GROUP, "kind": role_kind, "name": role}
    return binding


def cluster_binding(name: str, role: str, *subjects: Object) -> Object:
    return _binding("ClusterRoleBinding", _metadata(name), "ClusterRole", role, subjects)


def namespaced_binding(namespace: str, name: str, role: str, *subjects: Object) -> Object:
    return _binding("RoleBinding", _metadata(name, namespace), "Role", role, subjects)


def user(name: str) -> Object:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


CLUSTER_ROLES, ROLES, CONTROLLER_ROLES = _read()
