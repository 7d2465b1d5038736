"""Ties the escalation checks to the four RBAC resources of a registry (upstream: ``rbac/*/policybased``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from kapi.authorization.rbac.escalation import EscalationCheck
from kapi.authorization.rbac.index import GROUP
from kapi.machinery.gvk import GroupResource
from kapi.registry.registry import Registry
from kapi.resources.definition import StrategyContext

Object = dict[str, Any]
_RESOURCES = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")


class EscalationLifecycle:
    """Runs after mutating admission and before validation, as upstream's wrappers do."""

    def __init__(self, check: EscalationCheck, resource: GroupResource) -> None:
        self._check = check
        self._resource = resource

    async def begin_create(self, obj: Object, ctx: StrategyContext) -> Callable[[bool], Awaitable[None]] | None:
        """Raises Forbidden or NotFound.  A create names no object in its URL, so no rule for a name may allow it."""
        if ctx.user is not None:
            await self._check.check(self._resource, ctx.user, ctx.namespace, "", obj, None)
        return None

    async def begin_update(
        self, obj: Object, old: Object, ctx: StrategyContext
    ) -> Callable[[bool], Awaitable[None]] | None:
        if ctx.user is not None:
            await self._check.check(self._resource, ctx.user, ctx.namespace, ctx.name, obj, old)
        return None

    async def after_delete(self, obj: Object, ctx: StrategyContext) -> None:
        return None


def install_escalation_checks(registry: Registry, check: EscalationCheck) -> None:
    """Call it once, after the built-in rows were added."""
    for plural in _RESOURCES:
        resource = GroupResource(GROUP, plural)
        store = registry.stores.get(resource)
        if store is not None:
            store.row = dataclasses.replace(store.row, lifecycle=EscalationLifecycle(check, resource))
