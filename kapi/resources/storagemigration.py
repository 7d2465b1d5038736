"""StorageVersionMigration (storagemigration.k8s.io/v1beta1): a request to store all objects of a resource again (KEP-4192).

The kube-controller-manager executes it.
Upstream: ``pkg/apis/storagemigration/validation``, ``pkg/registry/storagemigration``.
"""

from __future__ import annotations

from typing import ClassVar

from kapi.machinery.field import Path, invalid, required
from kapi.machinery.golang import quote
from kapi.machinery.tree import Object, Tree
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared import printing
from kapi.resources.shared.metadata import validate_conditions
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStrategy, StatusOnlyStrategy, UpdateRules

_STATUS = Path("status")
_INT64 = 1 << 63


def _resource(obj: Object) -> Object:
    return (obj.get("spec") or {}).get("resource") or {}


class MigrationStrategy(PlainStrategy):
    namespaced = False
    empty_status: ClassVar[Object | None] = {}
    reset_fields = ("status",)
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        if not _resource(obj).get("resource"):
            errors.append(required(Path("spec").child("resource", "resource"), "resource is required"))

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        new, before = _resource(obj), _resource(old)
        for name in ("group", "resource"):
            if new.get(name, "") != before.get(name, ""):
                errors.append(invalid(Path(name), new.get(name, ""), "field is immutable"))


class MigrationStatusStrategy(StatusOnlyStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status, before = obj.get("status") or {}, old.get("status") or {}
        revision, here = status.get("resourceVersion") or "", _STATUS.child("resourceVersion")
        errors += [invalid(here, *problem) for problem in _revision_problems(revision)]
        conditions, place = status.get("conditions") or [], _STATUS.child("conditions")
        validate_conditions(conditions, place, errors)
        if before.get("resourceVersion") and before["resourceVersion"] != revision:
            errors.append(invalid(here, revision, "cannot be updated"))
        now, was = _true(conditions), _true(before.get("conditions") or [])
        for wrong, text in (
            ({"Succeeded", "Failed"} <= now, "Both success and failed conditions cannot be true at the same time"),
            ({"Succeeded", "Running"} <= now, "Running condition cannot be true when success condition is true"),
            ({"Failed", "Running"} <= now, "Running condition cannot be true when failed condition is true"),
            ("Succeeded" in was - now, "Success condition cannot be set to false once it is true"),
            ("Failed" in was - now, "Failed condition cannot be set to false once it is true"),
        ):
            if wrong:
                errors.append(invalid(place, conditions, text))


def _revision_problems(text: str) -> list[tuple[Tree, str]]:
    if not text:
        return []
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        why = "invalid syntax"
    elif not -_INT64 <= int(text) < _INT64:
        why = "value out of range"
    else:
        return [(int(text), "must be greater than or equal to 0")] if int(text) < 0 else []
    parsing = f"strconv.ParseInt: parsing {quote(text)}: {why}"
    return [(text, f"failed to parse resource version {quote(text)}: {parsing}")]


def _true(conditions: list[Object]) -> set[str]:
    return {str(one.get("type")) for one in conditions if one.get("status") == "True"}


def _fully_qualified(obj: Object, now: float) -> str:
    resource = _resource(obj)
    return ".".join(part for part in (resource.get("resource", ""), resource.get("group", "")) if part)


STORAGE_VERSION_MIGRATION = Resource(
    group="storagemigration.k8s.io",
    version="v1beta1",
    kind="StorageVersionMigration",
    strategy=MigrationStrategy(),
    status=MigrationStatusStrategy,
    table=printing.table(
        printing.column("Name", printing.name, printing.NAME_TEXT),
        printing.column("Resource", _fully_qualified, "Fully qualified resource to migrate"),
    ),
    gates=("StorageVersionMigrator",),
)
