"""StorageVersionMigration (storagemigration.k8s.io/v1beta1): a request to store all objects of a resource again (KEP-4192).

The kube-controller-manager executes it.
Upstream: ``pkg/apis/storagemigration/validation``, ``pkg/registry/storagemigration``.
"""

from __future__ import annotations

import re
from typing import ClassVar

from kapi.machinery.each import elements
from kapi.machinery.field import Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_conditions
from kapi.resources.shared.names import is_dns1035_label, is_dns1123_subdomain
from kapi.resources.shared.rules import Errors, need, report_once
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy, UpdateRules

_SPEC, _STATUS = Path("spec"), Path("status")
_RESOURCE = _SPEC.child("resource")
#: a resourceVersion that can be compared: no sign, no zero in front
_COMPARABLE = re.compile(r"[1-9][0-9]*", re.ASCII)
_STATES = ("Running", "Failed", "Succeeded")


def _resource(obj: Object) -> Object:
    return (obj.get("spec") or {}).get("resource") or {}


class MigrationStrategy(PlainStrategy):
    namespaced = False
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)
    allow_unconditional_update = False
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA, UpdateRules.CHANGE)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        given = _resource(obj)
        name, group = given.get("resource", ""), given.get("group", "")
        if need(name, _RESOURCE, errors, "resource", detail="resource is required to be set"):
            report_once(is_dns1035_label(name), name, _RESOURCE, errors, "resource")
        if group:
            report_once(is_dns1123_subdomain(group), group, _RESOURCE, errors, "group")

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        new, before = ({name: _resource(one).get(name, "") for name in ("group", "resource")} for one in (obj, old))
        if new != before:
            errors.append(invalid(_SPEC, {"Resource": new}, "field is immutable"))


class MigrationStatusStrategy(StatusOnlyStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status, before = obj.get("status") or {}, old.get("status") or {}
        revision, here = status.get("resourceVersion") or "", _STATUS.child("resourceVersion")
        if revision and not _COMPARABLE.fullmatch(revision):
            errors.append(invalid(here, revision, f"resource version is not well formed: {revision}"))
        conditions, place = status.get("conditions") or [], _STATUS.child("conditions")
        validate_conditions(conditions, place, errors)
        if before.get("resourceVersion") and before["resourceVersion"] != revision:
            errors.append(invalid(here, revision, "field is immutable"))
        now, was = _true(conditions), _true(before.get("conditions") or [])
        for wrong, text in (
            ({"Succeeded", "Failed"} <= now, "Both success and failed conditions cannot be true at the same time"),
            ("Succeeded" in was - now, "Success condition cannot be set to false once it is true"),
            ("Failed" in was - now, "Failed condition cannot be set to false once it is true"),
        ):
            if wrong:
                errors.append(invalid(place, conditions, text))


def _true(conditions: list[Object]) -> set[str]:
    return {str(one.get("type")) for one in conditions if one.get("status") == "True"}


def _group_resource(obj: Object, now: float) -> str:
    resource = _resource(obj)
    return ".".join(part for part in (resource.get("resource", ""), resource.get("group", "")) if part)


def _state(obj: Object, now: float) -> str:
    """The last of the states that are true."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    states = [one["type"] for one in elements(conditions) if one.get("status") == "True" and one.get("type") in _STATES]
    return states[-1] if states else "Unknown"


STORAGE_VERSION_MIGRATION = Resource(
    *type_meta("storagemigration.k8s.io/v1beta1", "StorageVersionMigration"),
    strategy=MigrationStrategy(),
    status=MigrationStatusStrategy,
    table=printing.table(
        printing.column("Name", printing.name, printing.NAME_TEXT),
        printing.column("Resource", _group_resource, "GroupResource to migrate"),
        printing.column("Status", _state, "Status of the migration"),
    ),
    gates=("StorageVersionMigrator",),
)
