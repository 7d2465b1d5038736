"""An RBAC index and authorizer made of plain objects."""

from __future__ import annotations

from typing import Any

from kapi.authorization.interface import Attributes
from kapi.authorization.rbac.authorizer import RBACAuthorizer
from kapi.authorization.rbac.index import GROUP, PolicyIndex
from kapi.machinery.tree import Object
from kapi.request.user import UserInfo


def role(name: str, *rules: Object, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": "Role" if namespace else "ClusterRole", "metadata": metadata, "rules": list(rules)}


def binding(name: str, role_name: str, *subjects: Object, namespace: str = "", kind: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    kind = kind or ("Role" if namespace else "ClusterRole")
    ref = {"apiGroup": GROUP, "kind": kind, "name": role_name}
    return {"metadata": metadata, "roleRef": ref, "subjects": list(subjects)}


def user(name: str) -> Object:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Object:
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str = "") -> Object:
    return {"kind": "ServiceAccount", "name": name, **({"namespace": namespace} if namespace else {})}


def rule(verbs: str, resources: str, groups: str = "core", names: str = "") -> Object:
    found: Object = {
        "verbs": verbs.split(),
        "apiGroups": ["" if each == "core" else each for each in groups.split()],
        "resources": resources.split(),
    }
    if names:
        found["resourceNames"] = names.split()
    return found


def authorizer(*objects: Object) -> RBACAuthorizer:
    index = PolicyIndex()
    for obj in objects:
        (index.on_binding if "roleRef" in obj else index.on_role)("ADDED", obj, None)
    return RBACAuthorizer(index)


def ask(who: UserInfo, verb: str, resource: str, namespace: str = "", group: str = "", **more: Any) -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(who, verb, group=group, resource=resource, subresource=subresource, namespace=namespace, **more)
