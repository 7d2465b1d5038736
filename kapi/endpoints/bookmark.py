"""The object of a bookmark: of the watched kind, empty except for its revision (upstream: ``newFunc`` of a Cacher).

Go writes some fields even of an empty object: structs that are held by value, and lists without ``omitempty``.  A few numbers are
pointers in the served types but values in upstream's internal types, so they are written as zero.
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
    """The bookmark's object in the watched version."""
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
