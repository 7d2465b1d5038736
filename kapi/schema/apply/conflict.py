"""Conflicts of an apply: fields that other managers own with other values (upstream: SMD ``merge.Conflicts``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kapi.machinery import golang
from kapi.machinery.status import Conflict as ConflictStatus
from kapi.schema.apply.fieldset import Path, Set, from_paths, show


class Manager(NamedTuple):
    """An owner of fields.  For updates there is one for each API version, for an applier one for all versions."""

    name: str
    operation: str  # "Apply" or "Update"
    api_version: str  # "" for appliers
    subresource: str = ""

    def __str__(self) -> str:
        """The manager's text in conflict messages."""
        text = golang.quote(self.name)
        if self.subresource:
            text += f" with subresource {golang.quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text

    @property
    def identifier(self) -> tuple[str, ...]:
        """The sort key of conflicts: the parts in the order of upstream's serialised identifier."""
        return (golang.quote(self.name), self.operation, self.api_version, self.subresource)


@dataclass(frozen=True)
class Conflict:
    manager: Manager
    path: Path


class Conflicts(Exception):
    """An apply without ``force`` would change fields of other managers."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__(message(conflicts))
        self.conflicts = conflicts

    @property
    def fields(self) -> Set:
        return from_paths(conflict.path for conflict in self.conflicts)

    def status(self) -> ConflictStatus:
        """The 409 that answers the request."""
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {c.manager}", "field": show(c.path)}
            for c in self.conflicts
        ]
        return ConflictStatus(message(self.conflicts), details={"causes": causes})


def message(conflicts: list[Conflict]) -> str:
    """``Apply failed with 1 conflict: conflict with "a": .data.k``"""
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: conflict with {conflicts[0].manager}: {show(conflicts[0].path)}"
    by_manager: dict[Manager, list[Path]] = {}
    for conflict in conflicts:
        by_manager.setdefault(conflict.manager, []).append(conflict.path)
    lines = []
    for manager in sorted(by_manager, key=lambda m: m.identifier):
        lines.append(f"conflicts with {manager}:")
        lines.extend(f"- {show(path)}" for path in by_manager[manager])
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
