"""Adds the checks for privilege escalation to the four RBAC resources (upstream: ``rbac/*/policybased``)."""

from __future__ import annotations

from kapi.authorization.rbac.escalation import EscalationCheck
from kapi.authorization.rbac.index import GROUP
from kapi.machinery.gvk import GroupResource
from kapi.machinery.tree import Object
from kapi.registry.registry import Registry
from kapi.resources.definition import StrategyContext

_RESOURCES = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")


class EscalationGuard:
    """The guard of one of the resources."""

    def __init__(self, check: EscalationCheck, resource: GroupResource) -> None:
        self._check = check
        self._resource = resource

    async def __call__(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Raises Forbidden, or NotFound for a missing role."""
        if ctx.user is not None:
            await self._check.check(self._resource, ctx.user, ctx.namespace, ctx.name, obj, old)


def install_escalation_checks(registry: Registry, check: EscalationCheck) -> None:
    """Call it once, after the built-in rows were added."""
    for plural in _RESOURCES:
        resource = GroupResource(GROUP, plural)
        registry.amend(resource, lambda resource=resource: {"guard": EscalationGuard(check, resource)})  # type: ignore[misc]
