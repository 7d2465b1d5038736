"""Role (rbac.authorization.k8s.io/v1).  Escalation is checked by a guard (``kapi/registry/escalation.py``).

Upstream: ``pkg/apis/rbac/validation``."""

from __future__ import annotations

from kapi.machinery.each import each_of
from kapi.machinery.field import Path
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared.names import path_segment_name
from kapi.resources.shared.rbac import validate_policy_rule
from kapi.resources.shared.rules import Errors
from kapi.resources.shared.strategies import PlainStrategy, UpdateRules


class RoleStrategy(PlainStrategy):
    name_rule = staticmethod(path_segment_name)
    allow_create_on_update = True
    update_rules = (UpdateRules.NEW_METADATA, UpdateRules.TYPE, UpdateRules.CHANGED_METADATA)

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        for rule, here in each_of(Path("rules"), obj.get("rules")):
            validate_policy_rule(rule, here, errors, namespaced=self.namespaced)


RESOURCE = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    kind="Role",
    plural="roles",
    namespaced=True,
    storage_version_hash="7FuwZcIIItM=",
    strategy=RoleStrategy(),
)
