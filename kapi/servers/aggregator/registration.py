"""The APIServices of served group versions: decisions without I/O (upstream: kube-aggregator ``autoregister``).

Built-in group versions are registered once, at the start; those of custom resources follow their definitions.
"""

from __future__ import annotations

from typing import NamedTuple

from kapi.machinery.gvk import GroupVersion
from kapi.machinery.tree import Object
from kapi.resources.apiregistration import AUTOMANAGED
from kapi.servers.aggregator.priorities import CUSTOM_GROUP, CUSTOM_VERSION, group_priority, version_priority

ON_START, ALWAYS = "onstart", "true"


class Change(NamedTuple):
    """A write: ``verb`` is create, update or delete."""

    verb: str
    service: Object


def service_name(group_version: GroupVersion) -> str:
    return f"{group_version.version}.{group_version.group}"


def built_in(group_version: GroupVersion) -> Object:
    """The APIService of a built-in group version."""
    group, version = group_version
    return _service(group_version, ON_START, group_priority(group), version_priority(group, version))


def custom(group_version: GroupVersion) -> Object:
    """The APIService of a group version of custom resources."""
    return _service(group_version, ALWAYS, CUSTOM_GROUP, CUSTOM_VERSION)


def _service(group_version: GroupVersion, managed: str, group_minimum: int, version_minimum: int) -> Object:
    spec: Object = {"group": group_version.group} if group_version.group else {}
    spec.update(version=group_version.version, groupPriorityMinimum=group_minimum, versionPriority=version_minimum)
    return {"metadata": {"name": service_name(group_version), "labels": {AUTOMANAGED: managed}}, "spec": spec}


def decide(desired: Object | None, found: Object | None, *, starting: bool) -> Change | None:
    """The write that turns ``found``, the existing APIService if there is one, into ``desired``; None when none is needed.

    After the start only APIServices of custom resources are maintained.  One without the label belongs to its user.
    """
    if desired is not None and not starting and _managed(desired) == ON_START:
        return None
    if found is None:
        return None if desired is None else Change("create", desired)
    if _managed(found) not in ((ON_START, ALWAYS) if starting else (ALWAYS,)):
        return None
    if desired is None:
        return Change("delete", found)
    return None if found["spec"] == desired["spec"] else Change("update", {**found, "spec": desired["spec"]})


def _managed(service: Object) -> str | None:
    return (service["metadata"].get("labels") or {}).get(AUTOMANAGED)
