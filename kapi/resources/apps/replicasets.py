"""ReplicaSet (apps/v1): defaults, validation, strategy, table (upstream: ``pkg/apis/apps``, ``pkg/registry/apps/replicaset``)."""

from __future__ import annotations

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.definition import SCALE, Resource, StrategyContext, type_meta
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import template_options
from kapi.resources.shared.printing import AGE, NAME, field_column, table
from kapi.resources.shared.replicas import (
    SELECTOR,
    ReplicasStatusStrategy,
    ReplicasStrategy,
    template_columns,
    validate_counts,
    validate_selector,
    validate_template_for_replicas,
)
from kapi.resources.shared.rules import Errors

_SPEC = Path("spec")


class ReplicaSetStrategy(ReplicasStrategy):
    empty_status = {"replicas": 0}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_pod_template(spec.setdefault("template", {}))

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        validate_counts(spec, _SPEC, errors, ("replicas", "minReadySeconds"))
        # upstream's text says "deployment" here too
        validate_selector(spec.get("selector"), _SPEC.child("selector"), errors, "deployment")
        options = template_options(ctx, None if old is None else old["spec"].get("template"))
        validate_template_for_replicas(spec, _SPEC, errors, options)


class ReplicaSetStatusStrategy(ReplicasStatusStrategy):
    counters = (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
        "terminatingReplicas",
    )  # fmt: skip


RESOURCE = Resource(
    *type_meta("apps/v1", "ReplicaSet"),
    short_names=("rs",),
    categories=("all",),
    subresources=(SCALE,),
    strategy=ReplicaSetStrategy(),
    status=ReplicaSetStatusStrategy,
    table=table(
        NAME,
        field_column("Desired", ".spec.replicas", empty=0, type="integer"),
        field_column("Current", ".status.replicas", empty=0, type="integer"),
        field_column("Ready", ".status.readyReplicas", empty=0, type="integer"),
        AGE,
        *template_columns("spec", "template"),
        SELECTOR,
        of="api.apps.v1.ReplicaSet",
    ),
)
