"""ResourceClaimTemplate (resource.k8s.io/v1): the template of a claim for each pod that names it.

Upstream: ``pkg/apis/resource/validation``, ``pkg/registry/resource/resourceclaimtemplate``."""

from __future__ import annotations

from kapi.machinery.field import FieldError, Path, invalid
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.resource.claim_spec import check_admin_access, default_claim_spec, validate_claim_spec
from kapi.resources.shared import printing
from kapi.resources.shared.claim_template import validate_template_metadata
from kapi.resources.shared.internal import internal
from kapi.resources.shared.metadata import validate_metadata_update
from kapi.resources.shared.rules import Errors, same
from kapi.resources.shared.strategies import PlainStrategy

_SPEC = Path("spec")


class ResourceClaimTemplateStrategy(PlainStrategy):
    def default(self, obj: Object) -> None:
        default_claim_spec((obj.get("spec") or {}).get("spec") or {})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        check_admin_access((obj.get("spec") or {}).get("spec") or {}, ctx, errors)
        return errors + super().validate(obj, ctx)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        template = obj.get("spec") or {}
        validate_template_metadata(template.get("metadata") or {}, _SPEC.child("metadata"), errors)
        validate_claim_spec(template.get("spec") or {}, _SPEC.child("spec"), errors)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        self._new_metadata(obj, errors)
        self.check(obj, old, errors, ctx)
        validate_metadata_update(obj, old, errors)
        if not same(obj.get("spec"), old.get("spec")):
            shown = internal("DynamicResourceClaimTemplateSpec", obj.get("spec") or {})
            errors.append(invalid(_SPEC, shown, "field is immutable"))
        return errors


RESOURCE = Resource(
    group="resource.k8s.io",
    version="v1",
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    namespaced=True,
    storage_version_hash="TuzjC49aUfM=",
    returns_deleted=True,
    strategy=ResourceClaimTemplateStrategy(),
    table=printing.table(
        printing.NAME,
        printing.AGE,
    ),
)
