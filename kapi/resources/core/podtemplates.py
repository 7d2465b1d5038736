"""PodTemplate (v1): defaults, validation, strategy, table (upstream: ``core/validation``, ``pkg/registry/core/podtemplate``)."""

from __future__ import annotations

from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.poddefaults import default_pod_template
from kapi.resources.shared.podtemplate import prepare_template, template_options, validate_pod_template
from kapi.resources.shared.printing import NAME, column, table
from kapi.resources.shared.replicas import template_columns, template_warnings
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStrategy

_TEMPLATE = Path("template")


class PodTemplateStrategy(PlainStrategy):
    generation_parts = ("template",)

    def default(self, obj: Object) -> None:
        default_pod_template(obj.setdefault("template", {}))

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        prepare_template(obj["template"], None if old is None else old["template"], ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        options = template_options(ctx, None if old is None else old.get("template"))
        validate_pod_template(obj["template"], _TEMPLATE, errors, options)

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return template_warnings(obj["template"], _TEMPLATE)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if obj["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return template_warnings(obj["template"], _TEMPLATE)


RESOURCE = Resource(
    *type_meta("v1", "PodTemplate"),
    returns_deleted=True,
    strategy=PodTemplateStrategy(),
    table=table(
        NAME,
        *template_columns("template", priority=0),
        column(
            "Pod Labels",
            lambda obj, now: printing.labels((obj["template"].get("metadata") or {}).get("labels")),
            "The labels for the pod template.",
        ),
    ),
)
