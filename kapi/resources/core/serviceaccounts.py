"""ServiceAccount (v1).

Upstream: ``pkg/apis/core/validation``: ValidateServiceAccount; ``pkg/registry/core/serviceaccount``."""

from __future__ import annotations

from kapi.machinery.each import elements
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext, Subresource, type_meta
from kapi.resources.shared import printing
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules

_ENFORCE_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccountStrategy(PlainStrategy):
    update_rules = (UpdateRules.CHANGED_METADATA, UpdateRules.NEW_METADATA, UpdateRules.TYPE)

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        # only the name of a reference is stored
        if obj.get("secrets"):
            obj["secrets"] = [
                {"name": secret["name"]} if secret.get("name") else {} for secret in elements(obj["secrets"])
            ]

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        if _ENFORCE_MOUNTABLE not in (obj["metadata"].get("annotations") or {}):
            return []
        text = (
            f"metadata.annotations[{_ENFORCE_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate "
            "access to mounted secrets"
        )
        return [text]

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if _ENFORCE_MOUNTABLE in (old["metadata"].get("annotations") or {}):
            return []
        return self.warnings_on_create(obj, ctx)


RESOURCE = Resource(
    *type_meta("v1", "ServiceAccount"),
    short_names=("sa",),
    subresources=(
        Subresource(
            "token", ("create",), group="authentication.k8s.io", version="v1", kind="TokenRequest", handler="token"
        ),
    ),
    strategy=ServiceAccountStrategy(),
    returns_deleted=True,
    table=printing.table(printing.NAME, printing.AGE),
)
