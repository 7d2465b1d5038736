"""For tests of strategies: objects made as the registry makes them, and the errors of a create or an update."""

from __future__ import annotations

from typing import Any

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.definition import Resource, StrategyContext

CTX = StrategyContext("default", "a", now="2024-01-01T00:00:00Z")


def made(row: Resource, ctx: StrategyContext = CTX, **parts: Any) -> Object:
    """An object named ``a`` with defaults, prepared for creation; ``metadata`` is added to its own."""
    obj: Object = {"metadata": {"name": "a", **parts.pop("metadata", {})}, **tree.copy(parts)}
    if row.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    row.strategy.default(obj)
    row.strategy.prepare_for_create(obj, ctx)
    return obj


def problems(row: Resource, ctx: StrategyContext = CTX, **parts: Any) -> list[str]:
    """The errors of a create."""
    return [str(error) for error in row.strategy.validate(made(row, ctx, **parts), ctx)]


def changes(row: Resource, old: Object, *, subresource: str = "", **parts: Any) -> list[str]:
    """What an update is refused for that puts ``parts`` into ``old``."""
    strategy = row.strategy
    if subresource:
        found = row.subresource(subresource)
        assert found is not None and found.strategy is not None
        strategy = found.strategy
    old = {**tree.copy(old), "metadata": {**old["metadata"], "uid": "u", "resourceVersion": "1"}}
    new = {**tree.copy(old), **tree.copy(parts)}
    strategy.prepare_for_update(new, old, CTX)
    return [str(error) for error in strategy.validate_update(new, old, CTX)]
