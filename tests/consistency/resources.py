"""The kinds of objects that are written, their paths and bodies.

Each object carries the value of its last write in an annotation and a color in a label; the custom resource has the
color in a selectable field as well.
"""

from __future__ import annotations

from typing import NamedTuple

from kapi.machinery.tree import Object

COLORS = ("red", "blue", "green")
NAMESPACES = ("a", "b")
QUOTA_NAMESPACE = "limited"
QUOTA = 5  # objects of a kind in it
NAMES = tuple(f"n{n}" for n in range(8))
NODE_PORTS = (30000, 30040)
GROUP = "consistency.test"


class Kind(NamedTuple):
    """``group`` as in keys: core for the core group."""

    group: str
    version: str
    resource: str
    kind: str

    @property
    def prefix(self) -> str:
        return f"{self.group}/{self.resource}/"

    @property
    def api_version(self) -> str:
        return self.version if self.group == "core" else f"{self.group}/{self.version}"

    def path(self, namespace: str = "", name: str = "") -> str:
        root = f"/api/{self.version}" if self.group == "core" else f"/apis/{self.group}/{self.version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{where}/{self.resource}" + (f"/{name}" if name else "")


CONFIG_MAP = Kind("core", "v1", "configmaps", "ConfigMap")
SECRET = Kind("core", "v1", "secrets", "Secret")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
SERVICE = Kind("core", "v1", "services", "Service")
WIDGET = Kind(GROUP, "v1", "widgets", "Widget")
KINDS = (CONFIG_MAP, SECRET, LEASE, SERVICE, WIDGET)
#: where objects are written
COLLECTIONS = tuple((kind, namespace) for kind in KINDS for namespace in NAMESPACES) + (
    (CONFIG_MAP, QUOTA_NAMESPACE),
    (SECRET, QUOTA_NAMESPACE),
)


def new(kind: Kind, name: str, value: str, color: str) -> Object:
    """A whole object."""
    obj: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "annotations": {"v": value}, "labels": {"color": color}},
    }
    if kind is CONFIG_MAP:
        obj["data"] = {"v": value}
    elif kind is SECRET:
        obj["stringData"] = {"v": value}
    elif kind is LEASE:
        obj["spec"] = {"holderIdentity": value}
    elif kind is SERVICE:
        obj["spec"] = {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": value}}
    elif kind is WIDGET:
        obj["spec"] = {"color": color}
    return obj


def merge_patch(kind: Kind, value: str, color: str, expected: int | None) -> Object:
    """Changes value and color."""
    metadata: Object = {"annotations": {"v": value}, "labels": {"color": color}}
    if expected is not None:
        metadata["resourceVersion"] = str(expected)
    patch: Object = {"metadata": metadata}
    if kind is WIDGET:
        patch["spec"] = {"color": color}
    return patch


def json_patch(kind: Kind, value: str, color: str, expected: int | None) -> list[Object]:
    patch = [
        {"op": "add", "path": "/metadata/annotations/v", "value": value},
        {"op": "add", "path": "/metadata/labels/color", "value": color},
    ]
    if expected is not None:
        patch.append({"op": "replace", "path": "/metadata/resourceVersion", "value": str(expected)})
    if kind is WIDGET:
        patch.append({"op": "replace", "path": "/spec/color", "value": color})
    return patch


DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}},
                    }
                },
            }
        ],
    },
}

RESOURCE_QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q"},
    "spec": {"hard": {"count/configmaps": str(QUOTA), "count/secrets": str(QUOTA)}},
}
