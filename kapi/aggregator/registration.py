"""Which APIServices the server keeps for what it serves itself: decisions only (upstream: kube-aggregator ``autoregister``).

Built-in group versions are registered once, at the start; those of custom resources follow their definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kapi.aggregator.priorities import CUSTOM_GROUP, CUSTOM_VERSION, group_priority, version_priority
from kapi.machinery.gvk import GroupVersion
from kapi.resources.apiregistration.apiservices import AUTOMANAGED

Object = dict[str, Any]
ON_START, ALWAYS = "onstart", "true"


class Changes(NamedTuple):
    """What is to be written."""

    create: list[Object]
    update: list[Object]
    delete: list[str]


def service_name(group_version: GroupVersion) -> str:
    return f"{group_version.version}.{group_version.group}"


def built_in(group_version: GroupVersion) -> Object:
    """The APIService of a built-in group version."""
    group, version = group_version
    return _service(group_version, ON_START, group_priority(group), version_priority(group, version))


def custom(group_version: GroupVersion) -> Object:
    """The APIService of a group version that custom resources have."""
    return _service(group_version, ALWAYS, CUSTOM_GROUP, CUSTOM_VERSION)


def _service(group_version: GroupVersion, managed: str, group_minimum: int, version_minimum: int) -> Object:
    spec: Object = {"group": group_version.group} if group_version.group else {}
    spec.update(version=group_version.version, groupPriorityMinimum=group_minimum, versionPriority=version_minimum)
    return {"metadata": {"name": service_name(group_version), "labels": {AUTOMANAGED: managed}}, "spec": spec}


def changes(wanted: Iterable[Object], existing: Mapping[str, Object], *, starting: bool) -> Changes:
    """What makes ``existing`` (name -> APIService) hold ``wanted``.

    After the start only those that are always kept are looked at; one that somebody took over (label removed) is left alone.
    """
    create, update = [], []
    names = set()
    for service in wanted:
        name = service["metadata"]["name"]
        names.add(name)
        managed = service["metadata"]["labels"][AUTOMANAGED]
        if not starting and managed == ON_START:
            continue
        found = existing.get(name)
        if found is None:
            create.append(service)
            continue
        label = (found["metadata"].get("labels") or {}).get(AUTOMANAGED)
        if label in (ON_START, ALWAYS) and (found["spec"] != service["spec"] or label != managed):
            labels = {**(found["metadata"].get("labels") or {}), AUTOMANAGED: managed}
            update.append({**found, "metadata": {**found["metadata"], "labels": labels}, "spec": service["spec"]})
    kept = (ON_START, ALWAYS) if starting else (ALWAYS,)
    delete = [
        name
        for name, found in existing.items()
        if name not in names and (found["metadata"].get("labels") or {}).get(AUTOMANAGED) in kept
    ]
    return Changes(create, update, delete)
