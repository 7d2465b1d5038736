"""Patches that a command applies itself, by the types of Kubernetes' own API.

Upstream: kubectl ``cmd/util`` (OverrideOptions; Merge, StrategicMerge, JSONPatch), ``cmd/patch`` (getPatchedJSON).
Only this module of the commands loads the server's schemas, and only when a command has such a patch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kapi.codecs.json_reading import kind_of
from kapi.kubectl.messages import SCHEME, CommandError, NotRegistered
from kapi.machinery.go_json import json_text
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.tree import Object, Tree

if TYPE_CHECKING:
    from kapi.schema.types import Type

#: groups of Kubernetes that clients have no types of
_OF_SERVERS = ("apiextensions.k8s.io", "apiregistration.k8s.io", "admission.k8s.io", "imagepolicy.k8s.io")
_RBAC = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
#: kinds in versions that no server has any more, but clients still read; they have the types of v1
_FORMER = {
    "apps/v1beta1": ("ControllerRevision", "Deployment", "StatefulSet"),
    "apps/v1beta2": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "batch/v1beta1": ("CronJob",),
    "discovery.k8s.io/v1beta1": ("EndpointSlice",),
    "extensions/v1beta1": ("DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet"),
    "networking.k8s.io/v1beta1": ("Ingress", "IngressClass"),
    "policy/v1beta1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1alpha1": _RBAC,
    "rbac.authorization.k8s.io/v1beta1": _RBAC,
    "scheduling.k8s.io/v1beta1": ("PriorityClass",),
    "storage.k8s.io/v1beta1": ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"),
}


class Patched(NamedTuple):
    """``text`` makes the text of the object in messages."""

    tree: Tree
    text: Callable[[], str]


def patched(obj: Object, patch: bytes, kind: str) -> Patched:
    """``kind``: json, merge or strategic.  Raises CommandError."""
    from kapi.codecs.json_reading import JSONError, loads_exactly
    from kapi.machinery.field import format_value
    from kapi.machinery.status import StatusError
    from kapi.schema import jsonpatch, mergepatch, patched_text, strategicmerge
    from kapi.schema.types import Kind, Type

    known = _type_of(obj)
    type_ = known or Type(Kind.ANY)
    if known is None and kind == "strategic":
        shown = f"{obj['apiVersion']}, Kind={obj['kind']}"
        raise CommandError(f"strategic merge patch is not supported for {shown} locally, try --type merge")
    try:
        change = loads_exactly(patch)
        if kind == "json":
            operations, _ = jsonpatch.decode(change, strict=False)
            result = jsonpatch.patched(obj, operations)
            return Patched(result, lambda: format_value(patched_text.json_patched(result, type_, operations)))
        if kind == "strategic":
            merged = strategicmerge.patched(obj, strategicmerge.decode(change), type_)
            return Patched(merged, lambda: format_value(patched_text.all_sorted(merged)))
    except (JSONError, StatusError) as error:
        whole = {"merge": "Invalid JSON Patch", "strategic": "invalid JSON document"}
        raise CommandError(whole.get(kind) or getattr(error, "message", "") or str(error)) from None
    except ValueError as error:  # the PatchErrors
        raise CommandError(str(error)) from None
    if not isinstance(change, dict | list):
        raise CommandError("Invalid JSON Patch")
    result = mergepatch.apply(obj, change)
    return Patched(result, lambda: format_value(patched_text.merged(result, type_, change)))


def unstructured(tree: Tree) -> Object:
    """An object of any kind.  Raises CommandError."""
    from kapi.machinery.field import format_value
    from kapi.schema.patched_text import all_sorted

    if not isinstance(tree, dict):
        raise CommandError(f"json: cannot unmarshal {kind_of(tree)} into Go value of type unstructured.detector")
    if not tree.get("kind"):
        raise CommandError(f"Object 'Kind' is missing in '{format_value(all_sorted(tree))}'")
    return tree


def read_typed(tree: Tree, scheme: str) -> Object:
    """A document as ``decoded``; a list has its items, those of a ``List`` as they are.  Raises CommandError."""
    if not isinstance(tree, dict) or (tree.get("apiVersion"), tree.get("kind")) != ("v1", "List"):
        found = decoded(tree, lambda: json_text(tree), scheme)
        return {**found, "items": found.get("items") or []} if found["kind"].endswith("List") else found
    items, others = tree.get("items"), {key: value for key, value in tree.items() if key != "items"}
    if items is not None and not isinstance(items, list):
        wanted = "struct field List.items of type []runtime.RawExtension"
        raise CommandError(f"json: cannot unmarshal {kind_of(items)} into Go {wanted}")
    try:  # all lists have the same metadata
        decoded({**others, "kind": "ConfigMapList"})
    except CommandError as error:
        raise CommandError(str(error).replace("ConfigMapList.", "List.")) from None
    return {**tree, "items": items or []}


def decoded(tree: Tree, text: Callable[[], str] = str, scheme: str = SCHEME) -> Object:
    """An object after Go's decoder and encoder: without unknown fields, the others in Go's order.  Raises CommandError.

    ``text`` is the same as in ``Patched``; an object with a kind does not need it.
    """
    from kapi.codecs.reading import as_object, type_meta
    from kapi.schema.decode import decode_tree
    from kapi.schema.quoted import go_order

    try:
        version, kind = type_meta(as_object(tree))
        for name, value in (("Kind", kind), ("apiVersion", version)):
            if not value:
                raise CommandError(f"Object '{name}' is missing in '{text()}'")
        type_ = check_known(tree, scheme)
        fields, _ = decode_tree(tree, type_, strict=False)
    except ValueError as error:
        raise CommandError(str(error)) from None
    found: Object = go_order({**fields, "kind": kind, "apiVersion": version}, type_)
    return found


def check_known(obj: Object, scheme: str = SCHEME) -> Type:
    """The type of the object.  Raises CommandError for a kind outside of Kubernetes' own API."""
    type_ = _type_of(obj)
    if type_ is None:
        raise NotRegistered(obj.get("kind", ""), obj.get("apiVersion", ""), scheme)
    return type_


def _type_of(obj: Object) -> Type | None:
    """The type of a kind; None outside of Kubernetes' own API.  Raises ValueError for an apiVersion with two slashes."""
    from kapi.schema.builtin import names_by_kind, type_of

    group, version = GroupVersion.parse(obj.get("apiVersion") or "")
    name = obj.get("kind") or ""
    if group in _OF_SERVERS:
        return None
    if name.removesuffix("List") in _FORMER.get(f"{group}/{version}", ()):
        version = "v1"
        if group == "extensions":
            group = "networking.k8s.io" if name.startswith(("Ingress", "Network")) else "apps"
    kind = GroupVersionKind(group, version, name)
    return type_of(kind) if kind in names_by_kind() else None
