"""The flow schemas and priority levels that every server has, as objects.

Upstream: ``apis/flowcontrol/bootstrap``; KEP-1040.

They are kept in the store by a controller; the mandatory ones serve even before it has run.
"""

from __future__ import annotations

from kapi.machinery.tree import Object
from kapi.resources.flowcontrol import bootstrap
from kapi.resources.flowcontrol import bootstrap as must

GROUP = "flowcontrol.apiserver.k8s.io"


def _objects(kind: str, specs: dict[str, Object]) -> list[Object]:
    return [
        {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for name, spec in specs.items()
    ]


def levels(*, mandatory: bool) -> list[Object]:
    """PriorityLevelConfiguration objects."""
    specs = must.PRIORITY_LEVELS if mandatory else bootstrap.SUGGESTED_PRIORITY_LEVELS
    return _objects("PriorityLevelConfiguration", specs)


def schemas(*, mandatory: bool) -> list[Object]:
    """FlowSchema objects."""
    return _objects("FlowSchema", must.FLOW_SCHEMAS if mandatory else bootstrap.SUGGESTED_FLOW_SCHEMAS)
