"""ComponentStatus (v1): the health of the control plane's components, which the server requests from them.

Upstream: ``pkg/registry/core/componentstatus``, printers ``printComponentStatus``."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, type_meta
from kapi.resources.shared import printing


def _health(obj: Object) -> Object:
    for condition in elements(obj, "conditions"):
        if condition.get("type") == "Healthy":
            found: Object = condition
            return found
    return {}


def _status(obj: Object, now: float) -> str:
    health = _health(obj)
    if not health:
        return "Unknown"
    return "Healthy" if health.get("status") == "True" else "Unhealthy"


RESOURCE = Resource(
    *type_meta("v1", "ComponentStatus"),
    namespaced=False,
    verbs=("get", "list"),
    short_names=("cs",),
    handler="componentstatuses",
    table=printing.table(
        printing.NAME,
        printing.column("Status", _status, "Status of the component conditions"),
        printing.column(
            "Message", lambda obj, now: _health(obj).get("message", ""), "Message of the component conditions"
        ),
        printing.column("Error", lambda obj, now: _health(obj).get("error", ""), "Error of the component conditions"),
    ),
)
