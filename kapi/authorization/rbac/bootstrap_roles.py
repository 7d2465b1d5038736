"""The default roles and bindings of users, components and controllers.

Upstream: ``bootstrappolicy/{policy,controller_policy}.go``.

They are in the table ``bootstrap_roles.txt``; some exist only while feature gates are on.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

from kapi.machinery.feature_gates import resolve
from kapi.machinery.tree import Object

GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{GROUP}/v1"
_AGGREGATE = f"{GROUP}/aggregate-to-"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
BOOTSTRAPPING = "kubernetes.io/bootstrapping"
_IF, _ROLE = "if=", "role="
_MAX_CACHED = 8  # sets of gates
_TABLE = Path(__file__).with_name("bootstrap_roles.txt")
#: the gates that are enabled by default
DEFAULT_GATES = frozenset(name for name, on in resolve({}).items() if on)


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


def _on(word: str, gates: frozenset[str]) -> bool:
    """Whether the gates of a condition, ``if=gate[,gate]``, are enabled."""
    return gates.issuperset(word.removeprefix(_IF).split(","))


def _role(words: list[str]) -> Object:
    """A role without rules, from the first line of its paragraph."""
    kind, *names = words
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


class DefaultPolicy(NamedTuple):
    """The parts of the table; each controller's service account has a binding to the role of its name."""

    cluster_roles: tuple[Object, ...]  # of users and components
    roles: tuple[Object, ...]
    controller_roles: tuple[Object, ...]
    cluster_role_bindings: tuple[Object, ...]
    role_bindings: tuple[Object, ...]


@functools.lru_cache(_MAX_CACHED)
def default_policy(gates: frozenset[str] = DEFAULT_GATES) -> DefaultPolicy:
    """The roles and bindings that exist while these feature gates are enabled."""
    parts: list[list[Object]] = []
    skipped = False  # the following rules belong to a role that does not exist
    for line in _TABLE.read_text().splitlines():
        words = line.split()
        if line.startswith("# --"):
            parts.append([])
        elif line.startswith(" "):
            conditional = words[0].startswith(_IF)
            if not skipped and (not conditional or _on(words[0], gates)):
                role = parts[-1][-1]
                rule = line.replace(words[0], "", 1) if conditional else line
                role["rules"] = [*(role["rules"] or []), _rule(rule.split(" | "))]
        elif not line.startswith("#"):
            conditions = [word for word in words if word.startswith(_IF)]
            skipped = not all(_on(word, gates) for word in conditions)
            if not skipped:
                make = _binding if words[0].endswith("Binding") else _role
                parts[-1].append(make([word for word in words if word not in conditions]))
    roles, namespaced, controllers, cluster_bindings, bindings = map(tuple, parts)
    names = [role["metadata"]["name"] for role in controllers]
    own = [_binding(["ClusterRoleBinding", name, f"ServiceAccount/{name.rpartition(':')[2]}"]) for name in names]
    return DefaultPolicy(roles, namespaced, controllers, (*cluster_bindings, *own), bindings)


def _binding(words: list[str]) -> Object:
    """A binding, from its line."""
    kind, *names = words
    namespace = names.pop(0) if kind == "RoleBinding" else ""
    name, *others = names
    metadata, role_kind = _metadata(name, namespace), kind.removesuffix("Binding")
    subjects = [_subject(*word.split("/")) for word in others if not word.startswith(_ROLE)]
    role = next((word.removeprefix(_ROLE) for word in others if word.startswith(_ROLE)), name)
    return {
        "kind": kind,
        "apiVersion": _API_VERSION,
        "metadata": metadata,
        **({"subjects": subjects} if subjects else {}),
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
    }


def _subject(kind: str, name: str) -> Object:
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": "kube-system"}
    return {"kind": kind, "apiGroup": GROUP, "name": name}
