"""Workload (scheduling.k8s.io/v1alpha2): the templates of the pod groups of one application (KEP-4671).

Upstream: ``pkg/apis/scheduling/validation``, ``pkg/registry/scheduling/workload``."""

from __future__ import annotations

from kapi.machinery.field import Path, invalid, required, too_many
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.scheduling import group_spec
from kapi.resources.shared import printing
from kapi.resources.shared.names import is_path_segment_name
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStrategy

_SPEC = Path("spec")
_MAX_TEMPLATES = 8


def _templates(obj: Object | None) -> list[Object]:
    return ((obj or {}).get("spec") or {}).get("podGroupTemplates") or []


class WorkloadStrategy(PlainStrategy):
    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        group_spec.drop_disabled(_templates(obj), _templates(old), ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj.get("spec") or {}
        if spec.get("controllerRef") is not None:
            _check_controller(spec["controllerRef"], _SPEC.child("controllerRef"), errors)
        templates, here = _templates(obj), _SPEC.child("podGroupTemplates")
        if not templates:
            errors.append(required(here))
        elif len(templates) > _MAX_TEMPLATES:
            errors.append(too_many(here, len(templates), _MAX_TEMPLATES))
        else:
            group_spec.check_names(templates, here, errors)
            for i, template in enumerate(templates):
                group_spec.check_required(template, "name", group_spec.check_short_name, here.index(i), errors)
                group_spec.check_group(template, None, here.index(i), errors, ctx)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        new, before = obj.get("spec") or {}, old.get("spec") or {}
        for name in ("controllerRef", "podGroupTemplates"):
            group_spec.check_fixed(new.get(name), before.get(name), _SPEC.child(name), errors)


def _check_controller(reference: Object, path: Path, errors: Errors) -> None:
    if reference.get("apiGroup"):
        group_spec.check_long_name(reference["apiGroup"], path.child("apiGroup"), errors)
    for name in ("kind", "name"):
        group_spec.check_required(reference, name, _check_segment, path, errors)


def _check_segment(name: str, path: Path, errors: Errors) -> None:
    errors += [invalid(path, name, text) for text in is_path_segment_name(name)]


RESOURCE = Resource(
    group="scheduling.k8s.io",
    version="v1alpha2",
    kind="Workload",
    plural="workloads",
    namespaced=True,
    strategy=WorkloadStrategy(),
    table=printing.table(
        printing.NAME,
        printing.AGE,
    ),
    gates=("GenericWorkload",),
)
