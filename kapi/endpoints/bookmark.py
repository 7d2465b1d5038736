"""The object of a bookmark: of the watched kind, empty but for its revision (upstream: ``newFunc`` of a Cacher).

What Go writes of an empty object is more than nothing: structs that are held by value, and lists that are never left
out.  Upstream's internal types hold a few numbers by value that the served ones point to, and so write their zero.
"""

from __future__ import annotations

from kapi.machinery import tree
from kapi.machinery.gvk import GroupKind, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource
from kapi.schema.builtin import type_of
from kapi.schema.zero import always_emitted
from kapi.watchcache.cache import WatchEvent

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_GENERATION = "deprecated.daemonset.template.generation"
_DAEMON_SET = GroupKind("apps", "DaemonSet")
#: kinds whose replicas are a plain number internally
_COUNTED = frozenset(GroupKind("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet"))


def bookmark_metadata(event: WatchEvent) -> Object:
    metadata: Object = {"resourceVersion": str(event.revision)}
    if event.initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return metadata


def bookmark(resource: Resource, event: WatchEvent) -> Object:
    """The object in the version that is watched."""
    kind = GroupVersionKind(resource.group, resource.version, resource.kind)
    metadata = bookmark_metadata(event)
    obj: Object = {"kind": kind.kind, "apiVersion": str(kind.group_version), "metadata": metadata}
    if resource.typed_items:
        return obj
    for name, value in always_emitted(type_of(kind)):
        obj.setdefault(name, tree.copy(value))
    if kind.group_kind in _COUNTED:
        obj["spec"] = {"replicas": 0, **obj["spec"]}
    elif kind.group_kind == _DAEMON_SET:
        metadata["annotations"] = {_GENERATION: "0", **metadata.get("annotations", {})}
    return obj
