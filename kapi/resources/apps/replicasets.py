"""ReplicaSet (apps/v1): defaults, validation, strategy, table (upstream: ``pkg/apis/apps``, ``pkg/registry/apps/replicaset``)."""

from __future__ import annotations

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.definition import SCALE, FieldText, Resource, StrategyContext, Subresource
from kapi.resources.shared.internal import plain as sorted_maps
from kapi.resources.shared.metadata import validate_immutable
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import prepare_template, template_options
from kapi.resources.shared.printing import AGE, NAME, column, label_selector, table
from kapi.resources.shared.replicas import (
    container_names,
    count,
    hostname_warning,
    images,
    template_warnings,
    validate_at_most_replicas,
    validate_counts,
    validate_selector,
    validate_template_for_replicas,
)
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStatusStrategy, PlainStrategy

_SPEC, _STATUS = Path("spec"), Path("status")
_COUNTERS = (
    "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    "terminatingReplicas",
)  # fmt: skip


def _selector_of(obj: Object) -> Object | None:
    selector: Object | None = sorted_maps(obj["spec"].get("selector"))
    return selector


class ReplicaSetStrategy(PlainStrategy):
    reset_fields = ("status",)
    generation_parts = ("spec",)
    empty_status = {"replicas": 0}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.setdefault("template", {})
        default_pod_template(template)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        prepare_template(obj["spec"].get("template"), None if old is None else old["spec"].get("template"), ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        validate_counts(spec, _SPEC, errors, ("replicas", "minReadySeconds"))
        # upstream's text names a deployment here, too
        validate_selector(spec.get("selector"), _SPEC.child("selector"), errors, "deployment")
        options = template_options(ctx, None if old is None else old["spec"].get("template"))
        validate_template_for_replicas(spec, _SPEC, errors, options)

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        self.check(obj, old, errors, ctx)
        validate_immutable(_selector_of(obj), _selector_of(old), _SPEC.child("selector"), errors)

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return hostname_warning(obj) + template_warnings(obj["spec"].get("template"))

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return template_warnings(obj["spec"].get("template"))


class ReplicaSetStatusStrategy(PlainStatusStrategy):
    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        status = obj.get("status") or {}
        validate_counts(status, _STATUS, errors, _COUNTERS)
        limited = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        validate_at_most_replicas(status, _STATUS, errors, limited)


STRATEGY = ReplicaSetStrategy()

RESOURCE = Resource(
    group="apps",
    version="v1",
    kind="ReplicaSet",
    plural="replicasets",
    namespaced=True,
    short_names=("rs",),
    categories=("all",),
    storage_version_hash="P1RzHs8/mWQ=",
    subresources=(
        SCALE,
        Subresource("status", strategy=ReplicaSetStatusStrategy(STRATEGY)),
    ),
    strategy=STRATEGY,
    table=table(
        NAME,
        column("Desired", count("spec", "replicas"), FieldText("api.apps.v1.ReplicaSetSpec", "replicas"), "integer"),
        column(
            "Current", count("status", "replicas"), FieldText("api.apps.v1.ReplicaSetStatus", "replicas"), "integer"
        ),
        column(
            "Ready",
            count("status", "readyReplicas"),
            FieldText("api.apps.v1.ReplicaSetStatus", "readyReplicas"),
            "integer",
        ),
        AGE,
        column(
            "Containers", container_names("spec", "template"), "Names of each container in the template.", priority=1
        ),
        column(
            "Images", images("spec", "template"), "Images referenced by each container in the template.", priority=1
        ),
        column(
            "Selector",
            lambda obj, now: label_selector(obj["spec"].get("selector")),
            FieldText("api.apps.v1.ReplicaSetSpec", "selector"),
            priority=1,
        ),
    ),
)
