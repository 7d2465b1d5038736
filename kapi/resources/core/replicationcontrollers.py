"""ReplicationController (v1): defaults, validation, strategy, table (upstream: ``pkg/registry/core/replicationcontroller``)."""

from __future__ import annotations

from msgspec.structs import replace

from kapi.machinery import field
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.definition import SCALE, Resource, ScaleMapping, StrategyContext, selectable, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.names import long_object_name
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import template_options, validate_pod_template
from kapi.resources.shared.printing import AGE, NAME, column, field_column, table
from kapi.resources.shared.replicas import (
    NOT_NEGATIVE,
    ReplicasStatusStrategy,
    ReplicasStrategy,
    template_columns,
    template_warnings,
    validate_always_restart,
    validate_counts,
    validate_fit,
)
from kapi.resources.shared.rules import Errors, need, present

_SPEC = Path("spec")


class ReplicationControllerStrategy(ReplicasStrategy):
    name_rule = staticmethod(long_object_name)
    fixed_selector = False
    empty_status = {"replicas": 0}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.get("template")
        labels = ((template or {}).get("metadata") or {}).get("labels")
        if labels is not None:
            spec["selector"] = spec.get("selector") or dict(labels)
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = metadata.get("labels") or dict(labels)
        spec.setdefault("replicas", 1)
        if template is not None:
            default_pod_template(template)

    def default_garbage_collection(self, obj: Object, ctx: StrategyContext) -> str:
        return "orphan"

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        selector, template, here = spec.get("selector"), spec.get("template"), _SPEC.child("template")
        validate_counts(spec, _SPEC, errors, ("minReadySeconds",))
        need(selector, _SPEC, errors, "selector")
        if present(spec.get("replicas"), _SPEC, errors, "replicas") and spec["replicas"] < 0:
            errors.append(field.invalid(_SPEC.child("replicas"), spec["replicas"], NOT_NEGATIVE))
        if template is None:
            errors.append(field.required(here))
            return
        if selector:
            validate_fit({"matchLabels": selector}, template, here, errors)
        options = template_options(ctx, None if old is None else old["spec"].get("template"))
        validate_pod_template(template, here, errors, options)
        validate_always_restart(template, here, errors, "ReplicationController")

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return template_warnings(old["spec"].get("template"))  # upstream uses the old template


class ReplicationControllerStatusStrategy(ReplicasStatusStrategy):
    counters = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


_replicas = selectable("status.replicas")

RESOURCE = Resource(
    *type_meta("v1", "ReplicationController"),
    short_names=("rc",),
    categories=("all",),
    subresources=(
        replace(SCALE, scale=ScaleMapping(selector=lambda obj: printing.labels(obj["spec"].get("selector"), ""))),
    ),
    strategy=ReplicationControllerStrategy(),
    status=ReplicationControllerStatusStrategy,
    table=table(
        NAME,
        field_column("Desired", ".spec.replicas", empty=0, type="integer"),
        field_column("Current", ".status.replicas", empty=0, type="integer"),
        field_column("Ready", ".status.readyReplicas", empty=0, type="integer"),
        AGE,
        *template_columns("spec", "template"),
        column("Selector", lambda obj, now: printing.labels(obj["spec"].get("selector")), ".spec.selector", priority=1),
        of="api.core.v1.ReplicationController",
    ),
    selectable_fields={"status.replicas": lambda obj: _replicas(obj) or "0"},
)
