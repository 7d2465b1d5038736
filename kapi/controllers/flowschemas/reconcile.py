"""The flow schemas and priority levels that every cluster has, and the condition of all schemas.

Upstream: ``pkg/registry/flowcontrol/{rest,ensurer}``, apiserver ``pkg/apis/flowcontrol/bootstrap`` and
``util/flowcontrol/apf_controller.go`` (presyncFlowSchemaStatus).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.flowcontrol import mandatory, suggested

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


def desired_levels() -> list[tuple[Object, bool]]:
    """(priority level, mandatory) of all that every cluster has."""
    return _desired(mandatory.PRIORITY_LEVELS, suggested.PRIORITY_LEVELS)


def desired_schemas() -> list[tuple[Object, bool]]:
    return _desired(mandatory.FLOW_SCHEMAS, suggested.FLOW_SCHEMAS)


def _desired(required: dict[str, Object], suggestions: dict[str, Object]) -> list[tuple[Object, bool]]:
    specs = [(name, spec, True) for name, spec in required.items()] + [
        (name, spec, False) for name, spec in suggestions.items()
    ]
    return [
        ({"metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec}, is_mandatory)
        for name, spec, is_mandatory in specs
    ]


def obsolete(objects: Iterable[Object], desired: Iterable[tuple[Object, bool]]) -> list[str]:
    """Names of objects that by their annotation servers keep up to date, but that are not in ``desired``."""
    known = {obj["metadata"]["name"] for obj, _ in desired}
    return [
        obj["metadata"]["name"]
        for obj in objects
        if obj["metadata"]["name"] not in known and (obj["metadata"].get("annotations") or {}).get(AUTO_UPDATE) in _TRUE
    ]


def corrected(existing: Object, desired: Object, is_mandatory: bool) -> Object | None:
    """The patch that brings an existing object up to date; None when it is, or when an operator has taken it over."""
    metadata = existing["metadata"]
    annotation = (metadata.get("annotations") or {}).get(AUTO_UPDATE)
    if is_mandatory or annotation in _TRUE:
        update = True
    else:
        update = annotation not in _FALSE and metadata.get("generation") == 1
    patch: Object = {}
    spec = existing.get("spec") or {}
    if update and not _covers(spec, desired["spec"]):
        dropped = {name: None for name in spec if name not in desired["spec"]}
        patch["spec"] = {**desired["spec"], **dropped}
    is_known = annotation in (_TRUE if update else _FALSE)
    if not is_known:
        patch["metadata"] = {"annotations": {AUTO_UPDATE: "true" if update else "false"}}
    return patch or None


def _covers(spec: Object, desired: Object) -> bool:
    """Whether they are equal except for defaulted fields."""
    for name, value in desired.items():
        have = spec.get(name)
        if isinstance(value, dict):
            if not isinstance(have, dict) or not _covers(have, value):
                return False
        elif have != value:
            return False
    return all(name in desired or not value for name, value in spec.items() if name not in ("lendablePercent",))


def condition_patch(schema: Object, levels: Container[str], now: str) -> Object | None:
    """The status to apply that says whether the schema's priority level exists; None when the condition says so."""
    level = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name", "")
    names = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if level in levels:
        condition = {"type": "Dangling", "status": "False", "reason": "Found", "message": f"{names} and it exists"}
    else:
        text = f"{names} but there is no such object"
        condition = {"type": "Dangling", "status": "True", "reason": "NotFound", "message": text}
    conditions = (schema.get("status") or {}).get("conditions") or []
    for known in elements(conditions):
        if all(known.get(name) == value for name, value in condition.items()):
            return None
    condition["lastTransitionTime"] = now
    return {"status": {"conditions": [condition]}}
