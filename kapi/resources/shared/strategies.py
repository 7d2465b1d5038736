"""Base classes of strategies, configured by class attributes (upstream: ``pkg/registry/*/*/strategy.go``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import ClassVar

from kapi.machinery import tree
from kapi.machinery.field import FieldError, Path
from kapi.machinery.freeing import free_now
from kapi.machinery.gvk import GroupVersion, GroupVersionKind
from kapi.machinery.tree import Object
from kapi.resources.definition import Strategy, StrategyContext
from kapi.resources.shared.metadata import validate_immutable, validate_metadata, validate_metadata_update
from kapi.resources.shared.names import label_name, subdomain_name
from kapi.resources.shared.rules import Errors, same
from kapi.schema.builtin import type_of
from kapi.schema.empty_lists import adds_empty


class UpdateRules(Enum):
    """Groups of rules for the object of an update."""

    NEW_METADATA = "the metadata, as of a new object"
    CHANGED_METADATA = "what may change in the metadata"
    TYPE = "the type's own"
    CHANGE = "what may change of the type; follows TYPE unless it is named"


_NEW_METADATA, _CHANGED_METADATA = UpdateRules.NEW_METADATA, UpdateRules.CHANGED_METADATA
_TYPE, _CHANGE = UpdateRules.TYPE, UpdateRules.CHANGE


class PlainStrategy(Strategy):
    """The strategy of a type with metadata, and maybe spec and status.

    A type overrides ``default``, ``prepare``, ``check`` ...; class attributes configure the rest.
    """

    name_rule: ClassVar[Callable[..., Iterable[str]]] = staticmethod(subdomain_name)
    #: top-level parts whose change raises metadata.generation; empty: the type has no generation
    generation_parts: ClassVar[tuple[str, ...]] = ()
    #: whether these are compared as by ``reflect.DeepEqual``, for which a sent empty list differs from the stored one
    compares_empty: ClassVar[bool] = False
    #: the status of a new object; None: clients write the whole object
    empty_status: ClassVar[Object | None] = None
    #: finalizers without a domain must be standard ones
    qualified_finalizers: ClassVar[bool] = True
    covers_metadata = covers_metadata_changes = True
    #: the rules for updates, in this order
    update_rules: ClassVar[tuple[UpdateRules, ...]] = (_CHANGED_METADATA, _TYPE)
    #: fields (dotted) that no update changes
    immutable: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        as_here = cls.validate is PlainStrategy.validate and cls._new_metadata is PlainStrategy._new_metadata
        cls.covers_metadata = as_here and cls.name_rule in (subdomain_name, label_name)  # no such name has a slash
        as_here = cls.validate_update is PlainStrategy.validate_update
        cls.covers_metadata_changes = as_here and _CHANGED_METADATA in cls.update_rules

    def prepare(self, obj: Object, old: Object | None, ctx: StrategyContext) -> None:
        """Changes the object before validation; ``old`` is None on create."""

    def check(self, obj: Object, old: Object | None, errors: Errors, ctx: StrategyContext) -> None:
        """Appends the errors of the object except its metadata, on create and on update."""

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        """Appends the errors of an update; by default those of the new object and of the change."""
        self.check(obj, old, errors, ctx)
        if _CHANGE not in self.update_rules:
            self.check_change(obj, old, errors)

    def check_change(self, obj: Object, old: Object, errors: Errors) -> None:
        """Appends the errors of differences to the old object; by default of immutable fields."""
        for field in self.immutable:
            parts = field.split(".")
            validate_immutable(tree.dig(obj, *parts), tree.dig(old, *parts), Path(parts[0]).child(*parts[1:]), errors)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        """Warnings that are the same on create and on update."""
        return []

    def warnings_on_create(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return self.warnings(obj, ctx)

    def warnings_on_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return self.warnings(obj, ctx)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if self.empty_status is not None:
            obj["status"] = tree.copy(self.empty_status)
        if self.generation_parts:
            obj["metadata"]["generation"] = 1
        self.prepare(obj, None, ctx)

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        if self.empty_status is not None:
            keep(obj, old, "status")
        self.prepare(obj, old, ctx)
        changed = any(not same(obj.get(part), old.get(part)) for part in self.generation_parts)
        if changed or self.compares_empty and self._sends_empty(obj, ctx):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def _sends_empty(self, obj: Object, ctx: StrategyContext) -> bool:
        if ctx.sent is None:
            return False
        sent = ctx.sent()
        fields = type_of(GroupVersionKind(*GroupVersion.parse(obj["apiVersion"]), obj["kind"])).fields
        return any(adds_empty(sent.get(part), obj.get(part), fields[part].type) for part in self.generation_parts)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        self._new_metadata(obj, errors)
        self.check(obj, None, errors, ctx)
        return errors

    def _new_metadata(self, obj: Object, errors: Errors) -> None:
        qualified, rule = self.qualified_finalizers, type(self).name_rule
        validate_metadata(obj, errors, namespaced=self.namespaced, name=rule, qualified_finalizers=qualified)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        for rules in self.update_rules:
            if rules is _NEW_METADATA:
                self._new_metadata(obj, errors)
            elif rules is _CHANGED_METADATA:
                validate_metadata_update(obj, old, errors, qualified_finalizers=self.qualified_finalizers)
            elif rules is _CHANGE:
                self.check_change(obj, old, errors)
            else:
                self.check_update(obj, old, errors, ctx)
        return errors


class PlainStatusStrategy(Strategy):
    """The strategy of a status subresource: the parts in ``kept`` stay as they were."""

    reset_fields: tuple[str, ...] = ("spec",)
    #: top-level parts that a status write never changes
    kept: ClassVar[tuple[str, ...]] = ("spec",)
    #: whether labels, annotations, finalizers and owners also stay
    keeps_metadata: ClassVar[bool] = False
    #: whether changes of the metadata are validated by the strategy, and not only by the registry
    validates_metadata: ClassVar[bool] = True
    covers_metadata_changes = True

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        as_here = cls.validate_update is PlainStatusStrategy.validate_update
        cls.covers_metadata_changes = as_here and cls.validates_metadata

    def __init__(self, parent: Strategy) -> None:
        self.parent = parent
        self.allow_unconditional_update = parent.allow_unconditional_update
        self.qualified_finalizers = not isinstance(parent, PlainStrategy) or parent.qualified_finalizers

    def default(self, obj: Object) -> None:
        self.parent.default(obj)

    def canonicalize(self, obj: Object) -> None:
        self.parent.canonicalize(obj)

    def prepare(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        """Changes the object before validation, besides keeping parts."""

    def check_update(self, obj: Object, old: Object, errors: Errors, ctx: StrategyContext) -> None:
        """Appends the errors of the new status."""

    def prepare_for_update(self, obj: Object, old: Object, ctx: StrategyContext) -> None:
        for part in self.kept:
            keep(obj, old, part)
        if self.keeps_metadata:
            keep_metadata(obj, old)
        self.prepare(obj, old, ctx)

    def validate_update(self, obj: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        if self.validates_metadata:
            validate_metadata_update(obj, old, errors, qualified_finalizers=self.qualified_finalizers)
        self.check_update(obj, old, errors, ctx)
        return errors


class StatusOnlyStrategy(PlainStatusStrategy):
    """The strategy of a status subresource whose writes change neither metadata nor spec."""

    reset_fields = ("metadata", "spec")
    keeps_metadata = True


def keep(obj: Object, old: Object, part: str) -> None:
    """Replaces a part of the object by the old object's part, or drops it when the old object has none."""
    before = [obj.get(part)]
    if part in old:
        obj[part] = tree.copy(old[part])
    else:
        obj.pop(part, None)
    free_now(before)


def keep_metadata(obj: Object, old: Object) -> None:
    """Undoes metadata changes of a status write, managedFields excepted (upstream: ResetObjectMetaForStatus)."""
    metadata, before = obj["metadata"], old["metadata"]
    for name in ("deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences"):
        keep(metadata, before, name)
