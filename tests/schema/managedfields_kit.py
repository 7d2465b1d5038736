"""Objects with owned fields."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kapi.machinery.gvk import GroupVersionKind
from kapi.schema.managedfields import FieldManager
from kapi.schema.types import Field, Kind, Type

TEXT = Type(Kind.STRING)
TEXTS = Type(Kind.MAP, elem=TEXT)
T1, T2, T3 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"


def struct(name: str, *fields: Field) -> Type:
    return Type(Kind.STRUCT, name=name, fields={field.name: field for field in fields})


META = struct(
    "ObjectMeta",
    *(Field(name, TEXT) for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")),
    Field("labels", TEXTS),
    Field("annotations", TEXTS),
    Field("finalizers", Type(Kind.LIST, elem=TEXT, list_type="set")),
    Field("managedFields", Type(Kind.LIST, elem=Type(Kind.ANY))),
)
CONFIG_MAP = struct(
    "ConfigMap",
    Field("apiVersion", TEXT),
    Field("kind", TEXT),
    Field("metadata", META, pointer=False, omitempty=False),
    Field("data", TEXTS),
)
ITEM = struct("Item", Field("port", Type(Kind.ANY)), Field("note", TEXT))
THING = struct(
    "Thing",
    Field("apiVersion", TEXT),
    Field("kind", TEXT),
    Field("metadata", META, pointer=False, omitempty=False),
    Field("items", Type(Kind.LIST, elem=ITEM, list_type="map", list_map_keys=("port",)), omitempty=False),
    Field("texts", Type(Kind.LIST, elem=Type(Kind.ANY), list_type="set")),
    Field("on", Type(Kind.BOOLEAN), pointer=False, omitempty=False),
    Field("free", Type(Kind.ANY)),
)
CM = GroupVersionKind("", "v1", "ConfigMap")


def config_map(data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}
    if data is not None:
        obj["data"] = data
    return obj


def fields_of(obj: dict[str, Any]) -> list[Any]:
    return [
        (e["manager"], e["operation"], e.get("time"), e["fieldsV1"]) for e in obj["metadata"].get("managedFields") or []
    ]


def created(manager: FieldManager, obj: dict[str, Any], by: str = "c", now: str = T1) -> dict[str, Any]:
    manager.update(None, obj, by, now)
    obj["metadata"]["uid"] = "u"
    return obj


texts = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), max_size=4)
