"""The estimated maximum cost of a schema's rules, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from kapi.cel.sizes import MAX_UINT64
from kapi.machinery.field import Path
from kapi.schema.structural.celtypes import DeclType, declare, escape
from kapi.schema.structural.structure import Schema, embedded

MAX_RULE_COST = 10_000_000

MAX_SCHEMA_COST = 100_000_000


@dataclass(slots=True)
class TotalCost:
    """The cost of all rules of a schema; ``expensive`` has the four most expensive ones."""

    total: int = 0
    expensive: list[tuple[int, Path]] = field(default_factory=list)

    def add(self, path: Path, cost: int) -> None:
        self.total = min(self.total + cost, MAX_UINT64)
        if cost < MAX_SCHEMA_COST // 100:
            return
        self.expensive.append((cost, path))
        self.expensive.sort(key=lambda item: -item[0])
        del self.expensive[4:]


class CostContext:
    """The context of a schema's node: its declared type, and how often a rule there runs at most (None: no bound)."""

    def __init__(self, schema: Schema, total: TotalCost, *, is_root: bool = False) -> None:
        self.schema = schema
        self.total = total
        self.is_root = is_root
        self.count: int | None = 1
        self.declared: DeclType | None = None
        self.is_declared = False
        self.parent: CostContext | None = None
        self.step = ("", "")

    def child(self, schema: Schema, kind: str, name: str = "") -> CostContext:
        below = CostContext(schema, self.total)
        below.parent, below.step = self, (kind, name)
        most = _most_elements(self.schema)
        below.count = None if self.count is None or most is None else min(self.count * most, MAX_UINT64)
        return below

    def type(self) -> DeclType | None:
        """The declared type; it is a part of the parent's type, when the parent has one."""
        if self.is_declared:
            return self.declared
        self.is_declared = True
        above = self.parent.type() if self.parent is not None else None
        if above is not None:
            kind, name = self.step
            if kind == "property":
                escaped = escape(name)
                self.declared = above.fields.get(escaped) if escaped is not None else None
            else:
                self.declared = above.elem
        if self.declared is None:
            self.declared = declare(self.schema, self.is_root or embedded(self.schema))
        return self.declared


def _most_elements(schema: Schema) -> int | None:
    type_ = schema.get("type")
    if type_ == "object" and schema.get("additionalProperties") is not None:
        most = schema.get("maxProperties")
    elif type_ == "array":
        most = schema.get("maxItems")
    else:
        return 1
    return None if most is None else max(int(most), 0)


def cost_text(name: str, cost: int, limit: int) -> str:
    """The text that says by how much a cost is too high."""
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    elif factor < 1.5:
        shown = f"{factor:f}x"
    else:
        shown = f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )
