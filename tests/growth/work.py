"""What a server does with an object, each part as a function of a body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import orjson

from kapi.codecs.reading import read_body
from kapi.machinery import tree
from kapi.machinery.field import FieldError
from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.status import StatusError
from kapi.machinery.tree import Object
from kapi.registry.metadata import dedup_owner_references
from kapi.registry.validation import invalid_answer
from kapi.resources.definition import Resource, StrategyContext
from kapi.resources.shared.internal import is_internal
from kapi.schema import jsonpatch, managedfields, managedfields_entries, mergepatch, strategicmerge
from kapi.schema.builtin import type_of
from kapi.schema.decode import decode
from kapi.schema.managedfields import FieldManager
from tests.growth.counting import texts

NOW = "2023-11-14T22:13:20Z"

is_internal("")  # reads the table once for all, whatever the first error is about


class Work:
    """On objects of one resource."""

    def __init__(self, row: Resource) -> None:
        self.row = row
        self.kind = GroupVersionKind(row.group, row.version, row.kind)
        self.type = row.schema() if row.schema is not None else type_of(self.kind)
        self.fields = FieldManager(self.type, self.kind)

    def context(self) -> StrategyContext:
        return StrategyContext("n" if self.row.namespaced else "", "x", now=NOW)

    def decoded(self, body: Object) -> Object:
        warnings: list[str] = []
        document = read_body(orjson.dumps(body), "application/json", self.kind)
        obj = decode(document, self.kind, self.type, "Warn", warnings.append)
        return self.row.to_storage(obj) if self.row.to_storage is not None else obj

    def create(self, body: Object) -> Callable[[], None]:
        """Judging an object as far as its own strategy goes; an invalid one is answered with its errors."""
        decoded = texts(self.decoded(body))

        def work() -> None:
            self.decoded(body)
            strategy, ctx, obj = self.row.strategy, self.context(), decoded
            dedup_owner_references(obj, False)
            strategy.default(obj)
            strategy.prepare_for_create(obj, ctx)
            self._answer(strategy.validate(obj, ctx), obj, body)
            strategy.warnings_on_create(obj, ctx)
            strategy.canonicalize(obj)

        return work

    def update(self, body: Object) -> Callable[[], None]:
        """The object replaced by itself, through each endpoint."""
        old = texts(self.decoded(body))
        old["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": NOW}

        strategies = [self.row.strategy, *(sub.strategy for sub in self.row.subresources)]
        replaced = [(strategy, texts(old)) for strategy in strategies if strategy is not None]

        def work() -> None:
            for strategy, new in replaced:
                ctx = self.context()
                strategy.default(new)
                strategy.prepare_for_update(new, old, ctx)
                self._answer(strategy.validate_update(new, old, ctx), new, body)
                strategy.warnings_on_update(new, old, ctx)

        return work

    def strategic(self, body: Object) -> Callable[[], None]:
        """A strategic merge patch of an object with itself."""
        document, change = texts(self.decoded(body)), texts(body)

        def work() -> None:
            try:
                strategicmerge.patched(document, change, self.type)
            except strategicmerge.PatchError:
                pass

        return work

    def json(self, body: Object) -> Callable[[], None]:
        """A JSON patch that puts each member of an object there anew."""
        document = texts(self.decoded(body))
        operations = [{"op": op, "path": f"/{name}", "value": body[name]} for name in body for op in ("add", "test")]
        return lambda: _quietly(lambda: jsonpatch.patched(document, operations))

    def merge(self, body: Object) -> Callable[[], None]:
        document = texts(self.decoded(body))
        return lambda: mergepatch.difference(document, mergepatch.apply(document, body))

    def ownership(self, body: Object) -> Callable[[], None]:
        """Managed fields of a create, an update that empties the object and an apply that fills it again."""
        full = texts(self.decoded(body))
        empty = {name: value for name, value in full.items() if name in ("kind", "apiVersion")}
        empty["metadata"] = {"name": "x", "uid": "u"}

        def work() -> None:
            with (  # small sets are worked out once only
                patch.object(managedfields, "MAX_CACHED_BYTES", -1),
                patch.object(managedfields_entries, "MAX_CACHED_BYTES", -1),
            ):
                created, emptied = tree.copy(full), tree.copy(empty)
                self.fields.update(None, created, "one", NOW)
                created["metadata"]["uid"] = "u"
                self.fields.update(created, emptied, "two", NOW)
                for live in (emptied, created):
                    _quietly(lambda live=live: self.fields.apply(live, body, "three", True, NOW))
                    _quietly(lambda live=live: self.fields.apply(live, body, "four", False, NOW))

        return work

    def table(self, body: Object) -> Callable[[], None]:
        """The row of a table, and what field selectors read."""
        obj = texts(self.decoded(body))

        def work() -> None:
            if self.row.table is not None:
                shown = self.row.table.view(obj) if self.row.table.view is not None else obj
                self.row.table.cells(shown, 1_700_000_000.0)
            for reader in self.row.selectable_fields.values():
                reader(obj)

        return work

    def _answer(self, errors: list[FieldError], obj: Object, sent: Object) -> None:
        """What the registry answers to an object with errors, whose values it quotes."""
        if errors:
            given = texts(sent) if self.row.to_storage is None else None
            refused = invalid_answer(self.row, self.type, obj, errors, None if given is None else lambda: given)
            orjson.dumps(refused.status)


def _quietly(work: Callable[[], Any]) -> None:
    """A refusal is an answer, too."""
    try:
        work()
    except (StatusError, ValueError):
        pass


#: works by the schema alone
GENERAL = frozenset([Work.strategic, Work.json, Work.merge, Work.ownership])
#: what of it happens to the versions that are not stored is converting only
WORK: tuple[Callable[[Work, Object], Callable[[], None]], ...] = (
    Work.create, Work.update, Work.strategic, Work.json, Work.merge, Work.ownership, Work.table,
)  # fmt: skip
